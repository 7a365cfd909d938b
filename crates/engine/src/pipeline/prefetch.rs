//! Blocks are loaded ahead of the block that is being resolved, on all threads, and their coins
//! fetched.

use crate::pipeline::fetch::Fetches;
use crate::pipeline::load::{BlockLoader, Content, LoadRequest, PrefetchedBlock};
use blockmill_chain::index::BlockId;
use blockmill_rules::ScriptVerifier;
use blockmill_workqueue::{Done, Handler, Panicked, Requester, WorkQueue};
use std::collections::VecDeque;
use std::sync::Arc;

/// Most blocks that are requested ahead: those of two windows. One is loaded while the other is
/// resolved.
pub(crate) const BLOCKS_MAX: usize = 64;

/// What a block is taken to need in memory before it is decoded, as a multiple of its bytes, until
/// one needs more.
const MEMORY_PER_BYTE: usize = 4;

/// A job of the work queue.
pub(crate) enum LoadJob {
    Requested(LoadRequest),
    Loaded(PrefetchedBlock),
    /// The handler has taken the request.
    Loading,
}

/// Loads blocks.
pub(crate) struct LoadHandler<V>(pub(crate) Arc<BlockLoader<V>>);

impl<V: ScriptVerifier> Handler for LoadHandler<V> {
    type Job = LoadJob;

    fn handle(&self, job: &mut LoadJob) {
        if let LoadJob::Requested(request) = std::mem::replace(job, LoadJob::Loading) {
            *job = LoadJob::Loaded(self.0.load(request));
        }
    }
}

/// How far ahead blocks are loaded and their coins fetched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    /// Blocks that are to be loaded before one is handed out.
    pub(crate) loaded_min: usize,
    /// Most inputs of blocks whose coins are fetched at once; of one block all are.
    pub(crate) inputs_max: usize,
    /// Most blocks that are handed out together.
    pub(crate) blocks_max: usize,
    /// Coins that blocks spend and make, at which no more are handed out together.
    pub(crate) events_wanted: usize,
    /// Memory in bytes that blocks which are handed out together take at most; of one block all is
    /// taken.
    pub(crate) memory_max: usize,
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
    requester: Requester<LoadHandler<V>>,
    /// Blocks that are not requested, with their sizes; the next one last.
    path: Vec<(BlockId, u64)>,
    /// For each block that is requested and not handed out, the memory that it takes or is expected
    /// to take.
    requested: VecDeque<usize>,
    /// The first of these blocks, which are loaded.
    loaded: VecDeque<PrefetchedBlock>,
    /// The sum of `requested`, and what the blocks take that were handed out last: they are being
    /// resolved.
    memory: usize,
    handed_out: usize,
    /// How many of the loaded blocks are handed out one at a time.
    single: usize,
    /// The most memory that a block has needed for each of its bytes.
    memory_per_byte: usize,
    bounds: Bounds,
}

impl<V: ScriptVerifier + 'static> Prefetcher<V> {
    /// Nothing is requested yet. `path` has blocks and their sizes in bytes, the next one last.
    pub(crate) fn new(queue: &WorkQueue<LoadHandler<V>>, path: Vec<(BlockId, u64)>, bounds: Bounds) -> Self {
        Self {
            requester: queue.requester(),
            path,
            requested: VecDeque::new(),
            loaded: VecDeque::new(),
            memory: 0,
            handed_out: 0,
            single: 0,
            memory_per_byte: MEMORY_PER_BYTE,
            bounds,
        }
    }

    /// Whether all blocks are handed out.
    pub(crate) fn is_at_end(&self) -> bool {
        self.path.is_empty() && self.requested.is_empty()
    }

    /// Number of blocks that are requested and not handed out, of those among them that are loaded,
    /// and the memory of all in bytes.
    pub(crate) fn depths(&self) -> (usize, usize, usize) {
        (self.requested.len(), self.loaded.len(), self.memory - self.handed_out)
    }

    /// Notes that all blocks which were handed out are resolved.
    pub(crate) fn resolved(&mut self) {
        self.memory -= std::mem::take(&mut self.handed_out);
    }

    /// Requests more blocks, as many as may be in memory.
    pub(crate) fn request_more(&mut self, mut request: impl FnMut(BlockId) -> LoadRequest) {
        while self.requested.len() < self.bounds.blocks
            && self.memory < self.bounds.memory
            && let Some(&(id, size)) = self.path.last()
        {
            // Without a free slot in the queue the rest is requested later.
            if self.requester.submit(LoadJob::Requested(request(id))).is_err() {
                break;
            }
            self.path.pop();
            let memory = usize::try_from(size).unwrap_or(0).saturating_mul(self.memory_per_byte);
            self.requested.push_back(memory);
            self.memory += memory;
        }
    }

    /// Takes the blocks back that were handed out last. They are handed out again, one at a time.
    pub(crate) fn give_back(&mut self, blocks: Vec<PrefetchedBlock>) {
        self.single = blocks.len();
        for mut block in blocks.into_iter().rev() {
            // Its coins are fetched.
            block.fetches = Some(Fetches::default());
            self.requested.push_front(block.memory());
            self.loaded.push_front(block);
        }
        self.handed_out = 0;
    }

    /// The next blocks: as many as are wanted together, or all that can come. If `wait` says so,
    /// waits until they are loaded, and until the coins of the first are fetched. `fetch` begins to
    /// fetch the coins of a block that is loaded.
    pub(crate) fn next(
        &mut self,
        wait: bool,
        mut window: Window,
        fetch: impl FnMut(&PrefetchedBlock) -> Fetches,
    ) -> Vec<PrefetchedBlock> {
        if self.single > 0 {
            (window.loaded_min, window.blocks_max) = (1, 1);
        }
        while let Some(block) = self.requester.try_collect_next().map(Self::loaded) {
            self.push_loaded(block);
        }
        // This thread helps to load them, rather than resolve a small window.
        while wait
            && (self.loaded.len() < window.loaded_min || !self.is_enough(&window))
            && let Some(block) = self.requester.collect_next().map(Self::loaded)
        {
            self.push_loaded(block);
        }
        self.begin_fetches(window.inputs_max, fetch);
        let together = self.together(wait, &window);
        self.single = self.single.saturating_sub(together);
        self.handed_out += self.requested.drain(..together).sum::<usize>();
        self.loaded.drain(..together).collect()
    }

    /// Whether as many blocks are loaded as are wanted together.
    fn is_enough(&self, window: &Window) -> bool {
        let events: usize = self.loaded.iter().map(PrefetchedBlock::events).sum();
        self.loaded.len() >= window.blocks_max || events >= window.events_wanted
    }

    /// How many blocks are to be handed out now.
    fn together(&self, wait: bool, window: &Window) -> usize {
        let mut count = 0;
        let mut events = 0;
        let mut memory = 0;
        for (block, takes) in self.loaded.iter().zip(&self.requested) {
            let is_first = count == 0;
            match &block.fetches {
                Some(fetches) if fetches.are_done() || (is_first && wait) => {}
                Some(_) => break,
                // Its fetch begins when the blocks below it are handed out.
                None => return count,
            }
            // A block with a finding of its own goes by itself.
            if !block.is_sound() {
                return count.max(1);
            }
            if !is_first && memory + takes > window.memory_max {
                return count;
            }
            count += 1;
            events += block.events();
            memory += takes;
            if count >= window.blocks_max || events >= window.events_wanted {
                return count;
            }
        }
        // More is on its way.
        if !wait && count < self.requested.len() {
            return 0;
        }
        count
    }

    /// Adds the block above those that are loaded.
    fn push_loaded(&mut self, block: PrefetchedBlock) {
        let expected = &mut self.requested[self.loaded.len()];
        let memory = block.memory();
        if let Content::Sound(sound) = &block.content {
            // A sound block has a header, so its length is not 0.
            let per_byte = memory.div_ceil(sound.block.bytes().len());
            self.memory_per_byte = self.memory_per_byte.max(per_byte);
        }
        // What the block takes is known now.
        self.memory = self.memory - *expected + memory;
        *expected = memory;
        self.loaded.push_back(block);
    }

    /// Begins to fetch the coins of blocks that are loaded: of the first, and of those above it
    /// while all together have no more than `inputs_max` inputs.
    fn begin_fetches(&mut self, inputs_max: usize, mut fetch: impl FnMut(&PrefetchedBlock) -> Fetches) {
        let mut inputs = 0;
        for (number, block) in self.loaded.iter_mut().enumerate() {
            inputs += block.input_count();
            if number > 0 && inputs > inputs_max {
                break;
            }
            if block.fetches.is_none() {
                block.fetches = Some(fetch(block));
            }
        }
    }

    fn loaded(done: Result<Done<'_, LoadHandler<V>>, Panicked>) -> PrefetchedBlock {
        match done.map(Done::take) {
            Ok(LoadJob::Loaded(block)) => block,
            Ok(LoadJob::Requested(_) | LoadJob::Loading) => unreachable!("a job that is done was handled"),
            // A bug of our own goes on in the thread that waits for the block.
            Err(panicked) => panic!("loading a block: {}", panicked.panic),
        }
    }
}
