//! What is asked, and the answers.

/// What a [`Check`] asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// An ECDSA signature: `key` is a compressed public key, `r` and `s` are the signature,
    /// `message` is the hash that is signed.
    Ecdsa = 0,
    /// A signature of BIP340: `key[1..]` is the x-only public key, `r` and `s` are the signature,
    /// `message` is what is signed.
    Schnorr = 1,
    /// A commitment by a tweak (BIP341): the point with the x coordinate `r` and the parity
    /// `message[0]`, 0 for an even y coordinate and 1 for an odd one, must be that with the x
    /// coordinate `key[1..]` and an even y coordinate, plus `s` times the generator. Any other
    /// parity is invalid, as in libsecp256k1. The rest of the message is not read.
    Tweak = 2,
}

/// One question. All numbers are in big endian. The layout is that of C.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Check {
    /// What is asked.
    pub kind: Kind,
    /// A compressed point: 2 or 3 for the parity of its y coordinate, and its x coordinate. The
    /// parity counts for ECDSA alone.
    pub key: [u8; 33],
    /// The first half of the signature, or the x coordinate of the tweaked point.
    pub r: [u8; 32],
    /// The second half of the signature, or the tweak.
    pub s: [u8; 32],
    /// The message, or the parity of the tweaked point in the first byte.
    pub message: [u8; 32],
}

/// The answer to a [`Check`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It does not hold.
    Invalid,
    /// It holds.
    Valid,
    /// It met a special case that the lanes leave to others.
    CannotTell,
}
