//! The header and the functions in Rust say the same.

use blockmill::handles::CHECK_LENGTH;
use blockmill::status;
use blockmill_rules::ScriptFlags;
use std::collections::BTreeMap;

pub(crate) const HEADER: &str = include_str!("../../include/blockmill.h");
const BORDER: &str = include_str!("../../src/border.rs");

/// For each function the types of its parameters, and of what it returns last.
type Functions = BTreeMap<String, Vec<&'static str>>;

/// The header without comments and lines of the preprocessor.
fn declarations() -> String {
    let mut text = HEADER.to_owned();
    while let Some(start) = text.find("/*") {
        let end = start + text[start..].find("*/").expect("a comment ends") + 2;
        text.replace_range(start..end, " ");
    }
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .collect::<Vec<_>>()
        .join(" ")
}

/// A name for a type of C, as it is in Rust.
fn c_type(text: &str) -> &'static str {
    match text.trim() {
        "int" => "c_int",
        "size_t" => "usize",
        "uint32_t" => "u32",
        "uint64_t" => "u64",
        "int64_t" => "i64",
        "void" => "()",
        "uint8_t *" => "bytes to write",
        "const uint8_t *" => "bytes",
        "const char *" => "text",
        "const blockmill_check *" => "checks",
        "blockmill_validator *" => "validator",
        "blockmill_coins *" | "const blockmill_coins *" => "coins",
        "blockmill_context *" | "const blockmill_context *" => "context",
        "blockmill_verdict *" | "const blockmill_verdict *" => "verdict",
        other => panic!("unknown type {other:?} in the header"),
    }
}

fn rust_type(text: &str) -> &'static str {
    match text.trim() {
        "c_int" => "c_int",
        "usize" => "usize",
        "u32" => "u32",
        "u64" => "u64",
        "i64" => "i64",
        "" => "()",
        "*mut u8" => "bytes to write",
        "*const u8" | "Option<&[u8; 32]>" => "bytes",
        "*const c_char" => "text",
        "*const [u8; CHECK_LENGTH]" => "checks",
        // A handle for who reads it, for who changes it, and for whom it is.
        "Option<&ValidatorHandle>" | "Option<Box<ValidatorHandle>>" => "validator",
        "Option<&CoinsHandle>" | "Option<&mut CoinsHandle>" | "Option<Box<CoinsHandle>>" => "coins",
        "Option<&ContextHandle>" | "Option<&mut ContextHandle>" | "Option<Box<ContextHandle>>" => "context",
        "Option<&VerdictHandle>" | "Option<&mut VerdictHandle>" | "Option<Box<VerdictHandle>>" => "verdict",
        other => panic!("unknown type {other:?} in the border"),
    }
}

/// The functions of the header. A parameter is a type and a name.
pub(crate) fn of_header() -> Functions {
    let mut functions = Functions::new();
    for declaration in declarations().split(';') {
        let Some((before, rest)) = declaration.split_once('(') else {
            continue;
        };
        let Some(at) = before.rfind("blockmill_") else { continue };
        let (returned, name) = before.split_at(at);
        let parameters = rest.trim_end().strip_suffix(')').expect("parameters end");
        let mut types: Vec<_> = parameters
            .split(',')
            .map(str::trim)
            .filter(|parameter| *parameter != "void")
            .map(|parameter| {
                let name = parameter.rfind([' ', '*']).expect("a parameter has a name") + 1;
                c_type(&parameter[..name])
            })
            .collect();
        let returned = returned
            .trim_start_matches(['{', '}', ' '])
            .replace("extern \"C\" {", "");
        types.push(c_type(&returned));
        functions.insert(name.trim().to_owned(), types);
    }
    functions
}

/// The functions of the border: those that are written out, and those of its two macros.
fn of_border() -> Functions {
    let mut functions = Functions::new();
    let mut rest = BORDER;
    while let Some(at) = rest.find("extern \"C\" fn blockmill_") {
        rest = &rest[at + "extern \"C\" fn ".len()..];
        let (name, after) = rest.split_once('(').expect("a function has parameters");
        let (parameters, after) = after.split_once(')').expect("parameters end");
        let returned = after.split_once('{').expect("a function has a body").0;
        let mut types: Vec<_> = parameters
            .split(',')
            .filter_map(|parameter| Some(rust_type(parameter.split_once(':')?.1)))
            .collect();
        types.push(rust_type(returned.trim().strip_prefix("->").unwrap_or_default()));
        functions.insert(name.to_owned(), types);
    }
    for line in BORDER
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with("blockmill_"))
    {
        let (name, types) = match line.split_once(" -> ") {
            Some((name, rest)) => (name, vec!["verdict", rust_type(rest.split_once(',').unwrap().0)]),
            None => {
                let (name, rest) = line.split_once("(context, ").unwrap();
                let arguments = rest.split_once(')').unwrap().0.split(',');
                let arguments = arguments.map(|argument| rust_type(argument.split_once(':').unwrap().1));
                let types = std::iter::once("context").chain(arguments).chain(["c_int"]);
                (name, types.collect())
            }
        };
        functions.insert(name.to_owned(), types);
    }
    functions
}

#[test]
fn functions_are_those_of_the_border() {
    let header = of_header();
    assert!(header.len() > 35, "{header:?}");
    assert_eq!(header, of_border());
}

/// The constants of the header.
fn constants() -> BTreeMap<&'static str, i64> {
    HEADER
        .lines()
        .filter_map(|line| line.strip_prefix("#define ")?.split_once(' '))
        .map(|(name, number)| (name, number.trim_matches(['(', ')']).parse().expect("a number")))
        .collect()
}

#[test]
fn constants_are_those_of_rust() {
    let rust = BTreeMap::from([
        ("BLOCKMILL_INTERFACE", status::INTERFACE.into()),
        ("BLOCKMILL_OK", status::OK.into()),
        ("BLOCKMILL_INVALID", status::INVALID.into()),
        ("BLOCKMILL_BAD_ARGUMENT", status::BAD_ARGUMENT.into()),
        ("BLOCKMILL_DOES_NOT_DECODE", status::DOES_NOT_DECODE.into()),
        ("BLOCKMILL_UNKNOWN_TIME", status::UNKNOWN_TIME.into()),
        ("BLOCKMILL_VERIFIER_FAILED", status::VERIFIER_FAILED.into()),
        ("BLOCKMILL_FAULT", status::FAULT.into()),
        ("BLOCKMILL_SIGNATURES_ONE_BY_ONE", status::SIGNATURES_ONE_BY_ONE.into()),
        ("BLOCKMILL_SIGNATURES_LANES", status::SIGNATURES_LANES.into()),
        ("BLOCKMILL_SIGNATURES_FASTEST", status::SIGNATURES_FASTEST.into()),
        ("BLOCKMILL_KIND_NONE", status::KIND_NONE.into()),
        ("BLOCKMILL_KIND_CONSENSUS", status::KIND_CONSENSUS.into()),
        ("BLOCKMILL_KIND_HEADER", status::KIND_HEADER.into()),
        ("BLOCKMILL_KIND_NO_WORK", status::KIND_NO_WORK.into()),
        ("BLOCKMILL_KIND_MUTATED", status::KIND_MUTATED.into()),
        ("BLOCKMILL_KIND_TIME_FUTURE", status::KIND_TIME_FUTURE.into()),
        ("BLOCKMILL_FLAG_P2SH", ScriptFlags::P2SH.0.into()),
        ("BLOCKMILL_FLAG_DERSIG", ScriptFlags::DERSIG.0.into()),
        ("BLOCKMILL_FLAG_NULLDUMMY", ScriptFlags::NULLDUMMY.0.into()),
        (
            "BLOCKMILL_FLAG_CHECKLOCKTIMEVERIFY",
            ScriptFlags::CHECKLOCKTIMEVERIFY.0.into(),
        ),
        (
            "BLOCKMILL_FLAG_CHECKSEQUENCEVERIFY",
            ScriptFlags::CHECKSEQUENCEVERIFY.0.into(),
        ),
        ("BLOCKMILL_FLAG_WITNESS", ScriptFlags::WITNESS.0.into()),
        ("BLOCKMILL_FLAG_TAPROOT", ScriptFlags::TAPROOT.0.into()),
        ("BLOCKMILL_FLAGS_ALL", ScriptFlags::ALL.0.into()),
        ("BLOCKMILL_CHECK_ECDSA", status::CHECK_ECDSA.into()),
        ("BLOCKMILL_CHECK_SCHNORR", status::CHECK_SCHNORR.into()),
        ("BLOCKMILL_CHECK_TWEAK", status::CHECK_TWEAK.into()),
    ]);
    assert_eq!(constants(), rust);
    assert_eq!(CHECK_LENGTH, 1 + 33 + 3 * 32);
}
