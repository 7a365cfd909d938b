//! What a user looks for in the set: addresses, output descriptors and scripts, as the locking
//! scripts that they stand for. Each script has the descriptor that Core would print for it.
//!
//! Core infers that descriptor from the script and from the keys it knows: keys are those of the
//! index, each with its origin; `sortedmulti` is `multi` in the order of the script; and the leaves
//! of a tree come in an order of their own.

use crate::script_pubkey::{ScriptKind, address, params};
use bitcoin::bip32::{ChildNumber, Fingerprint};
use bitcoin::hashes::{Hash, hash160};
use bitcoin::key::XOnlyPublicKey;
use bitcoin::secp256k1::{All, Secp256k1};
use bitcoin::{Address, NetworkKind, PublicKey, ScriptBuf};
use blockmill_block::{Network, hex};
use miniscript::descriptor::checksum::{self, verify_checksum};
use miniscript::descriptor::{
    DefiniteDescriptorKey, DescriptorPublicKey, DescriptorSecretKey, ShInner, SinglePubKey, SortedMultiVec, TapTree,
    WshInner, XKeyNetwork,
};
use miniscript::{Descriptor, ScriptContext, Translator};
use std::convert::Infallible;
use std::ops::RangeInclusive;
use thiserror::Error;

/// Most indices of a range, as in Core.
pub(crate) const RANGE_MAX: u32 = 1_000_000;

/// Most keys of a multisig script that no hash stands for, as in Core.
const BARE_KEYS_MAX: usize = 3;

/// Why a text stands for no script.
#[derive(Debug, Error)]
#[error("{text}: {why}")]
pub(crate) struct NoTarget {
    text: String,
    why: String,
}

/// A locking script that is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) script_pubkey: Vec<u8>,
    /// Core's descriptor for it, with its checksum.
    pub(crate) descriptor: String,
}

impl Target {
    fn new(script: &ScriptBuf, descriptor: &str) -> Self {
        Self {
            script_pubkey: script.to_bytes(),
            descriptor: with_checksum(descriptor),
        }
    }
}

/// The scripts that a text stands for: an address, a descriptor, or `raw:` and the script in hex.
/// Descriptors with a wildcard stand for those of all indices in `range`.
///
/// # Errors
/// [`NoTarget`].
pub(crate) fn targets(text: &str, range: &RangeInclusive<u32>, network: Network) -> Result<Vec<Target>, NoTarget> {
    let parser = Parser {
        network,
        range,
        secp: Secp256k1::new(),
    };
    parser.targets(text).map_err(|why| NoTarget {
        text: text.to_owned(),
        why,
    })
}

/// The checksum is that of BIP 380. Texts that cannot have one are never made here.
fn with_checksum(descriptor: &str) -> String {
    let mut engine = checksum::Engine::new();
    match engine.input(descriptor) {
        Ok(()) => format!("{descriptor}#{}", engine.checksum()),
        Err(_) => descriptor.to_owned(),
    }
}

struct Parser<'a> {
    network: Network,
    range: &'a RangeInclusive<u32>,
    secp: Secp256k1<All>,
}

impl Parser<'_> {
    fn targets(&self, text: &str) -> Result<Vec<Target>, String> {
        if let Some(script) = text.strip_prefix("raw:") {
            return self.raw(script);
        }
        if !text.contains('(') {
            return self.address(text);
        }
        let text = verify_checksum(text).map_err(|error| error.to_string())?;
        let (name, argument) = text
            .strip_suffix(')')
            .and_then(|text| text.split_once('('))
            .ok_or("the descriptor does not end with a parenthesis")?;
        match name {
            "addr" => self.address(argument),
            "raw" => self.raw(argument),
            "rawtr" => self.expand(&format!("tr({argument})"), &|descriptor| self.rawtr(descriptor)),
            "combo" => self.combo(argument),
            // miniscript knows it inside of other descriptors alone.
            "sortedmulti" => self.expand(&format!("sh({text})"), &|descriptor| self.sortedmulti(descriptor)),
            _ => self.expand(text, &|descriptor| Ok(self.target(descriptor))),
        }
    }

    fn address(&self, text: &str) -> Result<Vec<Target>, String> {
        let address: Address<_> = text
            .parse()
            .map_err(|error| format!("neither an address nor a descriptor nor raw:HEX: {error}"))?;
        let script = address.assume_checked().script_pubkey();
        // What the script's address is on this network, since signet's addresses are testnet's.
        let own = Address::from_script(&script, params(self.network)).map(|own| own.to_string());
        if own.ok().is_none_or(|own| !own.eq_ignore_ascii_case(text)) {
            return Err(format!("not an address of the network {}", self.network.name()));
        }
        Ok(vec![self.inferred(&script)])
    }

    fn raw(&self, script: &str) -> Result<Vec<Target>, String> {
        let script = hex::decode(script).map_err(|error| format!("the script is not in hex: {error}"))?;
        Ok(vec![self.inferred(&ScriptBuf::from_bytes(script))])
    }

    /// A script of which nothing is known but its bytes.
    fn inferred(&self, script: &ScriptBuf) -> Target {
        // A key whose coordinate is in one of the forms of the standard.
        let is_usual = |key: &&[u8]| matches!(key.first(), Some(2..=4));
        let descriptor = match ScriptKind::of(script.as_bytes()) {
            ScriptKind::PubKey(key) if is_usual(&key) => format!("pk({})", hex::encode(key)),
            ScriptKind::MultiSig(required, keys) if keys.iter().all(is_usual) => {
                let keys: Vec<String> = keys.into_iter().map(hex::encode).collect();
                format!("multi({required},{})", keys.join(","))
            }
            ScriptKind::WitnessV1Taproot(key) if XOnlyPublicKey::from_slice(key).is_ok() => {
                format!("rawtr({})", hex::encode(key))
            }
            _ => match address(script.as_bytes(), self.network) {
                Some(address) => format!("addr({address})"),
                None => format!("raw({})", hex::encode(script.as_bytes())),
            },
        };
        Target::new(script, &descriptor)
    }

    /// All usual scripts of a key; those with a witness only for a compressed one.
    fn combo(&self, key: &str) -> Result<Vec<Target>, String> {
        let of = |text: String| self.expand(&text, &|descriptor| Ok(self.target(descriptor)));
        let mut found = of(format!("pk({key})"))?;
        found.extend(of(format!("pkh({key})"))?);
        let with_witness = of(format!("wpkh({key})")).and_then(|mut found| {
            found.extend(of(format!("sh(wpkh({key}))"))?);
            Ok(found)
        });
        found.extend(with_witness.unwrap_or_default());
        Ok(found)
    }

    /// Of a script with sorted keys under a hash, the script itself.
    fn sortedmulti(&self, descriptor: &Descriptor<DefiniteDescriptorKey>) -> Result<Target, String> {
        let Descriptor::Sh(sh) = descriptor else {
            return Err("sortedmulti() takes keys".to_owned());
        };
        match sh.as_inner() {
            ShInner::SortedMulti(multi) if multi.n() <= BARE_KEYS_MAX => Ok(Target::new(
                &sh.inner_script(),
                &KeyNames::of(&self.secp, false).sorted(multi),
            )),
            _ => Err(format!("a bare sortedmulti() has at most {BARE_KEYS_MAX} keys")),
        }
    }

    /// A taproot output whose key is not tweaked.
    fn rawtr(&self, descriptor: &Descriptor<DefiniteDescriptorKey>) -> Result<Target, String> {
        let key = match descriptor {
            Descriptor::Tr(tr) if tr.tap_tree().is_none() => tr.internal_key(),
            _ => return Err("rawtr() takes one key".to_owned()),
        };
        let x_only = key.derive_public_key(&self.secp).inner.x_only_public_key().0;
        let mut script = vec![0x51, 32];
        script.extend(x_only.serialize());
        let named = KeyNames::of(&self.secp, true).name(key);
        Ok(Target::new(&ScriptBuf::from_bytes(script), &format!("rawtr({named})")))
    }

    /// A descriptor without the special ones of the top level, for each index.
    fn expand(
        &self,
        text: &str,
        target: &dyn Fn(&Descriptor<DefiniteDescriptorKey>) -> Result<Target, String>,
    ) -> Result<Vec<Target>, String> {
        // Hardened children cannot be had from what parsing leaves of a private key.
        let has_hardened = text.contains("/*h") || text.contains("/*'");
        let parsed = if has_hardened { None } else { Some(self.parse(text)?) };
        let ranged = parsed
            .as_ref()
            .is_none_or(|branches| branches.iter().any(Descriptor::has_wildcard));
        let mut found = Vec::new();
        for index in if ranged { self.range.clone() } else { 0..=0 } {
            let own;
            let branches = match &parsed {
                Some(branches) => branches,
                None => {
                    let step = format!("/{index}h");
                    own = self.parse(&text.replace("/*h", &step).replace("/*'", &step))?;
                    &own
                }
            };
            for branch in branches {
                let descriptor = branch.at_derivation_index(index).map_err(|error| error.to_string())?;
                found.push(target(&descriptor)?);
            }
        }
        Ok(found)
    }

    /// Parses a descriptor. One with several paths is several.
    fn parse(&self, text: &str) -> Result<Vec<Descriptor<DescriptorPublicKey>>, String> {
        let (descriptor, secrets) =
            Descriptor::parse_descriptor(&self.secp, text).map_err(|error| error.to_string())?;
        let own = match self.network {
            Network::Bitcoin => NetworkKind::Main,
            Network::Testnet3 | Network::Testnet4 | Network::Signet | Network::Regtest => NetworkKind::Test,
        };
        let of_another = match descriptor.xkey_network() {
            XKeyNetwork::NoXKeys => false,
            XKeyNetwork::Single(network) => network != own,
            XKeyNetwork::Mixed => true,
        };
        let secret_of_another = secrets.into_iter().any(|(_, secret)| match secret {
            DescriptorSecretKey::Single(single) => single.key.network != own,
            DescriptorSecretKey::XPrv(_) | DescriptorSecretKey::MultiXPrv(_) => false,
        });
        if of_another || secret_of_another {
            return Err(format!("a key in it is not of the network {}", self.network.name()));
        }
        descriptor.into_single_descriptors().map_err(|error| error.to_string())
    }

    fn target(&self, descriptor: &Descriptor<DefiniteDescriptorKey>) -> Target {
        let names = KeyNames::of(&self.secp, false);
        let text = match descriptor {
            Descriptor::Sh(sh) => match sh.as_inner() {
                ShInner::SortedMulti(multi) => format!("sh({})", names.sorted(multi)),
                ShInner::Wsh(wsh) => match wsh.as_inner() {
                    WshInner::SortedMulti(multi) => format!("sh(wsh({}))", names.sorted(multi)),
                    WshInner::Ms(_) => names.text(descriptor),
                },
                ShInner::Wpkh(_) | ShInner::Ms(_) => names.text(descriptor),
            },
            Descriptor::Wsh(wsh) => match wsh.as_inner() {
                WshInner::SortedMulti(multi) => format!("wsh({})", names.sorted(multi)),
                WshInner::Ms(_) => names.text(descriptor),
            },
            Descriptor::Tr(tr) => {
                let names = KeyNames::of(&self.secp, true);
                let key = names.name(tr.internal_key());
                match tr.tap_tree() {
                    Some(tree) => format!("tr({key},{})", names.tree(tree)),
                    None => format!("tr({key})"),
                }
            }
            Descriptor::Bare(_) | Descriptor::Pkh(_) | Descriptor::Wpkh(_) => names.text(descriptor),
        };
        Target::new(&descriptor.script_pubkey(), &text)
    }
}

/// Names keys as Core does: the origin, then the key in hex.
#[derive(Clone, Copy)]
struct KeyNames<'a> {
    secp: &'a Secp256k1<All>,
    x_only: bool,
}

impl<'a> KeyNames<'a> {
    fn of(secp: &'a Secp256k1<All>, x_only: bool) -> Self {
        Self { secp, x_only }
    }

    fn name(self, key: &DefiniteDescriptorKey) -> String {
        let public = key.derive_public_key(self.secp);
        let fingerprint = match key.as_descriptor_public_key() {
            // Core takes the hash of the key with an even coordinate.
            DescriptorPublicKey::Single(single) if single.origin.is_none() => match single.key {
                SinglePubKey::FullKey(key) => fingerprint(&key),
                SinglePubKey::XOnly(_) => fingerprint(&public),
            },
            _ => key.master_fingerprint(),
        };
        let path = key.full_derivation_path().unwrap_or_default();
        let steps: String = path
            .into_iter()
            .map(|step| match step {
                ChildNumber::Normal { index } => format!("/{index}"),
                ChildNumber::Hardened { index } => format!("/{index}h"),
            })
            .collect();
        let key = if self.x_only {
            public.inner.x_only_public_key().0.to_string()
        } else {
            public.to_string()
        };
        format!("[{fingerprint}{steps}]{key}")
    }

    fn text(mut self, descriptor: &Descriptor<DefiniteDescriptorKey>) -> String {
        match descriptor.translate_pk(&mut self) {
            Ok(named) => format!("{named:#}"),
            // The names are texts, to which no rule of keys applies.
            Err(_) => descriptor.to_string(),
        }
    }

    /// The keys stand in the script in the order of their bytes.
    fn sorted<C: ScriptContext>(self, multi: &SortedMultiVec<DefiniteDescriptorKey, C>) -> String {
        let key = |key: &DefiniteDescriptorKey| (key.derive_public_key(self.secp).to_bytes(), self.name(key));
        let mut keys: Vec<_> = multi.pks().iter().map(key).collect();
        keys.sort();
        let names: Vec<String> = keys.into_iter().map(|(_, name)| name).collect();
        format!("multi({},{})", multi.k(), names.join(","))
    }

    /// A tree of leaves, in which at each fork the branch with the least script comes first.
    fn tree(mut self, tree: &TapTree<DefiniteDescriptorKey>) -> String {
        let mut branches: Vec<Branch> = Vec::new();
        for leaf in tree.leaves() {
            let text = match leaf.miniscript().translate_pk(&mut self) {
                Ok(named) => named.to_string(),
                Err(_) => leaf.miniscript().to_string(),
            };
            let mut branch = Branch {
                depth: leaf.depth(),
                least: leaf.compute_script().to_bytes(),
                text,
            };
            // Two branches of the same depth side by side are a fork.
            while let Some(left) = branches.pop_if(|left| left.depth == branch.depth) {
                branch = Branch::fork(left, branch);
            }
            branches.push(branch);
        }
        branches.pop().map_or_else(String::new, |root| root.text)
    }
}

/// A part of a tree of scripts.
struct Branch {
    depth: u8,
    /// The least of its scripts.
    least: Vec<u8>,
    text: String,
}

impl Branch {
    fn fork(left: Self, right: Self) -> Self {
        let (first, second) = if right.least < left.least {
            (right, left)
        } else {
            (left, right)
        };
        Self {
            depth: first.depth.saturating_sub(1),
            text: format!("{{{},{}}}", first.text, second.text),
            least: first.least,
        }
    }
}

impl Translator<DefiniteDescriptorKey> for KeyNames<'_> {
    type TargetPk = String;
    type Error = Infallible;

    fn pk(&mut self, key: &DefiniteDescriptorKey) -> Result<String, Infallible> {
        Ok(self.name(key))
    }

    fn sha256(&mut self, hash: &bitcoin::hashes::sha256::Hash) -> Result<String, Infallible> {
        Ok(hash.to_string())
    }

    fn hash256(&mut self, hash: &miniscript::hash256::Hash) -> Result<String, Infallible> {
        Ok(hash.to_string())
    }

    fn ripemd160(&mut self, hash: &bitcoin::hashes::ripemd160::Hash) -> Result<String, Infallible> {
        Ok(hash.to_string())
    }

    fn hash160(&mut self, hash: &hash160::Hash) -> Result<String, Infallible> {
        Ok(hash.to_string())
    }
}

/// The first bytes of a key's hash.
fn fingerprint(key: &PublicKey) -> Fingerprint {
    let hash = hash160::Hash::hash(&key.to_bytes());
    let [a, b, c, d, ..] = hash.to_byte_array();
    Fingerprint::from([a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// Targets, and the scripts and descriptors of the coins that Core's `scantxoutset` found for
    /// them: bitcoind 31.99 on regtest, with a block mined to each script, and to the indices 0, 3
    /// and 1000 of those with a wildcard.
    const CORE: &str = include_str!("../tests/data/scantxoutset.json");

    const KEY: &str = "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798";

    fn of(text: &str) -> Result<Vec<Target>, String> {
        targets(text, &(0..=1000), Network::Regtest).map_err(|error| error.to_string())
    }

    #[test]
    fn descriptors_are_those_of_core() {
        let core: Vec<serde_json::Value> = serde_json::from_str(CORE).unwrap();
        let mut checked = 0;
        for entry in &core {
            let text = entry["target"].as_str().unwrap();
            let found: HashMap<String, String> = of(text)
                .unwrap()
                .into_iter()
                .map(|target| (hex::encode(&target.script_pubkey), target.descriptor))
                .collect();
            for pair in entry["found"].as_array().unwrap() {
                let (script, descriptor) = (pair[0].as_str().unwrap(), pair[1].as_str().unwrap());
                assert_eq!(found.get(script).map(String::as_str), Some(descriptor), "{text}");
                checked += 1;
            }
        }
        assert!(core.len() > 60 && checked > 100, "{checked}");
    }

    #[test]
    fn wildcards_stand_for_their_range() {
        let ranged = "wpkh(tpubD6NzVbkrYhZ4WaWSyoBvQwbpLkojyoTZPRsgXELWz3Popb3qkjcJyJUGLnL4qHHoQvao8ESaAstxYSnhyswJ76uZPStJRJCTKvosUCJZL5B/0/*)";
        let all = of(ranged).unwrap();
        assert_eq!(all.len(), 1001);
        let some = targets(ranged, &(5..=6), Network::Regtest).unwrap();
        assert_eq!(some, all[5..=6]);
        assert_eq!(of(&ranged.replace("/0/*", "/0/6")).unwrap(), all[6..=6]);
    }

    #[test]
    fn what_stands_for_nothing_is_refused() {
        let main = "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4";
        let xpub = "xpub661MyMwAqRbcFtXgS5sYJABqqG9YLmC4Q1Rdap9gSE8NqtwybGhePY2gZ29ESFjqJoCu1Rupje8YtGqsefD265TMg7usUDFdp6W1EGMcet8";
        for (text, why) in [
            ("", "neither an address nor a descriptor"),
            ("what", "neither an address nor a descriptor"),
            (main, "not an address of the network regtest"),
            (&format!("addr({main})"), "not an address of the network regtest"),
            ("raw:5", "not in hex"),
            ("raw(zz)", "not in hex"),
            ("pkh(02)", "pkh(02): "),
            (&format!("pkh({KEY}"), "parenthesis"),
            (&format!("pkh({KEY})#aaaaaaaa"), "checksum"),
            (&format!("pkh({xpub})"), "not of the network regtest"),
            (&format!("combo({xpub})"), "not of the network regtest"),
            (&format!("wpkh({KEY},{KEY})"), "wpkh("),
            (&format!("rawtr({KEY},pk({KEY}))"), "one key"),
            (&format!("sortedmulti(1,{KEY},{KEY},{KEY},{KEY})"), "sortedmulti("),
            (&format!("pkh({}/0h)", xpub.replace("xpub", "tpub")), "pkh("),
        ] {
            let error = of(text).expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
        // A descriptor with its checksum, and without.
        let with = of(&format!("pkh({KEY})")).unwrap();
        assert!(with[0].descriptor.starts_with(&format!("pkh([751e76e8]{KEY})#")));
    }
}
