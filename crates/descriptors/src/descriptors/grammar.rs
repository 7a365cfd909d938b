//! The form of descriptors, by Bitcoin Core's rules: which functions stand where, and where their
//! keys are. What miniscript itself asks of a script is the business of the crate `miniscript`.

use super::keys::{Context, KeyExpression, KeyReader};
use bitcoin::secp256k1::{All, Secp256k1};

/// Most functions inside of each other. A script with more would be too long to be spent.
const DEPTH_MAX: usize = 400;

/// The longest name of a function, that of `sortedmulti_a`.
const NAME_MAX: usize = 13;

/// Most keys of a multisig script that no hash stands for.
pub(super) const BARE_KEYS_MAX: usize = 3;

/// A descriptor, with gaps for its keys.
pub(super) struct Template {
    pieces: Vec<Piece>,
    keys: Vec<KeyExpression>,
    branches: usize,
    /// Whether the script inside of `wsh()` must be sane miniscript. The crate `miniscript` asks
    /// that of the leaves of a tree by itself.
    pub(super) must_be_sane: bool,
}

enum Piece {
    Text(String),
    Key(usize),
}

impl Template {
    /// Reads a descriptor of the usual functions: `pk`, `pkh`, `wpkh`, `sh`, `wsh`, `tr`, `multi`
    /// and `sortedmulti`.
    pub(super) fn read(text: &str, keys: KeyReader<'_>) -> Result<Self, String> {
        let mut reader = Reader {
            reader: keys,
            template: Self {
                pieces: Vec::new(),
                keys: Vec::new(),
                branches: 1,
                must_be_sane: false,
            },
            depth: 0,
        };
        reader.script(text, Context::Top)?;
        let mut template = reader.template;
        for key in &template.keys {
            match (key.branches(), template.branches) {
                // A key with one path goes with any number of others.
                (1, _) => {}
                (several, 1) => template.branches = several,
                (several, others) if several == others => {}
                _ => return Err("its keys have unequal numbers of paths".to_owned()),
            }
        }
        Ok(template)
    }

    /// The number of descriptors that it stands for.
    pub(super) fn branches(&self) -> usize {
        self.branches
    }

    pub(super) fn is_ranged(&self) -> bool {
        self.keys.iter().any(KeyExpression::is_ranged)
    }

    /// Whether its text is another one for each index.
    pub(super) fn is_hardened(&self) -> bool {
        self.keys.iter().any(KeyExpression::is_hardened)
    }

    /// The descriptor, with public keys alone.
    pub(super) fn text(&self, branch: usize, index: u32, secp: &Secp256k1<All>) -> Result<String, String> {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(piece) => text.push_str(piece),
                Piece::Key(number) => text.push_str(&self.keys[*number].text(branch, index, secp)?),
            }
        }
        Ok(text)
    }
}

struct Reader<'a> {
    reader: KeyReader<'a>,
    template: Template,
    depth: usize,
}

impl Reader<'_> {
    fn push(&mut self, text: &str) {
        match self.template.pieces.last_mut() {
            Some(Piece::Text(last)) => last.push_str(text),
            _ => self.template.pieces.push(Piece::Text(text.to_owned())),
        }
    }

    fn key(&mut self, text: &str, context: Context) -> Result<(), String> {
        let key = self.reader.read(text, context)?;
        self.template.pieces.push(Piece::Key(self.template.keys.len()));
        self.template.keys.push(key);
        Ok(())
    }

    /// Goes one function deeper.
    fn within(&mut self, name: &str, inner: impl FnOnce(&mut Self) -> Result<(), String>) -> Result<(), String> {
        if self.depth == DEPTH_MAX {
            return Err("its functions are nested too deeply".to_owned());
        }
        self.depth += 1;
        self.push(name);
        self.push("(");
        inner(self)?;
        self.push(")");
        self.depth -= 1;
        Ok(())
    }

    fn one_key(&mut self, name: &str, inner: &str, context: Context) -> Result<(), String> {
        self.within(name, |reader| match arguments(inner)?[..] {
            [key] => reader.key(key, context),
            _ => Err(format!("{name}() takes one key")),
        })
    }

    /// What stands at the top, inside of `sh()` or inside of `wsh()`.
    fn script(&mut self, text: &str, context: Context) -> Result<(), String> {
        use Context::{ScriptHash, Taproot, Top, Witness};
        let (name, inner) = function(text)?;
        match (name, context) {
            ("pk" | "pkh", Top | ScriptHash | Witness) | ("pk", Taproot) => self.one_key(name, inner, context),
            ("multi" | "sortedmulti", Top | ScriptHash | Witness) | ("multi_a", Taproot) => {
                self.multi(name, inner, context)
            }
            // Its key must be compressed, as any in a witness.
            ("wpkh", Top | ScriptHash) => self.one_key(name, inner, Witness),
            ("sh", Top) => self.within(name, |reader| reader.script(inner, ScriptHash)),
            ("wsh", Top | ScriptHash) => self.within(name, |reader| reader.script(inner, Witness)),
            ("tr", Top) => self.taproot(inner),
            ("sortedmulti_a", Taproot) => Err("sortedmulti_a() is not read".to_owned()),
            (_, Witness | Taproot) => {
                self.template.must_be_sane |= context == Witness;
                self.miniscript(text, context)
            }
            _ => Err(misplaced(name, context)),
        }
    }

    fn multi(&mut self, name: &str, inner: &str, context: Context) -> Result<(), String> {
        self.within(name, |reader| {
            let arguments = arguments(inner)?;
            let (required, keys) = arguments.split_first().ok_or("a number of keys is missing")?;
            reader.number(required)?;
            if context == Context::Top && keys.len() > BARE_KEYS_MAX {
                return Err(format!(
                    "{name}() without sh() or wsh() has at most {BARE_KEYS_MAX} keys"
                ));
            }
            for key in keys {
                reader.push(",");
                reader.key(key, context)?;
            }
            Ok(())
        })
    }

    fn taproot(&mut self, inner: &str) -> Result<(), String> {
        self.within("tr", |reader| match arguments(inner)?[..] {
            [key] => reader.key(key, Context::Taproot),
            [key, tree] => {
                reader.key(key, Context::Taproot)?;
                reader.push(",");
                reader.tree(tree)
            }
            _ => Err("tr() takes a key and a tree of scripts".to_owned()),
        })
    }

    fn tree(&mut self, text: &str) -> Result<(), String> {
        let Some(fork) = text.strip_prefix('{') else {
            return self.script(text, Context::Taproot);
        };
        let fork = fork.strip_suffix('}').ok_or("a fork of the tree has no end")?;
        let [left, right] = arguments(fork)?[..] else {
            return Err("a fork of the tree has two branches".to_owned());
        };
        if self.depth == DEPTH_MAX {
            return Err("its tree is too deep".to_owned());
        }
        self.depth += 1;
        self.push("{");
        self.tree(left)?;
        self.push(",");
        self.tree(right)?;
        self.push("}");
        self.depth -= 1;
        Ok(())
    }

    /// Any expression of miniscript.
    fn miniscript(&mut self, text: &str, context: Context) -> Result<(), String> {
        // All wrappers of miniscript.
        let is_wrapper = |character| "asctdvjnlu".contains(character);
        let text = match text.split_once(':') {
            Some((wrappers, rest)) if !wrappers.is_empty() && wrappers.chars().all(is_wrapper) => {
                self.push(wrappers);
                self.push(":");
                rest
            }
            _ => text,
        };
        if text == "0" || text == "1" {
            self.push(text);
            return Ok(());
        }
        let (name, inner) = function(text)?;
        match (name, context) {
            ("pk" | "pk_k" | "pkh" | "pk_h", _) => self.one_key(name, inner, context),
            ("multi", Context::Witness) | ("multi_a", Context::Taproot) => self.multi(name, inner, context),
            ("older" | "after", _) => self.within(name, |reader| reader.number(inner)),
            ("sha256" | "hash256", _) => self.hash(name, inner, 32),
            ("ripemd160" | "hash160", _) => self.hash(name, inner, 20),
            ("andor", _) => self.all(name, inner, 3, context),
            ("and_v" | "and_b" | "and_n" | "or_b" | "or_c" | "or_d" | "or_i", _) => self.all(name, inner, 2, context),
            ("thresh", _) => self.within(name, |reader| {
                let arguments = arguments(inner)?;
                let (required, parts) = arguments.split_first().ok_or("a number is missing")?;
                reader.number(required)?;
                parts.iter().try_for_each(|part| {
                    reader.push(",");
                    reader.miniscript(part, context)
                })
            }),
            _ => Err(misplaced(name, context)),
        }
    }

    /// A function of so many expressions.
    fn all(&mut self, name: &str, inner: &str, count: usize, context: Context) -> Result<(), String> {
        self.within(name, |reader| {
            let arguments = arguments(inner)?;
            if arguments.len() != count {
                return Err(format!("{name}() takes {count} expressions"));
            }
            for (number, argument) in arguments.into_iter().enumerate() {
                if number > 0 {
                    reader.push(",");
                }
                reader.miniscript(argument, context)?;
            }
            Ok(())
        })
    }

    /// Digits alone.
    fn number(&mut self, text: &str) -> Result<(), String> {
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err("a number in it has something else than digits".to_owned());
        }
        // Zeros that come first say nothing.
        let digits = text.trim_start_matches('0');
        self.push(if digits.is_empty() { "0" } else { digits });
        Ok(())
    }

    fn hash(&mut self, name: &str, inner: &str, bytes: usize) -> Result<(), String> {
        if inner.len() != 2 * bytes || !inner.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(format!("{name}() takes {bytes} bytes in hex"));
        }
        // Core prints hex in small letters.
        let lower = inner.to_ascii_lowercase();
        self.within(name, |reader| {
            reader.push(&lower);
            Ok(())
        })
    }
}

fn misplaced(name: &str, context: Context) -> String {
    // Where a name belongs there may be a key, which has digits.
    let is_name = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let what = match is_name && name.len() <= NAME_MAX {
        true => format!("{name}()"),
        false => "a function of it".to_owned(),
    };
    match context {
        Context::Top => format!("{what} is not a descriptor"),
        Context::ScriptHash => format!("{what} is not allowed inside of sh()"),
        Context::Witness => format!("{what} is not allowed inside of wsh()"),
        Context::Taproot => format!("{what} is not allowed inside of tr()"),
    }
}

/// The name of a function, and what stands in its parentheses.
pub(super) fn function(text: &str) -> Result<(&str, &str), String> {
    let parts = text.strip_suffix(')').and_then(|text| text.split_once('('));
    parts.ok_or_else(|| match text.contains('(') {
        true => "the descriptor does not end with a parenthesis".to_owned(),
        false => "a function is missing".to_owned(),
    })
}

/// Arguments, between commas that are in no parentheses of their own.
pub(super) fn arguments(text: &str) -> Result<Vec<&str>, String> {
    let mut arguments = Vec::new();
    let (mut level, mut begin) = (0usize, 0);
    for (at, character) in text.char_indices() {
        match character {
            '(' | '{' => level += 1,
            ')' | '}' => level = level.checked_sub(1).ok_or("a parenthesis too many")?,
            ',' if level == 0 => {
                arguments.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    if level > 0 {
        return Err("a parenthesis is missing".to_owned());
    }
    arguments.push(&text[begin..]);
    Ok(arguments)
}
