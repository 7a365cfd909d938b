//! What a pass over blocks makes of them: flat tables.
//!
//! - `transactions`, `inputs`, `outputs`, `spenders`: a row for each of these;
//! - `positions`: a row for each transaction;
//! - `filters` (feature `descriptors`), `statistics`: a row for each block.

#[cfg(feature = "descriptors")]
mod filters;
mod inputs;
mod outputs;
mod positions;
mod spenders;
mod statistics;
mod transactions;

use crate::batch::{Batch, Table, Time};
use blockmill_block::{BlockHash, Network};
use blockmill_chain::{BlockReadError, ChainBlocks, FoundAt, SpendingBlock, SpendingTransaction};
use blockmill_rules::Params;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

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
    /// A row for each transaction: where it lies in the block files.
    Positions,
    /// A row for each block, with its basic filter (BIP 158).
    #[cfg(feature = "descriptors")]
    Filters,
    /// A row for each block, with its figures and those of the set after it.
    Statistics,
}

impl ProductKind {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::Transactions,
        Self::Inputs,
        Self::Outputs,
        Self::Spenders,
        Self::Positions,
        #[cfg(feature = "descriptors")]
        Self::Filters,
        Self::Statistics,
    ];

    /// The table with this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.table().name == name)
    }

    /// Whether what its rows rest on can be joined from ranges of blocks
    /// ([`SetTotals`](crate::set_totals::SetTotals)).
    pub fn has_joined_states(self) -> bool {
        self == Self::Statistics
    }

    pub(crate) fn product(self, chain: &Arc<OfChain>) -> Box<dyn Product> {
        match self {
            Self::Transactions => Box::new(transactions::add as AddTransaction),
            Self::Inputs => Box::new(inputs::add as AddTransaction),
            Self::Outputs => Box::new(outputs::add as AddTransaction),
            Self::Spenders => Box::new(spenders::add as AddTransaction),
            Self::Positions => Box::new(positions::add as AddTransaction),
            #[cfg(feature = "descriptors")]
            Self::Filters => Box::new(filters::Filters),
            Self::Statistics => Box::new(statistics::Statistics(Arc::clone(chain))),
        }
    }

    /// The table.
    pub fn table(self) -> &'static Table {
        match self {
            Self::Transactions => &transactions::TABLE,
            Self::Inputs => &inputs::TABLE,
            Self::Outputs => &outputs::TABLE,
            Self::Spenders => &spenders::TABLE,
            Self::Positions => &positions::TABLE,
            #[cfg(feature = "descriptors")]
            Self::Filters => &filters::TABLE,
            Self::Statistics => &statistics::TABLE,
        }
    }
}

/// What rows rest on of their chain.
#[derive(Debug)]
pub(crate) struct OfChain {
    pub(crate) params: Params,
    /// The times of its blocks, by height, in seconds since 1970.
    pub(crate) times: Vec<u32>,
}

impl OfChain {
    pub(crate) fn new(chain: &ChainBlocks) -> Self {
        Self {
            params: chain.params().clone(),
            times: chain.times(),
        }
    }

    /// Of a chain whose blocks are not known yet.
    pub(crate) fn unknown(params: &Params) -> Self {
        Self {
            params: params.clone(),
            times: Vec::new(),
        }
    }

    /// Whether the coinbase of a block makes no coins: the genesis block's, and those that were
    /// repeated (BIP 30).
    pub(crate) fn is_without_coinbase(&self, of: &OfBlock) -> bool {
        of.height == 0 || self.params.bip30_overwritten.contains(&(of.height, of.hash))
    }
}

/// The block file that a block was read from.
#[derive(Debug)]
pub(crate) struct OfFile {
    pub(crate) folder: String,
    pub(crate) name: String,
    /// Of the block, in bytes.
    pub(crate) offset: u64,
}

impl OfFile {
    /// Tables hold only UTF-8, so other bytes of a name are replaced.
    fn new(found_at: &FoundAt) -> Self {
        let text = |part: Option<&OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
        let FoundAt { path, offset } = found_at;
        Self {
            folder: text(path.parent().map(Path::as_os_str)),
            name: text(path.file_name()),
            offset: *offset,
        }
    }
}

/// What rows say of their block.
#[derive(Debug)]
pub(crate) struct OfBlock {
    pub(crate) network: Network,
    pub(crate) height: u32,
    pub(crate) hash: BlockHash,
    pub(crate) time: Time,
    /// None for a network's first block where it is in no file.
    pub(crate) file: Option<OfFile>,
}

impl OfBlock {
    pub(crate) fn new(read: &SpendingBlock, network: Network) -> Self {
        Self {
            network,
            height: read.height,
            hash: read.block.hash(),
            time: Time(read.block.header().time),
            file: read.found_at.as_ref().map(OfFile::new),
        }
    }
}

/// What a pass makes.
pub(crate) trait Product: Send + Sync {
    /// Adds the rows of a block as a whole.
    ///
    /// # Errors
    /// What no valid block has.
    fn add_block(&self, _of: &OfBlock, _read: &SpendingBlock, _rows: &mut Batch) -> Result<(), BlockReadError> {
        Ok(())
    }

    /// Adds the rows of a transaction; `position` is its number in the block.
    fn add_transaction(&self, _of: &OfBlock, _position: u32, _spending: &SpendingTransaction<'_>, _rows: &mut Batch) {}

    /// Ends the rows of a run of blocks, of which the thread has all.
    fn end_run(&self, _rows: &mut Batch) {}

    /// What completes the rows, where they rest on those of all blocks below.
    fn completer(&self) -> Option<Box<dyn Complete>> {
        None
    }
}

/// Adds the rows of a transaction, as [`Product::add_transaction`] does.
type AddTransaction = fn(&OfBlock, u32, &SpendingTransaction<'_>, &mut Batch);

impl Product for AddTransaction {
    fn add_transaction(&self, of: &OfBlock, position: u32, spending: &SpendingTransaction<'_>, rows: &mut Batch) {
        self(of, position, spending, rows);
    }
}

/// Completes the rows of a table in the order of blocks.
pub(crate) trait Complete {
    /// Completes the rows of the next blocks.
    ///
    /// # Errors
    /// What no valid chain has.
    fn complete(&mut self, rows: &mut Batch) -> Result<(), BlockReadError>;

    /// What the rows of the next block rest on.
    fn state(&self) -> Vec<u8>;

    /// Goes on from a state. Returns false if it is none.
    fn resume(&mut self, state: &[u8]) -> bool;

    /// Notes rows whose blocks below are not known, in place of completing them. Returns the state
    /// after each, as it would be above no blocks; none where such states cannot be joined.
    fn states(&mut self, _rows: &mut Batch) -> Vec<Vec<u8>> {
        Vec::new()
    }
}
