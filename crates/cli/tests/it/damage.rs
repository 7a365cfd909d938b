//! Damaged and incomplete block files: what is wrong is said with file, offset and block, and the
//! chain before it is kept.

use crate::common::{
    RECORD_HEAD, Rng, Run, Scratch, block_of, connect, hash_of, on_threads, record, records, run, stats,
};
use blockmill_block::{BlockHash, Header, Network};
use blockmill_chaingen::bitcoin::{self, consensus::serialize, constants::genesis_block};
use blockmill_chaingen::builder::BlockBuilder;
use blockmill_chaingen::{ChainSpec, Profile, Summary, generate};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;

const BLOCKS: u32 = 115;

struct Chain {
    file: Vec<u8>,
    /// By height.
    records: Vec<Range<usize>>,
    hashes: Vec<BlockHash>,
    summary: Summary,
}

fn chain() -> &'static Chain {
    static CHAIN: OnceLock<Chain> = OnceLock::new();
    CHAIN.get_or_init(|| {
        let spec = ChainSpec {
            inputs: 1_500,
            ..ChainSpec::new(Profile::Mixed, BLOCKS, 5)
        };
        let mut file = Vec::new();
        let mut sink = |_: u32, block: &[u8]| {
            file.extend(record(Network::Regtest.magic(), block));
            Ok(())
        };
        let summary = generate(&spec, &mut sink, &mut |_| ()).expect("a chain");
        let records = records(&file);
        let hashes = records.iter().map(|range| hash_of(&file[range.clone()])).collect();
        Chain {
            file,
            records,
            hashes,
            summary,
        }
    })
}

/// Connects a file, which must end with this status at this height; the tip is the generator's
/// block there.
fn check_connect(file: &Path, data: &Path, status: i32, height: usize) -> Run {
    let connected = run(&mut connect(file, data, "regtest")).ends_with(status);
    let json = connected.json();
    assert_eq!(json["height"], height, "{connected:#?}");
    assert_eq!(json["tip"], chain().hashes[height].to_string());
    connected
}

#[track_caller]
fn check_whole(data: &Path) {
    let figures = stats(data);
    assert_eq!(figures["bestblock"], chain().summary.tip);
    assert_eq!(figures["hash_serialized_3"], chain().summary.hash_serialized_3);
}

/// The ranges of the record at a height where a bit may be flipped, by what stands there.
fn classes(height: usize) -> BTreeMap<&'static str, Vec<Range<usize>>> {
    let chain = chain();
    let record = chain.records[height].clone();
    let mut classes: BTreeMap<_, Vec<Range<usize>>> = BTreeMap::new();
    let mut at = record.start;
    for (name, length) in [
        ("magic", 4),
        ("length", 4),
        ("version", 4),
        ("parent", 32),
        ("merkle root", 32),
        ("time", 4),
        ("bits", 4),
        ("nonce", 4),
    ] {
        classes.entry(name).or_default().push(at..at + length);
        at += length;
    }
    let block = block_of(&chain.file[record.clone()]);
    let length: usize = block.transactions().map(|transaction| transaction.total_size()).sum();
    let count = at..record.end - length;
    classes.entry("transaction count").or_default().push(count);
    at = record.end - length;
    for transaction in block.transactions() {
        let name = if transaction.is_coinbase() {
            "coinbase"
        } else {
            "transaction"
        };
        let end = at + transaction.total_size();
        if transaction.has_witness() {
            let witness = end - 4 - (transaction.total_size() - transaction.base_size() - 2)..end - 4;
            classes.entry("marker and flag").or_default().push(at + 4..at + 6);
            classes.entry(name).or_default().push(at + 6..witness.start);
            classes.entry("witness").or_default().push(witness);
        } else {
            classes.entry(name).or_default().push(at..end);
        }
        at = end;
    }
    assert_eq!(at, record.end);
    classes
}

fn header_in(file: &[u8], record: &Range<usize>) -> Header {
    let header = &file[record.start + RECORD_HEAD..][..Header::LENGTH];
    Header::from_bytes(header.try_into().expect("80 bytes"))
}

/// Whether a line says what is wrong with the record at a height: the file, an offset in the record
/// or at the head of the next one (whose parent is gone), and the hash of one of the two.
fn names_record(line: &str, path: &Path, height: usize, damaged: &Header) -> bool {
    let chain = chain();
    let range = chain.records[height].start..chain.records[height].end + RECORD_HEAD + 1;
    let name = damaged.hash();
    let mut offsets = line.split("offset ").skip(1).filter_map(|text| {
        let end = text
            .find(|character: char| !character.is_ascii_digit())
            .unwrap_or(text.len());
        text[..end].parse::<usize>().ok()
    });
    let hashes = chain.hashes[height..].iter().take(2).chain([&name]);
    line.contains(path.to_str().expect("a path in UTF-8"))
        && offsets.any(|offset| range.contains(&offset))
        && hashes.into_iter().any(|hash| line.contains(&hash.to_string()))
}

/// What happened to a file with a flipped bit, in words, where that is not what should happen.
fn fault_of_flip(height: usize, bit: usize, heal: bool) -> Option<String> {
    let chain = chain();
    let scratch = Scratch::new();
    let mut file = chain.file.clone();
    file[bit / 8] ^= 1 << (bit % 8);
    let damaged = header_in(&file, &chain.records[height]);
    let path = scratch.write("blk00000.dat", &file);
    let data = scratch.join("data");
    let connected = run(&mut connect(&path, &data, "regtest"));
    if connected.status == 0 && connected.stderr.contains("beyond its block, which is taken") {
        // A longer length changes nothing else, as for Core.
        let height = &connected.json()["height"];
        return (*height != BLOCKS).then(|| format!("ended at {height}"));
    }
    if ![1, 3].contains(&connected.status) {
        return Some(format!("status {}: {}", connected.status, connected.stderr));
    }
    let mut lines = connected.stderr.lines();
    if !lines.any(|line| names_record(line, &path, height, &damaged)) {
        return Some(format!("not named: {}", connected.stderr));
    }
    let json = connected.json();
    let tip = json["tip"].as_str().unwrap_or_default();
    let end = json["height"].as_u64().unwrap_or_default() as usize;
    let chain_before = height.saturating_sub(1);
    // A changed header may by chance be another valid one: then the same block stands there under
    // another name.
    let renamed =
        end == height && tip == damaged.hash().to_string() && damaged != header_in(&chain.file, &chain.records[height]);
    let kept = end >= chain_before && tip == chain.hashes[end].to_string();
    let renamed_on_chain = renamed && damaged.prev_block_hash == chain.hashes[chain_before];
    if !kept && !renamed_on_chain {
        return Some(format!("ended at height {end}, {tip}: {}", connected.stderr));
    }
    if height > 0 && end > height {
        return Some(format!("went on to height {end}"));
    }
    if heal {
        let figures = stats(&data);
        assert_eq!(
            (&figures["height"], &figures["bestblock"]),
            (&json["height"], &json["tip"])
        );
    }
    // The renamed block is in no file any more: nothing is asked of what comes then.
    if heal && !renamed {
        std::fs::write(&path, &chain.file).unwrap();
        check_connect(&path, &data, 0, BLOCKS as usize);
        check_whole(&data);
    }
    None
}

/// Flips bits in every class of ranges of the record at a height; returns how many classes there
/// are.
fn check_flips(height: usize) -> usize {
    const FLIPS: usize = 2;
    /// Each so many flips, the file is made whole again.
    const HEAL_EACH: usize = 5;
    let mut dice = Rng::new(height as u64);
    let mut classes = classes(height);
    if height == BLOCKS as usize {
        // Nothing is wrong with a last block whose changed header happens to be valid.
        classes.retain(|name, _| !["version", "parent", "merkle root", "time", "bits", "nonce"].contains(name));
    }
    let mut flips = Vec::new();
    for (name, ranges) in &classes {
        for _ in 0..FLIPS {
            let range = &ranges[dice.below(ranges.len())];
            let bit = dice.within(&(range.start * 8..range.end * 8));
            flips.push((*name, bit, flips.len() % HEAL_EACH == 0));
        }
    }
    let faults = on_threads(&flips, |&(name, bit, heal)| {
        let fault = fault_of_flip(height, bit, heal)?;
        let at = bit / 8 - chain().records[height].start;
        Some(format!(
            "height {height}, {name}, byte {at} of the record, bit {}: {fault}",
            bit % 8
        ))
    });
    let faults: Vec<_> = faults.into_iter().flatten().collect();
    assert!(
        faults.is_empty(),
        "{} of {} flips: {faults:#?}",
        faults.len(),
        flips.len()
    );
    classes.len()
}

// Fails as long as the engine never looks at the transactions in the first record: a flip there
// ends with status 0.
#[test]
fn a_flipped_bit_in_the_first_record_is_reported() {
    assert_eq!(check_flips(0), 10);
}

#[test]
fn a_flipped_bit_in_the_second_record_is_reported() {
    assert_eq!(check_flips(1), 10);
}

#[test]
fn a_flipped_bit_in_a_record_in_the_middle_is_reported() {
    assert_eq!(check_flips(108), 13);
}

#[test]
fn a_flipped_bit_in_the_last_record_but_one_is_reported() {
    assert_eq!(check_flips(BLOCKS as usize - 1), 13);
}

#[test]
fn a_flipped_bit_in_the_body_of_the_last_record_is_reported() {
    assert_eq!(check_flips(BLOCKS as usize), 7);
}

/// Connects a file of which so many bytes of the last record are left, and then the whole file.
fn check_truncated(kept: usize) {
    let chain = chain();
    let last = chain.records.last().unwrap().clone();
    let scratch = Scratch::new();
    let path = scratch.write("blk00000.dat", &chain.file[..last.start + kept]);
    let data = scratch.join("data");
    eprintln!("{kept} bytes of the last record");
    check_connect(&path, &data, 0, BLOCKS as usize - 1);
    std::fs::write(&path, &chain.file).unwrap();
    let json = check_connect(&path, &data, 0, BLOCKS as usize).json();
    let start_height = BLOCKS - 1;
    assert_eq!(
        (&json["start_height"], &json["blocks"]),
        (&start_height.into(), &1.into())
    );
    check_whole(&data);
}

#[test]
fn a_truncated_tail_is_a_shorter_chain() {
    let length = chain().records.last().unwrap().len();
    on_threads(&[4, 7, 8, 40, 88, 89, length / 2, length - 1], |&kept| {
        check_truncated(kept)
    });
}

// Fails as long as the scan takes a part of a magic at the end of the file for something else than
// a truncated tail.
#[test]
fn a_tail_cut_inside_the_magic_is_a_shorter_chain() {
    on_threads(&[1, 3], |&kept| check_truncated(kept));
}

#[test]
fn blocks_whose_parent_is_nowhere_are_counted() {
    let chain = chain();
    let scratch = Scratch::new();
    let file = [
        &chain.file[chain.records[0].clone()],
        &chain.file[chain.records[2].start..],
    ]
    .concat();
    let path = scratch.write("blk00000.dat", &file);
    let data = scratch.join("data");
    let left = BLOCKS - 1;
    let offset = chain.records[0].end + RECORD_HEAD;
    let connected = check_connect(&path, &data, 3, 0).says(&[
        path.to_str().unwrap(),
        &format!("{left} blocks"),
        &format!("offset {offset}"),
        &chain.hashes[2].to_string(),
        &chain.hashes[1].to_string(),
    ]);
    assert_eq!(connected.json()["leftovers"], left);
    // The missing one in another file makes it whole.
    scratch.write("blk00001.dat", &chain.file[chain.records[1].clone()]);
    let directory = path.parent().unwrap();
    check_connect(directory, &data, 0, BLOCKS as usize);
    check_whole(&data);
}

#[test]
fn missing_paths_and_empty_directories_are_named() {
    let scratch = Scratch::new();
    let empty = scratch.join("empty");
    std::fs::create_dir(&empty).unwrap();
    for path in [scratch.join("missing"), scratch.join("missing/blk00000.dat"), empty] {
        let connected = run(&mut connect(&path, &scratch.join("data"), "regtest")).ends_with(3);
        assert_eq!(connected.stdout, "");
        connected.says(&[path.to_str().unwrap()]);
        // No data directory is made for a name that is mistyped.
        assert!(!scratch.join("data").exists());
    }
}

/// Connects this as a file of regtest, in which nothing is found.
fn check_hint(file: &[u8], hint: &str) {
    let scratch = Scratch::new();
    let path = scratch.write("blk00000.dat", file);
    check_connect(&path, &scratch.join("data"), 3, 0).says(&["offset 0", hint]);
}

#[test]
fn files_of_another_network_and_files_without_their_key_are_told() {
    let block = &chain().file[chain().records[1].clone()][RECORD_HEAD..];
    check_hint(&record(Network::Testnet3.magic(), block), "testnet3");
    let mut hidden = chain().file[..5_000].to_vec();
    hidden.iter_mut().for_each(|byte| *byte ^= 9);
    check_hint(&hidden, "is xor.dat missing");
}

/// Builds on a block; `fees` that nobody paid make a block invalid.
fn build_on(parent: &bitcoin::Block, height: u32, time_more: u32, fees: u64) -> bitcoin::Block {
    BlockBuilder::new(parent.block_hash(), height, parent.header.time + 600 + time_more)
        .fees(fees)
        .build()
}

#[test]
fn an_invalid_block_leaves_the_best_chain_that_remains() {
    const FORK: usize = 2;
    const BAD: u32 = 5;
    let mut bad_chain = vec![genesis_block(bitcoin::Network::Regtest)];
    for height in 1..=8 {
        let block = build_on(&bad_chain[height as usize - 1], height, 0, u64::from(height == BAD));
        bad_chain.push(block);
    }
    let mut good_chain = bad_chain[..=FORK].to_vec();
    for height in FORK as u32 + 1..=6 {
        let block = build_on(&good_chain[height as usize - 1], height, 1, 0);
        good_chain.push(block);
    }
    let blocks = bad_chain.iter().chain(&good_chain[FORK + 1..]);
    let file: Vec<u8> = blocks
        .flat_map(|block| record(Network::Regtest.magic(), &serialize(block)))
        .collect();
    let bad = bad_chain[BAD as usize].block_hash().to_string();
    let bad_record = records(&file)[BAD as usize].clone();
    let best = good_chain.last().unwrap().block_hash().to_string();
    let scratch = Scratch::new();
    let path = scratch.write("blk00000.dat", &file);
    for data in [scratch.join("first"), scratch.join("second")] {
        let connected = run(&mut connect(&path, &data, "regtest")).ends_with(1);
        let json = connected.json();
        let rejected = json["rejected"].as_array().unwrap();
        assert_eq!(rejected.len(), 1, "{json}");
        assert_eq!(rejected[0]["hash"], bad);
        assert_eq!(rejected[0]["height"], BAD);
        assert_eq!(rejected[0]["reason"], "bad-cb-amount");
        assert_eq!((&json["height"], &json["tip"]), (&6.into(), &best.as_str().into()));
        let figures = stats(&data);
        assert_eq!(
            (&figures["txouts"], &figures["bestblock"]),
            (&6.into(), &best.as_str().into())
        );
        let offset = format!("offset {}", bad_record.start + RECORD_HEAD);
        connected.says(&[path.to_str().unwrap(), &offset, &bad, "bad-cb-amount"]);
    }
}
