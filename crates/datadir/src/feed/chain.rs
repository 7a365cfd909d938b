//! The active chain of a data directory up to its last durable commit, which another process
//! advances, and the polls that follow it.
//!
//! # What a poll reads
//!
//! | order of the writer | what a poll takes |
//! |---|---|
//! | blocks, undo data, headers, each synced | the headers up to the first record of the tip |
//! | the commit, synced | nothing: without its mark it may not be durable |
//! | the mark (`commit.dat`) | the tip, read before all others |
//!
//! So whatever belongs to the tip is durable before a poll can see the tip. Headers above it may
//! not be: a writer that fails cuts them back. The mark itself may be lost with the power, and the
//! commit stays: the directory is then behind the consumer, until a writer opens the store and
//! writes the mark again. So while the store has a later commit than the mark, a cursor that is not
//! on the chain may belong to it, and nothing is disconnected.
//!
//! # What a poll changes
//!
//! A poll reads everything before it changes anything, and extends the chain then. Where the tip
//! does not descend from the chain's last block (a reorg), or is of an earlier commit or of another
//! store (the end of the coin log was lost, or the directory was replaced), the chain is reopened
//! instead: positions of blocks are forgotten once they are on the chain, so those of a branch that
//! comes back are known to the files alone. A panic poisons the lock, and the next user reopens the
//! chain.

use crate::DataDir;
use crate::chain_blocks::{open_undo, read_headers_up_to, search_own_blocks};
use crate::commit_mark::{Mark, MarkReader};
use crate::error::{OpenError, Remedy, no_parent, no_tip_header};
use crate::feed::{FeedBlock, FeedError};
use crate::files::{COMMIT_FILE, POSITIONS_FILE, UNDO_FILE};
use crate::status::find_commit;
use crate::utxo_set::open;
use blockmill_chain::chain_blocks::{ChainBlocks, Unknown};
use blockmill_chain::index::HeaderIndex;
use blockmill_chain::positions::{FoundPositions, PositionsReader};
use blockmill_coins::{LastCommit, Tip};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

/// Least time between two reopenings because a block could not be read. Opening
/// it reads all headers and positions, which takes seconds on mainnet.
const REOPEN_INTERVAL: Duration = Duration::from_secs(60);

/// Active chain, as of the last poll.
pub(super) struct FeedChain {
    pub(super) path: PathBuf,
    pub(super) blocks: ChainBlocks,
    /// Offset in `headers.dat` of the first unread header.
    headers_at: u64,
    positions: PositionsReader,
    /// Positions of the blocks that are stored in the data directory itself.
    own: FoundPositions,
    mark_reader: MarkReader,
    /// Commit mark at the last poll, to detect a new commit without opening the store.
    mark: Mark,
    /// Commit that the chain leads to. `None` before the first.
    commit: Option<LastCommit>,
    /// Whether the store had a later commit, which may be durable.
    pub(super) has_later: bool,
    /// Number of polls that changed the chain.
    changes: u64,
    /// Whether a block could not be read: its position may be another one now, in a file that has
    /// changed without a commit.
    has_failed: AtomicBool,
    /// When the chain was last reopened for that reason.
    reopened: Option<Instant>,
}

impl FeedChain {
    fn open(path: &Path) -> Result<Self, FeedError> {
        let directory = DataDir::open_to_read(path)?;
        let index = HeaderIndex::new(directory.chain_id().params());
        let genesis = index.genesis();
        let mut chain = Self {
            blocks: ChainBlocks::connected(index, genesis, None),
            path: path.to_owned(),
            headers_at: 0,
            positions: PositionsReader::new(directory.file(POSITIONS_FILE)),
            own: FoundPositions::default(),
            mark_reader: MarkReader::new(directory.file(COMMIT_FILE)),
            mark: Mark::None,
            commit: None,
            has_later: false,
            changes: 0,
            has_failed: AtomicBool::new(false),
            reopened: None,
        };
        let mark = chain.mark_reader.read().map_err(OpenError::from)?;
        let durable = Durable::open(path)?;
        if !chain.extend(mark, &durable)? {
            return Err(OpenError::damaged_headers(directory.path(), no_tip_header(&durable.tip())).into());
        }
        Ok(chain)
    }

    /// Replaces the chain by what the directory has now, or leaves it as it is.
    fn reopen(&mut self) -> Result<(), FeedError> {
        *self = Self {
            changes: self.changes + 1,
            reopened: self.reopened,
            ..Self::open(&self.path)?
        };
        Ok(())
    }

    /// Advances the chain to the tip of the last durable commit. After an error it is as it was.
    fn poll(&mut self) -> Result<(), FeedError> {
        // Read the mark before the commit. A commit between the two is then found by the next poll;
        // in the other order the new mark would hide it.
        let mark = self.mark_reader.read().map_err(OpenError::from)?;
        if self.has_failed.load(Ordering::Relaxed)
            && self
                .reopened
                .is_none_or(|reopened| reopened.elapsed() >= REOPEN_INTERVAL)
        {
            self.reopened = Some(Instant::now());
            return self.reopen();
        }
        // A later commit that fails leaves the mark as it is.
        if mark.commit().is_some() && mark == self.mark && !self.has_later {
            return Ok(());
        }
        let durable = Durable::open(&self.path)?;
        let is_later = match (&self.commit, &durable.commit) {
            (Some(last), Some(commit)) => last.store == commit.store && last.number <= commit.number,
            (Some(_), None) => false,
            (None, _) => true,
        };
        if !is_later || !self.extend(mark, &durable)? {
            self.reopen()?;
        }
        Ok(())
    }

    /// Extends the chain to the tip of a commit. Returns `false`, and leaves the chain as it is, if
    /// the tip does not descend from the last block.
    fn extend(&mut self, mark: Mark, durable: &Durable) -> Result<bool, FeedError> {
        let (directory, tip) = (&durable.directory, durable.tip());
        if tip != self.tip() {
            let mut headers_at = self.headers_at;
            if !self.blocks.is_known(&tip.hash) {
                let headers;
                (headers, headers_at) = read_headers_up_to(directory, headers_at, &tip.hash)?;
                // More headers in the index do not change the chain.
                let added = self.blocks.add_headers(headers);
                added.map_err(|Unknown(hash)| OpenError::damaged_headers(directory.path(), no_parent(&hash)))?;
            }
            let undo = open_undo(&directory.file(UNDO_FILE))?;
            // The positions file lists the directory's own blocks only after the next import.
            search_own_blocks(directory, self.blocks.params().magic(), &mut self.own)?;
            let found = self.positions.read().map_err(OpenError::from)?;
            if !self.blocks.extend_to(&tip.hash, undo) {
                return Ok(false);
            }
            self.blocks.find_blocks(found);
            self.blocks.find_blocks(&self.own);
            // Not those above the tip: they are looked for when the chain comes to them.
            let blocks = &self.blocks;
            self.positions.forget_known(|hash| blocks.height_of(hash).is_some());
            self.headers_at = headers_at;
            self.changes += 1;
        }
        (self.mark, self.commit, self.has_later) = (mark, durable.commit, durable.has_later);
        Ok(true)
    }

    /// Returns the tip of the durable commit.
    pub(super) fn tip(&self) -> Tip {
        self.blocks.tip()
    }

    /// Reads a block of the chain.
    pub(super) fn read(&self, height: u32) -> Result<FeedBlock, FeedError> {
        let read = self.blocks.read(height);
        let block = read.inspect_err(|_| self.has_failed.store(true, Ordering::Relaxed))?;
        Ok(FeedBlock {
            is_connected: true,
            block,
            median_time_past: self.blocks.median_time_past(height)?,
            coin_times: Vec::new(),
        })
    }
}

/// Data directory, opened to read it, with its last commit that is known to be durable.
pub(super) struct Durable {
    directory: DataDir,
    /// Commit of the mark. `None` before the first.
    commit: Option<LastCommit>,
    /// Whether the store has a later commit.
    has_later: bool,
}

impl Durable {
    /// Opens the data directory at `path`.
    pub(super) fn open(path: &Path) -> Result<Self, OpenError> {
        let (directory, found) = open(path, |directory, mark| {
            let (_, found) = find_commit(directory, mark)?;
            Ok(((mark.commit(), found), found))
        })?;
        match found {
            (Some(marked), Some(found)) if marked.store == found.store => Ok(Self {
                directory,
                commit: Some(marked),
                has_later: found.number > marked.number,
            }),
            // The first commit is not marked yet.
            (_, found) if found.is_none_or(|found| found.number <= 1) => Ok(Self {
                directory,
                commit: None,
                has_later: found.is_some_and(|found| found.number == 1),
            }),
            _ => {
                let detail = "it does not name a commit of the store, so it is not known what is durable";
                let mark = directory.file(COMMIT_FILE);
                Err(OpenError::damaged(mark, detail, Remedy::ConnectAgain))
            }
        }
    }

    /// Returns the tip of the commit.
    pub(super) fn tip(&self) -> Tip {
        let tip = self.commit.and_then(|commit| commit.tip);
        tip.unwrap_or_else(|| self.directory.genesis())
    }
}

/// A [`FeedChain`] that several feeds share.
#[derive(Clone)]
pub(super) struct SharedChain(Arc<RwLock<FeedChain>>);

impl SharedChain {
    pub(super) fn open(path: &Path) -> Result<Self, FeedError> {
        Ok(Self(Arc::new(RwLock::new(FeedChain::open(path)?))))
    }

    /// Polls for all feeds. Returns the number of changes so far.
    pub(super) fn poll(&self) -> Result<u64, FeedError> {
        let mut chain = match self.0.write() {
            Ok(chain) => chain,
            Err(poisoned) => {
                // A panic in the middle of a poll may have left blocks without their positions, or
                // without their mark.
                let mut chain = poisoned.into_inner();
                chain.reopen()?;
                self.0.clear_poison();
                chain
            }
        };
        chain.poll()?;
        Ok(chain.changes)
    }

    /// Locks the chain as of the last poll.
    pub(super) fn read(&self) -> Result<RwLockReadGuard<'_, FeedChain>, FeedError> {
        loop {
            if let Ok(chain) = self.0.read() {
                return Ok(chain);
            }
            self.poll()?;
        }
    }

    /// Number of references to the chain.
    pub(super) fn references(&self) -> usize {
        Arc::strong_count(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ChainId;
    use crate::chain_log::ChainLog;
    use crate::files::HEADERS_FILE;
    use crate::headers_file::RECORD;
    use crate::store_file::open_store;
    use blockmill_block::{BlockUndo, Header, MerkleRoot, Network};
    use blockmill_coins::{CoinStore, OwnedChange};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// Writer of a data directory whose blocks are headers alone.
    struct Writer {
        store: Arc<dyn CoinStore>,
        log: ChainLog,
        directory: DataDir,
    }

    impl Writer {
        fn open(path: &Path) -> Self {
            let chain_id = ChainId {
                network: Network::Regtest,
                signet_challenge: None,
            };
            let directory = DataDir::open(path, Some(&chain_id)).unwrap();
            let store = open_store(&directory, Default::default()).unwrap();
            let params = directory.chain_id().params();
            let mut log = ChainLog::open(&directory, params.magic(), &mut HeaderIndex::new(params)).unwrap();
            log.cut_back().unwrap();
            Self { store, log, directory }
        }

        fn genesis(&self) -> Tip {
            self.directory.genesis()
        }

        /// Writes the headers of two blocks above `tip`, durably. Returns the upper one.
        fn write(&mut self, tip: Tip, nonce: u32) -> Tip {
            let Tip { mut hash, height } = tip;
            for _ in 0..2 {
                let header = Header {
                    version: 4,
                    prev_block_hash: hash,
                    merkle_root: MerkleRoot::ZERO,
                    time: 1_300_000_000,
                    bits: 0x207f_ffff,
                    nonce,
                };
                self.log.append(&header, &BlockUndo::default()).unwrap();
                hash = header.hash();
            }
            self.log.sync().unwrap();
            Tip {
                hash,
                height: height + 2,
            }
        }

        fn commit(&self, tip: &Tip) {
            self.store.commit(&Vec::<OwnedChange>::new(), tip).unwrap();
        }
    }

    fn tip_after_poll(chain: &SharedChain) -> Tip {
        chain.poll().unwrap();
        chain.read().unwrap().tip()
    }

    #[test]
    fn headers_above_the_mark_are_neither_taken_nor_missed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let mut writer = Writer::open(path);
        let genesis = writer.genesis();
        let early = SharedChain::open(path).unwrap();
        let first = writer.write(genesis, 1);
        writer.commit(&first);
        // They are in the file, and their commit never comes.
        let lost = writer.write(first, 2);
        let late = SharedChain::open(path).unwrap();
        for chain in [&early, &late] {
            assert_eq!(tip_after_poll(chain), first);
            assert!(!chain.read().unwrap().blocks.is_known(&lost.hash));
        }
        drop(writer);
        // The writer could not sync them: it cuts the file back, and others take their place.
        let headers = std::fs::OpenOptions::new()
            .write(true)
            .open(path.join(HEADERS_FILE))
            .unwrap();
        headers.set_len(2 * RECORD as u64).unwrap();
        let mut writer = Writer::open(path);
        let other = writer.write(first, 3);
        let second = writer.write(other, 4);
        writer.commit(&second);
        for chain in [&early, &late] {
            assert_eq!(tip_after_poll(chain), second);
        }
        // A branch from below.
        let branch = writer.write(first, 5);
        let branch = writer.write(branch, 6);
        writer.commit(&branch);
        for chain in [&early, &late] {
            assert_eq!(tip_after_poll(chain), branch);
        }
        assert_eq!(early.read().unwrap().blocks.height_of(&other.hash), None);
    }

    #[test]
    fn an_error_in_a_poll_leaves_the_chain_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let mut writer = Writer::open(path);
        let first = writer.write(writer.genesis(), 1);
        writer.commit(&first);
        let chain = SharedChain::open(path).unwrap();
        let mut tip = first;
        // Each is read at another point of a poll.
        for (name, nonce) in [
            (COMMIT_FILE, 2),
            (HEADERS_FILE, 3),
            (UNDO_FILE, 4),
            (POSITIONS_FILE, 5),
            ("kept", 6),
        ] {
            let next = writer.write(tip, nonce);
            writer.commit(&next);
            let (file, aside) = (path.join(name), path.join("aside"));
            let is_there = file.exists();
            if is_there {
                std::fs::rename(&file, &aside).unwrap();
            }
            // Neither a file nor a folder of block files.
            std::fs::create_dir_all(file.join("blk00000.dat")).unwrap();
            for _ in 0..2 {
                assert!(chain.poll().is_err(), "{name}");
                let known = chain.read().unwrap();
                assert_eq!((known.tip(), known.blocks.height()), (tip, tip.height), "{name}");
            }
            std::fs::remove_dir_all(&file).unwrap();
            if is_there {
                std::fs::rename(&aside, &file).unwrap();
            }
            assert_eq!(tip_after_poll(&chain), next, "{name}");
            tip = next;
        }
    }

    #[test]
    fn a_panic_in_a_poll_leaves_no_half_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let mut writer = Writer::open(path);
        let first = writer.write(writer.genesis(), 1);
        writer.commit(&first);
        let chain = SharedChain::open(path).unwrap();
        let second = writer.write(first, 2);
        writer.commit(&second);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let mut guard = chain.0.write().unwrap();
            // New blocks, and nothing that goes with them.
            let (headers, _) = read_headers_up_to(&writer.directory, guard.headers_at, &second.hash).unwrap();
            guard.blocks.add_headers(headers).unwrap();
            assert!(guard.blocks.extend_to(&second.hash, None));
            guard.mark = writer.directory.commit_mark().unwrap();
            std::panic::resume_unwind(Box::new("planted"));
        }));
        assert!(panicked.is_err());
        assert_eq!(chain.read().unwrap().tip(), second);
        assert!(chain.read().unwrap().headers_at > 2 * RECORD as u64);
        let third = writer.write(second, 3);
        writer.commit(&third);
        assert_eq!(tip_after_poll(&chain), third);
    }

    #[test]
    fn without_a_mark_nothing_is_durable() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let mut writer = Writer::open(path);
        let genesis = writer.genesis();
        let first = writer.write(genesis, 1);
        writer.commit(&first);
        let mark = path.join(COMMIT_FILE);
        let bytes = std::fs::read(&mark).unwrap();
        // The first commit may not be marked yet, or its mark be torn.
        std::fs::write(&mark, &bytes[..20]).unwrap();
        assert_eq!(tip_after_poll(&SharedChain::open(path).unwrap()), genesis);
        std::fs::write(&mark, &bytes).unwrap();
        let second = writer.write(first, 2);
        writer.commit(&second);
        let chain = SharedChain::open(path).unwrap();
        std::fs::remove_file(&mark).unwrap();
        let error = chain.poll().unwrap_err();
        assert!(error.may_pass(), "{error}");
        assert_eq!(chain.read().unwrap().tip(), second);
        drop(writer);
        drop(Writer::open(path));
        assert_eq!(tip_after_poll(&chain), second);
    }
}
