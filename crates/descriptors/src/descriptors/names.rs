//! How Bitcoin Core names keys and scripts in the descriptors that it infers.

use super::keys::step_text;
use bitcoin::bip32::Fingerprint;
use bitcoin::hashes::{Hash, hash160};
use bitcoin::opcodes::all::OP_CHECKMULTISIG;
use bitcoin::script::Builder;
use bitcoin::secp256k1::{All, Secp256k1};
use bitcoin::{PublicKey, ScriptBuf};
use miniscript::descriptor::{DefiniteDescriptorKey, DescriptorPublicKey, SinglePubKey, SortedMultiVec, TapTree};
use miniscript::{Descriptor, ScriptContext, Translator};
use std::convert::Infallible;

/// Names keys as Core does: the origin, then the key in hex.
#[derive(Clone, Copy)]
pub(super) struct KeyNames<'a> {
    secp: &'a Secp256k1<All>,
    x_only: bool,
}

impl<'a> KeyNames<'a> {
    pub(super) fn of(secp: &'a Secp256k1<All>, x_only: bool) -> Self {
        Self { secp, x_only }
    }

    pub(super) fn name(self, key: &DefiniteDescriptorKey) -> String {
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
        let steps: String = path.into_iter().map(|step| step_text(*step)).collect();
        let key = if self.x_only {
            public.inner.x_only_public_key().0.to_string()
        } else {
            public.to_string()
        };
        format!("[{fingerprint}{steps}]{key}")
    }

    pub(super) fn text(mut self, descriptor: &Descriptor<DefiniteDescriptorKey>) -> String {
        match descriptor.translate_pk(&mut self) {
            // Without a checksum, which is added at the end.
            Ok(named) => format!("{named:#}"),
            // The names are texts, to which no rule of keys applies.
            Err(_) => descriptor.to_string(),
        }
    }

    /// The keys in the order in which they stand in the script: that of their bytes.
    fn in_order<C: ScriptContext>(
        self,
        multi: &SortedMultiVec<DefiniteDescriptorKey, C>,
    ) -> Vec<(Vec<u8>, &DefiniteDescriptorKey)> {
        let bytes = |key: &DefiniteDescriptorKey| key.derive_public_key(self.secp).to_bytes();
        let mut keys: Vec<_> = multi.pks().iter().map(|key| (bytes(key), key)).collect();
        keys.sort_by(|(one, _), (other, _)| one.cmp(other));
        keys
    }

    pub(super) fn sorted<C: ScriptContext>(self, multi: &SortedMultiVec<DefiniteDescriptorKey, C>) -> String {
        let keys = self.in_order(multi).into_iter();
        let names: Vec<String> = keys.map(|(_, key)| self.name(key)).collect();
        format!("multi({},{})", multi.k(), names.join(","))
    }

    /// The script. The crate `miniscript` sorts long keys as if they were short.
    pub(super) fn sorted_script<C: ScriptContext>(self, multi: &SortedMultiVec<DefiniteDescriptorKey, C>) -> ScriptBuf {
        let mut script = Builder::new().push_int(multi.k() as i64);
        for (_, key) in self.in_order(multi) {
            script = script.push_key(&key.derive_public_key(self.secp));
        }
        let script = script.push_int(multi.n() as i64);
        script.push_opcode(OP_CHECKMULTISIG).into_script()
    }

    /// A tree of leaves, in which at each fork the branch with the least script comes first.
    pub(super) fn tree(mut self, tree: &TapTree<DefiniteDescriptorKey>) -> String {
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
