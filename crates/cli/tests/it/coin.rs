//! `coin` beside a set that the tests made from the blocks.

use crate::common::own_set::{OwnChain, OwnCoin};
use crate::common::{Run, Scratch, blockmill, connect, run};
use bitcoin::OutPoint;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

const BLOCKS: u32 = 140;

/// What `coin` must say.
fn expected(outpoint: &OutPoint, coin: Option<&OwnCoin>) -> Value {
    let Some(coin) = coin else { return Value::Null };
    let mut row = coin.row(outpoint);
    row.as_object_mut().unwrap().remove("script_type");
    row
}

fn command(data: &Path) -> Command {
    let mut command = blockmill();
    command.args(["coin", "--data"]).arg(data);
    command
}

/// Asks for outpoints by standard input.
fn ask(data: &Path, lines: &str) -> Run {
    let input = data.with_extension("outpoints");
    std::fs::write(&input, lines).unwrap();
    run(command(data).arg("--json").stdin(std::fs::File::open(input).unwrap()))
}

/// All outputs that ever were, and some that never were.
#[test]
fn coins_are_those_of_the_chain() {
    let scratch = Scratch::new();
    let chain = OwnChain::generate(&scratch, "mixed", BLOCKS, &["--seed", "5"]);
    let data = scratch.join("data");
    run(&mut connect(&chain.folder, &data, "regtest")).ends_with(0);
    let set = chain.set(BLOCKS);
    assert_eq!(chain.manifest["coins"], set.0.len());
    let mut outpoints: Vec<OutPoint> = Vec::new();
    for transaction in chain.blocks.iter().flat_map(|block| &block.txdata) {
        let txid = transaction.compute_txid();
        outpoints.extend((0..=transaction.output.len() as u32).map(|vout| OutPoint { txid, vout }));
    }
    let lines: String = outpoints.iter().map(|outpoint| format!("{outpoint}\n")).collect();
    let answers = ask(&data, &lines).ends_with(0);
    let (mut found, mut with_address) = (0, 0);
    let mut answered = answers.stdout.lines();
    for outpoint in &outpoints {
        let answer: Value = serde_json::from_str(answered.next().unwrap()).unwrap();
        assert_eq!(answer, expected(outpoint, set.0.get(outpoint)), "{outpoint}");
        found += usize::from(!answer.is_null());
        with_address += usize::from(!answer["address"].is_null());
    }
    assert_eq!((answered.next(), found), (None, set.0.len()));
    assert!(outpoints.len() > found + 1000 && with_address > 100 && with_address < found);

    let named: Vec<String> = set.0.keys().take(2).map(ToString::to_string).collect();
    let (outpoint, coin) = set.0.first_key_value().unwrap();
    let one = run(command(&data).arg("--json").args(&named)).ends_with(0);
    assert_eq!(one.stdout.lines().count(), 2);
    let first: Value = serde_json::from_str(one.stdout.lines().next().unwrap()).unwrap();
    assert_eq!(first, expected(outpoint, Some(coin)));
    let text = run(command(&data).args(&named)).ends_with(0).stdout;
    let btc = coin.output.value.to_btc();
    assert!(
        text.starts_with(&format!("{outpoint}  {btc:.8} BTC, height {}", coin.height)),
        "{text}"
    );
    let unknown = format!("{}:0", "ab".repeat(32));
    let none = run(command(&data).arg(&unknown)).ends_with(0);
    assert_eq!(none.stdout, format!("{unknown}  no coin\n"));
}

/// Another program may ask one at a time, and wait for the answer.
#[test]
fn each_question_is_answered_at_once() {
    let scratch = Scratch::new();
    let data = scratch.folder("data");
    run(&mut connect(&scratch.write("blk00000.dat", &[]), &data, "regtest")).ends_with(0);
    let mut child = command(&data)
        .arg("--json")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    for _ in 0..3 {
        writeln!(input, "{}:3", "cd".repeat(32)).unwrap();
        let mut answer = String::new();
        output.read_line(&mut answer).unwrap();
        assert_eq!(answer, "null\n");
    }
    drop(input);
    assert!(child.wait().unwrap().success());
}

#[test]
fn what_is_no_outpoint_is_named() {
    let scratch = Scratch::new();
    let data = scratch.folder("data");
    run(&mut connect(&scratch.write("blk00000.dat", &[]), &data, "regtest")).ends_with(0);
    let good = format!("{}:0", "ab".repeat(32));
    for bad in ["what", "ab:0", &good[1..], &"a".repeat(5000)] {
        // What was asked before has its answer, and empty lines are nothing.
        let refused = ask(&data, &format!("{good}\n\n{bad}\n{good}\n")).ends_with(3);
        assert_eq!(refused.stdout, "null\n");
        refused.says(&["standard input: line 3: "]);
        run(command(&data).arg(bad)).ends_with(2).says(&["expected TXID:VOUT"]);
    }
    let nowhere = scratch.join("nowhere");
    run(command(&nowhere).arg(&good))
        .ends_with(2)
        .says(&["there is no data directory"]);
}
