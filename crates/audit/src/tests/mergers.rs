//! Lies about parts, and parts that are true.

use super::chains::*;
use crate::conditions::{ChainFacts, Conditions};
use crate::fingerprint::Fingerprinter;
use crate::joined::Joined;
use crate::merge::{join, merge};
use crate::part::{JoinError, Part, PartError};
use crate::set::of_snapshot;
use crate::{AuditedSet, Auditor, FindingKind, Key, Report, Sources, Verdict};
use blockmill_block::{BlockHash, Network};
use blockmill_chain::Signatures;
use blockmill_chaingen::builder::subsidy;
use blockmill_chaingen::core_files::{CoreChain, CoreLayout};
use blockmill_script::CoreVerifier;
use proptest::prelude::*;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tempfile::TempDir;

/// A chain in files, and a key.
struct Site {
    folder: TempDir,
    key: Key,
}

impl Site {
    fn new(chain: &CoreChain) -> Self {
        let folder = tempfile::tempdir().unwrap();
        write(chain, folder.path(), &CoreLayout::default());
        Self {
            folder,
            key: Key::of_number(3),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn part_of(&self, blocks: &Path, key: &Key, heights: RangeInclusive<u32>) -> Part {
        let (verifier, stop) = (
            Arc::new(CoreVerifier::new(blockmill_script::Signatures::Lanes)),
            AtomicBool::new(false),
        );
        let auditor = Auditor::new(&verifier, 1, Signatures::Lanes, &stop);
        let sources = Sources {
            blocks: &[blocks.to_owned()],
            headers: &[],
            params: &params(),
        };
        let blocks = auditor.chain(&sources, &mut ()).unwrap();
        let report = auditor.part(&blocks, key, heights, &mut ());
        report.unwrap().part.unwrap()
    }

    fn part(&self, heights: RangeInclusive<u32>) -> Vec<u8> {
        self.part_of(&self.path("blocks"), &self.key, heights).encode(&self.key)
    }

    fn merge(&self, parts: &[Vec<u8>]) -> Report {
        let named = (0..)
            .zip(parts)
            .map(|(number, part)| (format!("part {number}"), part.clone()));
        let named: Vec<_> = named.collect();
        let (snapshot, stop) = (self.path("set"), AtomicBool::new(false));
        let set = AuditedSet::Snapshot(&snapshot);
        merge(&self.key, &named, set, 2, &stop, &mut ()).unwrap()
    }

    /// Joins parts without looking whether they join, or without their seals.
    fn join_without(&self, parts: &[Vec<u8>], conditions: Conditions) -> Joined {
        let chain = ChainFacts::of_magic(Network::Regtest.magic());
        let decode = |bytes: &Vec<u8>| Part::decode_with(bytes, &self.key, conditions.sealed).unwrap();
        let parts: Vec<Part> = parts.iter().map(decode).collect();
        let stop = AtomicBool::new(false);
        let fingerprinter = Fingerprinter::new(&self.key);
        let set = of_snapshot(&self.path("set"), 110, &fingerprinter, 1, &stop, &mut ());
        join(&parts, &set.unwrap(), &chain, conditions)
    }
}

#[track_caller]
fn is_incomplete(report: &Report, kind: FindingKind, words: &str) {
    assert_eq!(report.verdict, Verdict::Incomplete, "{:?}", report.findings);
    assert_eq!(report.findings[0].kind, kind, "{:?}", report.findings);
    assert!(report.findings[0].reason.contains(words), "{:?}", report.findings);
}

#[test]
fn a_coin_spent_twice_in_two_parts() {
    let mut lie = chain(108);
    let outpoint = coinbase(&lie, 9);
    let coin = lie.coins[&key_of(&outpoint)].clone();
    for _ in 0..2 {
        let block = next(&lie, vec![spend_coinbase(&lie, 9)]);
        lie.push_with(block, |_| coin.clone());
    }
    let site = Site::new(&lie);
    let parts = [site.part(0..=109), site.part(110..=110)];
    let report = site.merge(&parts);
    assert_eq!(report.verdict, Verdict::Refuted, "{:?}", report.findings);
    assert_eq!(report.findings[0].kind, FindingKind::Sums);
    let without = Conditions {
        sums: false,
        ..Conditions::default()
    };
    assert_eq!(site.join_without(&parts, without).findings, []);
}

#[test]
fn a_part_left_out_given_twice_or_overlapping() {
    let site = Site::new(&chain(110));
    let parts = [site.part(0..=40), site.part(41..=104), site.part(105..=110)];
    assert_eq!(site.merge(&parts).verdict, Verdict::Proved);
    let some = |numbers: &[usize]| -> Vec<Vec<u8>> { numbers.iter().map(|&number| parts[number].clone()).collect() };
    let parts_kind = FindingKind::Parts;
    is_incomplete(&site.merge(&some(&[1, 2])), parts_kind, "heights 0 to 40 is missing");
    is_incomplete(&site.merge(&some(&[0, 2])), parts_kind, "heights 41 to 104 is missing");
    is_incomplete(
        &site.merge(&some(&[1, 0])),
        parts_kind,
        "(height 104), and the set is that of",
    );
    is_incomplete(&site.merge(&some(&[0, 1, 1, 2])), parts_kind, "overlap");
    let mut overlapping = parts.to_vec();
    overlapping[1] = site.part(40..=104);
    is_incomplete(&site.merge(&overlapping), parts_kind, "overlap");
}

#[test]
fn a_part_left_out_that_the_sums_would_not_miss() {
    // Blocks without outputs that count: what the part would add to the sums is nothing.
    let mut lie = chain(105);
    for _ in 0..5 {
        let mut block = next(&lie, Vec::new());
        block.txdata[0].output[0].script_pubkey = blockmill_chaingen::bitcoin::ScriptBuf::new_op_return([7]);
        blockmill_chaingen::builder::repair(&mut block);
        lie.push(block);
    }
    let site = Site::new(&lie);
    let parts = [site.part(0..=105), site.part(109..=110)];
    is_incomplete(&site.merge(&parts), FindingKind::Parts, "heights 106 to 108 is missing");
    let without = Conditions {
        joined: false,
        ..Conditions::default()
    };
    assert_eq!(site.join_without(&parts, without).findings, []);
}

#[test]
fn a_part_of_another_run_or_with_a_changed_byte() {
    let site = Site::new(&chain(110));
    let (first, last) = (site.part(0..=60), site.part(61..=110));
    let other = Key::of_number(4);
    let foreign = site.part_of(&site.path("blocks"), &other, 61..=110).encode(&other);
    is_incomplete(
        &site.merge(&[first.clone(), foreign]),
        FindingKind::Seal,
        "another key has made it",
    );
    for at in [30, 60, 200, last.len() - 40] {
        let mut changed = last.clone();
        changed[at] ^= 1;
        assert_eq!(Part::decode(&changed, &site.key), Err(PartError::Changed));
        is_incomplete(&site.merge(&[first.clone(), changed]), FindingKind::Seal, "was changed");
    }
    // Without seals nobody would see that a part had findings.
    let mut lie = chain(110);
    lie.blocks[110].spent[0].value = 1;
    let site = Site::new(&lie);
    let bad = site.part(61..=110);
    assert_eq!(site.merge(&[site.part(0..=60), bad.clone()]).verdict, Verdict::Refuted);
    let mut whitewashed = Part::decode(&bad, &site.key).unwrap();
    whitewashed.sums.findings.clear();
    let forged = whitewashed.encode(&Key::of_number(5));
    assert!(Part::decode(&forged, &site.key).is_err());
}

#[test]
fn a_part_of_another_chain() {
    let site = Site::new(&chain(110));
    // The same up to height 60.
    let mut other = chain(60);
    for _ in 61..=115 {
        let block = next(&other, vec![]);
        let time = block.header.time + 1;
        let mut block = block;
        block.header.time = time;
        blockmill_chaingen::builder::repair(&mut block);
        other.push(block);
    }
    write(&other, &site.path("other"), &CoreLayout::default());
    let other = site.path("other").join("blocks");
    let foreign = |heights| site.part_of(&other, &site.key, heights).encode(&site.key);
    let parts = [site.part(0..=80), foreign(81..=110)];
    is_incomplete(&site.merge(&parts), FindingKind::Parts, "another chain");
    // The heads join, the sets do not.
    let parts = [site.part(0..=60), foreign(61..=110)];
    is_incomplete(&site.merge(&parts), FindingKind::Parts, "and the set is that of");
}

/// A broken rule refutes the chain that has it, and no other one.
#[test]
fn what_parts_of_other_chains_have_found_refutes_nothing() {
    let site = Site::new(&chain(110));
    let mut other = chain(60);
    for _ in 61..=110 {
        let mut block = next(&other, vec![]);
        block.header.time += 1;
        blockmill_chaingen::builder::repair(&mut block);
        other.push(block);
    }
    let spend = spend_coinbase(&other, 5);
    let mut block = next(&other, vec![spend]);
    block.txdata[0].output[0].value = blockmill_chaingen::bitcoin::Amount::from_sat(subsidy(111) * 2);
    blockmill_chaingen::builder::repair(&mut block);
    other.push(block);
    write(&other, &site.path("other"), &CoreLayout::default());
    let folder = site.path("other").join("blocks");
    let foreign = |heights| site.part_of(&folder, &site.key, heights).encode(&site.key);
    let bad = foreign(81..=111);
    assert!(!Part::decode(&bad, &site.key).unwrap().is_clean());
    for parts in [
        vec![site.part(0..=80), bad.clone()],
        vec![site.part(0..=80), site.part(81..=110), bad.clone()],
        vec![bad.clone()],
    ] {
        let report = site.merge(&parts);
        assert_eq!(report.verdict, Verdict::Incomplete, "{:?}", report.findings);
        let findings = &report.findings;
        assert!(
            findings.iter().all(|finding| finding.kind == FindingKind::Parts),
            "{findings:?}"
        );
        let words = "which nothing links to the set's block";
        assert!(
            findings.iter().any(|finding| finding.reason.contains(words)),
            "{findings:?}"
        );
    }
    // Of the set's own chain it does, though parts are missing below.
    other.write_snapshot(&site.path("set")).unwrap();
    let report = site.merge(&[bad]);
    assert_eq!(report.verdict, Verdict::Refuted, "{:?}", report.findings);
}

/// The two coinbases of one id are of different chains.
#[test]
fn coinbases_of_other_chains_are_not_compared() {
    let site = Site::new(&chain(110));
    let mut other = Part::decode(&site.part(90..=110), &site.key).unwrap();
    other.parent = BlockHash([1; 32]);
    other.last_hash = BlockHash([2; 32]);
    other.sums.coinbases[5].1 = other.sums.coinbases[6].1;
    let report = site.merge(&[site.part(0..=89), site.part(90..=110), other.encode(&site.key)]);
    assert_eq!(report.verdict, Verdict::Incomplete, "{:?}", report.findings);
}

/// The holder of a key can write any numbers.
#[test]
fn no_number_of_a_part_is_too_large() {
    let site = Site::new(&chain(110));
    let parts = [0..=40, 41..=80, 81..=110].map(|heights| {
        let mut part = Part::decode(&site.part(heights), &site.key).unwrap();
        let sums = &mut part.sums;
        (sums.transactions, sums.inputs) = (u64::MAX, u64::MAX);
        for coins in [&mut sums.created, &mut sums.spent] {
            (coins.coins, coins.amount) = (u64::MAX, i128::MIN);
        }
        part
    });
    assert!(Part::join(parts.clone()).is_ok());
    let report = site.merge(&parts.map(|part| part.encode(&site.key)));
    assert_eq!((report.verdict, report.transactions), (Verdict::Refuted, u64::MAX));
}

#[test]
fn neighbours_alone_are_joined() {
    let site = Site::new(&chain(110));
    let part = |heights| Part::decode(&site.part(heights), &site.key).unwrap();
    let parts = [part(0..=40), part(41..=50), part(51..=110)];
    let join = |indices: &[usize]| Part::join(indices.iter().map(|&index| parts[index].clone()));
    assert_eq!(join(&[0, 1, 2]), Ok(part(0..=110)));
    let apart = |before, next| Err(JoinError::Apart { before, next });
    assert_eq!(join(&[0, 2]), apart((0, 40), (51, 110)));
    assert_eq!(join(&[1, 0]), apart((41, 50), (0, 40)));
    assert_eq!(join(&[1, 1]), apart((41, 50), (41, 50)));
    assert_eq!(join(&[]), Err(JoinError::None));
    let mut foreign = parts[1].clone();
    foreign.parent = parts[1].last_hash;
    assert_eq!(Part::join([parts[0].clone(), foreign]), apart((0, 40), (41, 50)));
    let mut of_other_run = parts[1].clone();
    of_other_run.run.0[0] ^= 1;
    assert_eq!(Part::join([parts[0].clone(), of_other_run]), apart((0, 40), (41, 50)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn any_cut_in_any_order_comes_to_the_same(cuts in prop::collection::btree_set(0u32..110, 0..6), seed in any::<u64>()) {
        let site = Site::new(&chain(110));
        let mut parts = Vec::new();
        let mut first = 0;
        for cut in cuts.into_iter().chain([110]) {
            parts.push(site.part(first..=cut));
            // Who makes it again gets the same bytes.
            prop_assert_eq!(parts.last(), Some(&site.part(first..=cut)));
            first = cut + 1;
        }
        let count = parts.len();
        parts.rotate_left(seed as usize % count);
        parts.swap(0, (seed >> 8) as usize % count);
        let report = site.merge(&parts);
        prop_assert_eq!(report.verdict, Verdict::Proved);
        prop_assert_eq!((report.blocks, report.inputs, report.height), (111, 19, Some(110)));
        // A tree of sums, of neighbours.
        let mut tree: Vec<Part> = parts.iter().map(|part| Part::decode(part, &site.key).unwrap()).collect();
        tree.sort_by_key(|part| part.first);
        while tree.len() > 1 {
            tree = tree.chunks(2).map(|pair| Part::join(pair.to_vec()).unwrap()).collect();
        }
        prop_assert_eq!(tree[0].encode(&site.key), site.part(0..=110));
    }
}
