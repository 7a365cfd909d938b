//! Coins by number, and a small random generator.

use blockmill_block::{BlockHash, Coin, OutPoint, Txid};
use blockmill_coins::Tip;
use blockmill_pool::Helpers;
use blockmill_store_log::LogOptions;

/// The finalizer of splitmix64.
pub(crate) fn mix(number: u64) -> u64 {
    let mut state = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    state = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ state >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ state >> 31
}

/// Random numbers.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(1);
        mix(self.0) % bound
    }
}

/// Three outputs for each transaction.
pub(crate) fn outpoint(number: u64) -> OutPoint {
    let mut txid = [0; 32];
    for (part, bytes) in txid.chunks_mut(8).enumerate() {
        bytes.copy_from_slice(&mix((number / 3) ^ ((part as u64) << 60)).to_le_bytes());
    }
    OutPoint {
        txid: Txid(txid),
        vout: (number % 3) as u32 * 200,
    }
}

/// A coin; now and then one with a script that is longer than a page.
pub(crate) fn coin(number: u64) -> Coin {
    let length = if number.is_multiple_of(997) { 9000 } else { number % 60 };
    Coin {
        value: (mix(number) % 1_000_000_000) as i64,
        height: (number % 900_000) as u32,
        is_coinbase: number.is_multiple_of(5),
        script_pubkey: vec![number as u8; length as usize].into(),
    }
}

pub(crate) fn tip(height: u32) -> Tip {
    let mut hash = [0; 32];
    hash[..4].copy_from_slice(&height.to_le_bytes());
    Tip {
        hash: BlockHash(hash),
        height,
    }
}

/// Whether a test runs in its whole form. If not, says what it does instead.
pub(crate) fn is_whole(short: &str, whole: &str) -> bool {
    let is_whole = std::env::var_os("BLOCKMILL_TEST_LOG").is_some_and(|size| size == "whole");
    if !is_whole {
        eprintln!("short: {short}; BLOCKMILL_TEST_LOG=whole {whole}");
    }
    is_whole
}

/// Small segments, and a checkpoint now and then.
pub(crate) fn small(threads: usize) -> LogOptions {
    LogOptions {
        helpers: Helpers::start(threads).unwrap(),
        segment_pages_min: 12,
        checkpoint_changes: 3000,
        checkpoint_step: 100,
        garbage_bytes_min: 100_000,
    }
}
