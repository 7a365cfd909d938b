//! The semaphore of POSIX threads as a peer. No safe wrapper of it is maintained.

use std::cell::UnsafeCell;

/// A `sem_t` that threads of this process share.
pub(super) struct PosixSemaphore {
    /// Boxed, since it must not move.
    semaphore: Box<UnsafeCell<libc::sem_t>>,
}

#[expect(unsafe_code, reason = "a sem_t is made to be shared by threads")]
// SAFETY: the semaphore is touched only through sem_wait, sem_post and sem_destroy, the first two
// of which may be called by any threads at once; the last is called with exclusive access.
unsafe impl Sync for PosixSemaphore {}

impl PosixSemaphore {
    /// A semaphore with `permits` permits.
    pub(super) fn new(permits: u32) -> Self {
        #[expect(unsafe_code, reason = "the peer has no safe interface")]
        // SAFETY: a semaphore is plain data, and zeros are a valid value. The pointer is valid for
        // the call, and the boxed semaphore does not move.
        let (semaphore, outcome) = unsafe {
            let semaphore = Box::new(UnsafeCell::new(std::mem::zeroed::<libc::sem_t>()));
            let outcome = libc::sem_init(semaphore.get(), 0, permits);
            (semaphore, outcome)
        };
        assert_eq!(outcome, 0, "a semaphore can be made");
        Self { semaphore }
    }

    #[inline]
    pub(super) fn acquire(&self) {
        #[expect(unsafe_code, reason = "the peer has no safe interface")]
        // SAFETY: the semaphore was made in `new`, and lives as long as `self`. The loop repeats a
        // wait that a signal interrupted.
        while unsafe { libc::sem_wait(self.semaphore.get()) } != 0 {}
    }

    #[inline]
    pub(super) fn release(&self) {
        #[expect(unsafe_code, reason = "the peer has no safe interface")]
        // SAFETY: as in `acquire`.
        let outcome = unsafe { libc::sem_post(self.semaphore.get()) };
        debug_assert_eq!(outcome, 0);
    }
}

impl Drop for PosixSemaphore {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "the peer has no safe interface")]
        // SAFETY: `self` is borrowed exclusively, so no other thread uses the semaphore.
        unsafe {
            libc::sem_destroy(self.semaphore.get());
        }
    }
}
