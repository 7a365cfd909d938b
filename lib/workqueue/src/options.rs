//! How large a queue is, and what its requesters do of the work.

use crate::lane::SLOTS_MAX;

/// Bytes of jobs that a worker's slots may take, where their number is not given.
const SLOT_BYTES: usize = 16 << 10;

/// Fewest slots of a worker, where their number is not given: while one job is handled another is filled in.
const SLOTS_MIN: usize = 2;

/// What a requester does of the work itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Help {
    /// Nothing: when it waits it sleeps. Jobs below 5 us it hands over in rows of up to 10 us of work, at the latest when it collects or
    /// [flushes](crate::Requester::flush). Jobs rest when the pool has ended. In a queue without workers this is as
    /// [`WhileWaiting`](Self::WhileWaiting).
    Never,
    /// It hands over every job at once, and handles jobs while it waits for one.
    WhileWaiting,
    /// It handles jobs while it waits for one. Jobs that take less time than to hand them over it keeps, and of others below 5 us some, up
    /// to 10 us of work, while workers have enough to do; those for workers it hands over in rows. What it holds back is begun when it
    /// collects or [flushes](crate::Requester::flush), at the latest.
    #[default]
    SmallJobsToo,
}

/// How a queue is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// Workers of a private pool. None: one for every core of the machine but one, which is the requester's.
    pub workers: Option<usize>,
    /// Slots of each requester for each worker. None: as many as fit 16 KiB, at least 2 and at most 64.
    pub slots_per_worker: Option<usize>,
    /// What requesters do of the work themselves.
    pub help: Help,
}

impl Options {
    /// So many workers, and the rest as it follows from the machine and the job.
    pub fn workers(workers: usize) -> Self {
        Self {
            workers: Some(workers),
            ..Self::default()
        }
    }
}

/// The lanes of each requester.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) lanes: usize,
    pub(crate) slots_per_lane: usize,
    /// Whether requesters handle jobs while they wait.
    pub(crate) requester_helps: bool,
}

impl Sizes {
    /// A lane is served by one thread at a time. So there is one for each worker that can have a core, and one for a requester that helps. The
    /// slots of all workers are spread over those for workers; there are more lanes only where these would have too many slots.
    pub(crate) fn new(options: &Options, workers: usize, cores: usize, job_bytes: usize) -> Self {
        let slots_per_worker = options.slots_per_worker.unwrap_or_else(|| {
            let fit = SLOT_BYTES.checked_div(job_bytes).unwrap_or(SLOTS_MAX);
            fit.clamp(SLOTS_MIN, SLOTS_MAX)
        });
        let slots = slots_per_worker.max(1) * workers.max(1);
        let running = workers.min(cores).max(1);
        let worker_lanes = running.max(slots.div_ceil(SLOTS_MAX));
        let requester_helps = options.help != Help::Never || workers == 0;
        Self {
            lanes: worker_lanes + usize::from(requester_helps && workers > 0),
            slots_per_lane: slots.div_ceil(worker_lanes),
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
        for (options, workers, cores, job_bytes, lanes, slots_per_lane) in [
            // So many slots as fit.
            (never, 3, 8, 16, 3, 64),
            (never, 3, 8, 1_000, 3, 16),
            (never, 3, 8, 100_000, 3, 2),
            (never, 3, 8, 0, 3, 64),
            // A lane more for the requester.
            (Options::default(), 3, 8, 1_000, 4, 16),
            // Without workers one lane does.
            (Options::default(), 0, 8, 1_000, 1, 16),
            // No more lanes than cores, unless the slots need them.
            (four, 1, 2, 16, 2, 4),
            (four, 3, 2, 16, 3, 6),
            (four, 32, 2, 16, 3, 64),
            (four, 64, 2, 16, 5, 64),
        ] {
            let sizes = Sizes::new(&options, workers, cores, job_bytes);
            assert_eq!((sizes.lanes, sizes.slots_per_lane), (lanes, slots_per_lane));
            assert_eq!(sizes.requester_helps, options.help != Help::Never);
        }
    }
}
