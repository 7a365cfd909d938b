//! Asking the processor for a line of memory that is going to be read.

/// Begins to bring the line of `place` into the caches. Nothing but time depends on it.
#[inline]
pub(crate) fn prefetch<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        #[expect(unsafe_code, reason = "the instruction has no safe form")]
        // SAFETY: every x86-64 processor has the instruction, and it neither faults nor changes anything, whatever the address.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
