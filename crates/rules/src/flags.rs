//! The script flags of a block: the rules under which its scripts run.

use crate::params::{Deployment, Params};
pub use crate::script_flags::ScriptFlags;
use blockmill_block::BlockHash;

/// Flags that come with a deployment.
const DEPLOYED: [(Deployment, ScriptFlags); 4] = [
    (Deployment::DerSig, ScriptFlags::DERSIG),
    (Deployment::CheckLockTimeVerify, ScriptFlags::CHECKLOCKTIMEVERIFY),
    (Deployment::Csv, ScriptFlags::CHECKSEQUENCEVERIFY),
    // BIP 147 came with segwit.
    (Deployment::Segwit, ScriptFlags::NULLDUMMY),
];

/// The flags under which the scripts of a block MUST run. P2SH, witness and taproot hold in every
/// block except the listed ones, the others from their deployment on (Core's
/// `GetBlockScriptFlags`).
pub fn block_script_flags(params: &Params, height: u32, hash: &BlockHash) -> ScriptFlags {
    let exception = params.script_flag_exceptions.iter().find(|(block, _)| block == hash);
    let base = match exception {
        Some((_, flags)) => *flags,
        None => ScriptFlags::P2SH | ScriptFlags::WITNESS | ScriptFlags::TAPROOT,
    };
    DEPLOYED
        .into_iter()
        .filter(|(deployment, _)| params.is_active(*deployment, height))
        .fold(base, |flags, (_, more)| flags | more)
}

#[cfg(test)]
mod tests {
    use super::*;
    use blockmill_block::Network;

    fn flags(network: Network, height: u32, hash: BlockHash) -> ScriptFlags {
        block_script_flags(&Params::new(network, None), height, &hash)
    }

    #[test]
    fn heights_and_exceptions_of_mainnet() {
        use ScriptFlags as F;
        let base = F::P2SH | F::WITNESS | F::TAPROOT;
        let at = |height| flags(Network::Bitcoin, height, BlockHash::ZERO);
        assert_eq!(at(1), base);
        assert_eq!(at(363_724), base);
        assert_eq!(at(363_725), base | F::DERSIG);
        assert_eq!(at(388_380), base | F::DERSIG);
        assert_eq!(at(388_381), base | F::DERSIG | F::CHECKLOCKTIMEVERIFY);
        let csv = base | F::DERSIG | F::CHECKLOCKTIMEVERIFY | F::CHECKSEQUENCEVERIFY;
        assert_eq!(at(419_327), base | F::DERSIG | F::CHECKLOCKTIMEVERIFY);
        assert_eq!(at(419_328), csv);
        assert_eq!(at(481_823), csv);
        assert_eq!(at(481_824), csv | F::NULLDUMMY);
        let bip16 = BlockHash::from_text("00000000000002dc756eebf4f49723ed8d30cc28a5f108eb94b1ba88ac4f9c22");
        assert_eq!(flags(Network::Bitcoin, 170_060, bip16), F::NONE);
        let taproot = BlockHash::from_text("0000000000000000000f14c35b2d841e986ab5441de8c585d5ffe55ea1e395ad");
        assert!(!flags(Network::Bitcoin, 692_261, taproot).contains(F::TAPROOT));
        assert!(flags(Network::Bitcoin, 692_261, taproot).contains(F::P2SH | F::WITNESS | F::NULLDUMMY));
    }

    #[test]
    fn everything_from_block_1_of_regtest() {
        use ScriptFlags as F;
        let all = F::P2SH
            | F::DERSIG
            | F::NULLDUMMY
            | F::CHECKLOCKTIMEVERIFY
            | F::CHECKSEQUENCEVERIFY
            | F::WITNESS
            | F::TAPROOT;
        assert_eq!(flags(Network::Regtest, 1, BlockHash::ZERO), all);
    }
}
