//! The chain of block files alone, whether they hold a whole chain, and what of a chain cannot be
//! read.

use super::undo::NO_UNDO_FILE;
use super::{BlockCopy, ChainBlocks};
use crate::import::Which;
use crate::index::HeaderIndex;
use crate::positions::FoundPositions;
use crate::report::events::Observer;
use crate::report::findings::{ImportEnd, Leftover};
use crate::report::wholeness::{Found, Wholeness};
use crate::search::Search;
use crate::state::ChainState;
use blockmill_block::{BlockHash, Header};
use blockmill_blockfiles::{FileError, Record};
use blockmill_rules::Params;
use std::collections::{BTreeSet, HashMap};
use std::io::ErrorKind;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// For each block file its length, or what is wrong with it, and whether an undo file is beside it.
type FileFacts = HashMap<u32, (Result<u64, String>, bool)>;

impl ChainBlocks {
    /// The chain of most work in `sources`, which are folders of `blk*.dat` or single files, and in
    /// `headers`, of blocks that need not be in the sources. Nothing but headers is
    /// validated. None if `stop` was set.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn of_files(
        sources: &[PathBuf],
        headers: &[Header],
        params: &Params,
        stop: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<Option<Self>, FileError> {
        Self::with_deep(sources, headers, params, BTreeSet::new(), stop, observer)
    }

    /// The chain once more, after [`find_hidden`](Self::find_hidden) has found blocks. `sources`
    /// and `headers` are those of [`of_files`](Self::of_files). None if `stop` was set.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn with_hidden(
        &self,
        sources: &[PathBuf],
        headers: &[Header],
        stop: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<Option<Self>, FileError> {
        let deep = self.files.doubts().union(&self.deep).copied().collect();
        Self::with_deep(sources, headers, self.params(), deep, stop, observer)
    }

    /// As [`of_files`](Self::of_files), with all contents of some files.
    fn with_deep(
        sources: &[PathBuf],
        headers: &[Header],
        params: &Params,
        deep: BTreeSet<u32>,
        stop: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<Option<Self>, FileError> {
        let index = HeaderIndex::new(params.clone());
        let genesis = index.genesis();
        let mut chain = ChainState::new(index, genesis, FoundPositions::default());
        chain.search_contents_of(&deep);
        chain.import_headers(headers, observer);
        let findings = chain.import(sources, Which::All, stop, observer)?;
        if findings.end == ImportEnd::Stopped {
            return Ok(None);
        }
        // Which of two equal chains came first depends on which copies are good.
        chain.resolve_ties(stop);
        let (mut index, mut files) = chain.into_parts();
        let mut undecided = None;
        let mut blocks = loop {
            let best = index.best_header();
            let mut blocks = Self::up_to(index, best);
            blocks.files = files;
            blocks.find_copies();
            let Some(doubt) = blocks.doubt() else { break blocks };
            undecided = undecided.or(doubt.undecided);
            let Some(refused) = doubt.refused else { break blocks };
            (index, files) = (blocks.index, blocks.files);
            index.mark_failed(refused);
        };
        blocks.deep = deep;
        blocks.wholeness = Wholeness::of(&Found {
            undecided: undecided.as_ref(),
            rejected: &findings.rejected,
            unreadable: &findings.unreadable,
            damages: &findings.damages,
            missing_files: &findings.missing_files,
            leftovers: findings.leftovers,
            first_leftover: findings.first_leftover.as_ref(),
        });
        Ok(Some(blocks))
    }

    /// Whether the block files in which the chain was found hold a whole chain, and why not. The
    /// chain of a data directory was connected, so it is whole.
    pub fn wholeness(&self) -> &Wholeness {
        &self.wholeness
    }

    /// Whether the chain is that of a data directory, all of whose blocks were found valid.
    pub fn is_connected(&self) -> bool {
        self.is_connected
    }

    /// The number of files that [`find_hidden`](Self::find_hidden) would read now. It grows while
    /// blocks are read.
    pub fn doubtful_files(&self) -> usize {
        self.files.doubts().difference(&self.deep).count()
    }

    /// Whether records that turned out to be more than their blocks, or no blocks, hide blocks of
    /// which nothing was known. Their files are read once more, so this is for the end of the work.
    /// If there are any, [`with_hidden`](Self::with_hidden) has the chain with them, over which the
    /// work is to be done again. None if `stop` was set. The chain of a data directory was
    /// connected, and blocks beside it are not its own: nothing is hidden from it.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn find_hidden(&self, stop: &AtomicBool) -> Result<Option<Wholeness>, FileError> {
        if self.is_connected {
            return Ok(Some(Wholeness::default()));
        }
        let search = Search {
            files: &self.files,
            magic: self.index.params().magic(),
            deep: &self.deep,
            stop,
        };
        let Some(hidden) = search.find_hidden(&self.index)? else {
            return Ok(None);
        };
        let hidden: Vec<Leftover> = hidden
            .blocks
            .iter()
            .map(|record| Leftover {
                hash: record.hash,
                parent: record.header.prev_block_hash,
                path: self.files.path(record.position.file).to_owned(),
                offset: record.position.offset,
            })
            .collect();
        Ok(Some(Wholeness::of_hidden(&hidden)))
    }

    /// Blocks of the chain are looked for in `sources`, too, with the undo files beside them. False
    /// if `stop` was set.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn add_files(
        &mut self,
        sources: &[PathBuf],
        stop: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<bool, FileError> {
        let mut numbers = Vec::new();
        for source in sources {
            numbers.extend(self.files.add(source)?);
        }
        let search = Search {
            files: &self.files,
            magic: self.index.params().magic(),
            deep: &BTreeSet::new(),
            stop,
        };
        let found = search.run_for(&numbers, |found| self.below_missing(found), observer)?;
        let is_whole = found.is_some();
        self.add_copies(found.unwrap_or_default().records);
        Ok(is_whole)
    }

    /// Records of the chain, above which a block was found in no file.
    fn below_missing<'r>(&self, records: &'r [Record]) -> Vec<&'r Record> {
        let height = |hash: &BlockHash| self.height_of(hash).map(|height| height as usize);
        let mut is_found: Vec<bool> = (0..=self.height())
            .map(|height| !self.copies(height).is_empty())
            .collect();
        for record in records {
            if let Some(height) = height(&record.hash) {
                is_found[height] = true;
            }
        }
        let is_below =
            |record: &&Record| height(&record.hash).is_some_and(|height| is_found.get(height + 1) == Some(&false));
        records.iter().filter(is_below).collect()
    }

    /// What keeps blocks of some heights from being read, as far as that shows without reading
    /// them: blocks and undo data that are in no file, and files that are gone or too short.
    pub fn find_unreadable(&self, heights: RangeInclusive<u32>) -> Vec<(RangeInclusive<u32>, String)> {
        let mut files = FileFacts::new();
        let mut found: Vec<(RangeInclusive<u32>, String)> = Vec::new();
        for height in heights {
            let Some(problem) = self.problem(height, &mut files) else {
                continue;
            };
            match found.last_mut() {
                Some((heights, last)) if *last == problem && heights.end() + 1 == height => {
                    *heights = *heights.start()..=height;
                }
                _ => found.push((height..=height, problem)),
            }
        }
        found
    }

    fn problem(&self, height: u32, files: &mut FileFacts) -> Option<String> {
        let copies = self.copies(height);
        // The network's first block is known without a file.
        if height == 0 && copies.is_empty() {
            return None;
        }
        let id = self.id(height).ok()?;
        let needs_undo_beside = height > 0 && self.index.entry(id).undo().is_none();
        let mut problem = None;
        for BlockCopy { position, .. } in copies {
            let path = self.files.path(position.file);
            let (length, has_undo) = files.entry(position.file).or_insert_with(|| {
                let length = std::fs::metadata(path).map(|metadata| metadata.len());
                let length = length.map_err(|error| match error.kind() {
                    ErrorKind::NotFound => "is gone".to_owned(),
                    _ => format!("cannot be read: {error}"),
                });
                (length, self.files.has_undo_file(position.file))
            });
            let path = path.display();
            let wrong = match length {
                Err(problem) => format!("{path} {problem}"),
                Ok(length) if *length < position.offset + u64::from(position.length) => {
                    format!("{path} has become shorter")
                }
                Ok(_) if needs_undo_beside && !*has_undo => format!("{path}: {NO_UNDO_FILE}"),
                // One copy that can be read is enough.
                Ok(_) => return None,
            };
            problem.get_or_insert(wrong);
        }
        let found = self.hash(height).ok().and_then(|hash| self.unopened_blocks.get(&hash));
        let unopened = found.map(|&(number, _)| &self.unopened[number]);
        let unopened = unopened.map(|file| format!("{}: {}", file.path.display(), file.why));
        Some(
            problem
                .or(unopened)
                .unwrap_or_else(|| "in none of the block files".to_owned()),
        )
    }
}
