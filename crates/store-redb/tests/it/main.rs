//! The store through its public interface.

mod damaged_store;
mod stores;
