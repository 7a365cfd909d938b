//! Block files are searched for the blocks that lie in them.
//!
//! A search reads the heads of records and believes their lengths. That is undone where something
//! does not fit: a block without a parent, a header without work, a block that is shorter than its
//! record. Then the contents of that file are read, since its records may hide others.

use crate::index::HeaderIndex;
use crate::insert::insert_records;
use crate::positions::FoundPositions;
use crate::report::events::{Event, Indexing, Observer};
use blockmill_block::{Block, Magic};
use blockmill_blockfiles::{BlockFiles, Damage, FileError, Record, ScanDepth, ScanProgress, Skipped};
use blockmill_rules::RejectKind;
use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Blocks without a parent whose contents are read, to see whether their records hide others.
const SUSPECTS_MAX: usize = 2_000;

/// Blocks without a parent whose files are searched with all their contents.
const HIDING_FILES_MAX: usize = 4;

/// Times that a file with damage is scanned at most, if it changes meanwhile. A node that is in the
/// midst of writing a record shows a part of it at one moment and the rest at the next, and it cuts
/// off what it had allocated and did not use.
const SCANS_MAX: usize = 3;

/// What lies in block files.
#[derive(Default)]
pub(crate) struct Scanned {
    pub(crate) records: Vec<Record>,
    pub(crate) damages: Vec<Damage>,
    /// Names in the folders that lead to no file.
    pub(crate) skipped: Vec<Skipped>,
}

/// Blocks that lie inside the records of others.
pub(crate) struct Hidden {
    /// Files whose contents were read for them, whether they have any or not.
    pub(crate) files: BTreeSet<u32>,
    /// Those of which nothing was known.
    pub(crate) blocks: Vec<Record>,
}

/// A search of block files.
pub(crate) struct Search<'a> {
    pub(crate) files: &'a BlockFiles,
    pub(crate) magic: Magic,
    /// Files whose contents are read.
    pub(crate) deep: &'a BTreeSet<u32>,
    pub(crate) stop: &'a AtomicBool,
}

impl Search<'_> {
    /// Finds the records of some of the files, and reports damage. Files that have not changed
    /// since an earlier search are not read. None if `stop` was set.
    pub(crate) fn run(
        &self,
        numbers: &[u32],
        positions: &mut FoundPositions,
        observer: &mut dyn Observer,
    ) -> Result<Option<Scanned>, FileError> {
        let mut found = Scanned {
            skipped: self.files.skipped().to_vec(),
            ..Scanned::default()
        };
        for skipped in &found.skipped {
            observer.event(&Event::Skipped(skipped));
        }
        let mut entries = Vec::new();
        for (done, mut begun) in positions.begin_all(self.files, numbers)?.into_iter().enumerate() {
            let file = numbers[done];
            let depth = if self.deep.contains(&file) {
                ScanDepth::Contents
            } else {
                positions.depth(&begun)
            };
            if let Some(records) = positions.known(&begun, file, depth) {
                found.records.extend(records);
                continue;
            }
            let mut watch = |scan: &ScanProgress| {
                if self.stop.load(Ordering::Relaxed) {
                    return ControlFlow::Break(());
                }
                observer.event(&Event::Indexing(Indexing {
                    file: done + 1,
                    files: numbers.len(),
                    offset: scan.offset,
                    bytes: scan.bytes,
                    headers: found.records.len() + scan.records,
                }));
                ControlFlow::Continue(())
            };
            let mut scan = self.files.scan_watched(file, self.magic, depth, &mut watch);
            for _ in 1..SCANS_MAX {
                let is_well = match &scan {
                    Ok(Some(scan)) => scan.damages.iter().all(Damage::is_harmless),
                    Ok(None) => true,
                    Err(_) => false,
                };
                let now = positions.begin(self.files, file)?;
                if is_well || now.is_same(&begun) {
                    break;
                }
                begun = now;
                scan = self.files.scan_watched(file, self.magic, depth, &mut watch);
            }
            let Some(scan) = scan? else {
                // The files that were searched need no second search by the next run.
                positions.write(&entries)?;
                return Ok(None);
            };
            for damage in &scan.damages {
                observer.event(&Event::Damaged(damage));
            }
            if scan.more_damages > 0 {
                observer.event(&Event::MoreDamaged {
                    path: self.files.path(file),
                    ranges: scan.more_damages,
                });
            }
            // Damage is reported by every run, so it is looked for anew.
            // What an earlier search has found stays if this one finds nothing: a key that was
            // missing for a while, say.
            if scan.damages.is_empty() || !scan.records.is_empty() {
                positions.note(begun, &scan.records, (depth, !scan.damages.is_empty()), &mut entries);
            }
            found.records.extend(scan.records);
            found.damages.extend(scan.damages);
        }
        positions.write(&entries)?;
        Ok(Some(found))
    }

    /// As [`run`](Self::run), and inserts the headers that were found into an index. If some do not
    /// fit into the tree, the contents of their files are searched, too.
    pub(crate) fn run_into(
        &self,
        index: &mut HeaderIndex,
        numbers: &[u32],
        positions: &mut FoundPositions,
        observer: &mut dyn Observer,
    ) -> Result<Option<Scanned>, FileError> {
        let Some(mut found) = self.run(numbers, positions, observer)? else {
            return Ok(None);
        };
        let inserted = insert_records(index, &found.records, |_, _, _| ());
        let without_work = inserted
            .refusals
            .iter()
            .filter(|refusal| refusal.reject.kind == RejectKind::NoWork);
        let without_work = without_work.map(|refusal| refusal.record);
        let without_parent = inserted.waiting().into_iter().map(|number| &found.records[number]);
        let without_parent: Vec<&Record> = without_parent.collect();
        let file = |record: &Record| record.position.file;
        let mut deep: BTreeSet<u32> = without_parent
            .iter()
            .take(HIDING_FILES_MAX)
            .copied()
            .map(file)
            .collect();
        if !deep.is_empty() {
            // A block below the parent may hide it, and may be the last of the best chain.
            let best = index.entry(index.best_header()).hash;
            deep.extend(found.records.iter().find(|record| record.hash == best).map(file));
        }
        let suspects: Vec<&Record> = without_work.chain(without_parent).collect();
        deep.extend(self.hiding_others(&suspects));
        deep.retain(|file| !self.deep.contains(file));
        if deep.is_empty() {
            return Ok(Some(found));
        }
        let is_whole = self.deepen(&mut found, &deep, numbers, positions, observer)?;
        Ok(is_whole.then_some(found))
    }

    /// As [`run`](Self::run), for blocks that are known. Where one is not found, the block below it
    /// may hide it: then the contents of its file are searched, too. `below_missing` picks the
    /// blocks that are below one that was not found.
    pub(crate) fn run_for(
        &self,
        numbers: &[u32],
        below_missing: impl Fn(&[Record]) -> Vec<&Record>,
        observer: &mut dyn Observer,
    ) -> Result<Option<Scanned>, FileError> {
        let mut positions = FoundPositions::default();
        let Some(mut found) = self.run(numbers, &mut positions, observer)? else {
            return Ok(None);
        };
        let deep = self.hiding_others(&below_missing(&found.records));
        let is_whole = deep.is_empty() || self.deepen(&mut found, &deep, numbers, &mut positions, observer)?;
        Ok(is_whole.then_some(found))
    }

    /// Searches the contents of some of the files that were searched. What lies there replaces what
    /// was found before. False if `stop` was set.
    fn deepen(
        &self,
        found: &mut Scanned,
        deep: &BTreeSet<u32>,
        numbers: &[u32],
        positions: &mut FoundPositions,
        observer: &mut dyn Observer,
    ) -> Result<bool, FileError> {
        let Some(contents) = self.contents(deep, positions)? else {
            return Ok(false);
        };
        for damage in contents.damages {
            if !found.damages.contains(&damage) {
                observer.event(&Event::Damaged(&damage));
                found.damages.push(damage);
            }
        }
        found.records.retain(|record| !deep.contains(&record.position.file));
        found.records.extend(contents.records);
        // The order in which the files were given, whatever their numbers.
        let order: HashMap<u32, usize> = numbers.iter().enumerate().map(|(at, &file)| (file, at)).collect();
        found
            .records
            .sort_by_key(|record| (order.get(&record.position.file), record.position.offset));
        Ok(true)
    }

    /// Searches some of the files with all their contents, without a word.
    fn contents(&self, deep: &BTreeSet<u32>, positions: &mut FoundPositions) -> Result<Option<Scanned>, FileError> {
        let numbers: Vec<u32> = deep.iter().copied().collect();
        Search { deep, ..*self }.run(&numbers, positions, &mut ())
    }

    /// Blocks of which an index knows nothing, inside the records of others: in files where reading
    /// has come upon a record that is no block, or more than its block. None if `stop` was set.
    pub(crate) fn find_hidden(&self, index: &HeaderIndex) -> Result<Option<Hidden>, FileError> {
        let files: BTreeSet<u32> = self.files.doubts().difference(self.deep).copied().collect();
        let Some(mut found) = self.contents(&files, &mut FoundPositions::default())? else {
            return Ok(None);
        };
        found.records.retain(|record| index.find(&record.hash).is_none());
        Ok(Some(Hidden {
            files,
            blocks: found.records,
        }))
    }

    /// The files of records that are no block, or more than their block.
    fn hiding_others(&self, suspects: &[&Record]) -> BTreeSet<u32> {
        let mut files = BTreeSet::new();
        for record in suspects.iter().take(SUSPECTS_MAX) {
            let position = record.position;
            // One such record is enough for its file.
            if files.contains(&position.file) || self.deep.contains(&position.file) {
                continue;
            }
            let block = self
                .files
                .read(&position)
                .ok()
                .and_then(|bytes| Block::decode(bytes).ok());
            let fits = block.is_some_and(|block| {
                block.bytes().len() == position.length as usize
                    && block.merkle_root().hash == block.header().merkle_root.0
            });
            if !fits {
                files.insert(position.file);
            }
        }
        files
    }
}

/// Searches the block files in a folder, too, without a word. What is found there is kept in memory
/// alone if `found` was read.
///
/// # Errors
/// [`FileError`] if a file cannot be read.
pub fn search_folder(folder: &Path, magic: Magic, found: &mut FoundPositions) -> Result<(), FileError> {
    let mut files = BlockFiles::new();
    let numbers = files.add(folder)?;
    let search = Search {
        files: &files,
        magic,
        deep: &BTreeSet::new(),
        stop: &AtomicBool::new(false),
    };
    search.run(&numbers, found, &mut ())?;
    Ok(())
}
