//! Which transactions the blocks ahead will make. Their outputs are not in the store yet, so a read
//! for them would be in vain.
//!
//! The table has words, each with a part of a transaction id and a height. The loader writes one
//! word for each transaction. Words collide and stay, so an answer is only a hint of what to read
//! ahead.

use blockmill_block::Txid;
use std::sync::atomic::{AtomicU64, Ordering};

/// Words, as a power of two: several times the transactions of all blocks that are loaded ahead.
const WORD_BITS: u32 = 18;

/// Bits of a word for the height.
const HEIGHT_BITS: u32 = 24;

const HEIGHT_MASK: u64 = (1 << HEIGHT_BITS) - 1;

/// The transactions of blocks ahead, as far as the table has room.
#[derive(Debug)]
pub struct UpcomingTxids(Box<[AtomicU64]>);

impl Default for UpcomingTxids {
    fn default() -> Self {
        Self((0..1 << WORD_BITS).map(|_| AtomicU64::new(0)).collect())
    }
}

impl UpcomingTxids {
    /// The word of a transaction, and what identifies it there, in the bits above the height.
    fn word(&self, txid: &Txid) -> (&AtomicU64, u64) {
        let first = txid.0.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        // The upper bits choose the word, and the lower 40 stand in it.
        let word = &self.0[(first >> (64 - WORD_BITS)) as usize];
        (word, first << HEIGHT_BITS)
    }

    /// Notes that the block at a height makes this transaction.
    pub fn note(&self, txid: &Txid, height: u32) {
        let (word, mark) = self.word(txid);
        // Relaxed: a word that is seen late, or lost, costs a read in vain.
        word.store(mark | (u64::from(height) & HEIGHT_MASK), Ordering::Relaxed);
    }

    /// Whether a block above this height makes the transaction, as far as is known.
    pub fn is_above(&self, txid: &Txid, height: u32) -> bool {
        let (word, mark) = self.word(txid);
        let noted = word.load(Ordering::Relaxed);
        noted & !HEIGHT_MASK == mark && noted & HEIGHT_MASK > u64::from(height)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn txid(number: u64) -> Txid {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
        Txid(bytes)
    }

    #[test]
    fn what_was_noted_is_above_lower_heights_only() {
        let upcoming = UpcomingTxids::default();
        assert!(!upcoming.is_above(&txid(1), 0));
        upcoming.note(&txid(1), 500);
        assert!(upcoming.is_above(&txid(1), 499));
        assert!(!upcoming.is_above(&txid(1), 500));
        assert!(!upcoming.is_above(&txid(2), 0));
        upcoming.note(&txid(1), 700);
        assert!(upcoming.is_above(&txid(1), 500));
    }

    #[test]
    fn most_of_what_lies_ahead_is_known() {
        let upcoming = UpcomingTxids::default();
        for number in 0..50_000 {
            upcoming.note(&txid(number), 10 + (number / 2000) as u32);
        }
        let known = (0..50_000)
            .filter(|&number| upcoming.is_above(&txid(number), 9))
            .count();
        assert!(known > 40_000, "{known}");
        let wrong = (50_000..100_000)
            .filter(|&number| upcoming.is_above(&txid(number), 9))
            .count();
        assert!(wrong < 50, "{wrong}");
    }
}
