//! The semaphore that the document replaced, rebuilt. Without waiters the count changes without the
//! kernel. A thread without a permit spins, and then waits at a kernel semaphore, a counting
//! eventfd.
//!
//! A count below zero is the number of waiting threads. A release with waiters hands its permit to
//! the kernel object, where only a waiter takes it.

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use std::sync::atomic::{AtomicI32, Ordering};

/// A semaphore that spins over a kernel semaphore.
pub(crate) struct SpinningSemaphore {
    /// Number of permits. A negative count is the number of waiting threads.
    count: AtomicI32,
    spins: u32,
    object: OwnedFd,
}

impl SpinningSemaphore {
    /// A semaphore with `permits` permits. A thread spins `spins` times before it waits. Panics if
    /// the system has no eventfd left.
    pub(crate) fn new(permits: i32, spins: u32) -> Self {
        Self {
            count: AtomicI32::new(permits),
            spins,
            object: eventfd(0, EventfdFlags::SEMAPHORE | EventfdFlags::CLOEXEC).expect("an eventfd can be made"),
        }
    }

    #[inline]
    pub(crate) fn acquire(&self) {
        if !self.try_acquire() {
            self.acquire_slow();
        }
    }

    #[inline]
    fn try_acquire(&self) -> bool {
        let mut count = self.count.load(Ordering::Relaxed);
        while count > 0 {
            match self
                .count
                .compare_exchange_weak(count, count - 1, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => return true,
                Err(found) => count = found,
            }
        }
        false
    }

    #[cold]
    fn acquire_slow(&self) {
        for _ in 0..self.spins {
            std::hint::spin_loop();
            if self.try_acquire() {
                return;
            }
        }
        if self.count.fetch_sub(1, Ordering::Acquire) <= 0 {
            let mut count = [0; 8];
            while rustix::io::read(&self.object, &mut count).is_err() {}
        }
    }

    #[inline]
    pub(crate) fn release(&self) {
        if self.count.fetch_add(1, Ordering::Release) < 0 {
            let written = rustix::io::write(&self.object, &1u64.to_ne_bytes());
            assert_eq!(written, Ok(8), "an eventfd takes a permit");
        }
    }
}
