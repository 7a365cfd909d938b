//! Work on many items, and results in the order of the items.
//!
//! The calling thread takes the results. While the next result is not ready, it converts items as
//! the workers do. A worker that finds room converts one item as a job, and then queues its next
//! job: so more urgent work of the pool comes between two items.
//!
//! # Why nobody waits for ever
//!
//! Workers never wait. The calling thread waits only if it can begin no item: either all items have
//! begun, or as many as may be ahead, or the results that wait weigh too much. Then another thread
//! has begun the item whose result comes next, or holds the permission for it: where none has, no
//! result waits, since items begin in order. That thread delivers the result, finds that there are
//! no more items, or panics, and it sets `changed` in each case. The event stays set until the
//! calling thread waits, so it may be set before.

use crate::helpers::Helpers;
use crate::scope::Scope;
use blockmill_sync::atomic::{AtomicBool, Ordering};
use blockmill_sync::{AutoResetEvent, Mutex};
use std::collections::BTreeMap;
use std::iter::Fuse;

/// Items that have begun and whose results are not taken, for each thread. More than one: while the
/// caller takes a result, the workers have something to do.
const AHEAD: usize = 2;

/// The same where results are small.
const FAR_AHEAD: usize = 1 << 10;

/// While there is more, no item begins.
#[derive(Clone, Copy)]
struct Most {
    /// Items that have begun and whose results are not taken.
    ahead: usize,
    /// The sum of the weights of the results that are there and not taken.
    weight: usize,
}

/// The state of a call.
struct Results<T> {
    /// Items that have begun, or may begin: their threads are about to fetch them.
    begun: usize,
    /// Results that `take` has returned from.
    taken: usize,
    /// Results that wait for `take`, with their weights.
    ready: BTreeMap<usize, (T, usize)>,
    /// The sum of the weights of the results that wait, and of the one that `take` has.
    weight: usize,
    /// Workers that have a job, queued or running.
    helping: usize,
    /// Whether there are no more items.
    exhausted: bool,
    /// Whether the call ends early: by an error or a panic.
    stopped: bool,
}

impl<T> Results<T> {
    fn may_begin(&self, most: Most) -> bool {
        let Most { ahead, weight } = most;
        !self.exhausted && !self.stopped && self.begun - self.taken < ahead && self.weight <= weight
    }
}

/// A call of [`Helpers::in_order`].
struct Call<Items, Convert, T> {
    items: Mutex<(usize, Fuse<Items>)>,
    convert: Convert,
    progress: Mutex<Results<T>>,
    /// Set when the calling thread may go on.
    changed: AutoResetEvent,
    most: Most,
    workers: usize,
}

/// Ends the call if its thread panics, or if it is dropped before the end.
struct StopOnDrop<'a, Items, Convert, T>(&'a Call<Items, Convert, T>);

impl<Items, Convert, T> Drop for StopOnDrop<'_, Items, Convert, T> {
    fn drop(&mut self) {
        self.0.progress.lock().stopped = true;
        self.0.changed.set();
    }
}

/// Who begins an item.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Thread {
    Caller,
    Worker,
}

impl<I: Send, Items: Iterator<Item = I> + Send, T: Send, Convert: Fn(I) -> (T, usize) + Sync> Call<Items, Convert, T> {
    /// Takes the results, on the calling thread.
    fn run<'scope, E>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        mut take: impl FnMut(T) -> Result<(), E>,
    ) -> Result<(), E> {
        let stop = StopOnDrop(self);
        loop {
            let mut progress = self.progress.lock();
            let expected = progress.taken;
            if let Some((result, weight)) = progress.ready.remove(&expected) {
                drop(progress);
                // Not under the lock: workers deliver meanwhile.
                take(result)?;
                let mut progress = self.progress.lock();
                progress.taken += 1;
                progress.weight -= weight;
                drop(progress);
                // There is room for one more item.
                self.recruit(scope);
                continue;
            }
            if progress.stopped || (progress.exhausted && progress.begun == progress.taken) {
                // After a panic of a worker the scope goes on with that panic.
                break;
            }
            drop(progress);
            if !self.convert_one(Thread::Caller, scope) {
                self.changed.wait();
            }
        }
        std::mem::forget(stop);
        Ok(())
    }

    /// Queues a job for one more worker, if there is a worker and an item for it.
    fn recruit<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        let mut progress = self.progress.lock();
        // Counted before the job is queued, so that two threads do not call one worker too many.
        if progress.helping < self.workers && progress.may_begin(self.most) {
            progress.helping += 1;
            drop(progress);
            self.queue_job(scope);
        }
    }

    fn queue_job<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        scope.spawn(move || {
            if self.convert_one(Thread::Worker, scope) {
                // A job of its own for each item: the worker looks for urgent work in between.
                self.queue_job(scope);
            }
        });
    }

    /// Converts an item. Returns false if none may begin now.
    fn convert_one<'scope>(&'scope self, thread: Thread, scope: &'scope Scope<'scope, '_>) -> bool {
        let mut progress = self.progress.lock();
        if !progress.may_begin(self.most) {
            if thread == Thread::Worker {
                // In one step with the look: whoever makes room recruits this worker again.
                progress.helping -= 1;
            }
            return false;
        }
        progress.begun += 1;
        drop(progress);
        // Each thread that begins calls one more, so few items do not call all workers.
        self.recruit(scope);
        let stop = StopOnDrop(self);
        let item = self.next_item();
        let is_item = item.is_some();
        match item {
            Some((number, item)) => {
                let result = (self.convert)(item);
                let mut progress = self.progress.lock();
                progress.weight += result.1;
                progress.ready.insert(number, result);
                let is_next = number == progress.taken;
                drop(progress);
                if is_next {
                    self.changed.set();
                }
            }
            None => {
                let mut progress = self.progress.lock();
                progress.begun -= 1;
                progress.exhausted = true;
                drop(progress);
                self.changed.set();
            }
        }
        std::mem::forget(stop);
        is_item
    }

    /// The next item and its number.
    fn next_item(&self) -> Option<(usize, I)> {
        let mut items = self.items.lock();
        // The iterator may have panicked, and is then not asked again.
        if self.progress.lock().stopped {
            return None;
        }
        // Dropped before the lock: the next thread in line must see that this one has panicked.
        let stop = StopOnDrop(self);
        let item = items.1.next();
        std::mem::forget(stop);
        let number = items.0;
        items.0 += 1;
        item.map(|item| (number, item))
    }
}

impl Helpers {
    /// Calls `convert` with the items on all threads, and `take` with the results on the calling
    /// thread, in the order of the items. At most two items for each thread have begun and are not
    /// taken: that bounds the memory. Each item should take microseconds or more, since each is a
    /// job.
    ///
    /// The first error of `take` ends the call. No more items begin then, and those that have begun
    /// end first.
    ///
    /// ```
    /// use std::num::ParseIntError;
    ///
    /// let pool = blockmill_pool::ThreadPool::new(&Default::default())?;
    /// let mut numbers = Vec::new();
    /// let outcome: Result<(), ParseIntError> = pool.in_order(
    ///     "3 5 eight 9".split(' '),
    ///     |word| word.parse::<u32>(),
    ///     |number| Ok(numbers.push(number?)),
    /// );
    /// assert!(outcome.is_err());
    /// assert_eq!(numbers, [3, 5]);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// The first of `take`.
    ///
    /// # Panics
    /// With a panic of `items`, `convert` or `take`, after all items that have begun have ended.
    pub fn in_order<I: Send, T: Send, E>(
        &self,
        items: impl IntoIterator<Item = I, IntoIter: Send>,
        convert: impl Fn(I) -> T + Sync,
        take: impl FnMut(T) -> Result<(), E>,
    ) -> Result<(), E> {
        self.in_order_weighed(usize::MAX, items, |item| (convert(item), 0), take)
    }

    /// As [`in_order`](Self::in_order), where results may be large: `convert` says with each what
    /// it weighs, its memory in bytes for instance. While the results that are there and not taken
    /// weigh more than `most`, no item begins. So they never weigh more than `most` and one result
    /// of each thread.
    ///
    /// # Errors
    /// The first of `take`.
    ///
    /// # Panics
    /// As [`in_order`](Self::in_order).
    pub fn in_order_weighed<I: Send, T: Send, E>(
        &self,
        most: usize,
        items: impl IntoIterator<Item = I, IntoIter: Send>,
        convert: impl Fn(I) -> (T, usize) + Sync,
        take: impl FnMut(T) -> Result<(), E>,
    ) -> Result<(), E> {
        let most = Most {
            ahead: AHEAD * self.threads(),
            weight: most,
        };
        self.ahead(most, items, convert, take)
    }

    /// Calls `work` with the items on all threads, each item once. Each item should take
    /// microseconds or more.
    ///
    /// After an error no more items begin. Of several errors the one of the first item counts,
    /// whatever the threads do.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering};
    ///
    /// let pool = blockmill_pool::ThreadPool::new(&Default::default())?;
    /// let sum = AtomicU32::new(0);
    /// pool.for_each(1..=100, |number| {
    ///     sum.fetch_add(number, Ordering::Relaxed);
    ///     Ok::<(), ()>(())
    /// })
    /// .unwrap();
    /// assert_eq!(sum.into_inner(), 5_050);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// That of the first item whose work fails.
    ///
    /// # Panics
    /// With a panic of `items` or `work`, after all items that have begun have ended.
    pub fn for_each<I: Send, E: Send>(
        &self,
        items: impl IntoIterator<Item = I, IntoIter: Send>,
        work: impl Fn(I) -> Result<(), E> + Sync,
    ) -> Result<(), E> {
        let failed = AtomicBool::new(false);
        let items = items.into_iter().take_while(|_| !failed.load(Ordering::Relaxed));
        let work = |item| {
            let outcome = work(item).inspect_err(|_| failed.store(true, Ordering::Relaxed));
            (outcome, 0)
        };
        let most = Most {
            ahead: FAR_AHEAD * self.threads(),
            weight: usize::MAX,
        };
        // Items begin in their order, so all before a failed one have begun, and count first.
        self.ahead(most, items, work, |outcome| outcome)
    }

    fn ahead<I: Send, T: Send, E>(
        &self,
        most: Most,
        items: impl IntoIterator<Item = I, IntoIter: Send>,
        convert: impl Fn(I) -> (T, usize) + Sync,
        take: impl FnMut(T) -> Result<(), E>,
    ) -> Result<(), E> {
        let call = Call {
            items: Mutex::new((0, items.into_iter().fuse())),
            convert,
            progress: Mutex::new(Results {
                begun: 0,
                taken: 0,
                ready: BTreeMap::new(),
                weight: 0,
                helping: 0,
                exhausted: false,
                stopped: false,
            }),
            changed: AutoResetEvent::new(),
            most,
            workers: self.workers(),
        };
        self.scope(|scope| call.run(scope, take))
    }
}
