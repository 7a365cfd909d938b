//! Targets in compact form, the work of a block, and the next difficulty.

use crate::params::Params;
use blockmill_block::BlockHash;
use ethnum::U256;

/// Work of a block or a chain: the expected number of hashes.
pub type Work = U256;

/// The target of a compact number. `None` if it is negative, zero, or does not fit 256 bits (Core's
/// `SetCompact`).
pub fn decode_compact(bits: u32) -> Option<U256> {
    let size = bits >> 24;
    let mut word = bits & 0x007f_ffff;
    if size <= 3 {
        word >>= 8 * (3 - size);
    }
    let negative = bits & 0x0080_0000 != 0;
    let overflow = size > 34 || (word > 0xff && size > 33) || (word > 0xffff && size > 32);
    if word == 0 || negative || overflow {
        return None;
    }
    let word = U256::from(word);
    Some(if size <= 3 { word } else { word << (8 * (size - 3)) })
}

/// The compact number of a target: its highest bits, rounded down (Core's `GetCompact`).
pub fn encode_compact(target: U256) -> u32 {
    let mut size = (256 - target.leading_zeros()).div_ceil(8);
    let mut word = if size <= 3 {
        target.as_u32() << (8 * (3 - size))
    } else {
        (target >> (8 * (size - 3))).as_u32()
    };
    if word & 0x0080_0000 != 0 {
        // This bit is the sign.
        word >>= 8;
        size += 1;
    }
    word | size << 24
}

/// A block hash as a number.
fn hash_value(hash: &BlockHash) -> U256 {
    U256::from_le_bytes(hash.0)
}

/// Whether `bits` are a permitted target and the hash meets it (Core's `CheckProofOfWork`).
pub fn meets_target(hash: &BlockHash, bits: u32, params: &Params) -> bool {
    decode_compact(bits).is_some_and(|target| target <= params.pow_limit && hash_value(hash) <= target)
}

/// Work of a block with these bits: 2^256 / (target + 1), and zero for an impossible target.
pub fn block_work(bits: u32) -> Work {
    match decode_compact(bits) {
        // 2^256 does not fit: !t / (t + 1) + 1 is the same.
        Some(target) => (!target) / (target + 1) + 1,
        None => U256::ZERO,
    }
}

/// Time in seconds that the work between an ancestor and its descendant takes at the difficulty of
/// `tip_bits`. `i64::MAX` if the time does not fit (Core's `GetBlockProofEquivalentTime`, for a
/// first chain with at least the work of the second).
pub fn equivalent_time(work: Work, ancestor_work: Work, tip_bits: u32, params: &Params) -> i64 {
    let difference = work.saturating_sub(ancestor_work);
    let per_block = block_work(tip_bits);
    if per_block == U256::ZERO {
        return i64::MAX;
    }
    // As in Core, a product of more than 256 bits wraps.
    let seconds = difference.wrapping_mul(U256::from(params.pow_target_spacing.unsigned_abs())) / per_block;
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

/// The input of the next difficulty: the first and the last block of a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    /// Time of the first block.
    pub first_time: u32,
    /// Bits of the first block.
    pub first_bits: u32,
    /// Time of the last block.
    pub last_time: u32,
    /// Bits of the last block.
    pub last_bits: u32,
}

/// Bits of the next period (Core's `CalculateNextWorkRequired`). The new target is the last
/// block's, with BIP 94 the first block's, times the length of the period over its intended length.
/// That factor is at least a quarter and at most four. The target stays within the network's limit.
pub fn next_period_bits(period: &Period, params: &Params) -> u32 {
    if params.no_retargeting {
        return period.last_bits;
    }
    let timespan = params.pow_target_timespan;
    let actual = (i64::from(period.last_time) - i64::from(period.first_time)).clamp(timespan / 4, timespan * 4);
    let base = if params.enforce_bip94 {
        period.first_bits
    } else {
        period.last_bits
    };
    // The bits of an accepted block decode. A product of more than 256 bits wraps, as in Core.
    let target = decode_compact(base)
        .unwrap_or_default()
        .wrapping_mul(U256::from(actual.unsigned_abs()))
        / U256::from(timespan.unsigned_abs());
    encode_compact(target.min(params.pow_limit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use blockmill_block::Network;
    use proptest::prelude::*;

    fn mainnet() -> Params {
        Params::new(Network::Bitcoin, None)
    }

    #[test]
    fn compact_forms_of_core() {
        // arith_uint256_tests.cpp (bignum_SetCompact): a number that is zero, negative or too large
        // is not a target.
        for bits in [
            0,
            0x0012_3456,
            0x0100_3456,
            0x0200_0056,
            0x0300_0000,
            0x0400_0000,
            0x0092_3456,
            0x0180_3456,
            0x0280_0056,
            0x0380_0000,
            0x0480_0000,
            0x01fe_dcba,
            0x0492_3456,
            0xff12_3456,
            0x2200_0100,
            0x2301_0000,
        ] {
            assert_eq!(decode_compact(bits), None, "{bits:08x}");
        }
        for (bits, target, back) in [
            (0x0112_3456, 0x12u128, 0x0112_0000),
            (0x0212_3456, 0x1234, 0x0212_3400),
            (0x0312_3456, 0x12_3456, 0x0312_3456),
            (0x0412_3456, 0x1234_5600, 0x0412_3456),
            (0x0500_9234, 0x9234_0000, 0x0500_9234),
        ] {
            assert_eq!(decode_compact(bits), Some(U256::from(target)), "{bits:08x}");
            assert_eq!(encode_compact(U256::from(target)), back);
        }
        let large = decode_compact(0x2012_3456).unwrap();
        assert_eq!(large, U256::from(0x12_3456u32) << 232);
        assert_eq!(encode_compact(large), 0x2012_3456);
        assert_eq!(encode_compact(U256::from(0x80u8)), 0x0200_8000);
    }

    #[test]
    fn proof_of_work_boundary() {
        let params = mainnet();
        let hash = |value: U256| BlockHash(value.to_le_bytes());
        let target = decode_compact(0x1d00_ffff).unwrap();
        assert!(meets_target(&hash(target), 0x1d00_ffff, &params));
        assert!(!meets_target(&hash(target + 1), 0x1d00_ffff, &params));
        // A target above the limit is refused with any hash.
        assert!(!meets_target(&BlockHash::ZERO, 0x1d01_0000, &params));
        assert!(!meets_target(&BlockHash::ZERO, 0, &params));
        assert!(meets_target(&BlockHash::ZERO, 0x1d00_ffff, &params));
    }

    #[test]
    fn work_of_the_first_blocks() {
        assert_eq!(block_work(0x1d00_ffff), U256::from(0x1_0001_0001u64));
        assert_eq!(block_work(0x207f_ffff), U256::from(2u8));
        assert_eq!(block_work(0), U256::ZERO);
    }

    #[test]
    fn retargeting_of_core() {
        // pow_tests.cpp: an ordinary change, the limit, and both clamps.
        let params = mainnet();
        for (first_time, last_time, last_bits, expected) in [
            (1_261_130_161, 1_262_152_739, 0x1d00_ffff, 0x1d00_d86a),
            (1_231_006_505, 1_233_061_996, 0x1d00_ffff, 0x1d00_ffff),
            (1_279_008_237, 1_279_297_671, 0x1c05_a3f4, 0x1c01_68fd),
            (1_263_163_443, 1_269_211_443, 0x1c38_7f6f, 0x1d00_e1fd),
        ] {
            let period = Period {
                first_time,
                first_bits: 0,
                last_time,
                last_bits,
            };
            assert_eq!(next_period_bits(&period, &params), expected);
        }
    }

    #[test]
    fn bip94_takes_the_first_block_of_the_period() {
        let params = Params::new(Network::Testnet4, None);
        let period = Period {
            first_time: 0,
            first_bits: 0x1c05_a3f4,
            last_time: 1_209_600,
            last_bits: 0x1d00_ffff,
        };
        assert_eq!(next_period_bits(&period, &params), 0x1c05_a3f4);
        assert_eq!(
            next_period_bits(&period, &Params::new(Network::Testnet3, None)),
            0x1d00_ffff
        );
    }

    #[test]
    fn equivalent_time_of_blocks_of_the_same_difficulty() {
        let params = mainnet();
        let one = block_work(0x1d00_ffff);
        assert_eq!(equivalent_time(one * 2017, one, 0x1d00_ffff, &params), 2016 * 600);
        assert_eq!(equivalent_time(one, one, 0x1d00_ffff, &params), 0);
        assert_eq!(equivalent_time(U256::MAX >> 16, one, 0x1d00_ffff, &params), i64::MAX);
    }

    proptest! {
        #[test]
        fn compact_round_trip(word in 0x8000u32..0x80_0000, size in 3u32..32) {
            let bits = size << 24 | word;
            prop_assert_eq!(encode_compact(decode_compact(bits).unwrap()), bits);
        }

        #[test]
        fn any_bits_are_survived(bits: u32) {
            let _ = block_work(bits);
        }
    }
}
