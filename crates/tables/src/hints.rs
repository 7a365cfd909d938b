//! The file of hints of SwiftSync, version 0 of a draft (BIP 456): which outputs of each block are
//! still unspent at a height.
//!
//! The file is a head, and a list for each block from height 1 on. The outputs of a block that can
//! be spent have numbers, from 0 on; the list has those of the unspent ones. So what
//! [`is_unspendable`] says of a script takes no number, and neither does a coinbase whose coins a
//! later one has replaced, before there was BIP 30.
//!
//! A list is written in the code of Elias and Fano. With `n` numbers, of which `m` is the largest,
//! `l` is the whole part of the binary logarithm of `(m + 1) / n`:
//!
//! | bytes | what |
//! |---|---|
//! | CompactSize | `n`; nothing follows a 0 |
//! | CompactSize | `m` |
//! | whole bytes | the `l` low bits of each number |
//! | whole bytes | the rest of each number in unary: zeros, and a one |
//!
//! The zeros of a number are as many as its rest has more than the rest before. The draft does not
//! say clearly in which order bits go into bytes. Here the lowest bits come first in both, as in
//! the crate `hintsfile`.

use blockmill_block::coin::is_unspendable;
use blockmill_block::reader::write_compact_size;
use blockmill_block::{Block, OutPoint};

/// What a file begins with.
const MAGIC: [u8; 4] = *b"UTXO";

/// The version of the format.
const VERSION: u8 = 0;

/// The head of a file, for the blocks up to a height.
pub fn head(height: u32) -> Vec<u8> {
    let mut head = MAGIC.to_vec();
    head.push(VERSION);
    head.extend(height.to_le_bytes());
    head
}

/// The numbers of the unspent outputs of a block. `is_replaced` says that a later coinbase has
/// replaced the coins of its own.
pub fn numbers(block: &Block, is_replaced: bool, is_unspent: impl Fn(&OutPoint) -> bool) -> Vec<u32> {
    let mut numbers = Vec::new();
    let mut next = 0;
    for transaction in block.transactions() {
        if is_replaced && transaction.is_coinbase() {
            continue;
        }
        let txid = transaction.txid();
        for (vout, output) in (0..).zip(transaction.outputs()) {
            if is_unspendable(output.script_pubkey()) {
                continue;
            }
            if is_unspent(&OutPoint { txid, vout }) {
                numbers.push(next);
            }
            next += 1;
        }
    }
    numbers
}

/// Appends a list of numbers that ascend.
pub fn append(numbers: &[u32], file: &mut Vec<u8>) {
    let count = numbers.len();
    write_compact_size(count as u64, file);
    let Some(&largest) = numbers.last() else {
        return;
    };
    write_compact_size(largest.into(), file);
    let per_number = (u64::from(largest) + 1) / count as u64;
    // Numbers that do not ascend are a mistake of the caller, and their code of no use.
    let low_bits = per_number.checked_ilog2().unwrap_or_default() as usize;
    let mut low = Bits::new(count * low_bits);
    let mut high = Bits::new(count + (largest >> low_bits) as usize);
    for (position, &number) in numbers.iter().enumerate() {
        for bit in 0..low_bits {
            low.set(position * low_bits + bit, number >> bit & 1 == 1);
        }
        // So many zeros and ones come before its own one.
        high.set((number >> low_bits) as usize + position, true);
    }
    file.extend(low.0);
    file.extend(high.0);
}

/// Bits in bytes, the lowest first.
struct Bits(Vec<u8>);

impl Bits {
    fn new(bits: usize) -> Self {
        Self(vec![0; bits.div_ceil(8)])
    }

    fn set(&mut self, position: usize, is_one: bool) {
        if let Some(byte) = self.0.get_mut(position / 8) {
            *byte |= u8::from(is_one) << (position % 8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blockmill_block::Network;
    use blockmill_rules::Params;
    use hintsfile::EliasFano;

    /// Fails unless a list is written as the crate of the draft's authors writes it, and is read
    /// back.
    fn check(numbers: &[u32]) -> Vec<u8> {
        let (mut own, mut other) = (Vec::new(), Vec::new());
        append(numbers, &mut own);
        EliasFano::compress(numbers).write(&mut other).unwrap();
        assert_eq!(own, other, "{numbers:?}");
        let read = EliasFano::from_reader(&mut own.as_slice()).unwrap();
        assert_eq!(read.decompress(), numbers);
        own
    }

    #[test]
    fn lists_are_those_of_the_other_crate() {
        // The example of the draft.
        assert_eq!(check(&[3, 7, 12]), [3, 12, 0x0f, 0x25]);
        assert_eq!(check(&[]), [0]);
        // All lists of numbers below 12.
        for set in 0u32..1 << 12 {
            check(&(0..12).filter(|bit| set >> bit & 1 == 1).collect::<Vec<_>>());
        }
        // On both sides of the lengths of a CompactSize, dense and thin.
        for end in [0xfc, 0xfd, 0xfe, 0x100, 0xffff, 0x1_0000, 0x1_0001, 0x2_0000] {
            for step in [1, 2, 3, 7, 64, 1000] {
                check(&(0..end).step_by(step).collect::<Vec<_>>());
                check(&[end]);
                check(&[0, end]);
            }
        }
        // Numbers of no order: a generator of 32 bits.
        let mut state = 1u32;
        for _ in 0..200 {
            let mut numbers = Vec::new();
            let mut number = 0;
            for _ in 0..300 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                number += 1 + (state >> (16 + state % 13));
                numbers.push(number);
            }
            check(&numbers);
        }
    }

    /// The blocks of the main network whose coinbases were replaced are not at hand.
    #[test]
    fn outputs_that_cannot_be_spent_take_no_number() {
        let params = Params::new(Network::Bitcoin, None);
        let block = Block::decode(params.genesis_block()).unwrap();
        assert_eq!(numbers(&block, false, |_| true), [0]);
        assert!(numbers(&block, false, |_| false).is_empty());
        assert!(numbers(&block, true, |_| true).is_empty());
    }

    #[test]
    fn a_head_is_that_of_the_draft() {
        assert_eq!(head(0x0102_0304), [0x55, 0x54, 0x58, 0x4f, 0, 4, 3, 2, 1]);
    }
}
