//! Snapshots of the UTXO set whose hashes Bitcoin Core has built in (`m_assumeutxo_data` of
//! kernel/chainparams.cpp, 31.99).

use blockmill_block::{BlockHash, Network};

/// A snapshot with a known hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownSnapshot {
    /// Height of its base block.
    pub height: u32,
    /// Hash of its base block.
    pub base: BlockHash,
    /// `hash_serialized_3` of the set.
    pub hash_serialized_3: BlockHash,
}

const fn known(height: u32, base: &str, hash_serialized_3: &str) -> KnownSnapshot {
    KnownSnapshot {
        height,
        base: BlockHash::from_text(base),
        hash_serialized_3: BlockHash::from_text(hash_serialized_3),
    }
}

const BITCOIN: &[KnownSnapshot] = &[
    known(
        840_000,
        "0000000000000000000320283a032748cef8227873ff4872689bf23f1cda83a5",
        "a2a5521b1b5ab65f67818e5e8eccabb7171a517f9e2382208f77687310768f96",
    ),
    known(
        880_000,
        "000000000000000000010b17283c3c400507969a9c2afd1dcf2082ec5cca2880",
        "dbd190983eaf433ef7c15f78a278ae42c00ef52e0fd2a54953782175fbadcea9",
    ),
    known(
        910_000,
        "0000000000000000000108970acb9522ffd516eae17acddcb1bd16469194a821",
        "4daf8a17b4902498c5787966a2b51c613acdab5df5db73f196fa59a4da2f1568",
    ),
    known(
        935_000,
        "0000000000000000000147034958af1652b2b91bba607beacc5e72a56f0fb5ee",
        "e4b90ef9eae834f56c4b64d2d50143cee10ad87994c614d7d04125e2a6025050",
    ),
];

const TESTNET3: &[KnownSnapshot] = &[
    known(
        2_500_000,
        "0000000000000093bcb68c03a9a168ae252572d348a2eaeba2cdf9231d73206f",
        "f841584909f68e47897952345234e37fcd9128cd818f41ee6c3ca68db8071be7",
    ),
    known(
        4_840_000,
        "00000000000000f4971a7fb37fbdff89315b69a2e1920c467654a382f0d64786",
        "ce6bb677bb2ee9789c4a1c9d73e6683c53fc20e8fdbedbdaaf468982a0c8db2a",
    ),
];

const TESTNET4: &[KnownSnapshot] = &[
    known(
        90_000,
        "0000000002ebe8bcda020e0dd6ccfbdfac531d2f6a81457191b99fc2df2dbe3b",
        "784fb5e98241de66fdd429f4392155c9e7db5c017148e66e8fdbc95746f8b9b5",
    ),
    known(
        120_000,
        "000000000bd2317e51b3c5794981c35ba894ce27d3e772d5c39ecd9cbce01dc8",
        "10b05d05ad468d0971162e1b222a4aa66caca89da2bb2a93f8f37fb29c4794b0",
    ),
];

const SIGNET: &[KnownSnapshot] = &[
    known(
        160_000,
        "0000003ca3c99aff040f2563c2ad8f8ec88bd0fd6b8f0895cfaf1ef90353a62c",
        "fe0a44309b74d6b5883d246cb419c6221bcccf0b308c9b59b7d70783dbdf928a",
    ),
    known(
        290_000,
        "0000000577f2741bb30cd9d39d6d71b023afbeb9764f6260786a97969d5c9ac0",
        "97267e000b4b876800167e71b9123f1529d13b14308abec2888bbd2160d14545",
    ),
];

const REGTEST: &[KnownSnapshot] = &[
    known(
        110,
        "135eec25a6fb277884e5824e7aa7d052c4868161c99a5122170b5266f86c273d",
        "86e9a1205b418b16dde3a18a78c730e30137e28466bda5dbf6b33ab8fc05447c",
    ),
    known(
        200,
        "385901ccbd69dff6bbd00065d01fb8a9e464dede7cfe0372443884f9b1dcf6b9",
        "17dcc016d188d16068907cdeb38b75691a118d43053b8cd6a25969419381d13a",
    ),
    known(
        299,
        "0c552ced4721c249a389eb9b08cb8da261cd46f0e7b5f9d064d48f3113406853",
        "106b2c56233e378a824cf0d5ff2be42ed32c72f1605c9be288d00942908a40ac",
    ),
];

/// The known snapshots of a network, by height.
pub fn known_snapshots(network: Network) -> &'static [KnownSnapshot] {
    match network {
        Network::Bitcoin => BITCOIN,
        Network::Testnet3 => TESTNET3,
        Network::Testnet4 => TESTNET4,
        Network::Signet => SIGNET,
        Network::Regtest => REGTEST,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heights_ascend_and_no_hash_is_there_twice() {
        let mut hashes = std::collections::HashSet::new();
        for network in [
            Network::Bitcoin,
            Network::Testnet3,
            Network::Testnet4,
            Network::Signet,
            Network::Regtest,
        ] {
            let known = known_snapshots(network);
            assert!(known.is_sorted_by(|a, b| a.height < b.height) && !known.is_empty());
            for snapshot in known {
                assert!(hashes.insert(snapshot.base) && hashes.insert(snapshot.hash_serialized_3));
            }
        }
        assert_eq!(hashes.len(), 2 * 13);
    }
}
