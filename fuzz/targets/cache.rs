//! The input names steps that are taken on a coins cache over a store in memory: coins are added,
//! spent and looked up, read from the store and inserted later, flushes begin, wait, fail or
//! succeed, in place or beside the work, and all changes since the last one are rolled back.
//!
//! Checked: the cache never gives another answer than a map does, and neither does the store after
//! a flush.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| blockmill_fuzz::flushes::run(data));
