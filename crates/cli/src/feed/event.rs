//! The events of a feed, and the names of what is in them.

use crate::export::transaction_row::{BlockRow, TransactionFields};
use blockmill_block::Network;
use blockmill_coins::Tip;
use blockmill_datadir::FeedBlock;
use serde::Serialize;
use std::io;

/// What a consumer is told.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Event {
    Block(Box<BlockEvent>),
    Tip(TipEvent),
    Error(ErrorEvent),
}

/// A block has come to the chain, or has left it.
#[derive(Serialize)]
pub(crate) struct BlockEvent {
    pub(crate) event: &'static str,
    #[serde(flatten)]
    pub(crate) block: BlockRow,
    pub(crate) previous_block_hash: String,
    pub(crate) transactions: Vec<TransactionFields>,
}

/// Everything up to a block was told.
#[derive(Serialize)]
pub(crate) struct TipEvent {
    pub(crate) event: &'static str,
    pub(crate) height: u32,
    pub(crate) block_hash: String,
}

/// There will be nothing more.
#[derive(Serialize)]
pub(crate) struct ErrorEvent {
    pub(crate) event: &'static str,
    pub(crate) error: String,
}

impl Event {
    /// What is told of a block.
    pub(crate) fn of_block(feed: &FeedBlock, network: Network) -> Self {
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
    pub(crate) fn of_tip(tip: &Tip) -> Self {
        Self::Tip(TipEvent {
            event: "tip",
            height: tip.height,
            block_hash: tip.hash.to_string(),
        })
    }

    /// Why a consumer gets no more.
    pub(crate) fn of_error(error: String) -> Self {
        Self::Error(ErrorEvent { event: "error", error })
    }

    /// Its word.
    #[cfg(feature = "tables")]
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Block(block) => block.event,
            Self::Tip(tip) => tip.event,
            Self::Error(error) => error.event,
        }
    }

    /// Appends the event as a line of JSON.
    pub(crate) fn write_line(&self, lines: &mut Vec<u8>) -> io::Result<()> {
        serde_json::to_writer(&mut *lines, self)?;
        lines.push(b'\n');
        Ok(())
    }

    /// The event as a line of JSON.
    pub(crate) fn line(&self) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        self.write_line(&mut line)?;
        Ok(line)
    }
}
