//! Where a block stands, and what is known of the chain below it.

use blockmill_block::BlockHash;
use blockmill_rules::connect::Overwriting;
use blockmill_rules::flags::block_script_flags;
use blockmill_rules::header::HeaderFacts;
use blockmill_rules::spend::enforces_bip30;
use blockmill_rules::{Params, ScriptFlags};

/// Where a block stands, and what is known of the chain below it. A rule is left out if what it
/// asks for is not known; a block that passes all the same may be invalid in its chain.
#[derive(Clone, Copy)]
pub struct BlockPosition<'a> {
    /// Parameters of the network.
    pub params: &'a Params,
    /// Height of the block.
    pub height: u32,
    /// What the rules of its header ask for. Without the median time past lock times are compared
    /// with the block's own time, and relative locks are not checked.
    pub facts: HeaderFacts,
    /// Median time past of the block's ancestor at a height, if it is known. Only a relative lock
    /// by time asks for it. Such a lock has no verdict without it.
    pub median_time_past: Option<&'a (dyn Fn(u32) -> Option<u32> + Sync)>,
    /// Whether the block may make coins that are there (BIP 30). Without it the network's rule
    /// holds, and the chain counts as the one that is known to need no such check.
    pub overwriting: Option<Overwriting>,
    /// Flags of the scripts. Without them they are those of height and hash.
    pub script_flags: Option<ScriptFlags>,
    /// Whether the proof of work is checked, and on signet the block's signature.
    pub proof_of_work: bool,
}

impl<'a> BlockPosition<'a> {
    /// A height on a network, and nothing is known of the chain below it.
    pub fn at_height(params: &'a Params, height: u32) -> Self {
        Self {
            params,
            height,
            facts: HeaderFacts::default(),
            median_time_past: None,
            overwriting: None,
            script_flags: None,
            proof_of_work: true,
        }
    }

    /// Flags of the scripts of the block with this hash.
    pub fn script_flags(&self, hash: &BlockHash) -> ScriptFlags {
        self.script_flags
            .unwrap_or_else(|| block_script_flags(self.params, self.height, hash))
    }

    /// Whether the block with this hash may make coins that are there.
    pub(crate) fn overwriting(&self, hash: &BlockHash) -> Overwriting {
        self.overwriting.unwrap_or_else(|| {
            let known = self.params.bip34_hash;
            // On networks of their own no hash is known. The block at this height has it itself.
            let is_above = self.height > self.params.heights.height_in_coinbase && known != BlockHash::ZERO;
            match enforces_bip30(self.params, self.height, hash, is_above.then_some(&known)) {
                true => Overwriting::Forbidden,
                false => Overwriting::Allowed,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blockmill_block::Network;

    #[test]
    fn bip30_by_network_and_height() {
        let at = |network, height, hash: &BlockHash| {
            let params = Params::new(network, None);
            BlockPosition::at_height(&params, height).overwriting(hash)
        };
        let repeat = Params::new(Network::Bitcoin, None).bip30_exceptions[0];
        let other = BlockHash::ZERO;
        assert_eq!(at(Network::Bitcoin, repeat.0, &repeat.1), Overwriting::Allowed);
        assert_eq!(at(Network::Bitcoin, repeat.0, &other), Overwriting::Forbidden);
        assert_eq!(at(Network::Bitcoin, 227_931, &other), Overwriting::Forbidden);
        assert_eq!(at(Network::Bitcoin, 227_932, &other), Overwriting::Allowed);
        assert_eq!(at(Network::Bitcoin, 1_983_702, &other), Overwriting::Forbidden);
        assert_eq!(at(Network::Regtest, 1_000, &other), Overwriting::Forbidden);
        let params = Params::new(Network::Regtest, None);
        let given = BlockPosition {
            overwriting: Some(Overwriting::Allowed),
            ..BlockPosition::at_height(&params, 1_000)
        };
        assert_eq!(given.overwriting(&other), Overwriting::Allowed);
    }

    #[test]
    fn flags_are_those_given_or_those_of_the_height() {
        let params = Params::new(Network::Bitcoin, None);
        let mut position = BlockPosition::at_height(&params, 1);
        let by_height = position.script_flags(&BlockHash::ZERO);
        assert_eq!(by_height, block_script_flags(&params, 1, &BlockHash::ZERO));
        position.script_flags = Some(ScriptFlags::NONE);
        assert_eq!(position.script_flags(&BlockHash::ZERO), ScriptFlags::NONE);
    }
}
