//! The queue through its public interface.

mod model;
mod queue;
mod stress;
