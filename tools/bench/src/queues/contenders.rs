//! The trait of a check queue in this benchmark, ours, and the peers.

use super::job::{Check, Job};
use blockmill_checkqueue::CheckQueue;
use blockmill_sync::AutoResetEvent;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::thread::JoinHandle;

/// A queue with its threads.
pub(super) trait Rounds {
    /// Adds the checks of a round in their groups, and waits for the verdict: the lowest index of a
    /// failed check.
    fn round(&self, job: &Arc<Job>) -> Option<u32>;
}

/// The lowest index of a failed check. Checks above it may be left out.
pub(super) struct Lowest(AtomicU32);

impl Default for Lowest {
    fn default() -> Self {
        Self(AtomicU32::new(u32::MAX))
    }
}

impl Lowest {
    #[inline]
    pub(super) fn validate(&self, job: &Job, check: &Check) {
        if check.index < self.0.load(Ordering::Relaxed) && !job.run(check) {
            self.0.fetch_min(check.index, Ordering::Relaxed);
        }
    }

    /// Takes the index at the end of a round.
    pub(super) fn take(&self) -> Option<u32> {
        Some(self.0.swap(u32::MAX, Ordering::Relaxed)).filter(|&index| index < u32::MAX)
    }
}

impl blockmill_checkqueue::Check for Check {
    type Shared = Arc<Job>;
    type Error = ();

    #[inline]
    fn run(&mut self, job: &Arc<Job>) -> Result<(), ()> {
        if job.run(self) { Ok(()) } else { Err(()) }
    }
}

/// Our queue with its own pool.
pub(super) struct Ours(CheckQueue<Check>);

impl Ours {
    pub(super) fn new(threads: usize) -> std::io::Result<Self> {
        Ok(Self(CheckQueue::with_own_threads(threads - 1)?))
    }
}

impl Rounds for Ours {
    fn round(&self, job: &Arc<Job>) -> Option<u32> {
        let round = self.0.begin(job.checks as usize, Arc::clone(job));
        let mut round = round.expect("one round at a time");
        let mut next = 0;
        for group in job.groups() {
            round.add((next..next + group).map(Check::new));
            next += group;
        }
        round.complete().err().map(|failure| failure.index as u32)
    }
}

/// rayon: one job for each group, spawned as the group is added. The master is one of the pool's
/// threads, so it helps while it waits.
pub(super) struct Rayon(rayon::ThreadPool);

impl Rayon {
    pub(super) fn new(threads: usize) -> Result<Self, rayon::ThreadPoolBuildError> {
        Ok(Self(rayon::ThreadPoolBuilder::new().num_threads(threads).build()?))
    }
}

impl Rounds for Rayon {
    fn round(&self, job: &Arc<Job>) -> Option<u32> {
        let lowest = Lowest::default();
        self.0.scope(|scope| {
            let mut next = 0;
            for count in job.groups() {
                let group = Group::new(job, next, count);
                let lowest = &lowest;
                scope.spawn(move |_| group.run(lowest));
                next += count;
            }
        });
        lowest.take()
    }
}

/// Groups of checks through a channel of crossbeam. After the last group the master receives too.
pub(super) struct Channel {
    sender: Option<crossbeam_channel::Sender<Group>>,
    receiver: crossbeam_channel::Receiver<Group>,
    shared: Arc<ChannelShared>,
    threads: Vec<JoinHandle<()>>,
}

/// Checks that are added together.
struct Group {
    job: Arc<Job>,
    checks: [Check; 10],
    count: usize,
}

impl Group {
    #[inline]
    fn new(job: &Arc<Job>, first: u32, count: u32) -> Self {
        Self {
            job: Arc::clone(job),
            checks: std::array::from_fn(|index| Check::new(first + index as u32)),
            count: count as usize,
        }
    }

    #[inline]
    fn run(&self, lowest: &Lowest) {
        for check in &self.checks[..self.count] {
            lowest.validate(&self.job, check);
        }
    }
}

#[derive(Default)]
struct ChannelShared {
    lowest: Lowest,
    todo: AtomicUsize,
    done: AutoResetEvent,
}

impl ChannelShared {
    fn run(&self, group: &Group) {
        group.run(&self.lowest);
        if self.todo.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.done.set();
        }
    }
}

impl Channel {
    pub(super) fn new(threads: usize) -> std::io::Result<Self> {
        let (sender, receiver) = crossbeam_channel::unbounded::<Group>();
        let mut this = Self {
            sender: Some(sender),
            receiver,
            shared: Arc::default(),
            threads: Vec::new(),
        };
        for _ in 1..threads {
            let (receiver, shared) = (this.receiver.clone(), Arc::clone(&this.shared));
            this.threads.push(std::thread::Builder::new().spawn(move || {
                for group in receiver {
                    shared.run(&group);
                }
            })?);
        }
        Ok(this)
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.sender = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Rounds for Channel {
    fn round(&self, job: &Arc<Job>) -> Option<u32> {
        // One for the master, so that the count reaches 0 only after all groups are sent.
        self.shared.todo.store(1, Ordering::Relaxed);
        let mut next = 0;
        for count in job.groups() {
            self.shared.todo.fetch_add(1, Ordering::Relaxed);
            let group = Group::new(job, next, count);
            next += count;
            let sent = self.sender.as_ref().is_some_and(|sender| sender.send(group).is_ok());
            assert!(sent, "the receiver is here");
        }
        while let Ok(group) = self.receiver.try_recv() {
            self.shared.run(&group);
        }
        // If the count reaches 0 here, no worker sets the event.
        if self.shared.todo.fetch_sub(1, Ordering::AcqRel) > 1 {
            self.shared.done.wait();
        }
        self.shared.lowest.take()
    }
}

/// chili: halves of the round, down to groups. Work begins when the master has made all checks,
/// because a running job takes no further ones. The pool has at least one worker.
pub(super) struct Chili(chili::ThreadPool);

impl Chili {
    pub(super) fn new(threads: usize) -> Self {
        Self(chili::ThreadPool::with_config(chili::Config {
            thread_count: std::num::NonZero::new((threads - 1).max(1)),
            ..chili::Config::default()
        }))
    }
}

impl Rounds for Chili {
    fn round(&self, job: &Arc<Job>) -> Option<u32> {
        let lowest = Lowest::default();
        let mut checks = Vec::with_capacity(job.checks as usize);
        let mut groups = Vec::new();
        for count in job.groups() {
            let first = checks.len() as u32;
            checks.extend((first..first + count).map(Check::new));
            groups.push(first as usize..checks.len());
        }
        halves(&mut self.0.scope(), &groups, &checks, job, &lowest);
        lowest.take()
    }
}

/// Runs groups of the checks.
fn halves(scope: &mut chili::Scope<'_>, groups: &[Range<usize>], checks: &[Check], job: &Arc<Job>, lowest: &Lowest) {
    match groups {
        [] => {}
        [group] => {
            for check in &checks[group.clone()] {
                lowest.validate(job, check);
            }
        }
        _ => {
            let (left, right) = groups.split_at(groups.len() / 2);
            scope.join(
                |scope| halves(scope, left, checks, job, lowest),
                |scope| halves(scope, right, checks, job, lowest),
            );
        }
    }
}
