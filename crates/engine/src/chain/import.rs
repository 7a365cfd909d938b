//! Import: blocks are found in block files, and their headers are inserted into the index.

use crate::chain::copies::settle_ties;
use crate::chain::index::{BlockId, HeaderIndex, HeaderRefusal};
use crate::chain::insert::{Inserted, Refusal, clock, insert_blocks, insert_records, without_place};
use crate::chain::places::Places;
use crate::chain::state::ChainState;
use crate::report::events::Event;
use crate::report::findings::{ImportEnd, ImportFindings, Leftover, Rejected, Unreadable};
use crate::report::observer::{Indexing, Observer};
use crate::report::telemetry::Reporter;
use blockmill_block::{BlockHash, Header, Magic};
use blockmill_blockfiles::{BlockFiles, Damage, FileError, Position, Record, ScanProgress};
use blockmill_rules::{Params, RejectKind};
use std::ops::{ControlFlow, Range};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

impl ChainState {
    /// Finds the blocks in `sources` and inserts their headers into the index, in any order. When
    /// `stop` is set, the search ends and inserts no header.
    pub(crate) fn import(
        &mut self,
        sources: &[PathBuf],
        stop: &AtomicBool,
        reporter: &mut Reporter<'_>,
    ) -> Result<ImportFindings, FileError> {
        let first = self.unsearched.unwrap_or(self.files.read().len() as u32);
        self.unsearched = Some(first);
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
        self.unsearched = None;
        let mut findings = ImportFindings {
            damages,
            ..ImportFindings::default()
        };
        self.insert(records, &mut findings, reporter);
        Ok(findings)
    }

    /// Inserts headers of blocks whose files are not at hand, in any order. Those that break a rule
    /// are reported, with what builds on them. Returns how many have found no parent.
    pub(crate) fn import_headers(&mut self, headers: &[Header], observer: &mut dyn Observer) -> usize {
        let records = without_place(headers);
        let inserted = insert_records(&mut self.index, &records, |_, _, _| ());
        report_refusals(&inserted, observer);
        inserted.waiting().len()
    }

    /// Imports the blocks that came one by one, before an engine begins its work. Their findings
    /// wait for [`take_submitted_findings`](Self::take_submitted_findings).
    pub(crate) fn import_submitted_blocks(
        &mut self,
        folder: PathBuf,
        stop: &AtomicBool,
        reporter: &mut Reporter<'_>,
    ) -> Result<(), FileError> {
        self.submitted_findings = self.import(&[folder], stop, reporter)?;
        Ok(())
    }

    /// The findings among the submitted blocks, once.
    pub(crate) fn take_submitted_findings(&mut self) -> ImportFindings {
        std::mem::take(&mut self.submitted_findings)
    }

    /// Inserts records into the index, each as soon as its parent is there: those first that have
    /// waited for their parents since an earlier import.
    fn insert(&mut self, records: Vec<Record>, findings: &mut ImportFindings, reporter: &mut Reporter<'_>) {
        let mut all = std::mem::take(&mut self.orphans).records;
        if all.is_empty() {
            all = records;
        } else {
            all.extend(records);
        }
        let inserted = insert_blocks(&mut self.index, &all);
        findings.left_out += inserted.left_out;
        let best = self.index.entry(self.index.best_candidate());
        let best = (best.work, best.sequence);
        self.orphans = inserted.waiting().into_iter().map(|number| all[number]).collect();
        for refusal in inserted.refusals {
            let of_best_chain = refusal.claim.is_before(best);
            self.refuse_header(refusal, of_best_chain, reporter);
        }
    }

    /// Notes how many blocks have no known parent, whenever they came.
    pub(crate) fn note_leftovers(&self, findings: &mut ImportFindings) {
        let orphans = &self.orphans.records;
        findings.leftovers = orphans.len() as u64;
        findings.first_leftover = orphans.first().map(|record| Leftover {
            hash: record.hash,
            parent: record.header.prev_block_hash,
            path: self.files.read().path(record.position.file).to_owned(),
            offset: record.position.offset,
        });
    }

    /// Accepts the header of a block that came by itself.
    pub(crate) fn accept_header(&mut self, header: &Header, hash: BlockHash) -> Result<BlockId, HeaderRefusal> {
        self.index.accept_header(header, hash, clock())
    }

    /// Notes where a block that came by itself was written, and inserts the blocks that waited for
    /// it.
    pub(crate) fn receive(&mut self, id: BlockId, position: Position, reporter: &mut Reporter<'_>) {
        self.index.receive(id, position);
        let hash = self.index.entry(id).hash;
        if self.orphans.parents.contains(&hash) {
            self.insert(Vec::new(), &mut ImportFindings::default(), reporter);
        }
    }

    fn refuse_header(&self, refusal: Refusal<'_>, of_best_chain: bool, reporter: &mut Reporter<'_>) {
        let Refusal { record, reject, .. } = refusal;
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
    let headers = without_place(headers);
    report_refusals(&insert_records(&mut index, &headers, |_, _, _| ()), observer);
    report_refusals(&insert_blocks(&mut index, &scanned.records), observer);
    settle_ties(&mut index, files, stop);
    Ok((!stop.load(Ordering::Relaxed)).then_some((index, scanned.records)))
}

fn report_refusals(inserted: &Inserted<'_>, observer: &mut dyn Observer) {
    for Refusal { record, reject, .. } in &inserted.refusals {
        let hash = record.hash;
        observer.event(&Event::HeaderRejected { hash, reject });
    }
}
