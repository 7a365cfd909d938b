//! What a locking script is called, and its address, as Bitcoin Core says it.

use bitcoin::address::Address;
use bitcoin::params::{MAINNET, Params, REGTEST, SIGNET, TESTNET3, TESTNET4};
use blockmill_block::Network;

/// What tells the addresses of networks apart.
pub(crate) fn params(network: Network) -> &'static Params {
    match network {
        Network::Bitcoin => &MAINNET,
        Network::Testnet3 => &TESTNET3,
        Network::Testnet4 => &TESTNET4,
        Network::Signet => &SIGNET,
        Network::Regtest => &REGTEST,
    }
}

/// The address of a script, if it has one.
pub(crate) fn address(script_pubkey: &[u8], network: Network) -> Option<String> {
    let script = bitcoin::Script::from_bytes(script_pubkey);
    let address = Address::from_script(script, params(network)).ok()?;
    Some(address.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use blockmill_block::hex;

    #[track_caller]
    fn check(script: &str, network: Network, expected: Option<&str>) {
        let script = hex::decode(script).unwrap();
        assert_eq!(address(&script, network).as_deref(), expected);
    }

    /// Those of BIP 173, BIP 350 and of well-known coins.
    #[test]
    fn scripts_with_an_address() {
        let witness = "0014751e76e8199196d454941c45d1b3a323f1433bd6";
        for (network, expected) in [
            (Network::Bitcoin, "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"),
            (Network::Testnet3, "tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx"),
            (Network::Testnet4, "tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx"),
            (Network::Signet, "tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx"),
            (Network::Regtest, "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080"),
        ] {
            check(witness, network, Some(expected));
        }
        for (script, expected) in [
            (
                "76a91462e907b15cbf27d5425399ebf6f0fb50ebb88f1888ac",
                "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa",
            ),
            (
                "a914f815b036d9bbbce5e9f2a00abd1bf3dc91e9551087",
                "3QJmV3qfvL9SuYo34YihAf3sRCW3qSinyC",
            ),
            ("51024e73", "bc1pfeessrawgf"),
            ("6002751e", "bc1sw50qgdz25j"),
        ] {
            check(script, Network::Bitcoin, Some(expected));
        }
    }

    #[test]
    fn scripts_without_an_address() {
        let key = "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798";
        for script in [
            "",
            "6a",
            "51",
            "0013751e76e8199196d454941c45d1b3a323f1433b",
            &format!("21{key}ac"),
        ] {
            check(script, Network::Bitcoin, None);
        }
    }
}
