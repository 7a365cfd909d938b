//! Coins for stores and maps, each made from a number: amounts, and scripts of many kinds.

/// The shares of scripts in words.
pub const SHARES: &str = "33% P2TR, 27% P2WPKH, 27% P2PKH, 8% P2SH, 2% P2WSH, 2% bare multisig, 1% P2PK";

/// Of a hundred scripts so many are a head, so many bytes that vary, and a tail: close to today's
/// set by count.
const SCRIPTS: [(u64, &[u8], usize, &[u8]); 7] = [
    (33, &[0x51, 32], 32, &[]),
    (27, &[0, 20], 20, &[]),
    (27, &[0x76, 0xa9, 20], 20, &[0x88, 0xac]),
    (8, &[0xa9, 20], 20, &[0x87]),
    (2, &[0, 32], 32, &[]),
    (2, &[0x51], 102, &[0x53, 0xae]),
    (1, &[33, 2], 32, &[0xac]),
];

/// The finalizer of splitmix64: a permutation of 64-bit numbers.
pub fn mix(number: u64) -> u64 {
    let mut state = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    state = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ state >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ state >> 31
}

/// Fills bytes that depend on `seed`.
pub fn fill(seed: u64, bytes: &mut [u8]) {
    let mut word = seed;
    for part in bytes.chunks_mut(8) {
        word = mix(word);
        part.copy_from_slice(&word.to_le_bytes()[..part.len()]);
    }
}

/// An amount.
pub fn value(seed: u64) -> i64 {
    let word = mix(seed);
    let magnitude = 10i64.pow(3 + (word % 7) as u32);
    // From dust to ten bitcoins, each magnitude as often as the others.
    546 + (word >> 8).cast_signed() % magnitude
}

/// Appends a locking script.
pub fn push_script(seed: u64, script: &mut Vec<u8>) {
    let mut hundredth = seed % 100;
    let chosen = SCRIPTS.iter().find(|&&(share, ..)| {
        let is_here = hundredth < share;
        hundredth = hundredth.saturating_sub(share);
        is_here
    });
    // The shares are a hundred together, so one is always chosen.
    let (_, before, length, after) = chosen.unwrap_or(&SCRIPTS[0]);
    script.extend_from_slice(before);
    let start = script.len();
    script.resize(start + length, 0);
    fill(seed, &mut script[start..]);
    script.extend_from_slice(after);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_have_their_shares() {
        let mut counts = std::collections::BTreeMap::new();
        for seed in 0..100 {
            let mut script = vec![7];
            push_script(seed, &mut script);
            *counts.entry((script.len() - 1, script[1])).or_insert(0) += 1;
        }
        let wanted = [
            ((22, 0), 27),
            ((23, 0xa9), 8),
            ((25, 0x76), 27),
            ((34, 0), 2),
            ((34, 0x51), 33),
            ((35, 33), 1),
            ((105, 0x51), 2),
        ];
        assert_eq!(counts.into_iter().collect::<Vec<_>>(), wanted);
        assert!((0..1000).all(|seed| value(seed) > 0));
    }
}
