//! The primitives through their public interface.

mod event;
mod semaphore;
