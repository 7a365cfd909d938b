//! The writer of hashes that the second interpreter has instead of Core's.

use super::random::Random;
use crate::ffi::eval::hashes;
use bitcoin::hashes::{Hash, sha256, sha256d};

#[test]
fn pieces_make_no_difference() {
    let random = &mut Random(77);
    for _ in 0..3_000 {
        // About the size of the buffer, and the pieces that transactions are written in.
        let longest = *random.of(&[5, 41, 200, 1023, 1024, 1025, 3000]);
        let pieces: Vec<(usize, bool)> = (0..random.below(60))
            .map(|_| {
                let length = if random.one_in(4) {
                    longest
                } else {
                    random.below(longest + 1)
                };
                (length, random.one_in(5))
            })
            .collect();
        let length = pieces.iter().map(|(length, _)| length).sum();
        let bytes: Vec<u8> = (0..length).map(|_| random.byte()).collect();
        let [twice, once] = hashes(&bytes, &pieces);
        assert_eq!(twice, sha256d::Hash::hash(&bytes).to_byte_array(), "{pieces:?}");
        assert_eq!(once, sha256::Hash::hash(&bytes).to_byte_array(), "{pieces:?}");
    }
}
