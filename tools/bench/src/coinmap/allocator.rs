//! Figures of the allocator. There is no safe wrapper of `mallinfo2`.

/// Bytes of all allocated blocks with the allocator's overhead, if it is glibc's.
pub(super) fn bytes_in_use() -> Option<u64> {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        #[expect(unsafe_code, reason = "the call has no safe form")]
        // SAFETY: the call takes nothing, and returns plain numbers that it reads under the
        // allocator's own locks.
        let figures = unsafe { libc::mallinfo2() };
        // Blocks of the arena, and blocks with a mapping of their own.
        Some((figures.uordblks + figures.hblkhd) as u64)
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    None
}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    use super::*;

    #[test]
    fn a_block_with_a_mapping_of_its_own_is_counted() {
        let before = bytes_in_use().unwrap();
        let block = std::hint::black_box(vec![1u8; 64 << 20]);
        // Other tests allocate at the same time, but less.
        assert!(bytes_in_use().unwrap() > before + (32 << 20));
        drop(block);
    }
}
