//! The peers: channels and a pool.

use super::job::Job;
use super::runner::{Outcome, Queue, Run};
use std::io;

/// Two channels with room for every slot: one to the workers, one back.
macro_rules! channels {
    ($run:ident, $bounded:path, $queue:ident) => {{
        let (to_workers, jobs) = $bounded($run.slots());
        let (results, from_workers) = $bounded($run.slots());
        std::thread::scope(|scope| {
            for _ in 0..$run.workers {
                let (jobs, results) = (jobs.clone(), results.clone());
                scope.spawn(move || {
                    while let Ok(mut job) = jobs.recv() {
                        $run.load.handle(&mut job);
                        if results.send(job).is_err() {
                            break;
                        }
                    }
                });
            }
            let mut queue = $queue {
                to_workers,
                from_workers,
            };
            $run.execute(&mut queue)
            // The workers end when the queue is dropped.
        })
    }};
}

macro_rules! channel_queue {
    ($queue:ident, $sender:path, $receiver:path) => {
        struct $queue {
            to_workers: $sender,
            from_workers: $receiver,
        }

        impl Queue for $queue {
            fn submit(&mut self, job: Job) {
                let sent = self.to_workers.send(job);
                assert!(sent.is_ok(), "workers end after the requester");
            }

            fn collect(&mut self) -> Job {
                match self.from_workers.recv() {
                    Ok(job) => job,
                    Err(error) => unreachable!("workers end after the requester: {error}"),
                }
            }

            fn try_collect(&mut self) -> Option<Job> {
                self.from_workers.try_recv().ok()
            }
        }
    };
}

channel_queue!(
    Crossbeam,
    crossbeam_channel::Sender<Job>,
    crossbeam_channel::Receiver<Job>
);
channel_queue!(Flume, flume::Sender<Job>, flume::Receiver<Job>);

pub(super) fn crossbeam(run: &Run<'_>) -> Outcome {
    channels!(run, crossbeam_channel::bounded, Crossbeam)
}

pub(super) fn flume(run: &Run<'_>) -> Outcome {
    channels!(run, flume::bounded, Flume)
}

/// A job spawned for each slot, and a scope that waits for all. The requester is one of the pool's
/// threads and helps, which is faster than a thread outside of the pool.
pub(super) fn rayon(run: &Run<'_>) -> io::Result<Outcome> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(run.workers)
        .build()
        .map_err(io::Error::other)?;
    let outcome = pool.install(|| {
        run.execute_in_batches(|jobs| {
            rayon::scope(|scope| {
                for job in jobs {
                    scope.spawn(move |_| run.load.handle(job));
                }
            });
        })
    });
    Ok(outcome)
}
