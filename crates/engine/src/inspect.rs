//! What looks at blocks and data directories without connecting anything.
//!
//! - [`doctor`]: looks a data directory over;
//! - [`verify`]: one block against its undo data;
//! - [`verify_blocks`]: the blocks of a chain against their undo data, on several threads;
//! - [`verify_files`]: the blocks of Core's files against its undo files.

pub mod doctor;
pub mod verify;
pub mod verify_blocks;
pub mod verify_files;
