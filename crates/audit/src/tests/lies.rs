//! Lies about coins and sets. Each passes all rules of single blocks, and is refuted by the one
//! condition that is meant for it: without that it would be proved.

use super::chains::*;
use crate::conditions::Conditions;
use crate::{FindingKind, Report, Verdict};
use blockmill_chaingen::bitcoin::{OutPoint, ScriptBuf};
use blockmill_chaingen::builder::{spend_any, subsidy};
use blockmill_chaingen::core_files::{CoreChain, CoreLayout};
use proptest::prelude::*;

const ALL: Conditions = Conditions {
    order: true,
    once: true,
    sums: true,
    joined: true,
    sealed: true,
};

const WITHOUT_SUMS: Conditions = Conditions { sums: false, ..ALL };

const WITHOUT_ORDER: Conditions = Conditions { order: false, ..ALL };

const WITHOUT_ONCE: Conditions = Conditions { once: false, ..ALL };

#[track_caller]
fn is_proved(report: &Report) {
    assert_eq!((report.verdict, &report.findings[..]), (Verdict::Proved, &[][..]));
}

/// The lie is refuted by one kind of finding, and would be proved without that condition.
#[track_caller]
fn is_caught(lie: &CoreChain, kind: FindingKind, without: Conditions) -> Report {
    let report = audit(lie, ALL);
    assert_eq!(report.verdict, Verdict::Refuted, "{:?}", report.findings);
    assert!(
        report.findings.iter().all(|finding| finding.kind == kind),
        "{:?}",
        report.findings
    );
    is_proved(&audit(lie, without));
    report
}

/// The chain in which lies are told: the undo data of block 103 has two coins.
fn honest() -> CoreChain {
    chain(110)
}

#[test]
fn the_truth_is_proved() {
    let chain = honest();
    let report = audit(&chain, ALL);
    is_proved(&report);
    assert_eq!((report.blocks, report.height), (111, Some(110)));
    assert_eq!((report.transactions, report.inputs), (111 + 10 + 9, 19));
    assert_eq!(report.coins, chain.coins.len() as u64);
}

/// The network's first block is in the code, but `connect` calls files with a false copy not whole.
#[test]
fn a_false_copy_of_the_first_block_proves_nothing() {
    let mut with_witness = honest();
    let coinbase = &mut with_witness.blocks[0].block.txdata[0];
    coinbase.input[0].witness.push([1]);
    let mut of_other_coinbase = honest();
    of_other_coinbase.blocks[0].block.txdata[0].output[0].value -= blockmill_chaingen::bitcoin::Amount::ONE_SAT;
    for chain in [with_witness, of_other_coinbase] {
        let report = audit(&chain, ALL);
        let kinds: Vec<_> = report.findings.iter().map(|finding| finding.kind).collect();
        assert_eq!(
            (report.verdict, &kinds[..]),
            (Verdict::Incomplete, &[FindingKind::Unreadable][..]),
            "{:?}",
            report.findings
        );
        assert_eq!(report.findings[0].height, Some(0), "{:?}", report.findings);
    }
}

#[test]
fn a_spent_coin_of_another_amount() {
    let mut lie = honest();
    lie.blocks[103].spent[0].value += 1;
    let report = is_caught(&lie, FindingKind::Sums, WITHOUT_SUMS);
    assert!(
        report.findings[0].reason.contains("amounts differ by -1 satoshi"),
        "{report:?}"
    );
}

#[test]
fn a_spent_coin_of_another_script() {
    let mut lie = honest();
    lie.blocks[103].spent[0].script = ScriptBuf::from_bytes(vec![0x51, 0x61]);
    is_caught(&lie, FindingKind::Sums, WITHOUT_SUMS);
}

#[test]
fn a_spent_coin_of_another_height() {
    let mut lie = honest();
    lie.blocks[103].spent[1].height -= 1;
    is_caught(&lie, FindingKind::Sums, WITHOUT_SUMS);
}

#[test]
fn a_spent_coin_of_another_flag() {
    let mut lie = honest();
    lie.blocks[103].spent[0].coinbase = false;
    is_caught(&lie, FindingKind::Sums, WITHOUT_SUMS);
}

#[test]
fn a_coin_spent_twice_in_one_block() {
    let mut lie = honest();
    let outpoint = coinbase(&lie, 11);
    let coin = lie.coins[&key_of(&outpoint)].clone();
    let spends = [1, 2].map(|fee| spend_any(outpoint, subsidy(11) - fee));
    let block = next(&lie, spends.to_vec());
    lie.push_with(block, |_| coin.clone());
    is_caught(&lie, FindingKind::Sums, WITHOUT_SUMS);
}

#[test]
fn a_coin_spent_twice_in_two_blocks() {
    let mut lie = honest();
    let outpoint = coinbase(&lie, 11);
    let coin = lie.coins[&key_of(&outpoint)].clone();
    for fee in [1, 2] {
        let block = next(&lie, vec![spend_any(outpoint, subsidy(11) - fee)]);
        lie.push_with(block, |_| coin.clone());
    }
    is_caught(&lie, FindingKind::Sums, WITHOUT_SUMS);
}

#[test]
fn a_coin_that_nobody_made() {
    let mut lie = honest();
    let outpoint = OutPoint::new(coinbase(&lie, 11).txid, 7);
    let block = next(&lie, vec![spend_any(outpoint, 1_000)]);
    lie.push_with(block, |_| any_coin(11, 2_000));
    is_caught(&lie, FindingKind::Sums, WITHOUT_SUMS);
}

#[test]
fn a_coin_spent_in_the_block_before_it_is_made() {
    let mut lie = honest();
    let maker = spend_coinbase(&lie, 11);
    let value = maker.output[0].value.to_sat();
    let outpoint = OutPoint::new(maker.compute_txid(), 0);
    let block = next(&lie, vec![spend_any(outpoint, value)]);
    lie.push_with(block, |_| any_coin(112, value));
    let block = next(&lie, vec![maker]);
    lie.push(block);
    lie.coins.remove(&key_of(&outpoint));
    is_caught(&lie, FindingKind::Order, WITHOUT_ORDER);
    // Of another height the sums know better.
    lie.blocks[111].spent[0].height = 110;
    is_caught(&lie, FindingKind::Sums, WITHOUT_SUMS);
}

#[test]
fn a_coin_spent_by_an_earlier_transaction_of_its_block() {
    let mut lie = honest();
    let maker = spend_coinbase(&lie, 11);
    let value = maker.output[0].value.to_sat();
    let outpoint = OutPoint::new(maker.compute_txid(), 0);
    let block = next(&lie, vec![spend_any(outpoint, value), maker.clone()]);
    let mut truth = lie.clone();
    lie.push_with(block, |_| any_coin(111, value));
    lie.coins.remove(&key_of(&outpoint));
    is_caught(&lie, FindingKind::Order, WITHOUT_ORDER);
    let block = next(&truth, vec![maker, spend_any(outpoint, value)]);
    truth.push(block);
    is_proved(&audit(&truth, ALL));
}

#[test]
fn a_coin_of_the_set_added_left_out_or_changed() {
    let honest = honest();
    let keys: Vec<_> = honest.coins.keys().copied().collect();
    let is_caught = |change: &dyn Fn(&mut CoreChain)| {
        let mut lie = honest.clone();
        change(&mut lie);
        is_caught(&lie, FindingKind::Sums, WITHOUT_SUMS);
    };
    is_caught(&|lie| drop(lie.coins.insert(([7; 32], 0), any_coin(11, 5))));
    is_caught(&|lie| drop(lie.coins.remove(&keys[20])));
    for number in [0, keys.len() / 2, keys.len() - 1] {
        is_caught(&|lie| lie.coins.get_mut(&keys[number]).unwrap().value ^= 1);
        is_caught(&|lie| lie.coins.get_mut(&keys[number]).unwrap().height ^= 1);
        is_caught(&|lie| lie.coins.get_mut(&keys[number]).unwrap().coinbase ^= true);
        is_caught(&|lie| lie.coins.get_mut(&keys[number]).unwrap().script = ScriptBuf::from_bytes(vec![0x52]));
    }
    // A coin under another name.
    is_caught(&|lie| {
        let coin = lie.coins.remove(&keys[9]).unwrap();
        lie.coins.insert((keys[9].0, 1), coin);
    });
}

#[test]
fn a_repeated_coinbase() {
    // Coinbases that have no height are as they were before BIP 34.
    let mut params = params();
    params.heights.height_in_coinbase = u32::MAX;
    let mut lie = chain(0);
    for _ in 1..=110 {
        let block = next(&lie, Vec::new());
        lie.push(block);
    }
    let repeated = lie.blocks[5].block.txdata[0].clone();
    let again = |lie: &CoreChain, transactions: Vec<_>| {
        let mut block = next(lie, transactions);
        block.txdata[0] = repeated.clone();
        blockmill_chaingen::builder::repair(&mut block);
        block
    };
    let first = lie.coins[&key_of(&coinbase(&lie, 5))].clone();
    let block = again(&lie, Vec::new());
    lie.push(block);
    // One of the two is spent, so the set has but one of that name.
    let block = next(&lie, vec![spend_any(coinbase(&lie, 5), 1_000)]);
    let second = lie.coins.remove(&key_of(&coinbase(&lie, 5))).unwrap();
    assert_eq!(second.height, 111);
    lie.push_with(block, |_| first.clone());
    lie.coins.insert(key_of(&coinbase(&lie, 5)), second);
    let report = audit_with(&lie, &params, ALL);
    assert_eq!(report.verdict, Verdict::Refuted);
    assert_eq!(report.findings.len(), 1);
    assert_eq!(report.findings[0].kind, FindingKind::Once);
    is_proved(&audit_with(&lie, &params, WITHOUT_ONCE));
}

#[test]
fn two_lies_that_cancel_in_counts_and_amounts() {
    let mut lie = honest();
    lie.blocks[103].spent[0].value += 3;
    lie.blocks[105].spent[0].value -= 3;
    let report = is_caught(&lie, FindingKind::Sums, WITHOUT_SUMS);
    assert!(
        report.findings[0]
            .reason
            .contains("are the same, so one stands instead"),
        "{report:?}"
    );
    // One in the undo data and one in the set.
    let mut lie = honest();
    lie.blocks[103].spent[0].value += 3;
    lie.coins.values_mut().next().unwrap().value -= 3;
    is_caught(&lie, FindingKind::Sums, WITHOUT_SUMS);
}

/// A sibling of the block at height 105, of the same form, that spends other coins.
fn sibling(chain: &CoreChain) -> blockmill_chaingen::core_files::CoreBlock {
    let mut below = chain.clone();
    below.blocks.truncate(105);
    let spends = chain.blocks[105].block.txdata[1..].iter();
    let mut other = 50;
    let transactions = spends.map(|_| {
        other += 1;
        spend_any(OutPoint::new(coinbase(chain, other).txid, 3), 700)
    });
    let block = next(&below, transactions.collect());
    below.push_with(block, |_| any_coin(60, 900));
    below.blocks.remove(105)
}

#[test]
fn undo_data_of_a_stale_block_of_the_same_height() {
    let honest = honest();
    let stale = sibling(&honest);
    let mut lie = honest.clone();
    lie.blocks[105].spent = stale.spent.clone();
    // The outputs are worth more than these coins.
    let report = audit(&lie, ALL);
    assert_eq!(report.verdict, Verdict::Refuted);
    assert_eq!(report.findings[0].kind, FindingKind::Block);
    for coin in &mut lie.blocks[105].spent {
        coin.value = subsidy(1);
    }
    is_caught(&lie, FindingKind::Sums, WITHOUT_SUMS);
}

#[test]
fn stale_blocks_are_no_lie() {
    let honest = honest();
    let folder = tempfile::tempdir().unwrap();
    for (number, reversed) in [false, true].into_iter().enumerate() {
        let folder = folder.path().join(number.to_string());
        let layout = CoreLayout {
            stale: vec![(105, sibling(&honest))],
            reversed,
            ..CoreLayout::default()
        };
        write(&honest, &folder, &layout);
        is_proved(&audit_files(&folder, &params(), ALL).unwrap());
    }
}

#[test]
fn the_set_of_a_stale_block() {
    let honest = honest();
    let folder = tempfile::tempdir().unwrap();
    let layout = CoreLayout {
        stale: vec![(105, sibling(&honest))],
        ..CoreLayout::default()
    };
    write(&honest, folder.path(), &layout);
    let mut stale = honest.clone();
    stale.blocks.truncate(105);
    stale.blocks.push(sibling(&honest));
    stale.write_snapshot(&folder.path().join("set")).unwrap();
    let report = audit_files(folder.path(), &params(), ALL).unwrap();
    assert_eq!(report.verdict, Verdict::Refuted);
    assert_eq!(report.findings[0].kind, FindingKind::Chain);
}

/// None of two chains of the same work is the one of most work.
#[test]
fn the_set_of_either_of_two_chains_of_the_same_work() {
    let honest = chain(105);
    let mut sibling = sibling(&chain(106));
    // The same coins as its twin.
    sibling.block.txdata.truncate(1);
    blockmill_chaingen::builder::repair(&mut sibling.block);
    let mut other = chain(104);
    other.push(sibling.block);
    for reversed in [false, true] {
        for set in [&honest, &other] {
            let folder = tempfile::tempdir().unwrap();
            let layout = CoreLayout {
                stale: vec![(105, other.blocks[105].clone())],
                reversed,
                ..CoreLayout::default()
            };
            write(&honest, folder.path(), &layout);
            set.write_snapshot(&folder.path().join("set")).unwrap();
            let report = audit_files(folder.path(), &params(), ALL).unwrap();
            is_proved(&report);
            assert_eq!(report.hash.to_string(), set.tip().block_hash().to_string());
        }
    }
}

#[test]
fn a_block_that_breaks_a_rule() {
    let mut lie = honest();
    // More than the subsidy and the fees.
    let block = next(&lie, Vec::new());
    let mut block = block;
    block.txdata[0].output[0].value = blockmill_chaingen::bitcoin::Amount::from_sat(subsidy(111) + 1);
    blockmill_chaingen::builder::repair(&mut block);
    lie.push(block);
    let report = audit(&lie, ALL);
    assert_eq!(report.verdict, Verdict::Refuted);
    let finding = &report.findings[0];
    assert_eq!((finding.kind, finding.height), (FindingKind::Block, Some(111)));
    assert!(finding.reason.contains("bad-cb-amount"), "{finding}");
}

/// Takes the heights out of undo data, as a Core before 0.15 wrote them: only the last output of a
/// transaction that was spent had one.
fn forget_heights(lie: &mut CoreChain, heights: impl IntoIterator<Item = usize>) {
    for height in heights {
        for coin in &mut lie.blocks[height].spent {
            (coin.height, coin.coinbase) = (0, false);
        }
    }
}

#[track_caller]
fn is_open(lie: &CoreChain, findings: usize) {
    let report = audit(lie, ALL);
    assert_eq!(report.verdict, Verdict::Incomplete, "{:?}", report.findings);
    assert_eq!(report.findings.len(), findings, "{:?}", report.findings);
    for finding in &report.findings {
        assert_eq!(finding.kind, FindingKind::Unreadable);
        assert!(finding.reason.contains("before 0.15"), "{finding}");
        assert!(finding.reason.contains("-reindex"), "{finding}");
    }
}

#[test]
fn undo_data_of_an_old_core() {
    let mut lie = honest();
    lie.blocks[103].spent[0].height = 0;
    lie.blocks[103].spent[0].coinbase = false;
    is_open(&lie, 1);
    // The same is said once, whatever the number of blocks.
    let mut lie = honest();
    forget_heights(&mut lie, 101..=110);
    is_open(&lie, 1);
    let report = audit(&lie, ALL);
    let finding = &report.findings[0];
    assert_eq!(finding.height, Some(101));
    assert!(finding.reason.contains("up to height 110"), "{finding}");
    // Nothing that the sums alone would say is said: they have no true coins to speak of.
    lie.blocks[105].spent[0].value += 1;
    lie.coins.pop_first();
    is_open(&lie, 1);
    // No form of it is ever a proof.
    for conditions in [WITHOUT_SUMS, WITHOUT_ONCE] {
        assert_eq!(audit(&lie, conditions).verdict, Verdict::Incomplete);
    }
}

#[test]
fn undo_data_of_an_old_core_hides_no_broken_rule() {
    // In the same block: another coin of it is of a height that is not yet there.
    let mut lie = honest();
    lie.blocks[103].spent[0].height = 0;
    lie.blocks[103].spent[0].coinbase = false;
    lie.blocks[103].spent[1].height = 104;
    let report = audit(&lie, ALL);
    let kinds: Vec<_> = report.findings.iter().map(|finding| finding.kind).collect();
    assert_eq!(
        (report.verdict, &kinds[..]),
        (Verdict::Refuted, &[FindingKind::Order, FindingKind::Unreadable][..])
    );
    // In the same block: its script fails.
    let mut lie = honest();
    forget_heights(&mut lie, [103]);
    lie.blocks[103].spent[1].script = ScriptBuf::new_op_return([1]);
    let report = audit(&lie, ALL);
    let kinds: Vec<_> = report.findings.iter().map(|finding| finding.kind).collect();
    assert_eq!(
        (report.verdict, &kinds[..]),
        (Verdict::Refuted, &[FindingKind::Block][..])
    );
    // In another block: its coinbase pays too much.
    let mut lie = honest();
    forget_heights(&mut lie, 101..=110);
    let mut block = next(&lie, Vec::new());
    block.txdata[0].output[0].value = blockmill_chaingen::bitcoin::Amount::from_sat(subsidy(111) + 1);
    blockmill_chaingen::builder::repair(&mut block);
    lie.push(block);
    let report = audit(&lie, ALL);
    let kinds: Vec<_> = report.findings.iter().map(|finding| finding.kind).collect();
    assert_eq!(
        (report.verdict, &kinds[..]),
        (Verdict::Refuted, &[FindingKind::Block, FindingKind::Unreadable][..])
    );
}

/// Tells one lie of a kind. Returns whether there was something to lie about.
fn tell(lie: &mut CoreChain, kind: u8, choice: usize, by: u64) -> bool {
    let heights: Vec<usize> = (0..lie.blocks.len())
        .filter(|&height| !lie.blocks[height].spent.is_empty())
        .collect();
    let height = heights[choice % heights.len()];
    let number = choice % lie.blocks[height].spent.len();
    let coin = &mut lie.blocks[height].spent[number];
    let keys: Vec<_> = lie.coins.keys().copied().collect();
    let key = keys[choice % keys.len()];
    match kind {
        0 => coin.value += by,
        1 => coin.height = 1 + (coin.height + by as u32) % 100,
        2 => coin.script = ScriptBuf::from_bytes([vec![0x51], vec![0x61; by as usize]].concat()),
        3 => drop(lie.coins.remove(&key)),
        4 => drop(lie.coins.insert((key.0, 1 + by as u32), any_coin(3, by))),
        5 => (coin.height, coin.coinbase) = (0, false),
        _ => lie.coins.get_mut(&key).unwrap().value += by,
    }
    true
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn no_lie_of_several_kinds_is_proved(lies in prop::collection::vec((0u8..7, any::<u16>(), 1u64..90), 1..6)) {
        let honest = honest();
        let mut lie = honest.clone();
        for (kind, choice, by) in lies {
            tell(&mut lie, kind, choice.into(), by);
        }
        let same = |a: &CoreChain, b: &CoreChain| {
            a.coins == b.coins && a.blocks.iter().zip(&b.blocks).all(|(a, b)| a.spent == b.spent)
        };
        if !same(&lie, &honest) {
            prop_assert_ne!(audit(&lie, ALL).verdict, Verdict::Proved);
        }
    }
}
