//! `verify`: real blocks are accepted with the coins that they spend, and refused with any others.

use crate::common::blocks::{Kind, RealBlock, SpentIndex, kind_of, read_all, undo_bytes};
use crate::common::branches::{branch, genesis};
use crate::common::lying::LyingChain;
use crate::common::{Rng, Run, Scratch, blockmill, connect, on_threads, record, run, submit_command};
use blockmill_block::{Coin, hex};
use blockmill_chaingen::bitcoin::consensus::serialize;
use std::fs::File;
use std::path::Path;

const SCRIPT_FAILED: &str = "block-script-verify-flag-failed";
const MISSING: &str = "bad-txns-inputs-missingorspent";
const IN_BELOW_OUT: &str = "bad-txns-in-belowout";

fn verify(real: &RealBlock, block: &Path, undo: &Path, threads: usize) -> Run {
    let mut command = blockmill();
    command.arg("verify").arg("--block").arg(block).arg("--undo").arg(undo);
    command.args(["--height", &real.height.to_string(), "--network", real.network.name()]);
    run(command.args(["--par", &threads.to_string()]))
}

/// Standard output without the row that says how long it took.
fn rows(verified: &Run) -> Vec<&str> {
    verified
        .stdout
        .lines()
        .filter(|line| !line.starts_with("seconds"))
        .collect()
}

/// Verifies with one thread and with two, which must say the same.
fn verify_both(real: &RealBlock, undo: &Path, status: i32) -> Run {
    let [one, two] = [1, 2].map(|threads| verify(real, &real.path, undo, threads).ends_with(status));
    assert_eq!(rows(&one), rows(&two), "{}: --par 1 and --par 2 differ", real.name);
    one
}

/// What stands in the row `reason`.
fn reason(verified: &Run) -> &str {
    let row = verified.stdout.lines().find_map(|line| line.strip_prefix("reason "));
    row.unwrap_or_else(|| panic!("no reason: {verified:#?}")).trim()
}

/// Verifies a block with these coins, which must be refused for this reason; `at` is where the
/// blame lies.
fn check_refused(real: &RealBlock, coins: &[Vec<Coin>], expected: &str, at: Option<SpentIndex>) {
    let scratch = Scratch::new();
    let undo = scratch.write("undo", &undo_bytes(coins));
    let refused = verify_both(real, &undo, 1);
    let said = reason(&refused);
    let word = said.split([' ', ',', '(', ':']).next().unwrap_or_default();
    assert_eq!(word, expected, "{}: {said}", real.name);
    if let Some((transaction, input)) = at {
        let blamed =
            said.contains(&format!("transaction {}", transaction + 1)) && said.contains(&format!("input {input}"));
        assert!(
            blamed,
            "{}: {said}: expected transaction {}, input {input}",
            real.name,
            transaction + 1
        );
    }
}

/// Runs a check on every block of the folder, and returns how many of them it applied to.
fn for_all_blocks(check: impl Fn(&RealBlock) -> bool + Sync) -> Option<usize> {
    let blocks = read_all();
    let applied = on_threads(&blocks, check);
    (!blocks.is_empty()).then(|| applied.into_iter().filter(|&applied| applied).count())
}

/// One of the indices, chosen by the block's height.
fn one_of(real: &RealBlock, indices: &[SpentIndex]) -> Option<SpentIndex> {
    (!indices.is_empty()).then(|| indices[Rng::new(real.height.into()).below(indices.len())])
}

#[test]
fn every_block_is_accepted() {
    let applied = for_all_blocks(|real| {
        let verified = verify_both(real, &real.path.with_extension("undo"), 0);
        let row = |name: &str| {
            let row = verified
                .stdout
                .lines()
                .find_map(|line| line.strip_prefix(&format!("{name} ")));
            row.unwrap_or_else(|| panic!("{}: no row {name}", real.name))
                .trim()
                .to_owned()
        };
        assert_eq!(row("verdict"), "valid");
        assert_eq!(row("block"), real.block.hash().to_string());
        assert_eq!(row("transactions"), real.block.transaction_count().to_string());
        assert_eq!(
            row("inputs"),
            real.coins.iter().map(Vec::len).sum::<usize>().to_string()
        );
        assert_eq!(row("weight"), real.block.weight().to_string());
        // The written form of what was read is what was read.
        assert!(
            real.undo_bytes == undo_bytes(&real.coins),
            "{}: another form",
            real.name
        );
        true
    });
    assert!(applied.is_none_or(|applied| applied == 16), "{applied:?} blocks");
}

/// The input that fails when a coin is changed, where that is certain: Taproot
/// signatures commit to the coins of all inputs, so that an earlier one may be the first to fail.
fn blame(real: &RealBlock, (index, input): SpentIndex) -> Option<SpentIndex> {
    let earlier = &real.coins[index][..input];
    let certain = earlier
        .iter()
        .all(|coin| kind_of(&coin.script_pubkey) != Some(Kind::P2tr));
    certain.then_some((index, input))
}

/// Raises the amount of one spent coin of a kind whose signatures commit to it.
fn check_amount_changed(real: &RealBlock, kind: Kind) -> bool {
    let indices = real.spent_where(|(index, input), coin| {
        let witness = real.block.transaction(index + 1).input(input).witness();
        // A Taproot key path: one signature and no annex.
        let signed = kind != Kind::P2tr || (witness.len() == 1);
        kind_of(&coin.script_pubkey) == Some(kind) && !witness.is_empty() && signed
    });
    let Some((index, input)) = one_of(real, &indices) else {
        return false;
    };
    let mut coins = real.coins.clone();
    coins[index][input].value += 1;
    check_refused(real, &coins, SCRIPT_FAILED, blame(real, (index, input)));
    true
}

#[test]
fn a_changed_amount_of_a_segwit_coin_fails_the_script() {
    let applied = for_all_blocks(|real| check_amount_changed(real, Kind::P2wpkh));
    assert!(
        applied.is_none_or(|applied| applied >= 6),
        "{applied:?} blocks with P2WPKH"
    );
}

#[test]
fn a_changed_amount_of_a_taproot_coin_fails_the_script() {
    let applied = for_all_blocks(|real| check_amount_changed(real, Kind::P2tr));
    assert!(
        applied.is_none_or(|applied| applied >= 2),
        "{applied:?} blocks with P2TR"
    );
}

#[test]
fn amounts_below_the_outputs_are_refused() {
    let applied = for_all_blocks(|real| {
        // All coins of the transaction are changed.
        let makes_none = |index: usize| (0..real.coins[index].len()).all(|input| !real.makes((index, input)));
        let candidates =
            real.spent_where(|(index, input), _| input == 0 && real.value_out(index) > 0 && makes_none(index));
        let (index, _) = one_of(real, &candidates).expect("a transaction that pays something");
        let mut coins = real.coins.clone();
        let mut left = real.value_out(index) - 1;
        for coin in &mut coins[index] {
            coin.value = coin.value.min(left);
            left -= coin.value;
        }
        assert_eq!(left, 0);
        check_refused(real, &coins, IN_BELOW_OUT, None);
        true
    });
    assert!(applied.is_none_or(|applied| applied == 16), "{applied:?} blocks");
}

#[test]
fn a_missing_coin_is_refused() {
    let applied = for_all_blocks(|real| {
        let (index, input) = one_of(real, &real.spent_where(|_, _| true)).expect("a spent coin");
        let mut coins = real.coins.clone();
        coins[index].remove(input);
        check_refused(real, &coins, MISSING, None);
        true
    });
    assert!(applied.is_none_or(|applied| applied == 16), "{applied:?} blocks");
}

#[test]
fn missing_coins_of_a_transaction_are_refused() {
    let applied = for_all_blocks(|real| {
        let mut coins = real.coins.clone();
        let index = Rng::new(real.height.into()).below(coins.len());
        coins.remove(index);
        check_refused(real, &coins, MISSING, None);
        true
    });
    assert!(applied.is_none_or(|applied| applied == 16), "{applied:?} blocks");
}

#[test]
fn a_changed_script_fails_the_script() {
    let applied = for_all_blocks(|real| {
        let indices = real.spent_where(|_, coin| kind_of(&coin.script_pubkey).is_some());
        let (index, input) = one_of(real, &indices).expect("a coin whose script names a key or a script");
        let mut coins = real.coins.clone();
        // A bit of the key or the hash.
        coins[index][input].script_pubkey[12] ^= 1;
        check_refused(real, &coins, SCRIPT_FAILED, blame(real, (index, input)));
        true
    });
    assert!(applied.is_none_or(|applied| applied == 16), "{applied:?} blocks");
}

/// Verifies with a file that is cut off or too long, which must be named.
fn check_unreadable(real: &RealBlock, block: Option<&[u8]>, undo: Option<&[u8]>) {
    let scratch = Scratch::new();
    let block_path = block.map(|bytes| scratch.write("cut.raw", bytes));
    let undo_path = undo.map(|bytes| scratch.write("cut.undo", bytes));
    let named = block_path
        .as_ref()
        .or(undo_path.as_ref())
        .expect("a changed file")
        .to_str()
        .unwrap()
        .to_owned();
    let own_undo = real.path.with_extension("undo");
    let verified = verify(
        real,
        block_path.as_deref().unwrap_or(&real.path),
        undo_path.as_deref().unwrap_or(&own_undo),
        2,
    );
    assert_eq!(verified.stdout, "", "{}", real.name);
    verified.ends_with(3).says(&[&named]);
}

#[test]
fn cut_files_are_named() {
    for_all_blocks(|real| {
        let mut dice = Rng::new(real.height.into());
        let (block, undo) = (real.block.bytes(), undo_bytes(&real.coins));
        check_unreadable(real, Some(&block[..dice.below(block.len())]), None);
        check_unreadable(real, None, Some(&undo[..dice.below(undo.len())]));
        true
    });
}

#[test]
fn files_a_byte_off_missing_or_empty_are_named() {
    let all = read_all();
    let Some(real) = all.first() else { return };
    let (block, undo) = (real.block.bytes(), undo_bytes(&real.coins));
    check_unreadable(real, Some(&block[..block.len() - 1]), None);
    check_unreadable(real, None, Some(&undo[..undo.len() - 1]));
    check_unreadable(real, None, Some(&[&undo[..], &[0]].concat()));
    check_unreadable(real, Some(&[]), None);
    check_unreadable(real, None, Some(&[]));
    let scratch = Scratch::new();
    let missing = scratch.join("missing");
    let undo = real.path.with_extension("undo");
    verify(real, &missing, &undo, 1)
        .ends_with(3)
        .says(&[missing.to_str().unwrap()]);
    verify(real, &real.path, &missing, 1)
        .ends_with(3)
        .says(&[missing.to_str().unwrap()]);
}

/// As `getblock HASH 0` prints a block, and from standard input.
#[test]
fn blocks_may_be_in_hex_and_come_from_a_pipe() {
    let all = read_all();
    let Some(real) = all.first() else { return };
    let scratch = Scratch::new();
    let hex = |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("{byte:02X}")).collect::<String>() + "\n" };
    let block = scratch.write("block.hex", hex(real.block.bytes()).as_bytes());
    let undo = scratch.write("undo.hex", hex(&undo_bytes(&real.coins)).as_bytes());
    let expected = verify(real, &real.path, &real.path.with_extension("undo"), 2).ends_with(0);
    assert_eq!(rows(&verify(real, &block, &undo, 2).ends_with(0)), rows(&expected));
    let with_input = |input: &Path, more: &[&str]| {
        let mut command = blockmill();
        command.args(["verify", "--block", "-", "--undo"]).arg(&undo).args(more);
        command.args(["--height", &real.height.to_string(), "--network", real.network.name()]);
        run(command.stdin(File::open(input).unwrap()))
    };
    for input in [&block, &real.path] {
        assert_eq!(rows(&with_input(input, &[]).ends_with(0)), rows(&expected));
    }
    let json = with_input(&block, &["--json"]).ends_with(0).json();
    let row = |name: &str| {
        let value = rows(&expected)
            .into_iter()
            .find_map(|row| row.strip_prefix(name))
            .unwrap_or_default();
        value.split_whitespace().next().unwrap_or_default().to_owned()
    };
    assert_eq!(json["verdict"], "valid");
    assert_eq!(json["block"], row("block"));
    for (key, name) in [
        ("transactions", "transactions"),
        ("inputs", "inputs"),
        ("fees", "fees"),
        ("sigop_cost", "sigop_cost"),
        ("weight", "weight"),
    ] {
        assert_eq!(json[key].to_string(), row(name), "{key}");
    }
    let mut other = real.coins.clone();
    other.iter_mut().flatten().for_each(|coin| coin.value = 0);
    let other = scratch.write("other", &undo_bytes(&other));
    let mut command = blockmill();
    command
        .args(["verify", "--json", "--block"])
        .arg(&block)
        .arg("--undo")
        .arg(&other);
    command.args(["--height", &real.height.to_string(), "--network", real.network.name()]);
    let refused = run(&mut command).ends_with(1).json();
    assert_eq!(
        (&refused["verdict"], &refused["reason"]),
        (&"invalid".into(), &IN_BELOW_OUT.into())
    );
    let odd = scratch.write("odd", b"abc");
    verify(real, &odd, &undo, 1).ends_with(3).says(&["odd"]);
}

/// `verify` of a block in a file and its undo data in another one.
fn verify_made(block: &Path, undo: &Path) -> Run {
    let mut command = blockmill();
    command.args(["verify", "--network", "regtest", "--height", "1", "--block"]);
    run(command.arg(block).arg("--undo").arg(undo))
}

#[test]
fn files_end_with_the_block_and_its_undo_data() {
    let scratch = Scratch::new();
    let made = serialize(&branch(&genesis(), 1, 1, 0, None)[0]);
    let (block, undo) = (scratch.write("block", &made), scratch.write("undo", &[0]));
    verify_made(&block, &undo).ends_with(0);
    let longer = scratch.write("longer", &[&made[..], b"more"].concat());
    let offset = format!("offset {}: 4 bytes", made.len());
    verify_made(&longer, &undo)
        .ends_with(3)
        .says(&[longer.to_str().unwrap(), &offset]);
    let longer = scratch.write("longer", &[0, 0]);
    verify_made(&block, &longer)
        .ends_with(3)
        .says(&[longer.to_str().unwrap()]);
    // A file without end.
    let endless = Path::new("/dev/zero");
    verify_made(endless, &undo)
        .ends_with(3)
        .says(&["/dev/zero", "more than"]);
    verify_made(&block, endless)
        .ends_with(3)
        .says(&["/dev/zero", "more than"]);
}

/// As in Core, whose files and `submitblock` go by the end that a block has itself.
#[test]
fn bytes_after_a_block_do_not_count_in_block_files_nor_in_submit() {
    let scratch = Scratch::new();
    let mut chain = LyingChain::new();
    for _ in 0..3 {
        chain.push(Vec::new(), Vec::new());
    }
    let folder = chain.write(&scratch, "blocks");
    let longer = chain
        .blocks
        .iter()
        .map(|block| [&serialize(block)[..], b"more"].concat());
    let longer: Vec<Vec<u8>> = longer.collect();
    let records = longer.iter().flat_map(|block| record(LyingChain::magic(), block));
    std::fs::write(folder.join("blk00000.dat"), records.collect::<Vec<u8>>()).unwrap();
    let connected = run(&mut connect(&folder, &scratch.join("connected"), "regtest"))
        .ends_with(0)
        .json();
    assert_eq!((&connected["height"], &connected["whole"]), (&3.into(), &true.into()));
    let mut verify = blockmill();
    verify.args(["verify", "--network", "regtest", "--json", "--blocks"]);
    assert_eq!(run(verify.arg(&folder)).ends_with(0).json()["valid"], 3);
    let lines = longer[1..].iter().map(|block| hex::encode(block) + "\n");
    let lines = scratch.write("lines", lines.collect::<String>().as_bytes());
    let submitted = run(submit_command(&scratch.join("submitted")).stdin(File::open(lines).unwrap())).ends_with(0);
    assert_eq!(submitted.stdout.matches("\"connected\"").count(), 3, "{submitted:#?}");
}
