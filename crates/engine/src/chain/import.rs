//! Import: blocks are found in block files, and their headers are inserted into the index.

use crate::chain::index::{BlockId, HeaderRefusal};
use crate::chain::insert::{clock, insert_headers, without_place};
use crate::chain::places::Places;
use crate::chain::search::{Scanned, Search};
use crate::chain::state::ChainState;
use crate::report::events::Event;
use crate::report::findings::{ImportEnd, ImportFindings, Leftover, Rejected, Unreadable};
use crate::report::observer::Observer;
use crate::report::telemetry::Reporter;
use blockmill_block::{BlockHash, Header};
use blockmill_blockfiles::{FileError, Position, Record};
use blockmill_rules::target::block_work;
use blockmill_rules::{Reject, RejectKind, Work};
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// Which of several blocks of equal work was seen first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirstSeen {
    /// The block at the lower offset in the earlier file.
    ByOffset,
    /// The first block that could be connected, as when blocks come one by one.
    ByArrival,
}

/// How chains are compared: by their work, then by the file and offset of the last block. The
/// earlier one wins.
type Claim = (Work, Reverse<Option<(u32, u64)>>);

fn file_and_offset(position: Position) -> (u32, u64) {
    (position.file, position.offset)
}

impl ChainState {
    /// Finds the blocks in `sources` and inserts their headers into the index, in any order. When
    /// `stop` is set, the search ends and inserts no header.
    pub(crate) fn import(
        &mut self,
        sources: &[PathBuf],
        first_seen: FirstSeen,
        stop: &AtomicBool,
        reporter: &mut Reporter<'_>,
    ) -> Result<ImportFindings, FileError> {
        let known = self.files.read().len() as u32;
        let numbers = self.add_sources(sources)?;
        let magic = self.index.params().magic();
        let files = self.files.read();
        let search = Search {
            files: &files,
            magic,
            deep: &self.deep,
            stop,
        };
        let found = search.run_into(&mut self.index, &numbers, &mut self.places, reporter.observer)?;
        drop(files);
        let Some(Scanned {
            records,
            mut damages,
            skipped,
        }) = found
        else {
            return Ok(ImportFindings {
                end: ImportEnd::Stopped,
                ..ImportFindings::default()
            });
        };
        let forgotten = self.forget_old(&numbers, known);
        let mut findings = ImportFindings::default();
        self.insert_records(&records, first_seen, &mut findings, reporter);
        self.forget_lost(forgotten);
        for damage in &mut damages {
            let block = damage.hash.and_then(|hash| self.index.find(&hash));
            damage.is_elsewhere = block.is_some_and(|id| self.index.entry(id).has_content());
        }
        findings.damages = damages;
        findings.missing_files = skipped.into_iter().filter(|skipped| skipped.is_missing).collect();
        Ok(findings)
    }

    /// Adds files, and those that were added before once more: they may be others now.
    fn add_sources(&mut self, sources: &[PathBuf]) -> Result<Vec<u32>, FileError> {
        let mut files = self.files.write();
        let mut numbers = Vec::new();
        for source in sources {
            numbers.extend(files.add(source)?);
        }
        let mut seen = HashSet::new();
        numbers.retain(|&number| seen.insert(number));
        Ok(numbers)
    }

    /// Forgets which blocks lie in those of the first `known` files that were searched again, or are
    /// gone. Returns the blocks that lie nowhere then.
    fn forget_old(&mut self, searched: &[u32], known: u32) -> Vec<BlockId> {
        let files = self.files.read();
        let searched: HashSet<u32> = searched.iter().copied().collect();
        let is_old = |file: u32| searched.contains(&file) || !files.path(file).exists();
        let old: HashSet<u32> = (0..known).filter(|&file| is_old(file)).collect();
        if old.is_empty() {
            return Vec::new();
        }
        self.index.forget_files(|file| old.contains(&file))
    }

    /// Blocks that lay in old files and were not found again cannot be connected.
    fn forget_lost(&mut self, forgotten: Vec<BlockId>) {
        for id in forgotten {
            let is_lost = !self.index.entry(id).has_content() && !self.is_active(id);
            if is_lost && id != self.index.genesis() {
                self.index.forget_content(id);
            }
        }
    }

    /// Whether files that were noted as doubtful have blocks that no search has found. Then their
    /// contents are read by the next [`import`](Self::import).
    pub(crate) fn find_hidden(&mut self, stop: &AtomicBool, observer: &mut dyn Observer) -> Result<bool, FileError> {
        let doubts = self.files.read().take_doubts();
        let deep: BTreeSet<u32> = doubts.difference(&self.deep).copied().collect();
        let files = self.files.read();
        let search = Search {
            files: &files,
            magic: self.index.params().magic(),
            deep: &deep,
            stop,
        };
        let numbers: Vec<u32> = deep.iter().copied().collect();
        let found = search.run(&numbers, &mut Places::default(), observer)?;
        let is_hidden = |record: &Record| self.index.find(&record.hash).is_none();
        let any = found.is_some_and(|found| found.records.iter().any(is_hidden));
        drop(files);
        self.deep.extend(deep);
        Ok(any)
    }

    /// Inserts headers of blocks whose files are not at hand, in any order. Those that break a rule
    /// are reported, with what builds on them. Returns how many have found no parent.
    pub(crate) fn import_headers(&mut self, headers: &[Header], observer: &mut dyn Observer) -> usize {
        let records = without_place(headers);
        let waiting = insert_headers(&mut self.index, &records, |record, reject| {
            let hash = record.hash;
            observer.event(&Event::HeaderRejected { hash, reject: &reject });
        });
        waiting.values().map(Vec::len).sum()
    }

    /// Imports the blocks that came one by one, before an engine begins its work. Their findings
    /// wait for [`take_submitted_findings`](Self::take_submitted_findings).
    pub(crate) fn import_submitted_blocks(
        &mut self,
        folder: PathBuf,
        stop: &AtomicBool,
        reporter: &mut Reporter<'_>,
    ) -> Result<(), FileError> {
        self.submitted_findings = self.import(&[folder], FirstSeen::ByArrival, stop, reporter)?;
        Ok(())
    }

    /// The findings among the submitted blocks, once. Blocks whose parents are known by now are no
    /// leftovers.
    pub(crate) fn take_submitted_findings(&mut self, reporter: &mut Reporter<'_>) -> ImportFindings {
        let mut own = std::mem::take(&mut self.submitted_findings);
        own.leftovers = self.adopt_known_orphans(reporter);
        own.first_leftover = own.first_leftover.filter(|_| own.leftovers > 0);
        own
    }

    /// Inserts records into the index, each as soon as its parent is there.
    fn insert_records(
        &mut self,
        records: &[Record],
        first_seen: FirstSeen,
        findings: &mut ImportFindings,
        reporter: &mut Reporter<'_>,
    ) {
        let mut refused = Vec::new();
        let mut waiting = insert_headers(&mut self.index, records, |record, reject| {
            refused.push((record, reject))
        });
        for record in records {
            if let Some(id) = self.index.find(&record.hash) {
                match first_seen {
                    FirstSeen::ByOffset => self.index.add_position(id, record.position),
                    FirstSeen::ByArrival => self.index.receive(id, record.position),
                }
            }
        }
        let best = self.best_claim();
        for (record, reject) in refused {
            let (claim, above) = self.claim_of(record, records, &mut waiting);
            findings.left_out += above;
            self.refuse_header(record, reject, claim > best, reporter);
        }
        if first_seen == FirstSeen::ByArrival {
            for (parent, numbers) in &waiting {
                let kept = numbers.iter().map(|&number| records[number]);
                self.orphans.entry(*parent).or_default().extend(kept);
            }
        }
        findings.leftovers = waiting.values().map(|numbers| numbers.len() as u64).sum();
        if let Some(&number) = waiting.values().flatten().min() {
            let record = &records[number];
            findings.first_leftover = Some(Leftover {
                hash: record.hash,
                parent: record.header.prev_block_hash,
                path: self.files.read().path(record.position.file).to_owned(),
                offset: record.position.offset,
            });
        }
    }

    /// Inserts the kept blocks whose parents are known by now. Returns the number of the others.
    fn adopt_known_orphans(&mut self, reporter: &mut Reporter<'_>) -> u64 {
        let known: Vec<_> = self.orphans.keys().copied().collect();
        for parent in known {
            if self.index.find(&parent).is_some() {
                self.adopt_orphans(parent, reporter);
            }
        }
        self.orphans.values().map(|records| records.len() as u64).sum()
    }

    /// Inserts the kept blocks that waited for this one, and those that waited for them.
    fn adopt_orphans(&mut self, parent: BlockHash, reporter: &mut Reporter<'_>) {
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
                        self.refuse_header(&record, reject, claim > self.best_claim(), reporter);
                    }
                    // Its parent is in the index now.
                    Err(HeaderRefusal::MissingParent) => {}
                }
            }
        }
    }

    /// Accepts the header of a block that came by itself.
    pub(crate) fn accept_header(&mut self, header: &Header, hash: BlockHash) -> Result<BlockId, HeaderRefusal> {
        self.index.accept_header(header, hash, clock())
    }

    /// Notes where a block that came by itself was written, and inserts the kept blocks that waited
    /// for it.
    pub(crate) fn receive(&mut self, id: BlockId, position: Position, reporter: &mut Reporter<'_>) {
        self.index.receive(id, position);
        self.adopt_orphans(self.index.entry(id).hash, reporter);
    }

    /// The claim of the best chain that can be connected. Blocks connected in an earlier run came
    /// before all files.
    fn best_claim(&self) -> Claim {
        let best = self.index.entry(self.index.best_candidate());
        let position = best.position().filter(|_| best.sequence > 0);
        (best.work, Reverse(position.map(file_and_offset)))
    }

    /// The claim of the best chain through a header that is refused, and the number of blocks that
    /// build on that header. They wait no longer.
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
            best = best.max((work, Reverse(Some(file_and_offset(record.position)))));
            let children = waiting.remove(&record.hash).unwrap_or_default();
            above += children.len() as u64;
            branches.extend(children.into_iter().map(|child| (&records[child], work)));
        }
        (best, above)
    }

    fn refuse_header(&self, record: &Record, reject: Reject, of_best_chain: bool, reporter: &mut Reporter<'_>) {
        let parent = self.index.find(&record.header.prev_block_hash);
        let height = parent.map_or(0, |parent| self.index.entry(parent).height + 1);
        let rejected = Rejected {
            of_best_chain,
            ..self.rejected_at(record.hash, height, reject, Some(record.position))
        };
        if rejected.reject.kind == RejectKind::NoWork {
            reporter.unreadable(Unreadable {
                hash: rejected.hash,
                height,
                path: rejected.path,
                offset: rejected.offset,
                detail: "its header is not the work of a miner (high-hash)".to_owned(),
            });
        } else {
            reporter.rejected(rejected);
        }
    }
}
