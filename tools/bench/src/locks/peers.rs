//! Ours and the peers, each as a lock that one thread at a time passes. `pass` is
//! `#[inline(always)]` for all of them: the compiler's own choice would change an uncontended pass
//! by more than 10%.

use super::kernel_object::SpinningSemaphore;
use super::posix::PosixSemaphore;
use super::runner::Contender;
use blockmill_sync::{CriticalSection, Semaphore};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

/// A count that loses additions unless one thread at a time adds.
#[derive(Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    #[inline]
    fn add(&self) {
        self.0.store(self.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A lock: one thread at a time does its work.
pub(super) trait Lock: Sync {
    fn with(&self, work: impl FnOnce());
}

/// A lock around a count.
pub(super) struct Counted<L> {
    lock: L,
    count: Count,
}

impl<L: Lock> Counted<L> {
    pub(super) fn new(lock: L) -> Self {
        Self {
            lock,
            count: Count::default(),
        }
    }
}

impl<L: Lock> Contender for Counted<L> {
    #[inline(always)]
    fn pass(&self) {
        self.lock.with(|| self.count.add());
    }

    fn count(&self) -> u64 {
        self.count.get()
    }
}

impl Lock for Semaphore {
    #[inline(always)]
    fn with(&self, work: impl FnOnce()) {
        self.acquire();
        work();
        let released = self.release(1);
        debug_assert!(released.is_ok());
    }
}

impl Lock for CriticalSection {
    #[inline(always)]
    fn with(&self, work: impl FnOnce()) {
        let _inside = self.enter();
        work();
    }
}

impl Lock for SpinningSemaphore {
    #[inline(always)]
    fn with(&self, work: impl FnOnce()) {
        self.acquire();
        work();
        self.release();
    }
}

impl Lock for PosixSemaphore {
    #[inline(always)]
    fn with(&self, work: impl FnOnce()) {
        self.acquire();
        work();
        self.release();
    }
}

impl Lock for CondvarSemaphore {
    #[inline(always)]
    fn with(&self, work: impl FnOnce()) {
        self.acquire();
        work();
        self.release();
    }
}

/// Each thread blocks on the future.
impl Lock for tokio::sync::Semaphore {
    #[inline(always)]
    fn with(&self, work: impl FnOnce()) {
        let permit = block_on(self.acquire());
        assert!(permit.is_some(), "nobody closes the semaphore");
        work();
    }
}

impl Contender for Mutex<u64> {
    #[inline(always)]
    fn pass(&self) {
        *self.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    }

    fn count(&self) -> u64 {
        *self.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Contender for parking_lot::Mutex<u64> {
    #[inline(always)]
    fn pass(&self) {
        *self.lock() += 1;
    }

    fn count(&self) -> u64 {
        *self.lock()
    }
}

impl Contender for parking_lot::FairMutex<u64> {
    #[inline(always)]
    fn pass(&self) {
        *self.lock() += 1;
    }

    fn count(&self) -> u64 {
        *self.lock()
    }
}

/// Numbers of permits and of waiting threads.
struct Permits {
    free: u32,
    waiting: u32,
}

/// A semaphore made of a mutex and a condition variable.
pub(super) struct CondvarSemaphore {
    permits: Mutex<Permits>,
    released: Condvar,
}

impl CondvarSemaphore {
    pub(super) fn new(permits: u32) -> Self {
        Self {
            permits: Mutex::new(Permits {
                free: permits,
                waiting: 0,
            }),
            released: Condvar::new(),
        }
    }

    #[inline]
    fn acquire(&self) {
        let mut permits = self.permits.lock().unwrap_or_else(PoisonError::into_inner);
        while permits.free == 0 {
            permits.waiting += 1;
            permits = self.released.wait(permits).unwrap_or_else(PoisonError::into_inner);
            permits.waiting -= 1;
        }
        permits.free -= 1;
    }

    #[inline]
    fn release(&self) {
        let mut permits = self.permits.lock().unwrap_or_else(PoisonError::into_inner);
        permits.free += 1;
        let wake = permits.waiting > 0;
        drop(permits);
        if wake {
            self.released.notify_one();
        }
    }
}

/// Wakes the thread that blocks on a future.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

thread_local! {
    static WAKER: Waker = Arc::new(Unpark(std::thread::current())).into();
}

/// Runs a future of tokio's on this thread. None if the semaphore is closed.
#[inline]
fn block_on<T, E>(future: impl Future<Output = Result<T, E>>) -> Option<T> {
    let mut future = pin!(future);
    WAKER.with(|waker| {
        let mut context = Context::from_waker(waker);
        loop {
            match future.as_mut().poll(&mut context) {
                Poll::Ready(outcome) => return outcome.ok(),
                Poll::Pending => std::thread::park(),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::runner::run;
    use super::*;
    use std::time::Duration;

    fn check(contender: impl Contender) {
        let outcome = run(contender, 8, Duration::from_millis(20), true);
        assert!(outcome.exclusive && outcome.all_passes() > 0);
    }

    #[test]
    fn each_lets_in_one_at_a_time() {
        check(Counted::new(Semaphore::new(1)));
        check(Counted::new(CriticalSection::new()));
        check(Counted::new(PosixSemaphore::new(1)));
        check(Counted::new(CondvarSemaphore::new(1)));
        check(Counted::new(tokio::sync::Semaphore::new(1)));
        check(Mutex::new(0));
        check(parking_lot::Mutex::new(0));
        check(parking_lot::FairMutex::new(0));
        for spins in [0, 100] {
            check(Counted::new(SpinningSemaphore::new(1, spins)));
        }
    }
}
