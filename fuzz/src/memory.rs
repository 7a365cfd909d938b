//! What a piece of work allocates. The target must have `PeakAlloc` for its allocator.

use peak_alloc::PeakAlloc;

/// What was done, and the most memory in bytes that was taken for it at once beyond what was taken
/// before.
pub fn peak_of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let allocator = PeakAlloc;
    allocator.reset_peak_usage();
    let before = allocator.current_usage();
    let done = work();
    (done, allocator.peak_usage() - before)
}
