//! The undo log through its public interface.

mod common;
mod undo_log;
mod undo_log_faults;
