//! A program that uses this crate alone does not link the kernel library's interface, whose static
//! context takes 100 ms before main. No name of this crate's C++ is one of the kernel library's.
//!
//! The tests read and start their own program, which must not use the kernel library. So they are
//! not in `it`, which uses that library.

use blockmill_rules::{ScriptFlags, ScriptVerifier, SpentOutput};
use blockmill_script::{CoreVerifier, Signatures};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// A transaction of version 1 with an input and an output of no value, both without script.
fn smallest_transaction() -> Vec<u8> {
    [
        &[1, 0, 0, 0, 1][..],
        &[7; 36],
        &[0, 0xff, 0xff, 0xff, 0xff, 1],
        &[0; 9],
        &[0; 4],
    ]
    .concat()
}

#[test]
fn scripts_run_without_the_kernel_interface() {
    let verifier = CoreVerifier::new(Signatures::OneByOne);
    let verdict = |script: &[u8]| {
        let spent = SpentOutput {
            value: 5,
            script_pubkey: script,
        };
        let prepared = verifier.prepare(&smallest_transaction(), &[spent]).unwrap();
        verifier.verify(&prepared, 0, ScriptFlags::P2SH).is_ok()
    };
    assert!(verdict(&[0x51]));
    assert!(!verdict(&[0x00]));
    let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let has = |name: &[u8]| program.windows(name.len()).any(|window| window == name);
    // The program has its symbols, and those of the shim are among them.
    assert!(has(b"blockmill_script_prepare"));
    assert!(!has(&[b"btck", &b"_context_create"[..]].concat()));
    assert!(!has(&[b"btck", &b"_context_static"[..]].concat()));
}

#[test]
fn a_program_starts_at_once() {
    let start = || {
        let before = Instant::now();
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "there is no such test"])
            .output()
            .unwrap();
        assert!(output.status.success());
        before.elapsed()
    };
    // The machine may be busy: the best counts.
    let best = (0..20).map(|_| start()).min().unwrap();
    assert!(best < Duration::from_millis(10), "{best:?}");
}

/// A symbol that the archive of this crate defines.
struct Symbol {
    /// The object in the archive.
    object: String,
    /// The letter of `nm`.
    kind: char,
    name: String,
}

fn symbols() -> Option<Vec<Symbol>> {
    let archive = Path::new(env!("OUT_DIR")).join("libblockmill_script.a");
    let output = Command::new("nm")
        .args(["-g", "--defined-only", "-A"])
        .arg(&archive)
        .output()
        .ok()?;
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let symbols = text.lines().filter_map(|line| {
        let mut fields = line.split_whitespace();
        let (object, kind, name) = (fields.next()?, fields.next()?, fields.next()?);
        // The first field is ARCHIVE:OBJECT:ADDRESS.
        Some(Symbol {
            object: object.rsplit(':').nth(1)?.to_owned(),
            kind: kind.chars().next()?,
            name: name.to_owned(),
        })
    });
    Some(symbols.collect())
}

/// Whether a name is one of the standard library of C++, or a template of it over types that are
/// no types of Core: the same in all programs.
fn is_standard(name: &str) -> bool {
    let start = [
        "_ZNSt",
        "_ZNKSt",
        "_ZSt",
        "_ZTISt",
        "_ZTSSt",
        "_ZTVSt",
        "_ZN9__gnu_cxx",
        "DW.ref.__gxx",
    ];
    start.iter().any(|start| name.starts_with(start))
}

#[test]
fn no_name_is_the_kernel_librarys() {
    let Some(symbols) = symbols() else {
        eprintln!("skipped: nm is not installed");
        return;
    };
    let ours = |name: &str| name.to_lowercase().contains("blockmill");
    let is_strong = |symbol: &&Symbol| "TDBR".contains(symbol.kind);
    let (strong, weak): (Vec<_>, Vec<_>) = symbols.iter().partition(is_strong);
    assert!(strong.len() > 200, "{} symbols", strong.len());
    for Symbol { object, name, .. } in strong {
        assert!(ours(name), "core/names.h lacks {name} of {object}");
    }
    // Weak ones come from headers. The linker keeps one of several definitions.
    assert!(weak.len() > 20, "{} weak symbols", weak.len());
    for Symbol { object, name, .. } in weak {
        assert!(ours(name) || is_standard(name), "core/names.h lacks {name} of {object}");
    }
}

/// The linker may keep a weak definition for all objects. One with instructions that not every
/// processor has must not be there.
#[test]
fn instructions_of_some_processors_stay_in_their_functions() {
    let Some(symbols) = symbols() else {
        eprintln!("skipped: nm is not installed");
        return;
    };
    let variants = ["_sse41.", "_avx2.", "_x86_shani.", "_arm_shani."];
    let is_variant = |symbol: &&Symbol| variants.iter().any(|variant| symbol.object.contains(variant));
    let found: Vec<_> = symbols.iter().filter(is_variant).collect();
    if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        assert!(!found.is_empty());
    }
    for Symbol { object, kind, name } in found {
        assert_eq!(*kind, 'T', "{name} of {object}");
    }
}
