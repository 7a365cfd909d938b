//! The tests of other files once more, with signatures verified in lanes for all blocks (`common::SIGNATURES`): what they expect is
//! the same.

#![allow(
    clippy::duplicate_mod,
    reason = "every file has what is common as a module of its own"
)]

#[path = "assume_valid.rs"]
mod assume_valid;
#[path = "changing_files.rs"]
mod changing_files;
#[path = "failing_store.rs"]
mod failing_store;
#[path = "fetching.rs"]
mod fetching;
#[path = "invalid_branches.rs"]
mod invalid_branches;
#[path = "reorganise.rs"]
mod reorganise;
#[path = "resume.rs"]
mod resume;
#[path = "snapshots.rs"]
mod snapshots;
#[path = "stops.rs"]
mod stops;
#[path = "window.rs"]
mod window;
