//! Work on several threads that ends before the call does.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Calls `work` with each number below `count`, on several threads. After an error no more numbers
/// begin; the first error is returned.
pub(crate) fn for_each<E: Send>(
    count: usize,
    threads: usize,
    work: impl Fn(usize) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let next = AtomicUsize::new(0);
    let failure = Mutex::new(None);
    let run = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return;
            }
            if let Err(error) = work(number) {
                next.store(count, Ordering::Relaxed);
                lock(&failure).get_or_insert(error);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(count) {
            scope.spawn(run);
        }
        run();
    });
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// Locks. A panic that poisoned the lock goes on in its own thread.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How far the numbers of [`in_order`] are.
struct Line<T> {
    /// The next number to be made.
    next: usize,
    /// The number that is taken next.
    taken: usize,
    ready: BTreeMap<usize, T>,
    stopped: bool,
}

/// Stops the line when it is dropped: also by a panic, so that nobody waits for what never comes.
struct Stop<'a, T>(&'a Mutex<Line<T>>, &'a Condvar);

impl<T> Drop for Stop<'_, T> {
    fn drop(&mut self) {
        lock(self.0).stopped = true;
        self.1.notify_all();
    }
}

/// Makes something of each number below `count` on several threads, and takes it in order on this
/// one. At most two for each thread wait to be taken.
pub(crate) fn in_order<T: Send, E>(
    count: usize,
    threads: usize,
    make: impl Fn(usize) -> T + Sync,
    mut take: impl FnMut(T) -> Result<(), E>,
) -> Result<(), E> {
    if threads < 2 || count < 2 {
        return (0..count).try_for_each(|number| take(make(number)));
    }
    let line = Mutex::new(Line {
        next: 0,
        taken: 0,
        ready: BTreeMap::new(),
        stopped: false,
    });
    let changed = Condvar::new();
    let wait = |line| changed.wait(line).unwrap_or_else(PoisonError::into_inner);
    let maker = || {
        let stop = Stop(&line, &changed);
        loop {
            let mut state = lock(&line);
            while state.next >= state.taken + 2 * threads && state.next < count && !state.stopped {
                state = wait(state);
            }
            if state.stopped || state.next >= count {
                break;
            }
            let number = state.next;
            state.next += 1;
            drop(state);
            let made = make(number);
            lock(&line).ready.insert(number, made);
            changed.notify_all();
        }
        std::mem::forget(stop);
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(maker);
        }
        let _stop = Stop(&line, &changed);
        for number in 0..count {
            let mut state = lock(&line);
            let made = loop {
                if let Some(made) = state.ready.remove(&number) {
                    break made;
                }
                if state.stopped {
                    // A maker has panicked: the scope goes on with its panic.
                    return Ok(());
                }
                state = wait(state);
            };
            state.taken = number + 1;
            drop(state);
            changed.notify_all();
            take(made)?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    #[test]
    fn each_number_is_worked_on_once() {
        for threads in [1, 2, 5] {
            let sum = AtomicUsize::new(0);
            let add = |number| {
                sum.fetch_add(number, Ordering::Relaxed);
                Ok::<(), ()>(())
            };
            for_each(1000, threads, add).unwrap();
            assert_eq!(sum.into_inner(), 499_500);
            let fail = |number| if number == 7 { Err(number) } else { Ok(()) };
            assert_eq!(for_each(1000, threads, fail), Err(7));
        }
    }

    #[test]
    fn what_is_made_is_taken_in_order() {
        for threads in [1, 2, 5] {
            let mut taken = Vec::new();
            let take = |number| {
                taken.push(number);
                Ok::<(), ()>(())
            };
            in_order(500, threads, |number| number, take).unwrap();
            assert!(taken.iter().copied().eq(0..500));
            let fail = |number| if number == 7 { Err(number) } else { Ok(()) };
            assert_eq!(in_order(500, threads, |number| number, fail), Err(7));
            assert_eq!(in_order(0, threads, |number| number, fail), Ok(()));
        }
    }

    #[test]
    fn a_panic_ends_the_call() {
        for threads in [1, 3] {
            let make = |number: usize| assert!(number != 9, "ours");
            let outcome = catch_unwind(|| in_order(100, threads, make, |()| Ok::<(), ()>(())));
            assert!(outcome.is_err());
            let outcome = catch_unwind(|| in_order(100, threads, |_| (), |()| -> Result<(), ()> { panic!("ours") }));
            assert!(outcome.is_err());
        }
    }
}
