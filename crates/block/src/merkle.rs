//! Merkle roots, and the commitment to the witnesses.

use crate::transaction::Transaction;
use sha256_lanes::Hasher;

/// A merkle root, and whether the tree that gave it is ambiguous.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Root {
    /// The root; zero for no leaves.
    pub hash: [u8; 32],
    /// Whether two neighbouring nodes at some level are equal. A shorter list of leaves has the
    /// same root then (CVE-2012-2459), so the list must not count as the content of the block.
    pub mutated: bool,
}

/// Root of the tree over `leaves`. The last node of a level with an odd number of nodes is paired
/// with itself. `leaves` is working memory: its content is unspecified afterwards.
pub fn root(leaves: &mut Vec<[u8; 32]>) -> Root {
    let hasher = Hasher::new();
    let mut mutated = false;
    while leaves.len() > 1 {
        mutated |= leaves.chunks_exact(2).any(|pair| pair[0] == pair[1]);
        if leaves.len() % 2 == 1 {
            // After the look at the pairs: this pair is equal in every honest tree.
            leaves.extend_from_within(leaves.len() - 1..);
        }
        hasher.halve(leaves);
    }
    Root {
        hash: leaves.first().copied().unwrap_or_default(),
        mutated,
    }
}

/// First bytes of an output script that commits to the witnesses (BIP 141): OP_RETURN, a push of
/// 36, the mark.
const COMMITMENT_PREFIX: [u8; 6] = [0x6a, 0x24, 0xaa, 0x21, 0xa9, 0xed];

/// Smallest length in bytes of an output script that commits to the witnesses.
const COMMITMENT_LENGTH_MIN: usize = 38;

/// Index of the coinbase's output that commits to the witnesses: the last one of that form.
pub fn witness_commitment_index(coinbase: &Transaction<'_>) -> Option<usize> {
    let commits = |script: &[u8]| script.len() >= COMMITMENT_LENGTH_MIN && script.starts_with(&COMMITMENT_PREFIX);
    (0..coinbase.output_count())
        .rev()
        .find(|&index| commits(coinbase.output(index).script_pubkey()))
}

/// The 32 bytes of the witness commitment, if the coinbase has one.
pub fn witness_commitment<'a>(coinbase: &Transaction<'a>) -> Option<&'a [u8]> {
    let index = witness_commitment_index(coinbase)?;
    coinbase
        .output(index)
        .script_pubkey()
        .get(COMMITMENT_PREFIX.len()..COMMITMENT_LENGTH_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::sha256d;

    fn leaf(number: u8) -> [u8; 32] {
        [number; 32]
    }

    fn pair(left: [u8; 32], right: [u8; 32]) -> [u8; 32] {
        sha256d(&[left, right].concat())
    }

    #[test]
    fn small_trees() {
        let check = |leaves: &[[u8; 32]], hash, mutated| {
            assert_eq!(root(&mut leaves.to_vec()), Root { hash, mutated });
        };
        check(&[], [0; 32], false);
        check(&[leaf(1)], leaf(1), false);
        check(&[leaf(1), leaf(2)], pair(leaf(1), leaf(2)), false);
        let three = pair(pair(leaf(1), leaf(2)), pair(leaf(3), leaf(3)));
        check(&[leaf(1), leaf(2), leaf(3)], three, false);
        // The same root from a list with its end repeated: CVE-2012-2459.
        check(&[leaf(1), leaf(2), leaf(3), leaf(3)], three, true);
    }

    #[test]
    fn repetition_of_an_inner_node_is_seen() {
        let six: Vec<_> = (1..=6).map(leaf).collect();
        let mut eight = six.clone();
        eight.extend_from_slice(&six[4..]);
        let short = root(&mut six.clone());
        let long = root(&mut eight);
        assert_eq!(short.hash, long.hash);
        assert!(!short.mutated);
        assert!(long.mutated);
    }
}
