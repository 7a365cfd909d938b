//! The rows of some blocks for several tables at once.
//!
//! Threads make the rows of runs of blocks with [`Makers`], each run by itself, and convert them.
//! One thread takes them in the order of blocks with [`Completers`]: some tables say in a row what
//! rests on all blocks below it.

use crate::batch::{Batch, Table};
use crate::product::{Complete, OfBlock, OfChain, Product, ProductKind};
use blockmill_block::Network;
use blockmill_chain::{BlockReadError, ChainBlocks, SpendingBlock};
use blockmill_rules::Params;
use std::ops::RangeInclusive;
use std::sync::Arc;
use thiserror::Error;

/// How much a thread does at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Portion {
    /// Bytes of the blocks of a run.
    pub blocks: u64,
    /// Memory in bytes of the rows that are converted together, about. Those of a usual run take
    /// less.
    pub rows: usize,
}

impl Portion {
    /// Where rows are compressed in groups: large groups become smaller.
    pub const GROUPS: Self = Self {
        blocks: 4 << 20,
        rows: 24 << 20,
    };

    /// Where they are not. The rows of a block can be thirty times as large as the block.
    pub const ROWS: Self = Self {
        blocks: 1 << 20,
        rows: 4 << 20,
    };
}

/// Blocks that a chain does not have.
#[derive(Debug, Error)]
#[error("there are no blocks from height {first} to {last}: the chain has heights 0 to {tip}")]
pub struct NoBlocks {
    first: u32,
    last: u32,
    tip: u32,
}

/// The heights from `first` to `last`. Without it they end with the tip, or with the last block
/// that has undo data.
///
/// # Errors
/// [`NoBlocks`].
pub fn heights(blocks: &ChainBlocks, first: u32, last: Option<u32>) -> Result<RangeInclusive<u32>, NoBlocks> {
    let tip = blocks.height();
    let last = match last {
        Some(last) => last,
        // The first block has no undo data, and needs none.
        None if first < tip => blocks.last_with_undo(first.max(1)..=tip),
        None => tip,
    };
    match first > last.min(tip) || last > tip {
        true => Err(NoBlocks { first, last, tip }),
        false => Ok(first..=last),
    }
}

/// What threads make rows with.
pub struct Makers {
    makers: Vec<Maker>,
    /// Memory of the rows that are converted together.
    rows_bytes: usize,
}

struct Maker {
    table: &'static Table,
    product: Box<dyn Product>,
    /// Whether rows are completed in the order of blocks.
    is_in_order: bool,
}

/// Rows of a table.
pub enum Made<T> {
    /// They are converted; with their number.
    Piece(T, u64),
    /// They are completed and converted in the order of blocks.
    Rows(Batch),
}

/// What was made of some blocks.
pub struct MadeOfBlocks<T> {
    /// The rows, each with the number of its table.
    pub rows: Vec<(usize, Made<T>)>,
    /// The number of their transactions.
    pub transactions: u64,
}

impl<T> MadeOfBlocks<T> {
    /// Memory in bytes, about; `of_piece` gives that of a piece, which rows were converted to.
    pub fn memory(&self, of_piece: impl Fn(&T) -> usize) -> usize {
        let of = |(_, made): &(usize, Made<T>)| match made {
            Made::Piece(piece, _) => of_piece(piece),
            Made::Rows(rows) => rows.memory(),
        };
        self.rows.iter().map(of).sum()
    }
}

impl Maker {
    fn make<T, E>(
        &self,
        number: usize,
        mut rows: Batch,
        convert: &dyn Fn(usize, Batch) -> Result<T, E>,
    ) -> Result<Made<T>, E> {
        self.product.end_run(&mut rows);
        if self.is_in_order {
            return Ok(Made::Rows(rows));
        }
        let count = rows.rows() as u64;
        Ok(Made::Piece(convert(number, rows)?, count))
    }

    fn empty(&self) -> Batch {
        Batch::new(self.table.columns)
    }
}

impl Makers {
    /// Makers of these tables, for blocks of this chain.
    pub fn new(kinds: &[ProductKind], chain: &ChainBlocks) -> Self {
        Self::with_chain(kinds, OfChain::new(chain))
    }

    /// Makers of these tables, for blocks as they come. None if a table rests on the whole chain.
    pub fn without_chain(kinds: &[ProductKind], params: &Params) -> Option<Self> {
        let makers = Self::with_chain(kinds, OfChain::unknown(params));
        (!makers.rests_on_blocks_below()).then_some(makers)
    }

    fn with_chain(kinds: &[ProductKind], chain: OfChain) -> Self {
        let chain = Arc::new(chain);
        let maker = |kind: &ProductKind| {
            let product = kind.product(&chain);
            Maker {
                table: kind.table(),
                is_in_order: product.completer().is_some(),
                product,
            }
        };
        Self {
            makers: kinds.iter().map(maker).collect(),
            rows_bytes: Portion::GROUPS.rows,
        }
    }

    /// The same, which convert as many rows together as a portion has.
    #[must_use]
    pub fn in_portions(self, portion: Portion) -> Self {
        Self {
            rows_bytes: portion.rows,
            ..self
        }
    }

    /// The tables.
    pub fn tables(&self) -> impl ExactSizeIterator<Item = &'static Table> {
        self.makers.iter().map(|maker| maker.table)
    }

    /// What completes the rows.
    pub fn completers(&self) -> Completers {
        Completers(self.makers.iter().map(|maker| maker.product.completer()).collect())
    }

    /// Whether the rows of a block rest on all blocks below it. Those must be gone over, too,
    /// unless [`Completers::resume`] has what is needed of them.
    pub fn rests_on_blocks_below(&self) -> bool {
        self.makers.iter().any(|maker| maker.is_in_order)
    }

    /// Makes the rows of some blocks, and converts them, many at a time. If they are not written,
    /// only what later ones rest on is made.
    ///
    /// # Errors
    /// Those of blocks and of `convert`.
    pub fn make<T, E: From<BlockReadError>>(
        &self,
        blocks: impl Iterator<Item = Result<SpendingBlock, E>>,
        network: Network,
        is_written: bool,
        convert: &dyn Fn(usize, Batch) -> Result<T, E>,
    ) -> Result<MadeOfBlocks<T>, E> {
        let mut made = MadeOfBlocks {
            rows: Vec::new(),
            transactions: 0,
        };
        let mut tables: Vec<_> = self
            .makers
            .iter()
            .map(|maker| (maker, maker.empty()))
            .enumerate()
            .collect();
        tables.retain(|(_, (maker, _))| is_written || maker.is_in_order);
        let mut rows_measured = 0;
        for read in blocks {
            let read = read?;
            let of = OfBlock::new(&read, network);
            for (_, (maker, rows)) in &mut tables {
                maker.product.add_block(&of, &read, rows)?;
            }
            for (position, spending) in (0..).zip(read.transactions()) {
                made.transactions += 1;
                for (_, (maker, rows)) in &mut tables {
                    maker.product.add_transaction(&of, position, &spending, rows);
                }
                // To measure many columns takes time, and not all tables get rows here.
                let rows_made = tables.iter().map(|(_, (_, rows))| rows.rows()).sum();
                if rows_made == std::mem::replace(&mut rows_measured, rows_made) {
                    continue;
                }
                let memory: usize = tables.iter().map(|(_, (_, rows))| rows.memory()).sum();
                if memory > self.rows_bytes {
                    for (number, (maker, rows)) in &mut tables {
                        let full = std::mem::replace(rows, maker.empty());
                        made.rows.push((*number, maker.make(*number, full, convert)?));
                    }
                }
            }
        }
        for (number, (maker, rows)) in tables {
            if rows.rows() > 0 {
                made.rows.push((number, maker.make(number, rows, convert)?));
            }
        }
        Ok(made)
    }
}

/// What completes rows in the order of blocks.
pub struct Completers(Vec<Option<Box<dyn Complete>>>);

impl Completers {
    /// Completes and converts what was made of a table, unless that is done. Returns the number of
    /// rows, too.
    ///
    /// # Errors
    /// Those of `convert`, and that a block spends coins which are not those of the chain.
    pub fn complete<T, E: From<BlockReadError>>(
        &mut self,
        number: usize,
        made: Made<T>,
        convert: &dyn Fn(usize, Batch) -> Result<T, E>,
    ) -> Result<(T, u64), E> {
        match made {
            Made::Piece(piece, count) => Ok((piece, count)),
            Made::Rows(mut rows) => {
                self.pass_over(number, &mut rows)?;
                let count = rows.rows() as u64;
                Ok((convert(number, rows)?, count))
            }
        }
    }

    /// Notes rows that are not written.
    ///
    /// # Errors
    /// That a block spends coins which are not those of the chain.
    pub fn pass_over(&mut self, number: usize, rows: &mut Batch) -> Result<(), BlockReadError> {
        match &mut self.0[number] {
            Some(completer) => completer.complete(rows),
            None => Ok(()),
        }
    }

    /// What the next rows of a table rest on, where they rest on all blocks below.
    pub fn state(&self, number: usize) -> Option<Vec<u8>> {
        Some(self.0[number].as_ref()?.state())
    }

    /// Goes on from the states of all tables that have one; `states` gives that of a table. Returns
    /// whether each of them has it. If not, the blocks below must be gone over.
    pub fn resume<'a>(&mut self, states: impl Fn(usize) -> Option<&'a [u8]>) -> bool {
        let mut completers = self.0.iter_mut().enumerate();
        completers.all(|(number, completer)| match completer {
            Some(completer) => states(number).is_some_and(|state| completer.resume(state)),
            None => true,
        })
    }

    /// Notes rows of a table whose blocks below are not known. Returns what the next row would rest
    /// on after each of them, above no blocks; nothing, where no such states can be joined.
    pub fn states(&mut self, number: usize, rows: &mut Batch) -> Vec<Vec<u8>> {
        match &mut self.0[number] {
            Some(completer) => completer.states(rows),
            None => Vec::new(),
        }
    }
}
