//! Blocks read and decoded ahead of the one that is being resolved, on all threads.

use crate::body::{BodyLoader, BodyTask, Loaded};
use crate::index::BlockId;
use blockmill_rules::ScriptVerifier;
use blockmill_workqueue::{Done, Handler, Requester, WorkQueue};
use std::collections::VecDeque;
use std::sync::Arc;

/// Most blocks that are asked for ahead.
pub(crate) const BLOCKS_MAX: usize = 32;

/// Bytes of blocks that may be asked for ahead; one more block begins below that.
const BYTES_MAX: u64 = 24 << 20;

/// A block to be loaded, and what came of it.
pub(crate) struct LoadJob {
    task: BodyTask,
    loaded: Option<Loaded>,
}

/// Loads blocks.
pub(crate) struct Loading<V>(pub(crate) Arc<BodyLoader<V>>);

impl<V: ScriptVerifier> Handler for Loading<V> {
    type Job = LoadJob;

    fn handle(&self, job: &mut LoadJob) {
        job.loaded = Some(self.0.load(&job.task));
    }
}

/// The blocks of a branch, in order.
pub(crate) struct Ahead<V: ScriptVerifier + 'static> {
    requester: Requester<Loading<V>>,
    /// Blocks that nobody was asked for, with their sizes; the next one last.
    path: Vec<(BlockId, u64)>,
    /// Sizes of the blocks that were asked for.
    asked: VecDeque<u64>,
    bytes: u64,
    blocks_max: usize,
}

impl<V: ScriptVerifier + 'static> Ahead<V> {
    /// Nothing asked for yet. `path` has blocks and their sizes in bytes, the next one last.
    pub(crate) fn new(queue: &WorkQueue<Loading<V>>, path: Vec<(BlockId, u64)>) -> Self {
        Self {
            requester: queue.requester(),
            path,
            asked: VecDeque::new(),
            bytes: 0,
            // Without workers a block that is loaded early only goes cold.
            blocks_max: if queue.workers() == 0 { 1 } else { BLOCKS_MAX },
        }
    }

    /// Whether blocks are still to come.
    pub(crate) fn is_at_end(&self) -> bool {
        self.path.is_empty() && self.asked.is_empty()
    }

    /// Asks for more blocks, as many as may be in memory; `task` says what is needed for one.
    pub(crate) fn ask(&mut self, mut task: impl FnMut(BlockId) -> BodyTask) {
        while self.asked.len() < self.blocks_max
            && self.bytes < BYTES_MAX
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
            self.asked.push_back(size);
            self.bytes += size;
        }
    }

    /// The next block, if it is loaded, or if `wait` says to wait for it.
    pub(crate) fn next(&mut self, wait: bool) -> Option<(BodyTask, Loaded)> {
        let done = if wait {
            self.requester.collect_next()?
        } else {
            self.requester.try_collect_next()?
        };
        let size = self.asked.pop_front().unwrap_or(0);
        self.bytes -= size;
        match done.map(Done::take) {
            Ok(LoadJob {
                task,
                loaded: Some(loaded),
            }) => Some((task, loaded)),
            Ok(LoadJob { loaded: None, .. }) => unreachable!("a job that is done was handled"),
            Err(panicked) => panic!("loading a block: {}", panicked.panic),
        }
    }
}
