//! Blocks that come to the chain and leave it, as events for other programs (docs/feed.md).
//!

#[cfg(feature = "tables")]
mod arrow;
pub(crate) mod encoder;
pub(crate) mod exec;
pub(crate) mod listen;
mod peer;
mod socket;
pub(crate) mod watching;

use crate::failure::Failure;
use crate::feed::encoder::Encoder;
use crate::feed::watching::Watching;
use crate::log;
use blockmill_coins::Tip;
use blockmill_datadir::{Feed, FeedBlocks};
use serde_json::json;

/// Gives `write` everything that a feed has to tell, and the tip at the end. Returns that.
pub(crate) fn tell(
    feed: &mut Feed,
    encoder: &Encoder,
    threads: usize,
    write: &mut dyn FnMut(Vec<u8>) -> Result<(), Failure>,
) -> Result<Tip, Failure> {
    let convert = |blocks: FeedBlocks<'_>| encoder.blocks(blocks);
    let tip = feed.run_batches(threads, &convert, write)?;
    write(encoder.tip(&tip)?)?;
    Ok(tip)
}

/// Has `tell` tell what a feed has, and again each time there is more, until the watch ends or
/// `is_wanted` says no. What cannot be read for a while is said, and tried again.
pub(crate) fn follow(
    feed: &mut Feed,
    watching: &mut dyn Watching,
    tell: &mut dyn FnMut(&mut Feed) -> Result<(), Failure>,
    is_wanted: &mut dyn FnMut() -> bool,
) -> Result<(), Failure> {
    let mut trouble = Trouble::default();
    // Something may have come before the watch began.
    let mut polled = feed.poll();
    loop {
        match polled {
            Ok(false) => {}
            Ok(true) => match tell(feed) {
                Ok(()) => trouble.end(),
                Err(Failure::Stopped(_)) => return Ok(()),
                Err(failure) => trouble.note(failure)?,
            },
            Err(error) => trouble.note(error.into())?,
        }
        if !watching.wait(feed.has_more()) || !is_wanted() {
            return Ok(());
        }
        polled = watching.poll(feed);
    }
}

/// Says why a feed waits, once for each reason.
#[derive(Debug, Default)]
struct Trouble {
    said: Option<String>,
}

impl Trouble {
    /// Notes an error after which the feed tries again.
    ///
    /// # Errors
    /// The error, where it stays whatever the writer does.
    fn note(&mut self, failure: Failure) -> Result<(), Failure> {
        let may_pass = match &failure {
            Failure::Feed(error) => error.may_pass(),
            failure => matches!(failure, Failure::Open(_) | Failure::Block(_)),
        };
        if !may_pass {
            return Err(failure);
        }
        let text = format!("{failure}; it is tried again");
        if self.said.as_ref() != Some(&text) {
            log::warning("feed_waits", &text, json!({}));
            self.said = Some(text);
        }
        Ok(())
    }

    /// Notes that all is well.
    fn end(&mut self) {
        self.said = None;
    }
}
