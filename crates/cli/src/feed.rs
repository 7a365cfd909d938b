//! Blocks that come to the chain and leave it, as lines of JSON (docs/feed.md).
//!
//! - [`listen`]: for consumers at a socket;
//! - [`exec`]: for a command.

pub(crate) mod exec;
pub(crate) mod listen;

use crate::export::transaction_row::{BlockRow, TransactionFields};
use crate::failure::Failure;
use crate::log;
use blockmill_block::Network;
use blockmill_blockfiles::{Watch, Woken};
use blockmill_coins::Tip;
use blockmill_datadir::{Feed, FeedBlock, FeedError};
use serde::Serialize;
use serde_json::json;
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicBool;

#[derive(Serialize)]
struct BlockEvent {
    event: &'static str,
    #[serde(flatten)]
    block: BlockRow,
    previous_block_hash: String,
    transactions: Vec<TransactionFields>,
}

/// The line of a block.
pub(crate) fn block_line(feed: &FeedBlock, network: Network) -> Result<Vec<u8>, Failure> {
    let transactions = (0..).zip(feed.block.transactions());
    line(&BlockEvent {
        event: if feed.is_connected { "connected" } else { "disconnected" },
        block: BlockRow::new(&feed.block, feed.median_time_past),
        previous_block_hash: feed.block.block.header().prev_block_hash.to_string(),
        transactions: transactions
            .map(|(position, spending)| TransactionFields::new(position, &spending, network))
            .collect(),
    })
}

/// The line after the last block that there is.
pub(crate) fn tip_line(tip: &Tip) -> Result<Vec<u8>, Failure> {
    line(&json!({"event": "tip", "height": tip.height, "block_hash": tip.hash.to_string()}))
}

fn line(event: &impl Serialize) -> Result<Vec<u8>, Failure> {
    let mut line = serde_json::to_vec(event).map_err(io::Error::from)?;
    line.push(b'\n');
    Ok(line)
}

/// Gives `write` everything that a feed has to tell, and the tip at the end. Returns that.
pub(crate) fn tell(
    feed: &mut Feed,
    network: Network,
    threads: usize,
    write: &mut dyn FnMut(Vec<u8>) -> Result<(), Failure>,
) -> Result<Tip, Failure> {
    let convert = |block: FeedBlock| block_line(&block, network);
    let tip = feed.run(threads, &convert, write)?;
    write(tip_line(&tip)?)?;
    Ok(tip)
}

/// Has `tell` tell what a feed of the directory `data` has, and again each time there is more,
/// until `stop` is set or `is_wanted` says no. What cannot be read for a while is said, and tried
/// again.
pub(crate) fn follow(
    feed: &mut Feed,
    data: &Path,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&mut Feed) -> Result<(), Failure>,
    is_wanted: &mut dyn FnMut() -> bool,
) -> Result<(), Failure> {
    let mut watch = Watch::new(&[data.to_owned()]);
    let mut trouble = Trouble::default();
    // Something may have come before the watch began.
    let mut looked = feed.look();
    loop {
        match looked {
            Ok(false) => {}
            Ok(true) => match tell(feed) {
                Ok(()) => trouble.end(),
                Err(Failure::Stopped(_)) => return Ok(()),
                Err(failure) => trouble.note(failure)?,
            },
            Err(error) => trouble.note(error.into())?,
        }
        let woken = watch.wait(stop);
        if woken == Woken::Stopped || !is_wanted() {
            return Ok(());
        }
        looked = feed.look();
        if matches!(looked, Ok(true)) {
            watch.note_change(woken);
        }
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
        let (Failure::Feed(FeedError::Open(_) | FeedError::Block(_)) | Failure::Open(_) | Failure::Block(_)) = &failure
        else {
            return Err(failure);
        };
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
