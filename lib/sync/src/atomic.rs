//! The one doorway to atomics: everything in this crate takes them from here, so that loom runs the very code.

#[cfg(blockmill_loom)]
pub use loom::hint::spin_loop;
#[cfg(blockmill_loom)]
pub use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(blockmill_loom)]
pub use loom::thread::yield_now;
#[cfg(not(blockmill_loom))]
pub use std::hint::spin_loop;
#[cfg(not(blockmill_loom))]
pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(not(blockmill_loom))]
pub use std::thread::yield_now;
