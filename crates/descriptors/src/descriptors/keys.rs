//! Key expressions of descriptors, read as Bitcoin Core reads them, and turned into public keys.
//!
//! No message has a part of a key in it: the key may be private.

use bitcoin::bip32::{ChildNumber, Fingerprint, Xpriv, Xpub};
use bitcoin::key::XOnlyPublicKey;
use bitcoin::secp256k1::{All, Secp256k1};
use bitcoin::{NetworkKind, PrivateKey, PublicKey, base58};
use blockmill_block::{Network, hex};
use std::collections::HashSet;

/// Where in a descriptor a key stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Context {
    /// In the locking script itself.
    Top,
    /// Inside of `sh()`.
    ScriptHash,
    /// Inside of `wpkh()` or `wsh()`.
    Witness,
    /// Inside of `tr()` or `rawtr()`.
    Taproot,
}

/// Characters of a key in base58 at most: those of an extended one.
const BASE58_MAX: usize = 112;

/// Where the key itself begins in an extended key.
const KEY_BYTE: usize = 45;

/// What reading a key needs besides its text.
#[derive(Clone, Copy)]
pub(super) struct KeyReader<'a> {
    pub(super) network: Network,
    pub(super) secp: &'a Secp256k1<All>,
}

/// The keys that a key expression stands for.
pub(super) struct KeyExpression {
    /// One, or one for each of its paths.
    branches: Vec<Branch>,
}

/// The keys of one path.
enum Branch {
    /// A public key, as a descriptor has it.
    Public { text: String, is_ranged: bool },
    /// The hardened children of a private key.
    Hardened {
        parent: Xpriv,
        /// The beginning of the origin: the fingerprint and the steps up to the parent.
        origin: String,
    },
}

/// What the last step of a path is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wildcard {
    None,
    Normal,
    Hardened,
}

#[derive(Clone, Copy)]
enum ExtendedKey {
    Private(Xpriv),
    Public(Xpub),
}

impl ExtendedKey {
    /// Its network, its depth, and what it says of its parent.
    fn facts(&self) -> (NetworkKind, u8, Fingerprint, ChildNumber) {
        match self {
            Self::Private(key) => (key.network, key.depth, key.parent_fingerprint, key.child_number),
            Self::Public(key) => (key.network, key.depth, key.parent_fingerprint, key.child_number),
        }
    }
}

const INVALID: &str = "a key in it is not valid";

const UNCOMPRESSED: &str = "a key is not compressed, which a witness does not allow";

impl KeyExpression {
    /// The number of paths.
    pub(super) fn branches(&self) -> usize {
        self.branches.len()
    }

    pub(super) fn is_ranged(&self) -> bool {
        self.branches.iter().any(|branch| match branch {
            Branch::Public { is_ranged, .. } => *is_ranged,
            Branch::Hardened { .. } => true,
        })
    }

    /// Whether the text of the keys is another one for each index.
    pub(super) fn is_hardened(&self) -> bool {
        matches!(self.branches[..], [Branch::Hardened { .. }, ..])
    }

    /// The public key of a path, as a descriptor has it. An expression with one path has it for all
    /// `branch`es.
    pub(super) fn text(&self, branch: usize, index: u32, secp: &Secp256k1<All>) -> Result<String, String> {
        let only = self.branches.len() == 1;
        match &self.branches[if only { 0 } else { branch }] {
            Branch::Public { text, .. } => Ok(text.clone()),
            Branch::Hardened { parent, origin } => {
                let step = ChildNumber::from_hardened_idx(index).map_err(|error| error.to_string())?;
                let child = parent.derive_priv(secp, &[step]).map_err(|error| error.to_string())?;
                Ok(format!(
                    "[{origin}{}]{}",
                    step_text(step),
                    Xpub::from_priv(secp, &child)
                ))
            }
        }
    }
}

impl KeyReader<'_> {
    /// Reads a key expression.
    pub(super) fn read(self, whole: &str, context: Context) -> Result<KeyExpression, String> {
        if whole.starts_with("musig(") {
            return Err("musig() is not read".to_owned());
        }
        let (origin, text) = match whole.strip_prefix('[') {
            None => ("", whole),
            Some(rest) => rest.split_once(']').ok_or("the origin of a key has no end")?,
        };
        // There are brackets, if only with nothing between them.
        if text.len() < whole.len() {
            check_origin(origin)?;
        }
        let mut parts = text.split('/');
        let key = parts.next().unwrap_or_default();
        let steps: Vec<&str> = parts.collect();
        if steps.is_empty()
            && let Some(text) = self.single(key, context)?
        {
            let text = with_origin(origin, &text);
            let is_ranged = false;
            let branches = vec![Branch::Public { text, is_ranged }];
            return Ok(KeyExpression { branches });
        }
        let (paths, wildcard) = read_paths(&steps)?;
        let key = self.extended(key)?;
        let branches = paths.iter().map(|path| self.branch(key, origin, path, wildcard));
        let branches = branches.collect::<Result<_, _>>()?;
        Ok(KeyExpression { branches })
    }

    /// The public key of a text that is a single key; none if it may be an extended one.
    fn single(self, text: &str, context: Context) -> Result<Option<String>, String> {
        let may_be_long = matches!(context, Context::Top | Context::ScriptHash);
        if let Some(bytes) = hex::decode(text).ok().filter(|bytes| !bytes.is_empty()) {
            let is_key = match (bytes.len(), bytes[0]) {
                (32, _) if context == Context::Taproot => XOnlyPublicKey::from_slice(&bytes).is_ok(),
                (33, 2 | 3) => PublicKey::from_slice(&bytes).is_ok(),
                (65, 4) if !may_be_long => return Err(UNCOMPRESSED.to_owned()),
                (65, 4) => PublicKey::from_slice(&bytes).is_ok(),
                _ => false,
            };
            return is_key
                .then(|| Some(hex::encode(&bytes)))
                .ok_or_else(|| INVALID.to_owned());
        }
        let Some(key) = wif(text) else {
            return Ok(None);
        };
        self.check_network(key.network)?;
        if !key.compressed && !may_be_long {
            return Err(UNCOMPRESSED.to_owned());
        }
        Ok(Some(key.public_key(self.secp).to_string()))
    }

    fn extended(self, text: &str) -> Result<ExtendedKey, String> {
        let bytes = decoded(text).ok_or(INVALID)?;
        // A private key has one byte more than its number, and that is 0.
        let is_private = bytes.get(KEY_BYTE) == Some(&0);
        let key = match is_private {
            true => ExtendedKey::Private(Xpriv::decode(&bytes).map_err(|_| INVALID)?),
            false => ExtendedKey::Public(Xpub::decode(&bytes).map_err(|_| INVALID)?),
        };
        let (network, depth, parent, number) = key.facts();
        if depth == 0 && has_parent(parent, number) {
            return Err(INVALID.to_owned());
        }
        self.check_network(network)?;
        Ok(key)
    }

    fn check_network(self, found: NetworkKind) -> Result<(), String> {
        let own = match self.network {
            Network::Bitcoin => NetworkKind::Main,
            Network::Testnet3 | Network::Testnet4 | Network::Signet | Network::Regtest => NetworkKind::Test,
        };
        match found == own {
            true => Ok(()),
            false => Err(format!("a key in it is not of the network {}", self.network.name())),
        }
    }

    /// Goes all steps of an extended key that need the private one. `origin` has a fingerprint and
    /// steps without brackets; it is empty where none are given.
    fn branch(
        self,
        key: ExtendedKey,
        origin: &str,
        path: &[ChildNumber],
        wildcard: Wildcard,
    ) -> Result<Branch, String> {
        let is_hardened = |step: &ChildNumber| step.is_hardened();
        let (_, depth, ..) = key.facts();
        let steps = path.len() + usize::from(wildcard != Wildcard::None);
        // An extended key counts its steps in one byte.
        if usize::from(depth) + steps > usize::from(u8::MAX) {
            return Err("a key in it has more than 255 steps".to_owned());
        }
        let key = match key {
            ExtendedKey::Private(key) => key,
            ExtendedKey::Public(_) if wildcard == Wildcard::Hardened || path.iter().any(is_hardened) => {
                return Err("a hardened step needs the private key".to_owned());
            }
            ExtendedKey::Public(key) => return Ok(public(origin, &key, path, wildcard)),
        };
        let private_steps = match wildcard {
            Wildcard::Hardened => path.len(),
            // What comes after the last hardened step needs no private key.
            _ => path.iter().rposition(is_hardened).map_or(0, |last| last + 1),
        };
        let (private_path, rest) = path.split_at(private_steps);
        let parent = key
            .derive_priv(self.secp, &private_path)
            .map_err(|error| error.to_string())?;
        // A key without an origin is its own.
        let own = match origin {
            "" => key.fingerprint(self.secp).to_string(),
            given => given.to_owned(),
        };
        let to_parent = own + &private_path.iter().map(|step| step_text(*step)).collect::<String>();
        Ok(match wildcard {
            Wildcard::Hardened => Branch::Hardened {
                parent,
                origin: to_parent,
            },
            _ => {
                let origin = if private_path.is_empty() { origin } else { &to_parent };
                public(origin, &Xpub::from_priv(self.secp, &parent), rest, wildcard)
            }
        })
    }
}

/// The bytes of a key in base58. Decoding takes time by the square of the length.
fn decoded(text: &str) -> Option<Vec<u8>> {
    (text.len() <= BASE58_MAX).then(|| base58::decode_check(text).ok())?
}

/// A private key in the wallet import format. One that is compressed ends with a 1.
fn wif(text: &str) -> Option<PrivateKey> {
    let bytes = decoded(text)?;
    let is_marked = bytes.len() != 34 || bytes[33] == 1;
    PrivateKey::from_wif(text).ok().filter(|_| is_marked)
}

/// Whether an extended key says that it is another one's child.
fn has_parent(fingerprint: Fingerprint, number: ChildNumber) -> bool {
    fingerprint != Fingerprint::default() || number != ChildNumber::Normal { index: 0 }
}

fn public(origin: &str, key: &Xpub, path: &[ChildNumber], wildcard: Wildcard) -> Branch {
    let mut text = with_origin(origin, &key.to_string());
    text.extend(path.iter().map(|step| step_text(*step)));
    let is_ranged = wildcard != Wildcard::None;
    if is_ranged {
        text.push_str("/*");
    }
    Branch::Public { text, is_ranged }
}

fn with_origin(origin: &str, key: &str) -> String {
    match origin {
        "" => key.to_owned(),
        origin => format!("[{origin}]{key}"),
    }
}

pub(super) fn step_text(step: ChildNumber) -> String {
    match step {
        ChildNumber::Normal { index } => format!("/{index}"),
        ChildNumber::Hardened { index } => format!("/{index}h"),
    }
}

/// Checks a fingerprint and the steps after it.
fn check_origin(origin: &str) -> Result<(), String> {
    let mut parts = origin.split('/');
    let fingerprint = parts.next().unwrap_or_default();
    if fingerprint.len() != 8 || !fingerprint.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err("the fingerprint of a key has 8 digits in hex".to_owned());
    }
    parts.try_for_each(|step| read_step(step).map(drop))
}

/// The paths that some steps stand for, and what comes at their end.
fn read_paths(steps: &[&str]) -> Result<(Vec<Vec<ChildNumber>>, Wildcard), String> {
    let (steps, wildcard) = match steps {
        [steps @ .., "*"] => (steps, Wildcard::Normal),
        [steps @ .., "*h" | "*'"] => (steps, Wildcard::Hardened),
        steps => (steps, Wildcard::None),
    };
    let mut paths: Vec<Vec<ChildNumber>> = vec![Vec::new()];
    for step in steps {
        let Some(several) = step.strip_prefix('<').and_then(|step| step.strip_suffix('>')) else {
            let step = read_step(step)?;
            paths.iter_mut().for_each(|path| path.push(step));
            continue;
        };
        // A step before this one had several already.
        let [path] = &paths[..] else {
            return Err("a key has several paths at one step at most".to_owned());
        };
        let steps = several.split(';').map(read_step).collect::<Result<Vec<_>, _>>()?;
        if steps.len() < 2 {
            return Err("<> takes two steps or more".to_owned());
        }
        if steps.iter().collect::<HashSet<_>>().len() < steps.len() {
            return Err("<> has a step twice".to_owned());
        }
        paths = steps.into_iter().map(|step| [&path[..], &[step]].concat()).collect();
    }
    Ok((paths, wildcard))
}

/// A step: digits alone, and a mark of hardened ones.
fn read_step(text: &str) -> Result<ChildNumber, String> {
    let digits = text.strip_suffix(['h', '\'']).unwrap_or(text);
    let index = match digits.bytes().all(|byte| byte.is_ascii_digit()) {
        true => digits.parse().ok(),
        false => None,
    };
    let step = index.and_then(|index| match digits.len() == text.len() {
        true => ChildNumber::from_normal_idx(index).ok(),
        false => ChildNumber::from_hardened_idx(index).ok(),
    });
    step.ok_or_else(|| "a step of a path is a number below 2147483648, and h or ' if it is hardened".to_owned())
}
