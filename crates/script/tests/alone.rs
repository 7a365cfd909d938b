//! A program that uses this crate alone does not link the kernel library's interface, whose static
//! context takes 100 ms before main. And no name of the second interpreter is one of the kernel
//! library's.
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
    let verifier = CoreVerifier::new(Signatures::Kernel);
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

/// The symbols that the archive of this crate defines: type and name.
fn symbols() -> Option<Vec<(char, String)>> {
    let archive = Path::new(env!("OUT_DIR")).join("libblockmill_script.a");
    let output = Command::new("nm")
        .args(["-g", "--defined-only"])
        .arg(&archive)
        .output()
        .ok()?;
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let symbols = text.lines().filter_map(|line| {
        let mut fields = line.split_whitespace();
        let (_, kind, name) = (fields.next()?, fields.next()?, fields.next()?);
        Some((kind.chars().next()?, name.to_owned()))
    });
    Some(symbols.collect())
}

#[test]
fn no_name_is_the_kernel_librarys() {
    let Some(symbols) = symbols() else {
        eprintln!("skipped: nm is not installed");
        return;
    };
    let ours = |name: &str| name.to_lowercase().contains("blockmill");
    let strong: Vec<_> = symbols.iter().filter(|(kind, _)| "TDBR".contains(*kind)).collect();
    assert!(strong.len() > 30, "{} symbols", strong.len());
    for (_, name) in strong {
        assert!(ours(name), "core/names.h lacks {name}");
    }
    // Weak ones come from headers: templates and inline functions that are the same in both, but
    // for those of interpreter.h.
    let names = include_str!("../core/names.h");
    let renamed = names
        .lines()
        .filter_map(|line| line.strip_prefix("#define ")?.split_once(' '));
    let renamed: Vec<String> = renamed.map(|(name, _)| format!("{}{name}", name.len())).collect();
    assert!(renamed.len() > 20);
    for (_, name) in &symbols {
        for old in &renamed {
            assert!(
                !name.contains(old.as_str()),
                "{name} has the name {old} of the kernel library"
            );
        }
    }
}
