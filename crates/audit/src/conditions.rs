//! The conditions under which true sums make true coins. `docs/audit.md` has the argument.

use blockmill_block::{BlockHash, Magic, Network};
use blockmill_rules::Params;

/// Which conditions are checked: all of them, but in tests that show what each is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Conditions {
    /// A coin is spent after it was created.
    pub(crate) order: bool,
    /// No two coinbases are the same.
    pub(crate) once: bool,
    /// The products agree.
    pub(crate) sums: bool,
    /// Parts join into one chain, from the first block to the set's.
    pub(crate) joined: bool,
    /// Parts are sealed with the run's key.
    pub(crate) sealed: bool,
}

impl Default for Conditions {
    fn default() -> Self {
        Self {
            order: true,
            once: true,
            sums: true,
            joined: true,
            sealed: true,
        }
    }
}

/// A block whose coinbase is that of an earlier one. Its coin replaces the earlier coin, which
/// is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Repeat {
    /// Height of the block whose coin is lost.
    pub(crate) earlier: u32,
    /// The block that repeats its coinbase.
    pub(crate) height: u32,
    pub(crate) hash: BlockHash,
}

/// The blocks of the main network that did so before BIP 30.
const MAIN_REPEATS: [Repeat; 2] = [
    Repeat {
        earlier: 91_812,
        height: 91_842,
        hash: BlockHash::from_text("00000000000a4d0a398161ffc163c503763b1f4360639393e0e4c8e300e0caec"),
    },
    Repeat {
        earlier: 91_722,
        height: 91_880,
        hash: BlockHash::from_text("00000000000743f190a18c5577a3c2d2a1f610ae9601ac046a38084ccb7cd721"),
    },
];

/// What an audit must know of a network.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChainFacts {
    pub(crate) magic: Magic,
    /// Its name. Signets of other challenges than the public one's have that name, too.
    pub(crate) network: Network,
    pub(crate) genesis: BlockHash,
    pub(crate) repeats: &'static [Repeat],
}

impl ChainFacts {
    pub(crate) fn of_magic(magic: Magic) -> Self {
        let mut networks = Network::ALL.into_iter();
        let network = networks.find(|network| network.magic() == magic);
        // A magic that no network has is that of a signet with its own challenge.
        let network = network.unwrap_or(Network::Signet);
        Self {
            magic,
            network,
            genesis: Params::new(network, None).genesis.hash(),
            repeats: if network == Network::Bitcoin {
                &MAIN_REPEATS
            } else {
                &[]
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repeats_are_those_of_the_rules() {
        let params = Params::new(Network::Bitcoin, None);
        let facts = ChainFacts::of_magic(params.magic());
        let repeats = facts.repeats.iter().map(|repeat| (repeat.height, repeat.hash));
        assert!(repeats.eq(params.bip30_exceptions.iter().copied()));
        let mut earlier: Vec<u32> = facts.repeats.iter().map(|repeat| repeat.earlier).collect();
        earlier.sort_unstable();
        assert!(
            earlier
                .into_iter()
                .eq(params.bip30_overwritten.iter().map(|(height, _)| *height))
        );
    }

    #[test]
    fn networks_have_their_names() {
        for network in Network::ALL {
            let facts = ChainFacts::of_magic(network.magic());
            assert_eq!(
                (facts.network, facts.genesis),
                (network, Params::new(network, None).genesis.hash())
            );
        }
        assert_eq!(ChainFacts::of_magic(Magic::of_signet(&[0x51])).network, Network::Signet);
    }
}
