//! The input describes a short chain of small blocks with spends of their own and of earlier
//! outputs, double spends, missing coins and duplicates, and when flushes begin and end beside
//! them.
//!
//! Checked: the blocks are resolved over a cache whose coins a pool reads ahead and inserts, with
//! flushes, failing reads and disconnected blocks in between. They have the same verdicts (reason
//! and place) and the same undo data, and leave the same set of coins, as over a plain cache.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| blockmill_fuzz::chain::run(data));
