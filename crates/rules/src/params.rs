//! Parameters of the networks (Core's kernel/chainparams.cpp, 31.99).

use crate::script_flags::ScriptFlags;
use blockmill_block::network::SIGNET_DEFAULT_CHALLENGE;
use blockmill_block::{BlockHash, Header, Magic, MerkleRoot, Network};
use ethnum::U256;

/// A change of the rules that begins at a height.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deployment {
    /// The coinbase contains the height (BIP 34).
    HeightInCoinbase,
    /// Strict DER signatures (BIP 66).
    DerSig,
    /// CHECKLOCKTIMEVERIFY (BIP 65).
    CheckLockTimeVerify,
    /// Relative lock times, CHECKSEQUENCEVERIFY and median time past (BIP 68, 112, 113).
    Csv,
    /// Segregated witness (BIP 141, 143, 147).
    Segwit,
}

/// The heights at which the deployments begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heights {
    /// BIP 34.
    pub height_in_coinbase: u32,
    /// BIP 66.
    pub der_sig: u32,
    /// BIP 65.
    pub check_lock_time_verify: u32,
    /// BIP 68, 112, 113.
    pub csv: u32,
    /// BIP 141, 143, 147.
    pub segwit: u32,
}

impl Heights {
    /// All deployments from the block after genesis on.
    const FROM_START: Self = Self {
        height_in_coinbase: 1,
        der_sig: 1,
        check_lock_time_verify: 1,
        csv: 1,
        segwit: 1,
    };
}

/// The parameters of a network.
#[derive(Debug, Clone)]
pub struct Params {
    /// The network.
    pub network: Network,
    /// On signet the script that the signature of a block satisfies.
    pub signet_challenge: Option<Vec<u8>>,
    /// Header of the first block. Its coinbase is not in the UTXO set.
    pub genesis: Header,
    /// Blocks after which the subsidy halves.
    pub subsidy_halving_interval: u32,
    /// Heights of the deployments.
    pub heights: Heights,
    /// Hash of the block at the height of BIP 34 in the chain whose later blocks need no check of
    /// BIP 30.
    pub bip34_hash: BlockHash,
    /// Blocks whose scripts run under flags of their own.
    pub script_flag_exceptions: &'static [(BlockHash, ScriptFlags)],
    /// Highest target.
    pub pow_limit: U256,
    /// Intended length of a difficulty period in seconds.
    pub pow_target_timespan: i64,
    /// Intended time between blocks in seconds.
    pub pow_target_spacing: i64,
    /// Whether a late block may have the highest target.
    pub allow_min_difficulty_blocks: bool,
    /// Whether BIP 94 holds.
    pub enforce_bip94: bool,
    /// Whether the difficulty never changes.
    pub no_retargeting: bool,
    /// Work that the best chain must have before scripts may be skipped.
    pub minimum_chain_work: U256,
    /// Blocks that may repeat an earlier coinbase (BIP 30).
    pub bip30_exceptions: &'static [(u32, BlockHash)],
    /// Blocks whose coinbase the blocks of `bip30_exceptions` repeat. A disconnected repetition
    /// takes the outputs with it.
    pub bip30_overwritten: &'static [(u32, BlockHash)],
}

const GENESIS_ROOT: MerkleRoot =
    MerkleRoot::from_text("4a5e1e4baab89f3a32518a88c31bc87f618f76673e2cc77ab2127b7afdeda33b");

const fn genesis(merkle_root: MerkleRoot, time: u32, nonce: u32, bits: u32) -> Header {
    Header {
        version: 1,
        prev_block_hash: BlockHash::ZERO,
        merkle_root,
        time,
        bits,
        nonce,
    }
}

/// What the coinbase of the first block says, and the key that its coin is paid to.
const GENESIS_MESSAGE: &[u8] = b"The Times 03/Jan/2009 Chancellor on brink of second bailout for banks";
const GENESIS_KEY: [u8; 65] = [
    0x04, 0x67, 0x8a, 0xfd, 0xb0, 0xfe, 0x55, 0x48, 0x27, 0x19, 0x67, 0xf1, 0xa6, 0x71, 0x30, 0xb7, 0x10, 0x5c, 0xd6,
    0xa8, 0x28, 0xe0, 0x39, 0x09, 0xa6, 0x79, 0x62, 0xe0, 0xea, 0x1f, 0x61, 0xde, 0xb6, 0x49, 0xf6, 0xbc, 0x3f, 0x4c,
    0xef, 0x38, 0xc4, 0xf3, 0x55, 0x04, 0xe5, 0x1e, 0xc1, 0x12, 0xde, 0x5c, 0x38, 0x4d, 0xf7, 0xba, 0x0b, 0x8d, 0x57,
    0x8a, 0x4c, 0x70, 0x2b, 0x6b, 0xf1, 0x1d, 0x5f,
];
const TESTNET4_MESSAGE: &[u8] = b"03/May/2024 000000000000000000001ebd58c244970b3aa9d783bb001011fbe8ea8e98e00e";

/// The only transaction of a first block: 50 bitcoins for a key.
fn genesis_coinbase(message: &[u8], key: &[u8]) -> Vec<u8> {
    const OP_PUSHDATA1: u8 = 76;
    const OP_CHECKSIG: u8 = 0xac;
    let length = [message.len() as u8];
    let push: &[u8] = if message.len() < usize::from(OP_PUSHDATA1) {
        &length
    } else {
        &[OP_PUSHDATA1, length[0]]
    };
    // The target in compact form, and 4.
    let script_sig = [&[4, 0xff, 0xff, 0, 0x1d, 1, 4], push, message].concat();
    let script_pubkey = [&[key.len() as u8], key, &[OP_CHECKSIG]].concat();
    [
        &1u32.to_le_bytes()[..],
        &[1],
        &[0; 32],
        &u32::MAX.to_le_bytes(),
        &[script_sig.len() as u8],
        &script_sig,
        &u32::MAX.to_le_bytes(),
        &[1],
        &5_000_000_000u64.to_le_bytes(),
        &[script_pubkey.len() as u8],
        &script_pubkey,
        &0u32.to_le_bytes(),
    ]
    .concat()
}

/// 2^224 - 1.
const COMMON_POW_LIMIT: U256 = U256::from_words(0xffff_ffff_ffff_ffff_ffff_ffff, u128::MAX);

/// Blocks that break a script rule, and the rules that hold for them.
const BITCOIN_FLAG_EXCEPTIONS: &[(BlockHash, ScriptFlags)] = &[
    (
        BlockHash::from_text("00000000000002dc756eebf4f49723ed8d30cc28a5f108eb94b1ba88ac4f9c22"),
        ScriptFlags::NONE,
    ),
    (
        BlockHash::from_text("0000000000000000000f14c35b2d841e986ab5441de8c585d5ffe55ea1e395ad"),
        ScriptFlags::P2SH.with(ScriptFlags::WITNESS),
    ),
];

/// Blocks whose coinbase repeats an earlier one.
const BIP30_EXCEPTIONS: &[(u32, BlockHash)] = &[
    (
        91_842,
        BlockHash::from_text("00000000000a4d0a398161ffc163c503763b1f4360639393e0e4c8e300e0caec"),
    ),
    (
        91_880,
        BlockHash::from_text("00000000000743f190a18c5577a3c2d2a1f610ae9601ac046a38084ccb7cd721"),
    ),
];

/// Blocks whose coinbase was repeated.
const BIP30_OVERWRITTEN: &[(u32, BlockHash)] = &[
    (
        91_722,
        BlockHash::from_text("00000000000271a2dc26e7667f8419f2e15416dc6955e5a6c6cdf3f2574dd08e"),
    ),
    (
        91_812,
        BlockHash::from_text("00000000000af0aed4792b1acee3d966af36cf5def14935db8de83d6f9306f2f"),
    ),
];

const TESTNET3_FLAG_EXCEPTIONS: &[(BlockHash, ScriptFlags)] = &[(
    BlockHash::from_text("00000000dd30457c001f4095d208cc1296b0eed002427aa599874af7a432b105"),
    ScriptFlags::NONE,
)];

const WEEK: i64 = 7 * 24 * 60 * 60;

impl Params {
    /// The parameters of `network`. On signet, a challenge replaces the default one. Other networks
    /// ignore it.
    pub fn new(network: Network, signet_challenge: Option<Vec<u8>>) -> Self {
        match network {
            Network::Bitcoin => Self::bitcoin(),
            Network::Testnet3 => Self::testnet3(),
            Network::Testnet4 => Self::testnet4(),
            Network::Signet => Self::signet(signet_challenge),
            Network::Regtest => Self::regtest(),
        }
    }

    /// Magic bytes of block files.
    pub fn magic(&self) -> Magic {
        match &self.signet_challenge {
            Some(challenge) => Magic::of_signet(challenge),
            None => self.network.magic(),
        }
    }

    /// Blocks between changes of the difficulty.
    pub fn difficulty_adjustment_interval(&self) -> u32 {
        (self.pow_target_timespan / self.pow_target_spacing) as u32
    }

    /// The bytes of the first block, which every node knows without a file.
    pub fn genesis_block(&self) -> Vec<u8> {
        let coinbase = match self.network {
            // Testnet4 pays its first coin to a key of zeros.
            Network::Testnet4 => genesis_coinbase(TESTNET4_MESSAGE, &[0; 33]),
            _ => genesis_coinbase(GENESIS_MESSAGE, &GENESIS_KEY),
        };
        [&self.genesis.to_bytes()[..], &[1], &coinbase].concat()
    }

    /// Whether `deployment` holds for a block at `height`.
    pub fn is_active(&self, deployment: Deployment, height: u32) -> bool {
        height
            >= match deployment {
                Deployment::HeightInCoinbase => self.heights.height_in_coinbase,
                Deployment::DerSig => self.heights.der_sig,
                Deployment::CheckLockTimeVerify => self.heights.check_lock_time_verify,
                Deployment::Csv => self.heights.csv,
                Deployment::Segwit => self.heights.segwit,
            }
    }

    fn bitcoin() -> Self {
        Self {
            network: Network::Bitcoin,
            signet_challenge: None,
            genesis: genesis(GENESIS_ROOT, 1_231_006_505, 2_083_236_893, 0x1d00_ffff),
            subsidy_halving_interval: 210_000,
            heights: Heights {
                height_in_coinbase: 227_931,
                der_sig: 363_725,
                check_lock_time_verify: 388_381,
                csv: 419_328,
                segwit: 481_824,
            },
            bip34_hash: BlockHash::from_text("000000000000024b89b42a942fe0d9fea3bb44ab7bd1b19115dd6a759c0808b8"),
            script_flag_exceptions: BITCOIN_FLAG_EXCEPTIONS,
            pow_limit: COMMON_POW_LIMIT,
            pow_target_timespan: 2 * WEEK,
            pow_target_spacing: 600,
            allow_min_difficulty_blocks: false,
            enforce_bip94: false,
            no_retargeting: false,
            minimum_chain_work: U256::from_words(0, 0x0000_0001_1287_50f8_2f4c_3661_53a3_a030),
            bip30_exceptions: BIP30_EXCEPTIONS,
            bip30_overwritten: BIP30_OVERWRITTEN,
        }
    }

    fn testnet3() -> Self {
        Self {
            network: Network::Testnet3,
            genesis: genesis(GENESIS_ROOT, 1_296_688_602, 414_098_458, 0x1d00_ffff),
            heights: Heights {
                height_in_coinbase: 21_111,
                der_sig: 330_776,
                check_lock_time_verify: 581_885,
                csv: 770_112,
                segwit: 834_624,
            },
            bip34_hash: BlockHash::from_text("0000000023b3a96d3484e5abb3755c413e7d41500f8e2a5c3f0dd01299cd8ef8"),
            script_flag_exceptions: TESTNET3_FLAG_EXCEPTIONS,
            allow_min_difficulty_blocks: true,
            minimum_chain_work: U256::from_words(0, 0x0000_0000_0000_17dd_e1c6_49f3_708d_14b6),
            // On every network, Core compares with height and hash of two blocks of the main
            // network.
            ..Self::bitcoin()
        }
    }

    fn testnet4() -> Self {
        Self {
            network: Network::Testnet4,
            genesis: genesis(
                MerkleRoot::from_text("7aa0a7ae1e223414cb807e40cd57e667b718e42aaf9306db9102fe28912b7b4e"),
                1_714_777_860,
                393_743_547,
                0x1d00_ffff,
            ),
            heights: Heights::FROM_START,
            bip34_hash: BlockHash::ZERO,
            script_flag_exceptions: &[],
            allow_min_difficulty_blocks: true,
            enforce_bip94: true,
            minimum_chain_work: U256::from_words(0, 0x0000_0000_0000_09a0_fe15_d017_7d08_6304),
            ..Self::bitcoin()
        }
    }

    fn signet(challenge: Option<Vec<u8>>) -> Self {
        let challenge = challenge.unwrap_or_else(|| SIGNET_DEFAULT_CHALLENGE.to_vec());
        let minimum_chain_work = if challenge == SIGNET_DEFAULT_CHALLENGE {
            U256::from_words(0, 0x0000_0000_0000_0000_0000_0b46_3ea0_a4b8)
        } else {
            U256::ZERO
        };
        Self {
            network: Network::Signet,
            signet_challenge: Some(challenge),
            genesis: genesis(GENESIS_ROOT, 1_598_918_400, 52_613_770, 0x1e03_77ae),
            heights: Heights::FROM_START,
            bip34_hash: BlockHash::ZERO,
            script_flag_exceptions: &[],
            pow_limit: U256::from_words(0x0000_0377_ae00_0000_0000_0000_0000_0000, 0),
            minimum_chain_work,
            ..Self::bitcoin()
        }
    }

    fn regtest() -> Self {
        Self {
            network: Network::Regtest,
            genesis: genesis(GENESIS_ROOT, 1_296_688_602, 2, 0x207f_ffff),
            subsidy_halving_interval: 150,
            heights: Heights {
                // Core's regtest has segwit from genesis on.
                segwit: 0,
                ..Heights::FROM_START
            },
            bip34_hash: BlockHash::ZERO,
            script_flag_exceptions: &[],
            pow_limit: U256::from_words(u128::MAX >> 1, u128::MAX),
            pow_target_timespan: 24 * 60 * 60,
            allow_min_difficulty_blocks: true,
            no_retargeting: true,
            minimum_chain_work: U256::ZERO,
            ..Self::bitcoin()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blockmill_block::Block;

    #[test]
    fn genesis_hashes() {
        for (network, hash) in [
            (
                Network::Bitcoin,
                "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f",
            ),
            (
                Network::Testnet3,
                "000000000933ea01ad0ee984209779baaec3ced90fa3f408719526f8d77f4943",
            ),
            (
                Network::Testnet4,
                "00000000da84f2bafbbc53dee25a72ae507ff4914b867c565be350b0da8bf043",
            ),
            (
                Network::Signet,
                "00000008819873e925422c1ff0f99f7cc9bbb232af63a077a480a3633bee1ef6",
            ),
            (
                Network::Regtest,
                "0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206",
            ),
        ] {
            let params = Params::new(network, None);
            assert_eq!(params.genesis.hash().to_string(), hash);
            assert_eq!(params.magic(), network.magic());
            let block = Block::decode(params.genesis_block()).unwrap();
            assert_eq!(block.hash(), params.genesis.hash());
            assert_eq!(block.merkle_root().hash, params.genesis.merkle_root.0);
        }
    }

    #[test]
    fn limits_and_intervals() {
        let limit = |network| format!("{:064x}", Params::new(network, None).pow_limit);
        assert_eq!(limit(Network::Bitcoin), format!("{:f<64}", "00000000"));
        assert_eq!(limit(Network::Regtest), format!("{:f<64}", "7"));
        assert_eq!(limit(Network::Signet), format!("{:0<64}", "00000377ae"));
        let interval = |network| Params::new(network, None).difficulty_adjustment_interval();
        assert_eq!(interval(Network::Bitcoin), 2016);
        assert_eq!(interval(Network::Regtest), 144);
    }

    #[test]
    fn a_signet_of_its_own() {
        let params = Params::new(Network::Signet, Some(vec![0x51]));
        assert_ne!(params.magic(), Network::Signet.magic());
        assert_eq!(params.minimum_chain_work, U256::ZERO);
    }
}
