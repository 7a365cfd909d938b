//! The networks, and the bytes that mark their messages and files.

use crate::hash::Sha256d;
use crate::reader::write_compact_size;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// The four bytes before every block in a block file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Magic(pub [u8; 4]);

/// A network that Bitcoin Core knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Network {
    /// The main network.
    Bitcoin,
    /// Test network 3.
    Testnet3,
    /// Test network 4 (BIP 94).
    Testnet4,
    /// A network whose blocks are signed (BIP 325).
    Signet,
    /// Local network for tests.
    Regtest,
}

/// The challenge of the public signet: one of two keys signs.
pub const SIGNET_DEFAULT_CHALLENGE: [u8; 71] = [
    0x51, 0x21, 0x03, 0xad, 0x5e, 0x0e, 0xda, 0xd1, 0x8c, 0xb1, 0xf0, 0xfc, 0x0d, 0x28, 0xa3, 0xd4, 0xf1, 0xf3, 0xe4,
    0x45, 0x64, 0x03, 0x37, 0x48, 0x9a, 0xbb, 0x10, 0x40, 0x4f, 0x2d, 0x1e, 0x08, 0x6b, 0xe4, 0x30, 0x21, 0x03, 0x59,
    0xef, 0x50, 0x21, 0x96, 0x4f, 0xe2, 0x2d, 0x6f, 0x8e, 0x05, 0xb2, 0x46, 0x3c, 0x95, 0x40, 0xce, 0x96, 0x88, 0x3f,
    0xe3, 0xb2, 0x78, 0x76, 0x0f, 0x04, 0x8f, 0x51, 0x89, 0xf2, 0xe6, 0xc4, 0x52, 0xae,
];

/// The name of no network.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("unknown network '{0}' (bitcoin, testnet3, testnet4, signet, regtest)")]
pub struct UnknownNetwork(pub String);

impl Network {
    /// All networks.
    pub const ALL: [Self; 5] = [
        Self::Bitcoin,
        Self::Testnet3,
        Self::Testnet4,
        Self::Signet,
        Self::Regtest,
    ];

    /// The name used on the command line and in data directories.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bitcoin => "bitcoin",
            Self::Testnet3 => "testnet3",
            Self::Testnet4 => "testnet4",
            Self::Signet => "signet",
            Self::Regtest => "regtest",
        }
    }

    /// Magic bytes. Those of signet belong to the default challenge, see [`Magic::of_signet`].
    pub fn magic(self) -> Magic {
        match self {
            Self::Bitcoin => Magic([0xf9, 0xbe, 0xb4, 0xd9]),
            Self::Testnet3 => Magic([0x0b, 0x11, 0x09, 0x07]),
            Self::Testnet4 => Magic([0x1c, 0x16, 0x3f, 0x28]),
            Self::Signet => Magic::of_signet(&SIGNET_DEFAULT_CHALLENGE),
            Self::Regtest => Magic([0xfa, 0xbf, 0xb5, 0xda]),
        }
    }
}

impl Magic {
    /// Magic of the signet with this challenge: the first bytes of the double SHA-256 of the
    /// serialized challenge (BIP 325).
    pub fn of_signet(challenge: &[u8]) -> Self {
        let mut length = Vec::new();
        write_compact_size(challenge.len() as u64, &mut length);
        let mut hash = Sha256d::new();
        hash.update(&length);
        hash.update(challenge);
        let digest = hash.finalize();
        Self([digest[0], digest[1], digest[2], digest[3]])
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Network {
    type Err = UnknownNetwork;

    /// The [`name`](Self::name), or another one of the field: Core calls the chains `main` and
    /// `test`.
    fn from_str(name: &str) -> Result<Self, UnknownNetwork> {
        match name {
            "main" | "mainnet" => return Ok(Self::Bitcoin),
            "test" | "testnet" => return Ok(Self::Testnet3),
            _ => {}
        }
        Self::ALL
            .into_iter()
            .find(|network| network.name() == name)
            .ok_or_else(|| UnknownNetwork(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for network in Network::ALL {
            assert_eq!(network.name().parse(), Ok(network));
        }
        for (name, network) in [
            ("main", Network::Bitcoin),
            ("mainnet", Network::Bitcoin),
            ("test", Network::Testnet3),
            ("testnet", Network::Testnet3),
        ] {
            assert_eq!(name.parse(), Ok(network));
        }
        for name in ["", "Bitcoin", "testnet5"] {
            assert!(name.parse::<Network>().is_err());
        }
    }

    #[test]
    fn magic_of_the_default_signet() {
        assert_eq!(Network::Signet.magic(), Magic([0x0a, 0x03, 0xcf, 0x40]));
    }
}
