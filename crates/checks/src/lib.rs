//! Blocks against the coins that they spend, every rule and every script, on all threads.
//!
//! The modules. Each uses only those after it in this list:
//! - [`verify_files`]: the blocks of Core's files against its undo files;
//! - [`verify_blocks`]: the blocks of a chain against their undo data, on several threads;
//! - [`verify`]: one block against its undo data.
//!
//! The rules, the scripts and their threads are those of `blockmill-validate`.

pub mod verify;
pub mod verify_blocks;
pub mod verify_files;

pub use verify::verify_block;
