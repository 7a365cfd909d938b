//! Wrong usage, data directories in use, and the verdicts of `submit`.

use crate::common::branches::{branch, genesis};
use crate::common::{Run, Scratch, blockmill, run, submit_command};
use blockmill_block::Network;
use blockmill_chaingen::bitcoin::{self, Block, consensus::serialize, hex::DisplayHex};
use blockmill_chaingen::builder::any_script;
use blockmill_coins::stats::Hashes;
use blockmill_coins::{StatsBuilder, Tip};
use blockmill_datadir::{ChainId, DataDir};
use serde_json::{Value, json};
use std::fs::File;
use std::path::Path;
use std::process::Command;

fn command(arguments: &[&str]) -> Command {
    let mut command = blockmill();
    command.args(arguments);
    command
}

/// Wrong usage: status 2, nothing on standard output, and these words said.
#[track_caller]
fn check_wrong(command: &mut Command, words: &[&str]) {
    let wrong = run(command).ends_with(2).says(words);
    assert_eq!(wrong.stdout, "");
}

#[test]
fn wrong_usage_is_status_2() {
    let scratch = Scratch::new();
    let data = scratch.join("data");
    let data = data.to_str().unwrap();
    check_wrong(&mut command(&[]), &["Usage"]);
    check_wrong(&mut command(&["conect"]), &["conect"]);
    check_wrong(&mut command(&["connect", "--data", data]), &["--blocks"]);
    for option in ["--paralel", "--data-dir", "--nothing"] {
        check_wrong(
            &mut command(&["connect", "--blocks", ".", "--data", data, option]),
            &[option],
        );
    }
    let connect = ["connect", "--blocks", ".", "--data", data, "--network", "regtest"];
    for (option, value) in [
        ("--par", "0"),
        ("--par", "many"),
        ("--dbcache", "0"),
        ("--assume-valid", "00"),
        ("--stop-at-height", "-1"),
    ] {
        check_wrong(command(&connect).args([&format!("{option}={value}")]), &[value]);
    }
    // There is one store, so there is no choice.
    check_wrong(command(&connect).arg("--store=log"), &["--store"]);
    check_wrong(
        &mut command(&["connect", "--blocks", ".", "--data", data, "--network", "mainet"]),
        &["mainet"],
    );
    check_wrong(
        &mut command(&["generate", "--out", data, "--blocks", "1", "--profile", "big"]),
        &["big"],
    );
    for (cursor, word) in [("4294967296", "4294967295"), ("abc", "hex"), ("", "hex")] {
        check_wrong(&mut command(&["feed", "--data", data, "--from", cursor]), &[word]);
    }
    check_wrong(&mut command(&["feed", "--data", data, "--listen", "unix:"]), &["path"]);
    let verify = [
        "verify",
        "--network",
        "regtest",
        "--block",
        "-",
        "--undo",
        "-",
        "--height",
    ];
    check_wrong(command(&verify).arg("1"), &["standard input"]);
    check_wrong(command(&verify).arg("0"), &["--height"]);
    assert!(!Path::new(data).exists(), "wrong usage made {data}");
    // A file is no data directory.
    let file = scratch.write("file", b"{}");
    check_wrong(
        command(&["stats", "--data"]).arg(&file),
        &["there is no data directory"],
    );
}

/// Wrong usage has its status without anybody to tell, too; the message has a key left out or not.
#[test]
fn wrong_usage_needs_no_standard_error() {
    let key = "tprv8ZgxMBicQKsPd7Uf69XL1XwhmjHopUGep8GuEiJDZmbQz6o58LninorQAfcKZWARbtRtfnLcJ5MQ2AtHcQJCCRUcMRvmDUjyEmNUWwx8UbK";
    for range in [key, "what"] {
        let mut command = command(&["balance", "--data", "d", "--range", range, "raw:51"]);
        command.stderr(File::options().write(true).open("/dev/full").unwrap());
        assert_eq!(command.status().unwrap().code(), Some(2));
    }
    // An argument is no line of the message.
    let wrong = run(&mut command(&[
        "stats",
        "--data",
        "d",
        "x\u{1b}[2J\nblockmill: all is well",
    ]))
    .ends_with(2);
    assert!(
        !wrong.stderr.contains('\u{1b}') && !wrong.stderr.contains("\nblockmill"),
        "{wrong:#?}"
    );
}

/// Completions for the usual shells, and a manual page that groff can format.
#[test]
fn completions_and_the_manual_page() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = run(&mut command(&["completions", shell])).ends_with(0).stdout;
        assert!(
            script.contains("blockmill") && script.contains("dbcache"),
            "{shell}: {script}"
        );
    }
    check_wrong(&mut command(&["completions", "cmd"]), &["cmd"]);
    let page = run(&mut command(&["man"])).ends_with(0).stdout;
    let scratch = Scratch::new();
    let file = scratch.write("blockmill.1", page.as_bytes());
    let Ok(formatted) = Command::new("groff")
        .args(["-man", "-Tascii", "-P-c", "-P-b", "-P-u"])
        .arg(&file)
        .output()
    else {
        eprintln!("skipped: groff is not installed");
        return;
    };
    assert!(
        formatted.status.success(),
        "{}",
        String::from_utf8_lossy(&formatted.stderr)
    );
    let text = String::from_utf8_lossy(&formatted.stdout);
    for words in ["BLOCKMILL CONNECT", "--stop-at-height", "EXIT STATUS"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn the_network_is_needed_once_and_must_be_the_same() {
    let scratch = Scratch::new();
    let (data, input) = (scratch.join("data"), scratch.write("empty", b""));
    let submit = |network: &[&str]| {
        let mut command = command(&["submit", "--data", data.to_str().unwrap()]);
        command.args(network).stdin(File::open(&input).unwrap());
        command
    };
    let named = data.to_str().unwrap();
    check_wrong(&mut submit(&[]), &["--network", named]);
    check_wrong(&mut command(&["stats", "--data", named]), &[named]);
    assert!(!data.exists());
    // Until it has a block it may be for another one.
    std::fs::create_dir(&data).unwrap();
    run(&mut submit(&["--network", "signet"])).ends_with(0);
    run(&mut submit(&["--network", "regtest"])).ends_with(0);
    std::fs::write(&input, line(&branch(&genesis(), 1, 1, 0, None)[0])).unwrap();
    run(&mut submit(&["--network", "regtest"])).ends_with(0);
    check_wrong(&mut submit(&["--network", "bitcoin"]), &["regtest", "bitcoin", named]);
    run(&mut submit(&[])).ends_with(0);
    run(&mut submit(&["--network", "regtest"])).ends_with(0);
}

#[test]
fn help_says_what_it_does() {
    let help = run(&mut command(&["--help"])).ends_with(0);
    assert!(
        help.stdout.starts_with("Turns Bitcoin block files into"),
        "{}",
        help.stdout
    );
}

/// A writer keeps out another one, and says who it is. Readers see its last flush, and keep out
/// nobody.
#[test]
fn a_directory_has_one_writer() {
    let scratch = Scratch::new();
    let chain_id = ChainId {
        network: Network::Regtest,
        signet_challenge: None,
    };
    let blocks = scratch.write("blk00000.dat", &[]);
    let blocks = blocks.to_str().unwrap();
    let data = scratch.folder("data");
    let named = data.to_str().unwrap();
    let snapshot = scratch.join("snapshot");
    let connect = ["connect", "--network", "regtest", "--blocks", blocks, "--data", named];
    run(&mut command(&connect)).ends_with(0);
    let writers = [&connect[..], &["submit", "--data", named]];
    let readers = [
        &["stats", "--data", named][..],
        &["doctor", "--data", named],
        &["snapshot", "dump", "--data", named, snapshot.to_str().unwrap()],
    ];
    let lock = DataDir::open(&data, Some(&chain_id)).unwrap();
    let who = format!("in use by process {} (cli_it-", std::process::id());
    for call in writers {
        let refused = run(&mut command(call)).ends_with(4).says(&[named, &who]);
        assert_eq!(refused.stdout, "");
    }
    for call in readers {
        run(&mut command(call)).ends_with(0);
    }
    drop(lock);
    let reader = DataDir::open_to_read(&data).unwrap();
    std::fs::remove_file(&snapshot).unwrap();
    for call in readers.iter().chain(&writers) {
        run(&mut command(call)).ends_with(0);
    }
    drop(reader);
}

/// Submits lines to a data directory; one answer each.
fn submit(scratch: &Scratch, lines: &[String], options: &[&str]) -> Vec<Value> {
    let input = scratch.write("input", (lines.join("\n") + "\n").as_bytes());
    let mut command = submit_command(&scratch.join("data"));
    command.args(options);
    let submitted: Run = run(command.stdin(File::open(input).unwrap())).ends_with(0);
    let answers: Vec<Value> = submitted
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(answers.len(), lines.len(), "{submitted:#?}");
    answers
}

fn line(block: &Block) -> String {
    serialize(block).to_lower_hex_string()
}

/// An answer: verdict and reason, and the tip after it with its height.
fn answer(block: &Block, verdict: &str, reason: Option<&str>, tip: &Block, height: u32) -> Value {
    json!({
        "hash": block.block_hash().to_string(),
        "verdict": verdict,
        "reason": reason,
        "tip": tip.block_hash().to_string(),
        "height": height,
    })
}

#[test]
fn verdicts() {
    let scratch = Scratch::new();
    let genesis = genesis();
    let main = branch(&genesis, 1, 3, 0, None);
    let side = branch(&main[0], 2, 3, 1, None);
    let greedy = branch(&main[2], 4, 1, 0, Some(4)).remove(0);
    let mut no_root = branch(&main[2], 4, 1, 0, None).remove(0);
    no_root.txdata[0].output[0].value = bitcoin::Amount::from_sat(7);
    let late = branch(&main[0], 2, 1, 2, None).remove(0);
    let answers = submit(
        &scratch,
        &[
            &main[1], &main[0], &main[1], &main[1], &main[2], &genesis, &side[0], &side[0], &greedy, &greedy, &no_root,
            &side[2], &side[1], &side[2], &late,
        ]
        .map(line),
        &[],
    );
    let expected = [
        answer(&main[1], "orphan", Some("prev-blk-not-found"), &genesis, 0),
        answer(&main[0], "connected", None, &main[0], 1),
        answer(&main[1], "connected", None, &main[1], 2),
        answer(&main[1], "duplicate", None, &main[1], 2),
        answer(&main[2], "connected", None, &main[2], 3),
        answer(&genesis, "duplicate", None, &main[2], 3),
        answer(&side[0], "side", None, &main[2], 3),
        answer(&side[0], "duplicate", None, &main[2], 3),
        answer(&greedy, "invalid", Some("bad-cb-amount"), &main[2], 3),
        // Core's word for a block that is known to be invalid.
        answer(&greedy, "invalid", Some("duplicate-invalid"), &main[2], 3),
        answer(&no_root, "invalid", Some("bad-txnmrklroot"), &main[2], 3),
        answer(&side[2], "orphan", Some("prev-blk-not-found"), &main[2], 3),
        answer(&side[1], "side", None, &main[2], 3),
        // A reorganisation to the block.
        answer(&side[2], "connected", None, &side[2], 4),
        answer(&late, "side", None, &side[2], 4),
    ];
    for (number, (answer, expected)) in answers.iter().zip(expected).enumerate() {
        assert_eq!(*answer, expected, "line {number}");
    }
}

#[test]
fn malformed_lines_do_not_end_the_stream() {
    let scratch = Scratch::new();
    let blocks = branch(&genesis(), 1, 2, 0, None);
    let whole = line(&blocks[1]);
    let lines = [
        "".to_owned(),
        "abc".to_owned(),
        "not a block".to_owned(),
        "zz".repeat(100),
        "é".to_owned(),
        "00".to_owned(),
        "ff".repeat(81),
        line(&blocks[0]),
        whole[..whole.len() - 2].to_owned(),
        whole[..whole.len() - 1].to_owned(),
        format!("  {}\r", whole.to_uppercase()),
    ];
    let answers = submit(&scratch, &lines, &[]);
    let (first, last) = (answers.len() - 4, answers.len() - 1);
    for (number, answer) in answers.iter().enumerate() {
        let keys: Vec<_> = answer.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["hash", "height", "reason", "tip", "verdict"], "line {number}");
        let (verdict, tip) = match number {
            number if number == first => ("connected", blocks[0].block_hash()),
            number if number == last => ("connected", blocks[1].block_hash()),
            number if number < first => ("malformed", genesis().block_hash()),
            _ => ("malformed", blocks[0].block_hash()),
        };
        assert_eq!(answer["verdict"], verdict, "line {number}: {answer}");
        assert_eq!(answer["tip"], tip.to_string());
        assert_eq!(answer["reason"].is_string(), verdict == "malformed");
    }
}

/// Number and hash of the coins that coinbases make, computed here.
fn coins_of(blocks: &[Block]) -> (usize, String) {
    let mut coins: Vec<_> = (1u32..)
        .zip(blocks)
        .map(|(height, block)| {
            let coinbase = &block.txdata[0];
            assert_eq!(coinbase.output[0].script_pubkey, any_script());
            let outpoint = blockmill_block::OutPoint {
                txid: blockmill_block::Txid(*coinbase.compute_txid().as_ref()),
                vout: 0,
            };
            let coin = blockmill_block::Coin {
                value: coinbase.output[0].value.to_sat() as i64,
                height,
                is_coinbase: true,
                script_pubkey: coinbase.output[0].script_pubkey.as_bytes().into(),
            };
            (outpoint, coin)
        })
        .collect();
    coins.sort_by_key(|(outpoint, _)| *outpoint);
    let mut builder = StatsBuilder::new(Hashes::Serialized);
    for (outpoint, coin) in &coins {
        builder.add(outpoint, coin);
    }
    let tip = Tip {
        hash: blockmill_block::BlockHash([0; 32]),
        height: 0,
    };
    (coins.len(), builder.finish(&tip).hash_serialized_3.to_string())
}

#[test]
fn answers_have_the_coins_if_asked() {
    let scratch = Scratch::new();
    let main = branch(&genesis(), 1, 2, 0, None);
    let side = branch(&main[0], 2, 2, 1, None);
    let lines = [&main[0], &main[1], &side[0], &side[1]].map(line);
    let answers = submit(&scratch, &[&lines[..], &["".to_owned()]].concat(), &["--utxo"]);
    let reorganised = [&main[..1], &side[..]].concat();
    let expected = [&main[..1], &main[..], &main[..], &reorganised[..], &reorganised[..]].map(coins_of);
    for (answer, (count, hash)) in answers.iter().zip(expected) {
        assert_eq!(answer.as_object().unwrap().len(), 7, "{answer}");
        assert_eq!(
            (&answer["txouts"], &answer["hash_serialized_3"]),
            (&count.into(), &hash.into())
        );
    }
}

#[test]
fn a_restart_keeps_the_tip_and_knows_the_blocks() {
    let scratch = Scratch::new();
    let main = branch(&genesis(), 1, 3, 0, None);
    let side = branch(&main[0], 2, 3, 1, None);
    submit(
        &scratch,
        &[&main[0], &main[1], &main[2], &side[0], &side[1]].map(line),
        &[],
    );
    let answers = submit(
        &scratch,
        &[&main[0], &main[2], &side[0], &side[1], &side[2]].map(line),
        &[],
    );
    let expected = [
        answer(&main[0], "duplicate", None, &main[2], 3),
        answer(&main[2], "duplicate", None, &main[2], 3),
        answer(&side[0], "duplicate", None, &main[2], 3),
        answer(&side[1], "duplicate", None, &main[2], 3),
        answer(&side[2], "connected", None, &side[2], 4),
    ];
    assert_eq!(answers, expected);
}

#[test]
fn a_block_that_makes_an_ancestor_fail_names_it() {
    let scratch = Scratch::new();
    let main = branch(&genesis(), 1, 3, 0, None);
    let side = branch(&main[0], 2, 3, 1, Some(3));
    let above = branch(&side[2], 5, 1, 1, None).remove(0);
    let lines = [&main[0], &main[1], &main[2], &side[0], &side[1], &side[2], &above].map(line);
    let answers = submit(&scratch, &lines, &[]);
    assert_eq!(answers[3], answer(&side[0], "side", None, &main[2], 3));
    assert_eq!(answers[4], answer(&side[1], "side", None, &main[2], 3));
    let mut failed = answer(&side[2], "invalid", Some("bad-cb-amount"), &main[2], 3);
    failed["failed"] = side[1].block_hash().to_string().into();
    assert_eq!(answers[5], failed);
    // Core's word for a block on one that is known to be invalid.
    assert_eq!(answers[6], answer(&above, "invalid", Some("bad-prevblk"), &main[2], 3));
}

/// The kernel library's interface would take a tenth of a second before main: no part of the
/// command links it.
#[test]
fn it_starts_at_once() {
    const SECONDS_MAX: f64 = 0.010;
    // The machine may be busy: the best counts.
    let starts = (0..50).map(|_| run(&mut command(&["--version"])).ends_with(0).seconds);
    let best = starts.fold(f64::INFINITY, f64::min);
    assert!(best < SECONDS_MAX, "{best} seconds");
}
