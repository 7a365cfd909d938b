//! The sizes of a queue, and the requester's share of the work.

use crate::slot_ring::SLOTS_MAX;

/// Bytes that the jobs in a worker's slots may take, unless the options give a number of slots.
const SLOT_BYTES: usize = 16 << 10;

/// Fewest slots of a worker, unless the options give a number: the requester fills one while the
/// worker handles the other.
const SLOTS_MIN: usize = 2;

/// Whether a requester that waits for a job handles jobs itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Help {
    /// It sleeps.
    ///
    /// After the end of the pool, jobs that no worker has begun stay unhandled, and waiting for one
    /// never ends. In a queue without workers this is the same as
    /// [`WhileWaiting`](Self::WhileWaiting).
    Never,
    /// It handles its jobs that no worker has begun.
    #[default]
    WhileWaiting,
}

/// The sizes of a queue, and how its requesters help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// Workers of a queue with threads of its own. None: one less than the cores of the machine,
    /// since the requester needs a core too.
    pub workers: Option<usize>,
    /// Slots of each requester for each worker. None: as many as fit 16 KiB, at least 2 and at most
    /// 64.
    pub slots_per_worker: Option<usize>,
    /// Whether requesters that wait handle jobs.
    pub help: Help,
}

impl Options {
    /// Options with this number of workers. The other sizes follow from the machine and the job.
    pub fn workers(workers: usize) -> Self {
        Self {
            workers: Some(workers),
            ..Self::default()
        }
    }
}

/// The rings of each requester.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) rings: usize,
    pub(crate) slots_per_ring: usize,
    /// Whether requesters handle jobs while they wait.
    pub(crate) requester_helps: bool,
}

impl Sizes {
    /// Sizes for a number of workers, a number of cores and the size of a job in bytes.
    ///
    /// One thread at a time serves a ring. So each worker that can have a core gets a ring, and a
    /// requester that helps gets one more. The slots of all workers are spread over the rings for
    /// workers. There are more rings only where a ring would exceed [`SLOTS_MAX`].
    pub(crate) fn new(options: &Options, workers: usize, cores: usize, job_bytes: usize) -> Self {
        let slots_per_worker = options.slots_per_worker.unwrap_or_else(|| {
            let fit = SLOT_BYTES.checked_div(job_bytes).unwrap_or(SLOTS_MAX);
            fit.clamp(SLOTS_MIN, SLOTS_MAX)
        });
        let slots = slots_per_worker.max(1) * workers.max(1);
        // More rings than workers that run at once would only spread the jobs thin.
        let running = workers.min(cores).max(1);
        let worker_rings = running.max(slots.div_ceil(SLOTS_MAX));
        let requester_helps = options.help != Help::Never || workers == 0;
        Self {
            rings: worker_rings + usize::from(requester_helps && workers > 0),
            slots_per_ring: slots.div_ceil(worker_rings),
            requester_helps,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_follow_from_the_machine_and_the_job() {
        let never = Options {
            help: Help::Never,
            ..Options::default()
        };
        let four = Options {
            slots_per_worker: Some(4),
            ..Options::default()
        };
        for (options, workers, cores, job_bytes, rings, slots_per_ring) in [
            // As many slots as fit.
            (never, 3, 8, 16, 3, 64),
            (never, 3, 8, 1_000, 3, 16),
            (never, 3, 8, 100_000, 3, 2),
            (never, 3, 8, 0, 3, 64),
            // One more ring for the requester.
            (Options::default(), 3, 8, 1_000, 4, 16),
            // Without workers, one ring is enough.
            (Options::default(), 0, 8, 1_000, 1, 16),
            // At most one ring per core, unless the slots need more.
            (four, 1, 2, 16, 2, 4),
            (four, 3, 2, 16, 3, 6),
            (four, 32, 2, 16, 3, 64),
            (four, 64, 2, 16, 5, 64),
        ] {
            let sizes = Sizes::new(&options, workers, cores, job_bytes);
            assert_eq!((sizes.rings, sizes.slots_per_ring), (rings, slots_per_ring));
            assert_eq!(sizes.requester_helps, options.help != Help::Never);
        }
    }
}
