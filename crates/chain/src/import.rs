//! Import: blocks are found in block files, and their headers are inserted into the index.

use crate::copies::{find_content, resolve_ties};
use crate::index::{BlockId, HeaderRefusal};
use crate::insert::{Inserted, Refusal, clock, insert_blocks, insert_records, without_position};
use crate::positions::Change;
use crate::report::events::Event;
use crate::report::events::Observer;
use crate::report::findings::{ImportEnd, ImportFindings, Leftover, Rejected, Unreadable};
use crate::search::{Scanned, Search};
use crate::state::ChainState;
use blockmill_block::{BlockHash, Header};
use blockmill_blockfiles::{Damage, FileError, Position, Record, is_there};
use blockmill_rules::RejectKind;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Headers of a kind that are said when they break a rule.
const HEADERS_SAID_MAX: usize = 20;

/// Which of the files that are named an import searches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// All of them.
    All,
    /// Those that are new to this process, or have changed since it searched them.
    Changed,
}

impl ChainState {
    /// Finds the blocks in `sources` and inserts their headers into the index, in any order. When
    /// `stop` is set, the search ends and inserts no header.
    ///
    /// # Errors
    /// [`FileError`] if a source cannot be read.
    pub fn import(
        &mut self,
        sources: &[PathBuf],
        which: Which,
        stop: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<ImportFindings, FileError> {
        let known = self.files.read().len() as u32;
        let mut numbers = self.add_sources(sources)?;
        if which == Which::Changed {
            self.retain_changed(&mut numbers, observer)?;
        }
        let magic = self.index.params().magic();
        let files = self.files.read();
        let search = Search {
            files: &files,
            magic,
            deep: &self.deep,
            stop,
        };
        let found = search.run_into(&mut self.index, &numbers, &mut self.positions, observer)?;
        drop(files);
        let Some(Scanned {
            mut records,
            mut damages,
            skipped,
        }) = found
        else {
            return Ok(ImportFindings {
                end: ImportEnd::Stopped,
                ..ImportFindings::default()
            });
        };
        // After the search: until it has ended, what was known before holds.
        self.imported.extend(&numbers);
        // A search of some files gives no order to what lies in the others.
        let anew_above = match which {
            Which::All => self.anew_above.take(),
            Which::Changed => None,
        };
        if let Some(tip) = anew_above {
            self.index.forget_order(tip);
        }
        let forgotten = self.forget_old(&numbers, known, &mut records, anew_above.is_none());
        // Once more: copies that are forgotten note when they came, for when they are found again.
        if let Some(tip) = anew_above {
            self.index.forget_order(tip);
        }
        let mut findings = ImportFindings::default();
        self.insert(records, &mut findings, observer);
        if anew_above.is_some() {
            self.resolve_ties(stop);
        }
        self.note_leftovers(&mut findings);
        self.forget_lost(forgotten);
        self.note_elsewhere(&mut damages);
        findings.damages = damages;
        findings.missing_files = skipped;
        Ok(findings)
    }

    /// Notes which damages are of blocks that lie elsewhere, too.
    fn note_elsewhere(&self, damages: &mut [Damage]) {
        let files = self.files.read();
        // Many damages may name the same block, which is read once.
        let mut lengths: HashMap<BlockId, Option<u64>> = HashMap::new();
        for damage in damages.iter_mut().filter(|damage| !damage.is_harmless()) {
            let Some(id) = damage.hash.and_then(|hash| self.index.find(&hash)) else {
                continue;
            };
            let length = lengths
                .entry(id)
                .or_insert_with(|| find_content(&self.index, &files, id).map(|(_, length)| length));
            if let Some(length) = *length {
                damage.note_elsewhere(length);
            }
        }
    }

    /// Adds files, and those that were added before once more: they may be others now.
    fn add_sources(&mut self, sources: &[PathBuf]) -> Result<Vec<u32>, FileError> {
        let mut files = self.files.write();
        let mut numbers = Vec::new();
        for source in sources {
            numbers.extend(files.add(source)?);
        }
        // A file may be named itself, and lie in a folder that is named.
        let mut seen = HashSet::new();
        numbers.retain(|&number| seen.insert(number));
        Ok(numbers)
    }

    /// Leaves those files that are new, or that have changed since they were searched.
    fn retain_changed(&self, numbers: &mut Vec<u32>, observer: &mut dyn Observer) -> Result<(), FileError> {
        let files = self.files.read();
        let (mut changed, mut replaced) = (Vec::new(), None);
        for &number in &*numbers {
            let is_new = !self.imported.contains(&number);
            let change = self.positions.change(&files, number)?;
            if is_new || change != Change::None {
                changed.push(number);
            }
            if !is_new && change == Change::Replaced {
                replaced = replaced.or(Some(number));
            }
        }
        // The first stands for all.
        if let Some(number) = replaced {
            observer.event(&Event::FileReplaced(files.path(number)));
        }
        *numbers = changed;
        Ok(())
    }

    /// Forgets which blocks lie in those of the first `known` files that were searched again, or
    /// are gone. Returns the blocks that lie nowhere then. Records that wait for their parents
    /// stay, and are taken out of `found`, if they were found again and keep their order.
    fn forget_old(&mut self, searched: &[u32], known: u32, found: &mut Vec<Record>, keep_order: bool) -> Vec<BlockId> {
        let files = self.files.read();
        let searched: HashSet<u32> = searched.iter().copied().collect();
        let is_old = |file: u32| searched.contains(&file) || is_there(files.path(file)).is_ok_and(|there| !there);
        let old: HashSet<u32> = (0..known).filter(|&file| is_old(file)).collect();
        if old.is_empty() {
            return Vec::new();
        }
        // Those in files that were searched again are found again.
        self.orphans.forget_files(&old, found, keep_order);
        self.index.forget_files(|file| old.contains(&file))
    }

    /// Blocks that lay in old files and were not found again cannot be connected.
    fn forget_lost(&mut self, forgotten: Vec<BlockId>) {
        for id in forgotten {
            // Blocks of the active chain are in the set, whether their files are there or not.
            let is_lost = !self.index.entry(id).has_content() && !self.is_active(id);
            if is_lost && id != self.index.genesis() {
                self.index.forget_content(id);
            }
        }
    }

    /// Tells chains of equal work apart without connecting them, see [`resolve_ties`].
    pub(crate) fn resolve_ties(&mut self, stop: &AtomicBool) {
        resolve_ties(&mut self.index, &self.files.read(), stop);
    }

    /// Has the contents of some files read by the next [`import`](Self::import), too.
    pub(crate) fn search_contents_of(&mut self, files: &BTreeSet<u32>) {
        self.deep.extend(files);
    }

    /// Whether files that were noted as doubtful have blocks that no search has found. Then their
    /// contents are read by the next [`import`](Self::import), and blocks have come in the order in
    /// which that finds them, after the chain up to `tip`.
    ///
    /// # Errors
    /// [`FileError`] if a file cannot be read.
    pub fn find_hidden(&mut self, tip: BlockId, stop: &AtomicBool) -> Result<bool, FileError> {
        let files = self.files.read();
        let search = Search {
            files: &files,
            magic: self.index.params().magic(),
            deep: &self.deep,
            stop,
        };
        let Some(hidden) = search.find_hidden(&self.index)? else {
            return Ok(false);
        };
        drop(files);
        self.deep.extend(hidden.files);
        let found = !hidden.blocks.is_empty();
        self.anew_above = found.then_some(tip);
        Ok(found)
    }

    /// Inserts headers of blocks whose files are not at hand, in any order. Those that break a rule
    /// are reported, with what builds on them. Returns how many have found no parent.
    pub fn import_headers(&mut self, headers: &[Header], observer: &mut dyn Observer) -> usize {
        let records = without_position(headers);
        let inserted = insert_records(&mut self.index, &records, |_, _, _| ());
        report_refusals(&inserted, observer);
        inserted.waiting().len()
    }

    /// Imports the blocks that a data directory has itself, before an engine begins its work. Their
    /// findings wait for [`take_own_findings`](Self::take_own_findings).
    ///
    /// # Errors
    /// [`FileError`] if a file cannot be read.
    pub fn import_own_blocks(
        &mut self,
        folders: &[PathBuf],
        stop: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<(), FileError> {
        self.own_findings = self.import(folders, Which::All, stop, observer)?;
        Ok(())
    }

    /// Forgets damage in files whose blocks are copies of others.
    pub fn forget_own_damages(&mut self, is_of_copies: impl Fn(&Path) -> bool) {
        self.own_findings.damages.retain(|damage| !is_of_copies(&damage.path));
    }

    /// The findings among these blocks, once.
    pub fn take_own_findings(&mut self) -> ImportFindings {
        std::mem::take(&mut self.own_findings)
    }

    /// Inserts records into the index, each as soon as its parent is there: those first that have
    /// waited for their parents since an earlier import.
    fn insert(&mut self, records: Vec<Record>, findings: &mut ImportFindings, observer: &mut dyn Observer) {
        let mut all = std::mem::take(&mut self.orphans).records;
        if all.is_empty() {
            // Usually nothing waits, and the records need not be copied.
            all = records;
        } else {
            all.extend(records);
        }
        let inserted = insert_blocks(&mut self.index, &all);
        findings.left_out += inserted.left_out;
        let best = self.index.entry(self.index.best_candidate());
        let best = (best.work, best.sequence);
        self.orphans = inserted.waiting().into_iter().map(|number| all[number]).collect();
        let (mut rejected, mut unreadable) = (Vec::new(), Vec::new());
        for refusal in inserted.refusals {
            let of_best_chain = refusal.claim.is_before(best);
            if refusal.reject.kind == RejectKind::NoWork {
                unreadable.push(self.without_work(refusal.record));
            } else {
                rejected.push(self.refused(refusal, of_best_chain));
            }
        }
        report_bad_headers(&rejected, &unreadable, observer);
        findings.rejected.extend(rejected);
        findings.unreadable.extend(unreadable);
    }

    /// Notes how many blocks have no known parent, whenever they came.
    fn note_leftovers(&self, findings: &mut ImportFindings) {
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
    ///
    /// # Errors
    /// [`HeaderRefusal`], with Core's word.
    pub fn accept_header(&mut self, header: &Header, hash: BlockHash) -> Result<BlockId, HeaderRefusal> {
        self.index.accept_header(header, hash, clock())
    }

    /// Notes where a block that came by itself was written, and inserts the blocks that waited for
    /// it. Returns what is found wrong with these.
    pub fn receive(&mut self, id: BlockId, position: Position, observer: &mut dyn Observer) -> ImportFindings {
        self.index.receive(id, position);
        let hash = self.index.entry(id).hash;
        let mut findings = ImportFindings::default();
        if self.orphans.parents.contains(&hash) {
            self.insert(Vec::new(), &mut findings, observer);
        }
        findings
    }

    /// Notes a further copy of a block, which gives the block no other order among its equals.
    pub fn note_copy(&mut self, id: BlockId, position: Position) {
        self.index.receive_as(id, position, u64::MAX);
    }

    /// What is said of a header that breaks another rule.
    fn refused(&self, refusal: Refusal<'_>, of_best_chain: bool) -> Rejected {
        let Refusal { record, reject, .. } = refusal;
        let parent = self.index.find(&record.header.prev_block_hash);
        let height = parent.map_or(0, |parent| self.index.entry(parent).height + 1);
        Rejected {
            of_best_chain,
            ..self.rejected_at(record.hash, height, reject, Some(record.position))
        }
    }

    /// What is said of a header without work.
    fn without_work(&self, record: &Record) -> Unreadable {
        let parent = self.index.find(&record.header.prev_block_hash);
        Unreadable {
            hash: record.hash,
            height: parent.map(|parent| self.index.entry(parent).height + 1),
            path: self.files.read().path(record.position.file).to_owned(),
            offset: record.position.offset,
            detail: "its header is not the work of a miner (high-hash)".to_owned(),
        }
    }
}

/// How many headers are not said. None if there are none.
fn more(headers: usize) -> Option<u64> {
    headers
        .checked_sub(HEADERS_SAID_MAX)
        .filter(|&more| more > 0)
        .map(|more| more as u64)
}

/// Reports blocks whose headers break rules. The first of each kind are said, the rest counted: who
/// fills a file with headers that cost no work fills no log.
fn report_bad_headers(rejected: &[Rejected], unreadable: &[Unreadable], observer: &mut dyn Observer) {
    for rejected in rejected.iter().take(HEADERS_SAID_MAX) {
        observer.event(&Event::Rejected(rejected));
    }
    if let Some(blocks) = more(rejected.len()) {
        observer.event(&Event::MoreRejected { blocks });
    }
    for unreadable in unreadable.iter().take(HEADERS_SAID_MAX) {
        observer.event(&Event::Unreadable(unreadable));
    }
    if let Some(blocks) = more(unreadable.len()) {
        observer.event(&Event::MoreUnreadable { blocks });
    }
}

fn report_refusals(inserted: &Inserted<'_>, observer: &mut dyn Observer) {
    for Refusal { record, reject, .. } in inserted.refusals.iter().take(HEADERS_SAID_MAX) {
        let hash = record.hash;
        observer.event(&Event::HeaderRejected { hash, reject });
    }
    if let Some(blocks) = more(inserted.refusals.len()) {
        observer.event(&Event::MoreRejected { blocks });
    }
}
