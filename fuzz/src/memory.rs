//! The memory that a piece of work allocates. The target's allocator must be `PeakAlloc`.

use peak_alloc::PeakAlloc;

/// The result of `work`, and the peak of its memory in bytes, above the memory in use before.
pub fn peak_of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let allocator = PeakAlloc;
    allocator.reset_peak_usage();
    let before = allocator.current_usage();
    let done = work();
    (done, allocator.peak_usage() - before)
}
