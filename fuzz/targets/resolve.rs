//! The input describes a short chain of small blocks with spends of their own and of earlier
//! outputs, double spends, missing coins and duplicates, and when flushes begin and end beside
//! them.
//!
//! Checked: resolved over a cache whose coins are read ahead by a pool and offered, with flushes,
//! failing reads and blocks that are taken back in between, the blocks have the same verdicts
//! (reason and place), the same undo data, and leave the same set of coins, as over a cache without
//! any of this.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| blockmill_fuzz::chain::run(data));
