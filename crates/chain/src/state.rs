//! The chain of an engine: all headers, the active chain, and the files with the blocks.

use crate::files::SharedFiles;
use crate::index::{BlockId, HeaderIndex};
use crate::positions::FoundPositions;
use crate::report::findings::{ImportFindings, Rejected};
use blockmill_block::BlockHash;
use blockmill_blockfiles::{BlockFiles, Position, Record};
use blockmill_coins::{Tip, UndoPosition};
use blockmill_rules::connect::Overwriting;
use blockmill_rules::spend::enforces_bip30;
use blockmill_rules::{Reject, RejectKind};
use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;

/// Which blocks there are, and which of them are connected.
pub struct ChainState {
    pub(super) index: HeaderIndex,
    pub(super) files: SharedFiles,
    /// What searches of block files have found.
    pub(super) positions: FoundPositions,
    /// Block files whose contents are read by a search.
    pub(super) deep: BTreeSet<u32>,
    /// The tip before hidden blocks were found, until a search has given all copies their order
    /// anew.
    pub(super) anew_above: Option<BlockId>,
    /// Block files whose blocks are in the index.
    pub(super) imported: HashSet<u32>,
    /// Whether the active chain was looked for in the files of earlier runs.
    has_recalled: bool,
    /// The active chain by height.
    active: Vec<BlockId>,
    /// Blocks whose parents are unknown.
    pub(super) orphans: Orphans,
    /// Findings among the blocks of the data directory, until a run reports them.
    pub(super) own_findings: ImportFindings,
}

/// Blocks whose parents are unknown, in the order in which they came: the parent is in files that
/// were not given yet, or only wrong content of it has been submitted.
#[derive(Default)]
pub(super) struct Orphans {
    pub(super) records: Vec<Record>,
    pub(super) parents: HashSet<BlockHash>,
}

impl Orphans {
    /// Forgets those in some files but for the ones that are found again, and takes these out of
    /// `found`: they keep their order. Without `keep_order` all get a new one.
    pub(super) fn forget_files(&mut self, files: &HashSet<u32>, found: &mut Vec<Record>, keep_order: bool) {
        if self.records.is_empty() {
            return;
        }
        if !keep_order {
            self.records.retain(|record| !files.contains(&record.position.file));
            return;
        }
        let key = |record: &Record| (record.position, record.hash);
        let again: HashSet<_> = found.iter().map(key).collect();
        // Their parents stay in the set: one too many costs a look in vain.
        self.records
            .retain(|record| !files.contains(&record.position.file) || again.contains(&key(record)));
        let waiting: HashSet<_> = self.records.iter().map(key).collect();
        found.retain(|record| !waiting.contains(&key(record)));
    }
}

impl FromIterator<Record> for Orphans {
    fn from_iter<I: IntoIterator<Item = Record>>(records: I) -> Self {
        let records: Vec<_> = records.into_iter().collect();
        let parents = records.iter().map(|record| record.header.prev_block_hash).collect();
        Self { records, parents }
    }
}

impl ChainState {
    /// A chain whose active tip is `tip`, which is in the index.
    pub fn new(index: HeaderIndex, tip: BlockId, positions: FoundPositions) -> Self {
        let height = index.entry(tip).height;
        Self {
            active: (0..=height).filter_map(|height| index.ancestor(tip, height)).collect(),
            index,
            files: SharedFiles::default(),
            positions,
            deep: BTreeSet::new(),
            anew_above: None,
            imported: HashSet::new(),
            has_recalled: false,
            orphans: Orphans::default(),
            own_findings: ImportFindings::default(),
        }
    }

    /// All headers.
    #[inline]
    pub fn index(&self) -> &HeaderIndex {
        &self.index
    }

    /// The files with the blocks.
    #[inline]
    pub fn files(&self) -> &SharedFiles {
        &self.files
    }

    /// The tip of the active chain.
    #[inline]
    pub fn tip_id(&self) -> BlockId {
        self.active.last().copied().unwrap_or(self.index.genesis())
    }

    /// The tip in the form of the store.
    pub fn tip(&self) -> Tip {
        self.index.tip_at(self.tip_id())
    }

    /// Height of the tip.
    #[inline]
    pub fn height(&self) -> u32 {
        self.active.len().saturating_sub(1) as u32
    }

    /// The block of the active chain at a height.
    #[inline]
    pub fn active_at(&self, height: usize) -> Option<BlockId> {
        self.active.get(height).copied()
    }

    /// Whether no block was found or submitted; the network's first one is known without.
    pub fn is_without_blocks(&self) -> bool {
        let genesis = self.index.entry(self.index.genesis());
        self.index.len() == 1 && !genesis.has_content()
    }

    /// Whether a block is in the active chain.
    #[inline]
    pub fn is_active(&self, id: BlockId) -> bool {
        self.active_at(self.index.entry(id).height as usize) == Some(id)
    }

    /// Whether the block with this hash is `id` or an ancestor of it.
    pub fn is_ancestor(&self, hash: &BlockHash, id: BlockId) -> bool {
        self.index
            .find(hash)
            .is_some_and(|ancestor| self.index.ancestor(id, self.index.entry(ancestor).height) == Some(ancestor))
    }

    /// The blocks from `target` down to the first one above the tip, with their sizes in bytes.
    pub fn path_to(&self, target: BlockId) -> Vec<(BlockId, u64)> {
        let mut path = Vec::new();
        let mut next = Some(target);
        while let Some(id) = next.filter(|&id| id != self.tip_id()) {
            let entry = self.index.entry(id);
            path.push((id, entry.block_length()));
            next = entry.parent;
        }
        path
    }

    /// Bytes of the active chain's blocks, as far as they lie in block files.
    pub fn active_bytes(&self) -> u64 {
        let lengths = self.active.iter().map(|&id| self.index.entry(id).block_length());
        lengths.sum()
    }

    /// Moves the tip to a child of it, whose undo data is at `undo`.
    pub fn connect(&mut self, id: BlockId, undo: UndoPosition) {
        self.index.set_undo(id, undo);
        self.active.push(id);
    }

    /// Moves the tip to its parent.
    pub fn disconnect_tip(&mut self) {
        self.active.pop();
    }

    /// Whether a block may make coins that are there already.
    pub fn overwriting(&self, id: BlockId) -> Overwriting {
        let (params, entry) = (self.index.params(), self.index.entry(id));
        // Core asks the parent, so the BIP 34 block itself is still checked.
        let parent = entry.parent.unwrap_or(id);
        let bip34_block = self.index.ancestor(parent, params.heights.height_in_coinbase);
        let bip34_hash = bip34_block.map(|id| self.index.entry(id).hash);
        if enforces_bip30(params, entry.height, &entry.hash, bip34_hash.as_ref()) {
            Overwriting::Forbidden
        } else {
            Overwriting::Allowed
        }
    }

    /// A rejected block in words for the report.
    pub fn rejected(&self, id: BlockId, reject: Reject, position: Option<Position>) -> Rejected {
        let entry = self.index.entry(id);
        self.rejected_at(entry.hash, entry.height, reject, position)
    }

    pub(super) fn rejected_at(
        &self,
        hash: BlockHash,
        height: u32,
        reject: Reject,
        position: Option<Position>,
    ) -> Rejected {
        Rejected {
            hash,
            height,
            reject,
            path: position.map_or_else(PathBuf::new, |position| {
                self.files.read().path(position.file).to_owned()
            }),
            offset: position.map_or(0, |position| position.offset),
            of_best_chain: true,
        }
    }

    /// Marks a block as rejected: as failed, or its content as unknown where that does not belong
    /// to its header.
    pub fn reject(&mut self, id: BlockId, kind: RejectKind) {
        if kind == RejectKind::Mutated {
            self.index.forget_content(id);
        } else {
            self.index.mark_failed(id);
        }
    }

    /// Forgets which blocks have failed: a new run validates them again, as a new process does.
    pub fn forget_failures(&mut self) {
        self.index.forget_failures(self.tip_id());
    }

    /// The index and the files.
    pub fn into_parts(self) -> (HeaderIndex, BlockFiles) {
        (self.index, self.files.into_inner())
    }

    /// Notes at which of its positions a block's content lies.
    pub fn found_at(&mut self, id: BlockId, position: Position) {
        self.index.found_at(id, position);
    }

    /// The block in which the best chain that can be connected ends.
    pub fn best_candidate(&mut self) -> BlockId {
        self.index.resolve_order();
        self.index.best_candidate()
    }

    /// Forgets where a block lies, since its content cannot be used.
    pub fn forget_content(&mut self, id: BlockId) {
        self.index.forget_content(id);
    }

    /// Adds the copies of blocks of the active chain that lie in files which an earlier run has
    /// searched, and this one was not given. Returns whether it was done: once is enough.
    pub fn recall_active(&mut self) -> bool {
        if self.has_recalled {
            return false;
        }
        self.has_recalled = true;
        let mut copies = Vec::new();
        let mut files = self.files.write();
        for (path, search) in self.positions.files() {
            // What is gone, or has another key by now, has none of them.
            let added = files.add(path).unwrap_or_default();
            let Some(&file) = added.first().filter(|&&file| files.key(file) == search.key()) else {
                continue;
            };
            let active = search.records(file).filter_map(|record| {
                let id = self.index.find(&record.hash).filter(|&id| self.is_active(id))?;
                Some((id, record.position))
            });
            copies.extend(active);
        }
        drop(files);
        for (id, position) in copies {
            self.index.receive(id, position);
        }
        true
    }
}
