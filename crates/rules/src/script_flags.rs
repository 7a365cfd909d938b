//! Script flags.

use std::ops::BitOr;

/// A set of script rules, with the bits of Bitcoin Core's kernel interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScriptFlags(pub u32);

impl ScriptFlags {
    /// Only the rules of the first release.
    pub const NONE: Self = Self(0);
    /// Pay to script hash (BIP 16).
    pub const P2SH: Self = Self(1 << 0);
    /// Strict DER signatures (BIP 66).
    pub const DERSIG: Self = Self(1 << 2);
    /// The extra element that CHECKMULTISIG takes is empty (BIP 147).
    pub const NULLDUMMY: Self = Self(1 << 4);
    /// CHECKLOCKTIMEVERIFY (BIP 65).
    pub const CHECKLOCKTIMEVERIFY: Self = Self(1 << 9);
    /// CHECKSEQUENCEVERIFY (BIP 112).
    pub const CHECKSEQUENCEVERIFY: Self = Self(1 << 10);
    /// Segregated witness (BIP 141, 143).
    pub const WITNESS: Self = Self(1 << 11);
    /// Taproot and tapscript (BIP 341, 342).
    pub const TAPROOT: Self = Self(1 << 17);
    /// All script rules of consensus.
    pub const ALL: Self = Self::P2SH
        .with(Self::DERSIG)
        .with(Self::NULLDUMMY)
        .with(Self::CHECKLOCKTIMEVERIFY)
        .with(Self::CHECKSEQUENCEVERIFY)
        .with(Self::WITNESS)
        .with(Self::TAPROOT);

    /// Whether all of `other` are in this set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether Core's interpreter runs scripts under these flags: it knows them all, and has the
    /// ones that others need.
    pub const fn can_run(self) -> bool {
        Self::ALL.contains(self) && (!self.contains(Self::WITNESS) || self.contains(Self::P2SH))
    }

    /// This set without those of `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Both sets together.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOr for ScriptFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.with(other)
    }
}
