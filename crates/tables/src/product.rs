//! What a pass over blocks makes of them: flat tables.
//!
//! - `transactions`, `inputs`, `outputs`, `spenders`: a row for each of these;
//! - `filters` (feature `descriptors`): a row for each block.

#[cfg(feature = "descriptors")]
mod filters;
mod inputs;
mod outputs;
mod spenders;
mod transactions;

use crate::batch::{Batch, Table, Time};
use blockmill_block::{BlockHash, Network};
use blockmill_chain::{SpendingBlock, SpendingTransaction};

/// The tables that there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProductKind {
    /// A row for each transaction.
    Transactions,
    /// A row for each input, with the coin that it spends.
    Inputs,
    /// A row for each output.
    Outputs,
    /// A row for each outpoint that is spent, with the input that spends it.
    Spenders,
    /// A row for each block, with its basic filter (BIP 158).
    #[cfg(feature = "descriptors")]
    Filters,
}

impl ProductKind {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::Transactions,
        Self::Inputs,
        Self::Outputs,
        Self::Spenders,
        #[cfg(feature = "descriptors")]
        Self::Filters,
    ];

    pub(crate) fn product(self) -> Box<dyn Product> {
        match self {
            Self::Transactions => Box::new(transactions::Transactions),
            Self::Inputs => Box::new(inputs::Inputs),
            Self::Outputs => Box::new(outputs::Outputs),
            Self::Spenders => Box::new(spenders::Spenders),
            #[cfg(feature = "descriptors")]
            Self::Filters => Box::new(filters::Filters),
        }
    }

    /// The table.
    pub fn table(self) -> &'static Table {
        self.product().table()
    }
}

/// What rows say of their block.
#[derive(Debug)]
pub(crate) struct OfBlock {
    pub(crate) network: Network,
    pub(crate) height: u32,
    pub(crate) hash: BlockHash,
    pub(crate) time: Time,
}

impl OfBlock {
    pub(crate) fn new(read: &SpendingBlock, network: Network) -> Self {
        Self {
            network,
            height: read.height,
            hash: read.block.hash(),
            time: Time(read.block.header().time),
        }
    }
}

/// What a pass makes.
pub(crate) trait Product: Send + Sync {
    fn table(&self) -> &'static Table;

    /// Adds the rows of a block as a whole.
    fn add_block(&self, _of: &OfBlock, _read: &SpendingBlock, _rows: &mut Batch) {}

    /// Adds the rows of a transaction; `position` is its number in the block.
    fn add_transaction(&self, _of: &OfBlock, _position: u32, _spending: &SpendingTransaction<'_>, _rows: &mut Batch) {}

    /// What completes the rows, where they rest on those of all blocks below. The pass goes over
    /// these, too.
    fn completer(&self) -> Option<Complete> {
        None
    }
}

/// Completes the rows of the next blocks.
pub(crate) type Complete = Box<dyn FnMut(&mut Batch)>;
