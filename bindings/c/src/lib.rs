//! Blockmill for C: blocks and transactions validated with the coins that they spend. The header
//! `include/blockmill.h` is the interface, and documents it.
//!
//! The modules. Each uses only those after it in this list:
//! - [`border`]: the functions that C calls, and all unsafe code;
//! - [`handles`]: what the handles are, and what the functions do;
//! - [`status`]: numbers and texts of errors.

pub mod border;
pub mod handles;
pub mod status;
