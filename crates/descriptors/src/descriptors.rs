//! What a user looks for in the set: addresses, output descriptors and scripts, as the locking
//! scripts that they stand for. Each script has the descriptor that Core would print for it.
//!
//! Core infers that descriptor from the script and from the keys it knows: keys are those of the
//! index, each with its origin; `sortedmulti` is `multi` in the order of the script; and the leaves
//! of a tree come in an order of their own.
//!
//! - [`keys`]: key expressions, turned into public keys;
//! - [`grammar`]: which functions a descriptor may have, and where its keys are;
//! - [`names`]: the descriptors that Core would print.

mod grammar;
mod keys;
mod names;
#[cfg(test)]
mod tests;

use self::grammar::{BARE_KEYS_MAX, Template, arguments, function};
use self::keys::KeyReader;
use self::names::KeyNames;
use crate::addresses::script_of;
use crate::script_kind::{ScriptKind, address};
use bitcoin::ScriptBuf;
use bitcoin::key::XOnlyPublicKey;
use bitcoin::secp256k1::{All, Secp256k1};
use blockmill_block::{Network, hex};
use miniscript::descriptor::checksum;
use miniscript::descriptor::{DefiniteDescriptorKey, DescriptorPublicKey, ShInner, WshInner};
use miniscript::{AnalysisError, Descriptor};
use std::ops::RangeInclusive;
use std::str::FromStr;
use thiserror::Error;

/// Most indices of a range, as in Core.
const RANGE_MAX: u32 = 1_000_000;

/// Indices of descriptors with a wildcard.
#[derive(Debug, Clone)]
pub struct IndexRange(RangeInclusive<u32>);

impl IndexRange {
    /// The indices.
    pub fn indices(&self) -> &RangeInclusive<u32> {
        &self.0
    }
}

impl FromStr for IndexRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (begin, end) = text.split_once('-').unwrap_or(("0", text));
        let number = |text: &str| text.parse().map_err(|_| format!("{text:?} is not a number"));
        let (begin, end): (u32, u32) = (number(begin)?, number(end)?);
        if begin > end {
            return Err("the range begins after its end".to_owned());
        }
        // From there on an index is that of a hardened child.
        if end > i32::MAX as u32 {
            return Err("an index is below 2147483648".to_owned());
        }
        if end - begin >= RANGE_MAX {
            return Err(format!("a range has at most {RANGE_MAX} indices"));
        }
        Ok(Self(begin..=end))
    }
}

/// Why a text does not stand for a script. The text, which may have private keys, is not repeated:
/// the caller says which one it is by its position.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct NoTarget(String);

/// A locking script that is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The script.
    pub script_pubkey: Vec<u8>,
    /// Core's descriptor for it, with its checksum.
    pub descriptor: String,
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
/// Descriptors with a wildcard stand for those of all indices in `range`. For many texts there is
/// [`TargetReader`].
///
/// # Errors
/// [`NoTarget`].
pub fn targets(text: &str, range: &RangeInclusive<u32>, network: Network) -> Result<Vec<Target>, NoTarget> {
    TargetReader::new(range, network).targets(text)
}

/// The checksum is that of BIP 380. Texts that cannot have one are never made here.
fn with_checksum(descriptor: &str) -> String {
    let mut engine = checksum::Engine::new();
    match engine.input(descriptor) {
        Ok(()) => format!("{descriptor}#{}", engine.checksum()),
        Err(_) => descriptor.to_owned(),
    }
}

/// Reads many texts one after the other: what is the same for all is made once.
pub struct TargetReader<'a> {
    network: Network,
    range: &'a RangeInclusive<u32>,
    secp: Secp256k1<All>,
}

impl<'a> TargetReader<'a> {
    /// A reader for a network. Descriptors with a wildcard stand for all indices in `range`.
    pub fn new(range: &'a RangeInclusive<u32>, network: Network) -> Self {
        Self {
            network,
            range,
            secp: Secp256k1::new(),
        }
    }

    /// As the function [`targets`].
    ///
    /// # Errors
    /// [`NoTarget`].
    pub fn targets(&self, text: &str) -> Result<Vec<Target>, NoTarget> {
        self.of_text(text).map_err(NoTarget)
    }

    fn of_text(&self, text: &str) -> Result<Vec<Target>, String> {
        if let Some(script) = text.strip_prefix("raw:") {
            return self.raw(script);
        }
        // No address has a parenthesis.
        if !text.contains('(') {
            return self.address(text);
        }
        let text = without_checksum(text)?;
        let (name, inner) = function(text)?;
        match name {
            "addr" => self.address(inner),
            // An empty script is none to Core.
            "raw" if inner.is_empty() => Err("raw() takes a script in hex".to_owned()),
            "raw" => self.raw(inner),
            "rawtr" => {
                one_key(name, inner)?;
                self.expand(&format!("tr({inner})"), &|descriptor| self.rawtr(descriptor))
            }
            "combo" => {
                one_key(name, inner)?;
                self.combo(inner)
            }
            // miniscript knows it inside of other descriptors alone.
            "sortedmulti" => self.expand(&format!("sh({text})"), &|descriptor| self.sortedmulti(descriptor)),
            _ => self.expand(text, &|descriptor| Ok(self.target(descriptor))),
        }
    }

    fn address(&self, text: &str) -> Result<Vec<Target>, String> {
        Ok(vec![self.inferred(&script_of(text, self.network)?)])
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
        // A key that is not compressed has none.
        found.extend(with_witness.unwrap_or_default());
        Ok(found)
    }

    /// Of a script with sorted keys under a hash, the script itself.
    fn sortedmulti(&self, descriptor: &Descriptor<DefiniteDescriptorKey>) -> Result<Target, String> {
        let Descriptor::Sh(sh) = descriptor else {
            return Err("sortedmulti() takes keys".to_owned());
        };
        match sh.as_inner() {
            ShInner::SortedMulti(multi) if multi.n() <= BARE_KEYS_MAX => {
                let names = KeyNames::of(&self.secp, false);
                Ok(Target::new(&names.sorted_script(multi), &names.sorted(multi)))
            }
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
        // OP_1, and a push of 32 bytes.
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
        let keys = KeyReader {
            network: self.network,
            secp: &self.secp,
        };
        let template = Template::read(text, keys)?;
        let parse_all = |index| {
            let branches = 0..template.branches();
            branches
                .map(|branch| self.parse(&template, branch, index))
                .collect::<Result<Vec<_>, _>>()
        };
        // Only hardened children of a private key have another text for each index.
        let fixed = match template.is_hardened() {
            true => None,
            false => Some(parse_all(0)?),
        };
        let mut found = Vec::new();
        for index in if template.is_ranged() {
            self.range.clone()
        } else {
            0..=0
        } {
            let own;
            let branches = match &fixed {
                Some(branches) => branches,
                None => {
                    own = parse_all(index)?;
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

    /// A descriptor of a template.
    fn parse(&self, template: &Template, branch: usize, index: u32) -> Result<Descriptor<DescriptorPublicKey>, String> {
        let text = template.text(branch, index, &self.secp)?;
        let descriptor: Descriptor<DescriptorPublicKey> = text.parse().map_err(|error| of_miniscript(&error))?;
        if template.must_be_sane {
            check_sane(&descriptor).map_err(|error| format!("its script is not sane: {error}"))?;
        }
        Ok(descriptor)
    }

    fn target(&self, descriptor: &Descriptor<DefiniteDescriptorKey>) -> Target {
        let names = KeyNames::of(&self.secp, false);
        let mut script = descriptor.script_pubkey();
        let text = match descriptor {
            Descriptor::Sh(sh) => match sh.as_inner() {
                ShInner::SortedMulti(multi) => {
                    // Its keys may be long, which the crate `miniscript` does not sort as Core
                    // does.
                    script = names.sorted_script(multi).to_p2sh();
                    format!("sh({})", names.sorted(multi))
                }
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
        Target::new(&script, &text)
    }
}

/// What the crate `miniscript` finds wrong with a script, without any of its text: a hash may be a
/// private key, written where a hash belongs.
fn of_miniscript(error: &miniscript::Error) -> String {
    use miniscript::Error as E;
    match error {
        E::NonTopLevel(_) => "its script is not one that can stand by itself: its type is not B".to_owned(),
        E::TypeCheck(_) => "an expression in its script is not of the type that is needed there".to_owned(),
        // Its text may have a key.
        E::ContextError(_) => "a key in it, or the size of its script, is not possible there".to_owned(),
        // These have numbers alone.
        E::AnalysisError(error) => error.to_string(),
        E::AbsoluteLockTime(error) => error.to_string(),
        E::RelativeLockTime(error) => error.to_string(),
        E::Threshold(error) => error.to_string(),
        E::MultipathDescLenMismatch
        | E::MaxRecursiveDepthExceeded
        | E::ImpossibleSatisfaction
        | E::TapTreeDepthError(_)
        | E::NonStandardBareScript => error.to_string().trim().to_owned(),
        E::ParseThreshold(_) => "a number of keys or of expressions in it is not possible".to_owned(),
        _ => "its script is not miniscript".to_owned(),
    }
}

/// Checks the script inside of `wsh()`.
fn check_sane(descriptor: &Descriptor<DescriptorPublicKey>) -> Result<(), AnalysisError> {
    let inner = match descriptor {
        Descriptor::Wsh(wsh) => wsh.as_inner(),
        Descriptor::Sh(sh) => match sh.as_inner() {
            ShInner::Wsh(wsh) => wsh.as_inner(),
            ShInner::SortedMulti(_) | ShInner::Wpkh(_) | ShInner::Ms(_) => return Ok(()),
        },
        _ => return Ok(()),
    };
    match inner {
        WshInner::Ms(script) => script.sanity_check(),
        WshInner::SortedMulti(_) => Ok(()),
    }
}

fn one_key(name: &str, inner: &str) -> Result<(), String> {
    match arguments(inner)?.len() {
        1 => Ok(()),
        _ => Err(format!("{name}() takes one key")),
    }
}

/// A descriptor without its checksum, which must be right if it is there.
fn without_checksum(text: &str) -> Result<&str, String> {
    let mut engine = checksum::Engine::new();
    let (descriptor, given) = match text.split_once('#') {
        Some((descriptor, given)) => (descriptor, Some(given)),
        None => (text, None),
    };
    if engine.input(descriptor).is_err() {
        return Err("a character in it stands in no descriptor".to_owned());
    }
    match given {
        Some(given) if given != engine.checksum() => Err("the checksum of the descriptor is wrong".to_owned()),
        _ => Ok(descriptor),
    }
}
