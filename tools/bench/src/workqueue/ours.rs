//! The work queue.

use super::job::{Job, Load};
use super::runner::{Outcome, Queue, Run, SLOTS_PER_WORKER};
use crate::clock::Stopwatch;
use blockmill_workqueue::{Done, Handler, Help, Options, Requester, WorkQueue};
use std::io;
use std::sync::Arc;

/// Number of requesters in runs with several.
pub(super) const REQUESTERS: usize = 4;

/// The load of a run. The pool may outlive the run.
struct Shared(Arc<Load>);

impl Handler for Shared {
    type Job = Job;

    #[inline]
    fn handle(&self, job: &mut Job) {
        self.0.handle(job);
    }
}

impl Queue for Requester<Shared> {
    #[inline]
    fn submit(&mut self, job: Job) {
        let ticket = Self::submit(self, job);
        assert!(ticket.is_ok(), "there is a slot");
    }

    #[inline]
    fn collect(&mut self) -> Job {
        match self.collect_any() {
            Some(Ok(done)) => done.take(),
            other => unreachable!("{other:?}"),
        }
    }

    #[inline]
    fn try_collect(&mut self) -> Option<Job> {
        self.try_collect_any().and_then(Result::ok).map(Done::take)
    }
}

fn queue(load: &Arc<Load>, workers: usize, help: Help) -> io::Result<WorkQueue<Shared>> {
    let options = Options {
        workers: Some(workers),
        slots_per_worker: Some(SLOTS_PER_WORKER),
        help,
    };
    WorkQueue::with_own_threads(Shared(Arc::clone(load)), &options)
}

/// One requester, with the given policy of helping.
pub(super) fn one_requester(load: &Arc<Load>, run: &Run<'_>, help: Help) -> io::Result<Outcome> {
    let queue = queue(load, run.workers, help)?;
    Ok(run.execute(&mut queue.requester()))
}

/// Several requesters that share the slots.
pub(super) fn several_requesters(load: &Arc<Load>, run: &Run<'_>) -> io::Result<Outcome> {
    let queue = queue(load, run.workers, Help::default())?;
    let slots = run.slots().div_ceil(REQUESTERS) as u64;
    let requesters: Vec<_> = (0..REQUESTERS as u64)
        .map(|number| (number, queue.requester()))
        .collect();
    let clock = Stopwatch::start();
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let runner = |(number, mut requester): (u64, Requester<Shared>)| {
            scope.spawn(move || run.requests(&mut requester, slots, number << 40))
        };
        let running: Vec<_> = requesters.into_iter().map(runner).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| match thread.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        running.into_iter().map(join).collect()
    });
    Ok(Outcome {
        jobs: outcomes.iter().map(|outcome| outcome.0).sum(),
        elapsed: clock.elapsed(),
        wrong: outcomes.iter().find_map(|outcome| outcome.1),
    })
}
