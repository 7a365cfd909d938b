//! Finding blocks in block files, and taking their headers into the index.

use crate::chain::index::{HeaderIndex, HeaderRefusal};
use crate::error::EngineError;
use crate::pipeline::connect::Engine;
use crate::report::events::Event;
use crate::report::{Indexing, Leftover, Observer, Rejected, Unreadable};
use blockmill_block::{BlockHash, Magic};
use blockmill_blockfiles::{BlockFiles, Damage, Position, Record, ScanProgress};
use blockmill_rules::target::block_work;
use blockmill_rules::{Reject, RejectKind, ScriptVerifier, Work};
use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::ops::{ControlFlow, Range};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// What counts as first seen among blocks of equal work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirstSeen {
    /// The order of files and of places in them.
    ByPlace,
    /// The order in which blocks could be connected, as when they came one by one.
    ByArrival,
}

/// What chains are compared by: their work, then the place in which the last block lies; the
/// earlier one wins.
type Claim = (Work, Reverse<Option<(u32, u64)>>);

fn place(position: Position) -> (u32, u64) {
    (position.file, position.offset)
}

/// What the search of block files found besides blocks of the tree.
#[derive(Default)]
pub(crate) struct Indexed {
    /// It was asked to stop before all files were searched, and has taken nothing in.
    pub(crate) stopped: bool,
    pub(crate) damages: Vec<Damage>,
    pub(crate) leftovers: u64,
    /// Blocks that build on headers that were refused.
    pub(crate) left_out: u64,
    pub(crate) first_leftover: Option<Leftover>,
}

impl Indexed {
    /// Adds what another search found.
    pub(crate) fn merge(&mut self, other: Self) {
        self.stopped |= other.stopped;
        self.damages.extend(other.damages);
        self.leftovers += other.leftovers;
        self.left_out += other.left_out;
        self.first_leftover = self.first_leftover.take().or(other.first_leftover);
    }
}

impl<V: ScriptVerifier + 'static> Engine<V> {
    /// Finds the blocks in `sources` and takes their headers into the index, in whatever order they
    /// come.
    pub(crate) fn index_sources(
        &mut self,
        sources: &[PathBuf],
        first_seen: FirstSeen,
        observer: &mut dyn Observer,
    ) -> Result<Indexed, EngineError> {
        let loader = Arc::clone(&self.loader);
        let first = loader.files().len() as u32;
        for source in sources {
            loader.files_mut().add(source)?;
        }
        let last = loader.files().len() as u32;
        let magic = self.index.params().magic();
        let scanned = scan_files(&loader.files(), first..last, magic, &self.options.stop, observer)?;
        let Some(Scanned { records, damages }) = scanned else {
            // Nothing is known of what lies in the files that remain, so nothing is said about
            // leftovers.
            return Ok(Indexed {
                stopped: true,
                ..Indexed::default()
            });
        };
        let mut indexed = Indexed {
            damages,
            ..Indexed::default()
        };
        self.index_records(&records, first_seen, &mut indexed, observer);
        Ok(indexed)
    }

    /// Takes records into the index: each as soon as its parent is there.
    fn index_records(
        &mut self,
        records: &[Record],
        first_seen: FirstSeen,
        indexed: &mut Indexed,
        observer: &mut dyn Observer,
    ) {
        let mut refused = Vec::new();
        let mut waiting = take_headers(&mut self.index, records, |record, reject| {
            refused.push((record, reject))
        });
        for record in records {
            if let Some(id) = self.index.find(&record.hash) {
                match first_seen {
                    FirstSeen::ByPlace => self.index.add_position(id, record.position),
                    FirstSeen::ByArrival => self.index.receive(id, record.position),
                }
            }
        }
        let best = self.best_claim();
        for (record, reject) in refused {
            let (claim, above) = self.claim_of(record, records, &mut waiting);
            indexed.left_out += above;
            self.refuse_header(record, reject, claim > best, observer);
        }
        if first_seen == FirstSeen::ByArrival {
            for (parent, numbers) in &waiting {
                let kept = numbers.iter().map(|&number| records[number]);
                self.orphans.entry(*parent).or_default().extend(kept);
            }
        }
        indexed.leftovers = waiting.values().map(|numbers| numbers.len() as u64).sum();
        if let Some(&number) = waiting.values().flatten().min() {
            let record = &records[number];
            indexed.first_leftover = Some(Leftover {
                hash: record.hash,
                parent: record.header.prev_block_hash,
                path: self.loader.files().path(record.position.file).to_owned(),
                offset: record.position.offset,
            });
        }
    }

    /// Takes in the kept blocks whose parents are known by now. Returns how many are still left
    /// over.
    pub(crate) fn adopt_known_orphans(&mut self, observer: &mut dyn Observer) -> u64 {
        let known: Vec<_> = self.orphans.keys().copied().collect();
        for parent in known {
            if self.index.find(&parent).is_some() {
                self.adopt_orphans(parent, observer);
            }
        }
        self.orphans.values().map(|records| records.len() as u64).sum()
    }

    /// Takes in the kept blocks that waited for this one, and those that waited for them.
    pub(crate) fn adopt_orphans(&mut self, parent: BlockHash, observer: &mut dyn Observer) {
        let mut parents = VecDeque::from([parent]);
        while let Some(parent) = parents.pop_front() {
            for record in self.orphans.remove(&parent).unwrap_or_default() {
                match self.index.accept_header(&record.header, record.hash, clock()) {
                    Ok(id) => {
                        self.index.receive(id, record.position);
                        parents.push_back(record.hash);
                    }
                    Err(HeaderRefusal::Invalid(reject)) => {
                        let (claim, _) = self.claim_of(&record, &[], &mut HashMap::new());
                        self.refuse_header(&record, reject, claim > self.best_claim(), observer);
                    }
                    // Its parent is in the index now.
                    Err(HeaderRefusal::MissingParent) => {}
                }
            }
        }
    }

    /// What the best chain that can be connected has to show. What was connected in an earlier run
    /// came before all files.
    fn best_claim(&self) -> Claim {
        let best = self.index.entry(self.index.best_candidate());
        let position = best.position().filter(|_| best.sequence > 0);
        (best.work, Reverse(position.map(place)))
    }

    /// What a header that is refused would have had to show, with those that build on it, and how
    /// many these are. They wait no longer.
    fn claim_of(
        &self,
        refused: &Record,
        records: &[Record],
        waiting: &mut HashMap<BlockHash, Vec<usize>>,
    ) -> (Claim, u64) {
        let parent = self.index.find(&refused.header.prev_block_hash);
        let mut best = (Work::default(), Reverse(None));
        let mut above = 0;
        let mut branches = vec![(
            refused,
            parent.map_or(Work::default(), |parent| self.index.entry(parent).work),
        )];
        while let Some((record, work)) = branches.pop() {
            let work = work + block_work(record.header.bits);
            best = best.max((work, Reverse(Some(place(record.position)))));
            let children = waiting.remove(&record.hash).unwrap_or_default();
            above += children.len() as u64;
            branches.extend(children.into_iter().map(|child| (&records[child], work)));
        }
        (best, above)
    }

    fn refuse_header(&mut self, record: &Record, reject: Reject, of_best_chain: bool, observer: &mut dyn Observer) {
        let parent = self.index.find(&record.header.prev_block_hash);
        let height = parent.map_or(0, |parent| self.index.entry(parent).height + 1);
        let rejected = Rejected {
            of_best_chain,
            ..self.rejected_block(record.hash, height, reject, Some(record.position))
        };
        if rejected.reject.kind == RejectKind::NoWork {
            let unreadable = Unreadable {
                hash: rejected.hash,
                height,
                path: rejected.path,
                offset: rejected.offset,
                detail: "its header is not the work of a miner (high-hash)".to_owned(),
            };
            observer.event(&Event::Unreadable(&unreadable));
            self.unreadable.push(unreadable);
        } else {
            observer.event(&Event::Rejected(&rejected));
            self.rejected.push(rejected);
        }
    }
}

/// What lies in block files.
#[derive(Default)]
pub(crate) struct Scanned {
    pub(crate) records: Vec<Record>,
    damages: Vec<Damage>,
}

/// Finds the records of some of the files, and says what is damaged there. None if it was asked to
/// stop.
pub(crate) fn scan_files(
    files: &BlockFiles,
    numbers: Range<u32>,
    magic: Magic,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<Option<Scanned>, EngineError> {
    let mut found = Scanned::default();
    for file in numbers.clone() {
        let mut watch = |scan: &ScanProgress| {
            if stop.load(Ordering::Relaxed) {
                return ControlFlow::Break(());
            }
            observer.indexing(&Indexing {
                file: (file - numbers.start + 1) as usize,
                files: numbers.len(),
                offset: scan.offset,
                bytes: scan.bytes,
                headers: found.records.len() + scan.records,
            });
            ControlFlow::Continue(())
        };
        let Some(scan) = files.scan_watched(file, magic, &mut watch)? else {
            return Ok(None);
        };
        for damage in &scan.damages {
            observer.event(&Event::Damaged(damage));
        }
        if scan.more_damages > 0 {
            observer.event(&Event::MoreDamaged {
                path: files.path(file),
                places: scan.more_damages,
            });
        }
        found.records.extend(scan.records);
        found.damages.extend(scan.damages);
    }
    Ok(Some(found))
}

/// Takes the headers of records into an index: each as soon as its parent is there. Returns the
/// numbers of those whose parents are nowhere, by parent.
pub(crate) fn take_headers<'r>(
    index: &mut HeaderIndex,
    records: &'r [Record],
    mut refuse: impl FnMut(&'r Record, Reject),
) -> HashMap<BlockHash, Vec<usize>> {
    let now = clock();
    let unknown = records.iter().filter(|record| index.find(&record.hash).is_none());
    index.reserve(unknown.count());
    let mut waiting: HashMap<BlockHash, Vec<usize>> = HashMap::new();
    for number in 0..records.len() {
        let mut ready = VecDeque::from([number]);
        while let Some(number) = ready.pop_front() {
            let record = &records[number];
            match index.accept_header(&record.header, record.hash, now) {
                Ok(_) => ready.extend(waiting.remove(&record.hash).unwrap_or_default()),
                Err(HeaderRefusal::MissingParent) => {
                    waiting.entry(record.header.prev_block_hash).or_default().push(number);
                }
                Err(HeaderRefusal::Invalid(reject)) => refuse(record, reject),
            }
        }
    }
    waiting
}

/// Seconds since 1970.
pub(crate) fn clock() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |elapsed| i64::try_from(elapsed.as_secs()).unwrap_or(i64::MAX))
}
