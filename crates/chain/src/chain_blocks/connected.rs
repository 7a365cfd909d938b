//! Which of several chains in block files the node has connected.
//!
//! A node stores a block before it validates it. Where one that breaks a rule lies before its valid
//! sibling, it is the first of two chains of equal work, and only a validation of all blocks tells
//! that. The node has made one, and written undo data for the blocks that it has connected: a block
//! without, beside one of no less work with undo data, was refused, or is still to be connected.
//!
//! Undo data of siblings that spend the same coins is the same. Amounts tell them apart where the
//! coinbase of one takes too much; where one has a wrong script, nothing does.

use super::ChainBlocks;
use super::undo::{AHEAD_MAX, AHEAD_WITHOUT_FILE_MAX};
use crate::copies::read_copy;
use crate::index::BlockId;
use crate::report::findings::Leftover;
use crate::rev_files::RevError;
use crate::spending_block::SpendingBlock;
use blockmill_blockfiles::UndoCursor;
use blockmill_rules::flags::block_script_flags;
use blockmill_rules::money_range;
use blockmill_rules::spend::check_coinbase_amount;
use std::cmp::Reverse;

/// Blocks beside the chain that are read at most.
const RIVALS_MAX: usize = 64;

/// What undo files say of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trace {
    /// The node has connected it.
    Connected,
    /// It has connected this block, or a sibling that spends the same coins.
    Shared,
    /// The file has no undo data of it.
    NoRecord,
    /// There is no file.
    NoFile,
    /// The block or the file cannot be read.
    Unknown,
}

/// What keeps the chain of most work from being the one that the node has.
pub(super) struct Doubt {
    /// The lowest block that the node has not connected while it has connected another one.
    pub(super) refused: Option<BlockId>,
    /// The end of the chain, if that may be valid all the same.
    pub(super) undecided: Option<Leftover>,
}

impl ChainBlocks {
    /// Compares the last blocks of the chain with blocks beside them. None if the node has
    /// connected them, or nothing says otherwise.
    pub(super) fn doubt(&self) -> Option<Doubt> {
        let top = self.height();
        let low = top.saturating_sub(AHEAD_MAX);
        let rivals = self.rivals(low);
        if rivals.is_empty() {
            return None;
        }
        let (mut last, mut without_file) = (None, 0);
        for height in (low..=top).rev() {
            match self.trace(self.id(height).ok()?) {
                Trace::NoRecord => {}
                Trace::NoFile if without_file < AHEAD_WITHOUT_FILE_MAX => without_file += 1,
                Trace::NoFile | Trace::Unknown => return None,
                trace => {
                    last = Some((height, trace));
                    break;
                }
            }
        }
        let (height, trace) = last?;
        let work = |id: BlockId| self.index.entry(id).work;
        let (connected, tip) = (self.id(height).ok()?, self.id(top).ok()?);
        let better = rivals.iter().filter(|&&rival| work(rival) > work(connected));
        let better = better.map(|&rival| (rival, self.trace(rival)));
        let better = better
            .take(RIVALS_MAX)
            .find(|(_, trace)| matches!(trace, Trace::Connected | Trace::Shared));
        let Some((rival, of_rival)) = better else {
            return (trace == Trace::Shared).then(|| Doubt {
                refused: None,
                undecided: Some(self.in_question(tip)),
            });
        };
        let refused = self.id(height + 1).ok()?;
        // The node connects the first of two valid chains of equal work. One of more work it may
        // be about to connect, and what lies elsewhere it may not know.
        let is_certain = work(rival) == work(tip) && of_rival == Trace::Connected && without_file == 0;
        Some(Doubt {
            refused: Some(refused),
            undecided: (!is_certain).then(|| self.in_question(tip)),
        })
    }

    /// The known blocks beside the chain with more work than its block at a height, those with the
    /// most first.
    fn rivals(&self, height: u32) -> Vec<BlockId> {
        let Ok(least) = self.id(height) else { return Vec::new() };
        let least = self.index.entry(least).work;
        let mut rivals: Vec<BlockId> = self
            .index
            .ids()
            .filter(|&id| {
                let entry = self.index.entry(id);
                let is_beside = self.chain.get(entry.height as usize) != Some(&id);
                entry.work > least && is_beside && entry.has_content() && !entry.failed
            })
            .collect();
        rivals.sort_by_key(|&id| Reverse(self.index.entry(id).work));
        rivals
    }

    fn in_question(&self, id: BlockId) -> Leftover {
        let position = self.index.entry(id).position();
        Leftover {
            hash: self.index.entry(id).hash,
            parent: self.index.header(id).prev_block_hash,
            path: position.map_or_else(Default::default, |position| self.files.path(position.file).to_owned()),
            offset: position.map_or(0, |position| position.offset),
        }
    }

    /// Looks for the undo data of a block in the undo files beside its copies.
    fn trace(&self, id: BlockId) -> Trace {
        let entry = self.index.entry(id);
        let (height, hash) = (entry.height, entry.hash);
        if height == 0 {
            return Trace::Connected;
        }
        let (params, mut looks) = (self.params(), 0);
        let mut trace = Trace::Unknown;
        for position in self.index.positions(id) {
            let Ok(block) = read_copy(&self.files, position, &hash, params, height) else {
                continue;
            };
            let mut spending = SpendingBlock {
                height,
                found_at: None,
                undo: Default::default(),
                flags: block_script_flags(params, height, &hash),
                block,
            };
            let below = self.copies.iter().filter(|copy| copy.height < height);
            let rank = below.filter(|copy| copy.position.file == position.file).count();
            let mut cursor = UndoCursor::default();
            loop {
                let block = &spending.block;
                let found = self
                    .rev_files
                    .find(&self.files, position.file, params.magic(), block, rank, &mut cursor);
                match found {
                    Ok(undo) if self.is_of_sibling(id, block, &undo, &mut looks) => {}
                    Ok(undo) => {
                        spending.undo = undo;
                        if self.is_paid_for(&spending) {
                            return match self.is_shared(id, &mut spending, &mut looks) {
                                true => Trace::Shared,
                                false => Trace::Connected,
                            };
                        }
                    }
                    Err(RevError::Unreadable(_)) => return Trace::Unknown,
                    Err(RevError::NoRecord { .. }) => {
                        trace = Trace::NoRecord;
                        break;
                    }
                    Err(RevError::NoFile) => {
                        if trace == Trace::Unknown {
                            trace = Trace::NoFile;
                        }
                        break;
                    }
                }
            }
        }
        trace
    }

    /// Whether the coinbase takes no more than it may, if the block spends these coins.
    fn is_paid_for(&self, spending: &SpendingBlock) -> bool {
        let mut transactions = spending.transactions();
        let coinbase = transactions.next();
        let fees = transactions.try_fold(0i64, |fees, transaction| fees.checked_add(transaction.fee()?));
        let (Some(coinbase), Some(fees)) = (coinbase, fees.filter(|&fees| money_range(fees))) else {
            return false;
        };
        check_coinbase_amount(&coinbase.transaction, self.params(), spending.height, fees).is_ok()
    }

    /// Whether the undo data of a block may as well be that of a sibling that lies in the files. Of
    /// two blocks that spend nothing both are valid, if their amounts are.
    fn is_shared(&self, id: BlockId, spending: &mut SpendingBlock, looks: &mut usize) -> bool {
        if spending.undo.coins().is_empty() {
            return false;
        }
        for sibling in self.siblings(id) {
            let Some(other) = self.read_sibling(sibling, spending.height, looks) else {
                continue;
            };
            if !spending.undo.fits(&other) {
                continue;
            }
            let own = std::mem::replace(&mut spending.block, other);
            let may_be_others = self.is_paid_for(spending)
                && !self.is_of_other(spending.height, &spending.block, &own, &spending.undo, looks);
            spending.block = own;
            if may_be_others {
                return true;
            }
        }
        false
    }
}
