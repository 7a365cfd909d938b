//! No sum of amounts outside `rules` may overflow: it is checked, or an `i128`. This is a search of
//! the sources for others, by the names that amounts have.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// What amounts are called, also after an underscore.
const NAMES: [&str; 6] = ["amount", "fee", "fees", "satoshi", "subsidy", "value"];

/// Files in which such a name is no amount: the codec of numbers.
const OTHERS: [&str; 1] = ["crates/block/src/reader.rs"];

/// A file's text in words, numbers and signs, without comments and without what is in quotes.
fn tokens(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let (mut tokens, mut at) = (Vec::new(), 0);
    let is_word = |char: char| char.is_alphanumeric() || char == '_';
    let starts = |at: usize, what: &str| {
        what.chars()
            .enumerate()
            .all(|(n, char)| chars.get(at + n) == Some(&char))
    };
    while at < chars.len() {
        let char = chars[at];
        if starts(at, "//") {
            while at < chars.len() && chars[at] != '\n' {
                at += 1;
            }
        } else if char == '"' {
            at += 1;
            while at < chars.len() && chars[at] != '"' {
                at += if chars[at] == '\\' { 2 } else { 1 };
            }
            at += 1;
            tokens.push("\"\"".to_owned());
        } else if char == '\'' && (chars.get(at + 2) == Some(&'\'') || chars.get(at + 1) == Some(&'\\')) {
            at += 2;
            while at < chars.len() && chars[at] != '\'' {
                at += 1;
            }
            at += 1;
        } else if is_word(char) {
            let start = at;
            while at < chars.len() && is_word(chars[at]) {
                at += 1;
            }
            tokens.push(chars[start..at].iter().collect());
        } else if char.is_whitespace() {
            at += 1;
        } else {
            let two = [
                "+=", "-=", "*=", "->", "=>", "::", "==", "&&", "||", "..", "!=", "<=", ">=",
            ];
            let sign = two.into_iter().find(|sign| starts(at, sign));
            let sign = sign.map_or_else(|| char.to_string(), str::to_owned);
            at += sign.len();
            tokens.push(sign);
        }
    }
    tokens
}

fn is_word(token: &str) -> bool {
    token.starts_with(|char: char| char.is_alphanumeric() || char == '_')
}

/// Words after which a sign has no left side.
fn is_keyword(token: &str) -> bool {
    [
        "return", "in", "if", "else", "match", "let", "mut", "as", "move", "while",
    ]
    .contains(&token)
}

fn is_amount(word: &str) -> bool {
    let end = |name: &str| {
        word.strip_suffix(name)
            .is_some_and(|start| start.is_empty() || start.ends_with('_'))
    };
    NAMES.into_iter().any(end)
}

/// The path of names, calls and fields that ends before a token.
fn path_before(tokens: &[String], end: usize) -> &[String] {
    let (mut start, mut depth) = (end, 0usize);
    while let Some(token) = start.checked_sub(1).map(|before| tokens[before].as_str()) {
        match token {
            ")" | "]" => depth += 1,
            "(" | "[" if depth == 0 => break,
            "(" | "[" => depth -= 1,
            "." | "::" | "?" => {}
            word if depth > 0 || is_word(word) && !is_keyword(word) => {}
            _ => break,
        }
        start -= 1;
    }
    &tokens[start..end]
}

/// The path that begins at a token.
fn path_from(tokens: &[String], start: usize) -> &[String] {
    let (mut end, mut depth) = (start, 0usize);
    while let Some(token) = tokens.get(end) {
        match token.as_str() {
            "(" | "[" => depth += 1,
            ")" | "]" if depth == 0 => break,
            ")" | "]" => depth -= 1,
            "." | "::" | "?" | "&" => {}
            "*" if end == start => {}
            word if depth > 0 || is_word(word) => {}
            _ => break,
        }
        end += 1;
    }
    &tokens[start..end]
}

/// The tokens around one, up to the ends of its statement.
fn statement(tokens: &[String], at: usize) -> &[String] {
    let is_end = |token: &String| [";", "{", "}"].contains(&token.as_str());
    let start = tokens[..at].iter().rposition(is_end).map_or(0, |end| end + 1);
    let end = tokens[at..]
        .iter()
        .position(is_end)
        .map_or(tokens.len(), |end| at + end);
    &tokens[start..end]
}

/// The names that a text declares to be of some kinds.
fn declared(tokens: &[String], kinds: &[&str]) -> HashSet<String> {
    tokens
        .windows(3)
        .filter(|three| three[1] == ":" && kinds.contains(&three[2].as_str()))
        .map(|three| three[0].clone())
        .collect()
}

/// The sums of amounts in a text that are neither checked nor wide. `of_crate` has the names that
/// other files of the crate declare as wide, and none as narrow.
fn faults(text: &str, of_crate: &HashSet<String>) -> Vec<String> {
    let tokens = tokens(text);
    let narrow = declared(&tokens, &NARROW);
    let mut wide = declared(&tokens, &WIDE);
    wide.extend(of_crate.iter().cloned());
    wide.retain(|name| !narrow.contains(name));
    let is_safe = |word: &String| word == "i128" || word == "f64" || word.starts_with("checked_");
    // A field of a value is another thing.
    let is_whole = |after: &[String]| match after {
        [dot, word, rest @ ..] => dot != "." || !is_word(word) || rest.first().is_some_and(|sign| sign == "("),
        _ => true,
    };
    let of_amounts = |path: &[String]| {
        let is_amount =
            |(at, word): (usize, &String)| is_amount(word) && !wide.contains(word) && is_whole(&path[at + 1..]);
        !path.iter().any(is_safe) && path.iter().enumerate().any(is_amount)
    };
    let mut faults = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let is_fault = match token.as_str() {
            "+" | "-" | "*" | "+=" | "-=" | "*=" => {
                let left = path_before(&tokens, at);
                !left.is_empty() && (of_amounts(left) || of_amounts(path_from(&tokens, at + 1)))
            }
            "sum" | "fold" | "product" if at > 0 && tokens[at - 1] == "." => {
                let is_narrow = tokens.get(at + 3).is_some_and(|kind| kind == "i64");
                is_narrow || of_amounts(statement(&tokens, at))
            }
            word if word.starts_with("saturating_") || word.starts_with("wrapping_") => {
                of_amounts(path_before(&tokens, at)) || of_amounts(path_from(&tokens, at))
            }
            _ => false,
        };
        if is_fault {
            faults.push(statement(&tokens, at).join(" "));
        }
    }
    faults
}

const NARROW: [&str; 4] = ["i64", "u64", "usize", "Option"];

const WIDE: [&str; 2] = ["i128", "u128"];

/// The names that texts declare as wide, and none as narrow.
fn wide_in_all(texts: &[String]) -> HashSet<String> {
    let all =
        |kinds: &[&str]| -> HashSet<String> { texts.iter().flat_map(|text| declared(&tokens(text), kinds)).collect() };
    let narrow = all(&NARROW);
    all(&WIDE).into_iter().filter(|name| !narrow.contains(name)).collect()
}

fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap();
        if path.is_dir() && !["tests", "target", "benches"].contains(&name) {
            sources(&path, into);
        } else if name.ends_with(".rs") && name != "tests.rs" {
            into.push(path);
        }
    }
}

#[test]
fn no_sum_of_amounts_can_overflow() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap();
    let (mut found, mut files) = (Vec::new(), 0);
    let crates = ["crates", "bindings"].map(|folder| std::fs::read_dir(root.join(folder)).unwrap());
    for folder in crates.into_iter().flatten().map(|entry| entry.unwrap().path()) {
        // The sums of the rules are kept in range by the rules before them, in Core's order.
        if folder.ends_with("crates/rules") {
            continue;
        }
        let mut paths = Vec::new();
        sources(&folder, &mut paths);
        files += paths.len();
        let text = |path: &PathBuf| {
            let text = std::fs::read_to_string(path).unwrap();
            text.split("#[cfg(test)]\nmod tests {")
                .next()
                .unwrap_or_default()
                .to_owned()
        };
        let texts: Vec<String> = paths.iter().map(text).collect();
        let wide = wide_in_all(&texts);
        for (path, text) in paths.iter().zip(&texts) {
            let name = path.strip_prefix(&root).unwrap().to_str().unwrap();
            if !OTHERS.contains(&name) {
                found.extend(faults(text, &wide).into_iter().map(|fault| format!("{name}: {fault}")));
            }
        }
    }
    assert!(files > 200, "{files}");
    assert!(found.is_empty(), "sums that may overflow:\n{}", found.join("\n"));
}

#[test]
fn plain_sums_are_found() {
    for plain in [
        "let total = found.iter().map(|(_, coin)| coin.value).sum();",
        "let coins: i64 = self.coins.iter().map(|coin| coin.value).sum();",
        "let all = numbers.sum::<i64>();",
        "let all = coins.iter().fold(0, |sum, coin| sum + coin.value);",
        "self.fees += other.fees;",
        "Some(coins - output.value())",
        "total += spending.fee().unwrap_or_default();",
        "let fee = value - paid;",
        "total = total.saturating_add(coin.value);",
        "amount.wrapping_sub(1)",
        "struct Totals { fees: i64 } fn add(&mut self) { self.fees += 1; }",
        "let rest = total_amount * 2;",
        "let rest = f(x)? - self.total_amount;",
    ] {
        assert!(!faults(plain, &HashSet::new()).is_empty(), "{plain}");
    }
    for good in [
        "let total: i128 = found.iter().map(|(_, coin)| i128::from(coin.value)).sum();",
        "struct Totals { fees: i128 } fn add(&mut self, other: &Self) { self.fees += other.fees; }",
        "account.value.checked_add(coin.value)",
        "let next = *value; let negative = -value; // value + value",
        "format!(\"{value} + {value}\")",
        "bytes += block.len(); f(value, -1);",
        "satoshi as f64 / 1e8",
        "summed.time += run.value.time;",
        "let lengths: usize = parts.iter().map(|part| part.len()).sum();",
    ] {
        assert_eq!(faults(good, &HashSet::new()), Vec::<String>::new(), "{good}");
    }
}
