//! What a terminal of 80 columns shows.

use crate::common::own_set::OwnChain;
use crate::common::{Scratch, blockmill};
use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::io::Read;
use std::process::Command;

const COLUMNS: usize = 80;

/// What a command shows on a terminal that is both of its outputs.
fn shown(command: &mut Command) -> String {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = open(&*name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    let size = Winsize {
        ws_row: 40,
        ws_col: COLUMNS as u16,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&slave, size).unwrap();
    command.stdout(slave.try_clone().unwrap()).stderr(slave);
    command.env("TERM", "xterm-256color");
    let mut child = command.spawn().unwrap();
    // The command holds the other end open from here on.
    command
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    let mut text = Vec::new();
    // The end of a terminal is an error.
    let _ = File::from(master).read_to_end(&mut text);
    child.wait().unwrap();
    String::from_utf8(text).unwrap()
}

/// The text without colours and movements of the cursor, in lines; a bar's states are lines, too.
fn lines(shown: &str) -> Vec<String> {
    let mut plain = String::new();
    let mut rest = shown.chars();
    while let Some(character) = rest.next() {
        match character {
            '\u{1b}' => {
                assert_eq!(rest.next(), Some('['), "{shown:?}");
                rest.find(char::is_ascii_alphabetic);
            }
            '\r' => plain.push('\n'),
            character => plain.push(character),
        }
    }
    plain.lines().map(str::to_owned).collect()
}

#[track_caller]
fn fits(command: &mut Command) -> String {
    let shown = shown(command);
    let lines = lines(&shown);
    assert!(!lines.is_empty(), "{command:?}");
    for line in &lines {
        // What cannot be broken stands alone: a path, or a hash.
        let is_word = !line.trim_start().contains(' ');
        assert!(line.chars().count() <= COLUMNS || is_word, "{command:?}: {line}");
    }
    shown
}

#[test]
fn everything_fits_into_80_columns() {
    let scratch = Scratch::new();
    let chain = OwnChain::generate(&scratch, "mixed", 120, &["--inputs", "1200"]);
    let data = scratch.join("data");
    let call = |words: &[&str]| {
        let mut command = blockmill();
        command.args(words).arg("--data").arg(&data);
        command
    };
    for words in [
        "",
        "connect",
        "submit",
        "verify",
        "stats",
        "coin",
        "balance",
        "export",
        "export coins",
        "export blocks",
        "snapshot",
        "snapshot load",
        "snapshot dump",
        "doctor",
        "generate",
        "demo",
        "completions",
        "man",
    ] {
        for option in ["-h", "--help"] {
            fits(blockmill().args(words.split_whitespace()).arg(option));
        }
    }
    let mut connect = call(&["connect", "-v", "--network", "regtest"]);
    fits(connect.arg("--blocks").arg(&chain.folder));
    let stats = fits(&mut call(&["stats"]));
    // A hash can be copied.
    let hash = chain.manifest["hash_serialized_3"].as_str().unwrap();
    assert!(lines(&stats).iter().any(|line| line.trim() == hash), "{stats}");
    fits(&mut call(&["doctor"]));
    fits(&mut call(&["balance", "raw:51"]));
    fits(
        call(&["connect", "--network", "signet"])
            .arg("--blocks")
            .arg(&chain.folder),
    );
    fits(blockmill().arg("demo"));
}

#[test]
fn colours_are_where_a_terminal_has_them() {
    let scratch = Scratch::new();
    let missing = scratch.join("missing");
    let stats = || {
        let mut command = blockmill();
        command.args(["stats", "--data"]).arg(&missing);
        command
    };
    let coloured = shown(&mut stats());
    assert!(
        coloured.contains("\u{1b}[31m") && coloured.contains("blockmill:"),
        "{coloured:?}"
    );
    let plain = shown(stats().env("NO_COLOR", "1"));
    assert!(plain.starts_with("blockmill: "), "{plain:?}");
    let piped = stats().output().unwrap();
    assert!(piped.stderr.starts_with(b"blockmill: "), "{piped:?}");
}
