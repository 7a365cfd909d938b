//! The input describes a short chain of small blocks, and the flushes beside them. The blocks spend
//! their own and earlier outputs, double spend, spend missing coins, and repeat transactions.
//!
//! The chain is resolved twice: by the rules over a plain map, and over a cache whose coins are read
//! ahead by a pool, with flushes, failing reads and disconnected blocks in between. There, windows
//! of up to four blocks are resolved in shards, and block by block where that is odd.
//!
//! Checked: both runs give the same verdicts (reason and position), the same undo data, and the
//! same set of coins. Shards are sure of every valid window, unless reads fail or blocks repeat a
//! transaction.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| blockmill_fuzz::chain::run(data));
