//! Loading a line of memory into the caches before it is read.

/// Starts loading the line of `target` into the caches. Only time depends on it.
#[inline]
pub fn prefetch<T>(target: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        #[expect(unsafe_code, reason = "the instruction has no safe form")]
        // SAFETY: every x86-64 processor has the instruction. It neither faults nor changes
        // anything, whatever the address.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(target).cast());
        }
    }
    #[cfg(target_arch = "aarch64")]
    {
        #[expect(unsafe_code, reason = "the instruction has no safe form")]
        // SAFETY: every ARM64 processor has the instruction. It neither faults nor changes
        // anything, whatever the address.
        unsafe {
            std::arch::asm!(
                "prfm pldl1keep, [{address}]",
                address = in(reg) std::ptr::from_ref(target),
                options(nostack, preserves_flags, readonly),
            );
        }
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = target;
}
