//! The events of a feed, and the names of what is in them.

#[cfg(feature = "arrow")]
mod columns;

#[cfg(feature = "arrow")]
pub use columns::event_columns;

use crate::transaction_row::{BlockRow, TransactionFields};
use blockmill_block::Network;
use blockmill_coins::Tip;
use blockmill_datadir::FeedBlock;
use serde::Serialize;
use std::io;

/// What a consumer is told.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Event {
    /// A block.
    Block(Box<BlockEvent>),
    /// The end of what there is.
    Tip(TipEvent),
    /// The end of the feed.
    Error(ErrorEvent),
}

/// A block has come to the chain, or has left it.
#[derive(Serialize)]
pub struct BlockEvent {
    /// `connected` or `disconnected`.
    pub event: &'static str,
    /// The block.
    #[serde(flatten)]
    pub block: BlockRow,
    /// The hash of the block before it.
    pub previous_block_hash: String,
    /// Its transactions.
    pub transactions: Vec<TransactionFields>,
}

/// Everything up to a block was told.
#[derive(Serialize)]
pub struct TipEvent {
    /// `tip`.
    pub event: &'static str,
    /// The height of the block.
    pub height: u32,
    /// Its hash.
    pub block_hash: String,
}

/// There will be nothing more.
#[derive(Serialize)]
pub struct ErrorEvent {
    /// `error`.
    pub event: &'static str,
    /// Why.
    pub error: String,
}

impl Event {
    /// What is told of a block.
    pub fn of_block(feed: &FeedBlock, network: Network) -> Self {
        let transactions = (0..).zip(feed.block.transactions());
        Self::Block(Box::new(BlockEvent {
            event: if feed.is_connected { "connected" } else { "disconnected" },
            block: BlockRow::new(&feed.block, feed.median_time_past),
            previous_block_hash: feed.block.block.header().prev_block_hash.to_string(),
            transactions: transactions
                .map(|(position, spending)| TransactionFields::new(position, &spending, network))
                .collect(),
        }))
    }

    /// After the last block that there is.
    pub fn of_tip(tip: &Tip) -> Self {
        Self::Tip(TipEvent {
            event: "tip",
            height: tip.height,
            block_hash: tip.hash.to_string(),
        })
    }

    /// Why a consumer gets no more.
    pub fn of_error(error: String) -> Self {
        Self::Error(ErrorEvent { event: "error", error })
    }

    /// Its word.
    #[cfg(feature = "arrow")]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Block(block) => block.event,
            Self::Tip(tip) => tip.event,
            Self::Error(error) => error.event,
        }
    }

    /// Appends the event as a line of JSON.
    ///
    /// # Errors
    /// None: the result is that of a writer, and a vector takes everything.
    pub fn write_line(&self, lines: &mut Vec<u8>) -> io::Result<()> {
        serde_json::to_writer(&mut *lines, self)?;
        lines.push(b'\n');
        Ok(())
    }

    /// The event as a line of JSON.
    ///
    /// # Errors
    /// As [`write_line`](Self::write_line).
    pub fn line(&self) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        self.write_line(&mut line)?;
        Ok(line)
    }
}
