//! Kinds of script: the cost of spending each, and how often outputs pay to each.

use crate::chain_spec::Profile;
use crate::rng::Rng;

/// Addresses of each kind in a chain. A signed kind has a key for each.
pub(crate) const ADDRESSES_PER_KIND: u16 = 512;

/// The form of an output's script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A compressed key and OP_CHECKSIG.
    P2pk,
    /// An uncompressed key and OP_CHECKSIG.
    P2pkUncompressed,
    /// Pay to public key hash.
    P2pkh,
    /// Two of three keys, in P2SH.
    P2shMultisig,
    /// P2WPKH in P2SH.
    P2shP2wpkh,
    /// Pay to witness public key hash.
    P2wpkh,
    /// Two of three keys, in P2WSH.
    P2wshMultisig,
    /// Taproot, spent with the key.
    P2trKey,
    /// Taproot, spent with one of two leaves: a key and OP_CHECKSIG.
    P2trScript,
    /// OP_TRUE.
    True,
    /// Pay to anchor: a witness program of version 1 and two bytes.
    Anchor,
    /// A push of two bytes, OP_DROP, OP_TRUE.
    ShortDrop,
    /// A push of 32 bytes, OP_DROP, OP_TRUE.
    LongDrop,
    /// A short push, OP_DROP, OP_TRUE, in P2SH.
    P2shTrue,
    /// The same in P2WSH.
    P2wshTrue,
}

/// The kinds of [`Profile::Mixed`] and how many of 100 outputs pay to each.
const MIXED: [(Kind, u64); 9] = [
    (Kind::P2pk, 3),
    (Kind::P2pkUncompressed, 2),
    (Kind::P2pkh, 17),
    (Kind::P2shMultisig, 7),
    (Kind::P2shP2wpkh, 10),
    (Kind::P2wpkh, 30),
    (Kind::P2wshMultisig, 8),
    (Kind::P2trKey, 17),
    (Kind::P2trScript, 6),
];

/// The kinds of [`Profile::Utxo`] and how many of 100 outputs pay to each.
const UTXO: [(Kind, u64); 6] = [
    (Kind::True, 30),
    (Kind::Anchor, 10),
    (Kind::ShortDrop, 25),
    (Kind::LongDrop, 10),
    (Kind::P2shTrue, 10),
    (Kind::P2wshTrue, 15),
];

/// What a block's limits need to know of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Costs {
    /// Bytes of the output's script.
    pub(crate) script: u64,
    /// Sigop cost of the output itself.
    pub(crate) output_sigops: u64,
    /// At most so many bytes of the script sig that spends it, the length not counted.
    pub(crate) script_sig: u64,
    /// At most so many bytes of the witness, its element count included.
    pub(crate) witness: u64,
    /// Sigop cost (BIP141) of the input that spends it.
    pub(crate) input_sigops: u64,
}

impl Kind {
    /// The kinds that a profile's chains pay to, with their weights.
    pub(crate) fn of(profile: Profile) -> &'static [(Kind, u64)] {
        match profile {
            Profile::Mixed => &MIXED,
            Profile::Utxo => &UTXO,
        }
    }

    /// The costs. Signatures count with their largest size, 72 bytes (65 for taproot).
    pub(crate) fn costs(self) -> Costs {
        let (script, output_sigops, script_sig, witness, input_sigops) = match self {
            Kind::P2pk => (35, 4, 73, 1, 0),
            Kind::P2pkUncompressed => (67, 4, 73, 1, 0),
            Kind::P2pkh => (25, 4, 107, 1, 0),
            // Outside of witnesses a sigop counts four times; CHECKMULTISIG with three keys is
            // three.
            Kind::P2shMultisig => (23, 0, 254, 1, 12),
            Kind::P2shP2wpkh => (23, 0, 23, 108, 1),
            Kind::P2wpkh => (22, 0, 0, 108, 1),
            Kind::P2wshMultisig => (34, 0, 0, 254, 3),
            // BIP 342: Taproot's signatures do not count among the sigops of a block.
            Kind::P2trKey => (34, 0, 0, 67, 0),
            Kind::P2trScript => (34, 0, 0, 168, 0),
            Kind::True => (1, 0, 0, 1, 0),
            Kind::Anchor => (4, 0, 0, 1, 0),
            Kind::ShortDrop => (5, 0, 0, 1, 0),
            Kind::LongDrop => (35, 0, 0, 1, 0),
            Kind::P2shTrue => (23, 0, 6, 1, 0),
            Kind::P2wshTrue => (34, 0, 0, 7, 0),
        };
        Costs {
            script,
            output_sigops,
            script_sig,
            witness,
            input_sigops,
        }
    }
}

/// One of the chain's own scripts, in three bytes, so that millions of coins fit in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Address {
    /// Its kind.
    pub(crate) kind: Kind,
    /// Number within the kind, below [`ADDRESSES_PER_KIND`].
    pub(crate) number: u16,
}

impl Address {
    /// A random address of the profile.
    pub(crate) fn random(profile: Profile, rng: &mut Rng) -> Address {
        Address {
            kind: rng.weighted(Kind::of(profile)),
            number: rng.below(ADDRESSES_PER_KIND.into()) as u16,
        }
    }
}
