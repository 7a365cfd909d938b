//! Import: blocks are found in block files, and their headers are inserted into the index.

use crate::chain::index::{BlockId, HeaderIndex, HeaderRefusal};
use crate::chain::places::Places;
use crate::chain::state::ChainState;
use crate::report::events::Event;
use crate::report::findings::{ImportEnd, ImportFindings, Leftover, Rejected, Unreadable};
use crate::report::observer::{Indexing, Observer};
use crate::report::telemetry::Reporter;
use blockmill_block::{BlockHash, Header, Magic};
use blockmill_blockfiles::{BlockFiles, Damage, FileError, Position, Record, ScanProgress};
use blockmill_rules::target::block_work;
use blockmill_rules::{Params, Reject, RejectKind, Work};
use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::ops::{ControlFlow, Range};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

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
        let first = self.files.read().len() as u32;
        for source in sources {
            self.files.write().add(source)?;
        }
        let last = self.files.read().len() as u32;
        let magic = self.index.params().magic();
        let files = self.files.read();
        let scanned = scan_files(&files, first..last, magic, &mut self.places, stop, reporter.observer)?;
        drop(files);
        let Some(Scanned { records, damages }) = scanned else {
            return Ok(ImportFindings {
                end: ImportEnd::Stopped,
                ..ImportFindings::default()
            });
        };
        let mut findings = ImportFindings {
            damages,
            ..ImportFindings::default()
        };
        self.insert_records(&records, first_seen, &mut findings, reporter);
        Ok(findings)
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

/// What lies in block files.
#[derive(Default)]
pub(crate) struct Scanned {
    pub(crate) records: Vec<Record>,
    damages: Vec<Damage>,
}

/// Finds the records of some of the files, and reports damage. Files that have not changed since an
/// earlier search are not read. None if `stop` was set.
pub(crate) fn scan_files(
    files: &BlockFiles,
    numbers: Range<u32>,
    magic: Magic,
    places: &mut Places,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<Option<Scanned>, FileError> {
    let mut found = Scanned::default();
    let mut entries = Vec::new();
    for file in numbers.clone() {
        let begun = match places.begin(files, file)? {
            Ok(records) => {
                found.records.extend(records);
                continue;
            }
            Err(begun) => begun,
        };
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
            places.write(&entries)?;
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
        // Damage is reported by every run, so it is looked for anew.
        if scan.damages.is_empty() {
            places.note(begun, &scan.records, &mut entries);
        }
        found.records.extend(scan.records);
        found.damages.extend(scan.damages);
    }
    places.write(&entries)?;
    Ok(Some(found))
}

/// Records of headers whose blocks are nowhere.
pub(crate) fn without_place(headers: &[Header]) -> Vec<Record> {
    let nowhere = Position {
        file: 0,
        length: 0,
        offset: 0,
    };
    let record = |header: &Header| Record {
        position: nowhere,
        hash: header.hash(),
        header: *header,
    };
    headers.iter().map(record).collect()
}

/// Inserts the headers of records into an index, each as soon as its parent is there. Returns the
/// numbers of the records whose parents are nowhere, by parent.
pub(crate) fn insert_headers<'r>(
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

/// The index of these headers and of all headers in the files, and the records of the files. None
/// if `stop` was set.
pub(crate) fn index_files(
    files: &BlockFiles,
    headers: &[Header],
    params: &Params,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<Option<(HeaderIndex, Vec<Record>)>, FileError> {
    let (numbers, magic) = (0..files.len() as u32, params.magic());
    let Some(scanned) = scan_files(files, numbers, magic, &mut Places::default(), stop, observer)? else {
        return Ok(None);
    };
    let mut index = HeaderIndex::new(params.clone());
    let mut refuse = |record: &Record, reject: Reject| {
        let hash = record.hash;
        observer.event(&Event::HeaderRejected { hash, reject: &reject });
    };
    insert_headers(&mut index, &without_place(headers), &mut refuse);
    insert_headers(&mut index, &scanned.records, &mut refuse);
    for record in &scanned.records {
        if let Some(id) = index.find(&record.hash) {
            index.add_position(id, record.position);
        }
    }
    Ok(Some((index, scanned.records)))
}

/// Seconds since 1970.
pub(crate) fn clock() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |elapsed| i64::try_from(elapsed.as_secs()).unwrap_or(i64::MAX))
}
