//! Blocks that come to the chain and leave it, as events for other programs (docs/feed.md).
//!

#[cfg(feature = "tables")]
mod arrow;
pub(crate) mod encoder;
pub(crate) mod exec;
pub(crate) mod listen;
mod peer;
mod socket;

use crate::failure::Failure;
use crate::feed::encoder::Encoder;
use crate::log;
use blockmill_coins::Tip;
use blockmill_datadir::feed::watching::{self, TellError, Watching};
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

/// As [`blockmill_datadir::feed::watching::follow`]; says why the feed waits.
pub(crate) fn follow(
    feed: &mut Feed,
    watching: &mut dyn Watching,
    tell: &mut dyn FnMut(&mut Feed) -> Result<(), Failure>,
    is_wanted: &mut dyn FnMut() -> bool,
) -> Result<(), Failure> {
    let waits = |text: &str| log::warning("feed_waits", text, json!({}));
    watching::follow(feed, watching, tell, is_wanted, &waits)
}

impl TellError for Failure {
    fn is_stop(&self) -> bool {
        matches!(self, Self::Stopped(_))
    }

    fn may_pass(&self) -> bool {
        match self {
            Self::Feed(error) => error.may_pass(),
            failure => matches!(failure, Self::Open(_) | Self::Block(_)),
        }
    }
}
