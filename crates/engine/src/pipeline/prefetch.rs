//! Blocks read and decoded ahead of the one that is being resolved, on all threads, and their coins
//! fetched.

use crate::chain::index::BlockId;
use crate::pipeline::fetch::Fetches;
use crate::pipeline::load::{BlockLoader, LoadRequest, Loaded};
use blockmill_rules::ScriptVerifier;
use blockmill_workqueue::{Done, Handler, Panicked, Requester, WorkQueue};
use std::collections::VecDeque;
use std::sync::Arc;

/// Most blocks that are asked for ahead.
pub(crate) const BLOCKS_MAX: usize = 32;

/// What a block is taken to need in memory before it is decoded, as a multiple of its bytes.
const MEMORY_PER_BYTE: usize = 4;

/// A block to be loaded, and what came of it.
pub(crate) struct LoadJob {
    task: LoadRequest,
    loaded: Option<Loaded>,
}

/// Loads blocks.
pub(crate) struct Loading<V>(pub(crate) Arc<BlockLoader<V>>);

impl<V: ScriptVerifier> Handler for Loading<V> {
    type Job = LoadJob;

    fn handle(&self, job: &mut LoadJob) {
        job.loaded = Some(self.0.load(&job.task));
    }
}

/// A block that is loaded, and what is read for it.
pub(crate) struct PrefetchedBlock {
    pub(crate) task: LoadRequest,
    pub(crate) loaded: Loaded,
    /// None before it has begun.
    pub(crate) fetches: Option<Fetches>,
}

/// How far ahead blocks are loaded and their coins fetched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    /// Blocks that are to be loaded before one is handed out.
    pub(crate) loaded_min: usize,
    /// Most inputs of blocks whose coins are fetched at once; of one block all are.
    pub(crate) inputs_max: usize,
}

/// How much may be ahead.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) blocks: usize,
    /// Memory in bytes; one more block begins below that.
    pub(crate) memory: usize,
}

/// The blocks of a branch, in order.
pub(crate) struct Prefetcher<V: ScriptVerifier + 'static> {
    requester: Requester<Loading<V>>,
    /// Blocks that nobody was asked for, with their sizes; the next one last.
    path: Vec<(BlockId, u64)>,
    /// Memory of the blocks that were asked for and not handed out: what they take, or are expected
    /// to.
    asked: VecDeque<usize>,
    /// The first of them, which are loaded.
    coming: VecDeque<PrefetchedBlock>,
    /// The sum of `asked`.
    memory: usize,
    bounds: Bounds,
}

impl<V: ScriptVerifier + 'static> Prefetcher<V> {
    /// Nothing asked for yet. `path` has blocks and their sizes in bytes, the next one last.
    pub(crate) fn new(queue: &WorkQueue<Loading<V>>, path: Vec<(BlockId, u64)>, bounds: Bounds) -> Self {
        Self {
            requester: queue.requester(),
            path,
            asked: VecDeque::new(),
            coming: VecDeque::new(),
            memory: 0,
            bounds,
        }
    }

    /// Whether blocks are still to come.
    pub(crate) fn is_at_end(&self) -> bool {
        self.path.is_empty() && self.asked.is_empty()
    }

    /// Blocks that were asked for and not handed out, those of them that are loaded, and the memory
    /// of all in bytes.
    pub(crate) fn depths(&self) -> (usize, usize, usize) {
        (self.asked.len(), self.coming.len(), self.memory)
    }

    /// Asks for more blocks, as many as may be in memory; `task` says what is needed for one.
    pub(crate) fn request_more(&mut self, mut task: impl FnMut(BlockId) -> LoadRequest) {
        while self.asked.len() < self.bounds.blocks
            && self.memory < self.bounds.memory
            && let Some(&(id, size)) = self.path.last()
        {
            let job = LoadJob {
                task: task(id),
                loaded: None,
            };
            if self.requester.submit(job).is_err() {
                break;
            }
            self.path.pop();
            let memory = usize::try_from(size).unwrap_or(0).saturating_mul(MEMORY_PER_BYTE);
            self.asked.push_back(memory);
            self.memory += memory;
        }
    }

    /// The next block, if it is loaded and its coins are fetched, or if `wait` says to wait for
    /// that. `fetch` begins to fetch the coins of a block that is loaded.
    pub(crate) fn next(
        &mut self,
        wait: bool,
        window: Window,
        fetch: impl FnMut(&LoadRequest, &Loaded) -> Fetches,
    ) -> Option<PrefetchedBlock> {
        while let Some(coming) = self.requester.try_collect_next().map(Self::came) {
            self.take(coming);
        }
        // Without workers this thread loads them here.
        while wait
            && self.coming.len() < window.loaded_min.max(1)
            && let Some(coming) = self.requester.collect_next().map(Self::came)
        {
            self.take(coming);
        }
        self.begin_fetches(window.inputs_max, fetch);
        let first = self.coming.front()?;
        if !wait && first.fetches.as_ref().is_some_and(|fetches| !fetches.are_done()) {
            return None;
        }
        self.memory -= self.asked.pop_front().unwrap_or(0);
        self.coming.pop_front()
    }

    /// Takes the block that comes after those that are loaded.
    fn take(&mut self, coming: PrefetchedBlock) {
        let expected = &mut self.asked[self.coming.len()];
        let memory = coming.loaded.body.memory();
        self.memory = self.memory - *expected + memory;
        *expected = memory;
        self.coming.push_back(coming);
    }

    /// Begins to fetch the coins of blocks that are loaded: of the first, and of those after it
    /// while all together have no more than so many inputs.
    fn begin_fetches(&mut self, inputs_max: usize, mut fetch: impl FnMut(&LoadRequest, &Loaded) -> Fetches) {
        let mut inputs = 0;
        for (place, coming) in self.coming.iter_mut().enumerate() {
            inputs += coming.loaded.body.input_count();
            if place > 0 && inputs > inputs_max {
                break;
            }
            let PrefetchedBlock { task, loaded, fetches } = coming;
            fetches.get_or_insert_with(|| fetch(task, loaded));
        }
    }

    fn came(done: Result<Done<'_, Loading<V>>, Panicked>) -> PrefetchedBlock {
        match done.map(Done::take) {
            Ok(LoadJob {
                task,
                loaded: Some(loaded),
            }) => PrefetchedBlock {
                task,
                loaded,
                fetches: None,
            },
            Ok(LoadJob { loaded: None, .. }) => unreachable!("a job that is done was handled"),
            Err(panicked) => panic!("loading a block: {}", panicked.panic),
        }
    }
}
