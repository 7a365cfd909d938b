//! Verdicts beside those of libsecp256k1, and on vectors of others.

#[path = "../common/mod.rs"]
mod common;

mod ask;
mod bip340;
mod differential;
mod structured;
mod wycheproof;
