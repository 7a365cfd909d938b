//! The keys and scripts of a chain: a fixed pool made from the seed. Making keys should not
//! dominate making blocks.

use bitcoin::key::{CompressedPublicKey, TapTweak};
use bitcoin::opcodes::all::{OP_CHECKMULTISIG, OP_CHECKSIG, OP_DROP, OP_PUSHNUM_1, OP_PUSHNUM_2, OP_PUSHNUM_3};
use bitcoin::script::Builder;
use bitcoin::secp256k1::{All, Keypair, Secp256k1, SecretKey};
use bitcoin::taproot::{LeafVersion, TaprootBuilder, TaprootSpendInfo};
use bitcoin::{PublicKey, ScriptBuf, XOnlyPublicKey};

use crate::address::{ADDRESSES_PER_KIND, Address, Kind};
use crate::chain_spec::Profile;
use crate::rng::Rng;

/// The stream of [`Rng`] that secret keys come from.
const KEY_STREAM: u64 = 1;

/// Scripts and keys to pay to and to spend from any [`Address`] of a profile.
pub(crate) struct Wallet {
    pub(crate) secp: Secp256k1<All>,
    keys: Vec<Key>,
    /// Scripts by the number of the kind, then by address number. Kinds outside of the profile have
    /// none.
    scripts: Vec<Vec<ScriptBuf>>,
}

/// One key in all the forms in which it is used.
pub(crate) struct Key {
    pub(crate) secret: SecretKey,
    pub(crate) public: CompressedPublicKey,
    /// The untweaked key, for tapscript.
    pub(crate) keypair: Keypair,
    /// The key of the taproot output without scripts.
    pub(crate) tweaked: Keypair,
    /// Two of this key and the next two.
    pub(crate) multisig: ScriptBuf,
    /// The tapscript leaf that is used to spend: this key and OP_CHECKSIG.
    pub(crate) leaf: ScriptBuf,
    /// The control block of that leaf.
    pub(crate) control_block: Vec<u8>,
}

impl Wallet {
    /// The wallet of a profile under a seed.
    pub(crate) fn new(profile: Profile, seed: u64) -> Wallet {
        let secp = Secp256k1::new();
        let (keys, trees) = match profile {
            Profile::Mixed => make_keys(&secp, seed),
            Profile::Utxo => (Vec::new(), Vec::new()),
        };
        // That is the last kind.
        let mut scripts = vec![Vec::new(); Kind::P2wshTrue as usize + 1];
        for &(kind, _) in Kind::of(profile) {
            scripts[kind as usize] = (0..ADDRESSES_PER_KIND)
                .map(|number| match keys.get(usize::from(number)) {
                    Some(key) => signed_script(kind, key, &trees[usize::from(number)]),
                    None => unsigned_script(kind, number),
                })
                .collect();
        }
        Wallet { secp, keys, scripts }
    }

    /// The script that pays to an address.
    pub(crate) fn script(&self, address: Address) -> &ScriptBuf {
        &self.scripts[address.kind as usize][usize::from(address.number)]
    }

    /// The key `further` keys after the address's own. Multisig scripts use the first three.
    pub(crate) fn key(&self, address: Address, further: usize) -> &Key {
        &self.keys[(usize::from(address.number) + further) % self.keys.len()]
    }

    /// The witness program of an address with P2WPKH, bare or in P2SH.
    pub(crate) fn program(&self, address: Address) -> ScriptBuf {
        ScriptBuf::new_p2wpkh(&self.key(address, 0).public.wpubkey_hash())
    }
}

/// The script whose hash is in the P2SH and P2WSH addresses that need no signature.
pub(crate) fn open_script(number: u16) -> ScriptBuf {
    Builder::new()
        // The number makes the script of each address another one.
        .push_slice(number.to_le_bytes())
        .push_opcode(OP_DROP)
        .push_opcode(OP_PUSHNUM_1)
        .into_script()
}

fn make_keys(secp: &Secp256k1<All>, seed: u64) -> (Vec<Key>, Vec<TaprootSpendInfo>) {
    let mut rng = Rng::new(seed, KEY_STREAM);
    let secrets: Vec<SecretKey> = (0..ADDRESSES_PER_KIND).map(|_| secret_key(&mut rng)).collect();
    let keypairs: Vec<Keypair> = secrets.iter().map(|secret| secret.keypair(secp)).collect();
    let publics: Vec<CompressedPublicKey> = keypairs
        .iter()
        .map(|pair| CompressedPublicKey(pair.public_key()))
        .collect();
    let next = |position: usize, further: usize| (position + further) % keypairs.len();
    (0..keypairs.len())
        .map(|position| {
            let leaf = leaf_script(&keypairs[position]);
            let other_leaf = leaf_script(&keypairs[next(position, 1)]);
            // Another key, so that a spend by the leaf is no spend by the key.
            let internal = keypairs[next(position, 2)].x_only_public_key().0;
            let (tree, control_block) = taproot_tree(secp, internal, &leaf, other_leaf);
            let key = Key {
                secret: secrets[position],
                public: publics[position],
                keypair: keypairs[position],
                tweaked: keypairs[position].tap_tweak(secp, None).to_keypair(),
                multisig: multisig_script([0, 1, 2].map(|further| publics[next(position, further)])),
                leaf,
                control_block,
            };
            (key, tree)
        })
        .unzip()
}

fn secret_key(rng: &mut Rng) -> SecretKey {
    loop {
        let mut bytes = [0; 32];
        rng.fill(&mut bytes);
        // All but one in 2^127 are keys.
        if let Ok(secret) = SecretKey::from_slice(&bytes) {
            return secret;
        }
    }
}

fn leaf_script(keypair: &Keypair) -> ScriptBuf {
    Builder::new()
        .push_x_only_key(&keypair.x_only_public_key().0)
        .push_opcode(OP_CHECKSIG)
        .into_script()
}

fn multisig_script(keys: [CompressedPublicKey; 3]) -> ScriptBuf {
    keys.iter()
        .fold(Builder::new().push_opcode(OP_PUSHNUM_2), |script, key| {
            script.push_slice(key.to_bytes())
        })
        .push_opcode(OP_PUSHNUM_3)
        .push_opcode(OP_CHECKMULTISIG)
        .into_script()
}

/// A tree of two leaves, and the control block of the first.
fn taproot_tree(
    secp: &Secp256k1<All>,
    internal: XOnlyPublicKey,
    leaf: &ScriptBuf,
    other_leaf: ScriptBuf,
) -> (TaprootSpendInfo, Vec<u8>) {
    let tree = TaprootBuilder::new()
        .add_leaf(1, leaf.clone())
        .and_then(|builder| builder.add_leaf(1, other_leaf))
        .expect("two leaves at depth 1 make a tree")
        .finalize(secp, internal)
        .expect("the tree is complete");
    let control_block = tree
        .control_block(&(leaf.clone(), LeafVersion::TapScript))
        .expect("the leaf is in the tree")
        .serialize();
    (tree, control_block)
}

fn signed_script(kind: Kind, key: &Key, tree: &TaprootSpendInfo) -> ScriptBuf {
    let public = PublicKey::new(key.public.0);
    match kind {
        Kind::P2pk => ScriptBuf::new_p2pk(&public),
        Kind::P2pkUncompressed => ScriptBuf::new_p2pk(&PublicKey::new_uncompressed(key.public.0)),
        Kind::P2pkh => ScriptBuf::new_p2pkh(&public.pubkey_hash()),
        Kind::P2shMultisig => key.multisig.to_p2sh(),
        Kind::P2shP2wpkh => ScriptBuf::new_p2wpkh(&key.public.wpubkey_hash()).to_p2sh(),
        Kind::P2wpkh => ScriptBuf::new_p2wpkh(&key.public.wpubkey_hash()),
        Kind::P2wshMultisig => key.multisig.to_p2wsh(),
        Kind::P2trKey => ScriptBuf::new_p2tr_tweaked(bitcoin::key::TweakedPublicKey::dangerous_assume_tweaked(
            key.tweaked.x_only_public_key().0,
        )),
        Kind::P2trScript => ScriptBuf::new_p2tr_tweaked(tree.output_key()),
        _ => unreachable!("{kind:?} has no key"),
    }
}

fn unsigned_script(kind: Kind, number: u16) -> ScriptBuf {
    let long_push = |number: u16| {
        let mut bytes = [0x5a; 32];
        bytes[..2].copy_from_slice(&number.to_le_bytes());
        bytes
    };
    match kind {
        Kind::True => crate::builder::any_script(),
        Kind::Anchor => ScriptBuf::new_p2a(),
        Kind::ShortDrop => open_script(number),
        Kind::LongDrop => Builder::new()
            .push_slice(long_push(number))
            .push_opcode(OP_DROP)
            .push_opcode(OP_PUSHNUM_1)
            .into_script(),
        Kind::P2shTrue => open_script(number).to_p2sh(),
        Kind::P2wshTrue => open_script(number).to_p2wsh(),
        _ => unreachable!("{kind:?} needs a key"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_as_long_as_stated_and_follow_from_the_seed() {
        for profile in [Profile::Mixed, Profile::Utxo] {
            let wallet = Wallet::new(profile, 1);
            for &(kind, _) in Kind::of(profile) {
                for number in [0, 1, ADDRESSES_PER_KIND - 1] {
                    let address = Address { kind, number };
                    assert_eq!(wallet.script(address).len() as u64, kind.costs().script, "{kind:?}");
                    let sigops = 4 * wallet.script(address).count_sigops_legacy() as u64;
                    assert_eq!(sigops, kind.costs().output_sigops, "{kind:?}");
                }
            }
        }
        let first = Address {
            kind: Kind::P2wpkh,
            number: 0,
        };
        assert_eq!(
            Wallet::new(Profile::Mixed, 1).script(first),
            Wallet::new(Profile::Mixed, 1).script(first)
        );
        assert_ne!(
            Wallet::new(Profile::Mixed, 1).script(first),
            Wallet::new(Profile::Mixed, 2).script(first)
        );
    }
}
