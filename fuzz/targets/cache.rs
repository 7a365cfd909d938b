//! The input names steps on a coins cache over a store in memory. Coins are added, spent and looked
//! up, or read from the store and inserted later. Flushes begin, wait, fail or succeed, in the
//! foreground or in the background. Changes since the last flush are rolled back.
//!
//! Checked: the cache always answers as a plain map does, and so does the store after a flush.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| blockmill_fuzz::flushes::run(data));
