//! Atomics, fences and spin hints: those of `std`, or loom's under the cfg `blockmill_loom`.
//!
//! The crate takes them from here alone, so that loom runs the very code that ships.

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

/// Makes a constructor const, except under loom, whose atomics have none that is.
macro_rules! const_fn {
    ($(#[$doc:meta])* pub const fn $($rest:tt)*) => {
        #[cfg(not(blockmill_loom))]
        $(#[$doc])*
        pub const fn $($rest)*
        #[cfg(blockmill_loom)]
        $(#[$doc])*
        pub fn $($rest)*
    };
}
pub(crate) use const_fn;
