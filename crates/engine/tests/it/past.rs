//! The set as it was at earlier heights, beside sets that were connected only so far.

use super::options;
use crate::common::generated::{FORK, Generated, HEIGHT, copy_all, length};
use crate::common::{Chain, LARGE, Node, connect, figures_of, open, output, spend_into, submit_good};
use blockmill_block::{Coin, OutPoint};
use blockmill_chaingen::Profile;
use blockmill_coins::stats::Hashes;
use blockmill_coins::{StatsBuilder, StatsPart, StoreError, UtxoStats};
use blockmill_engine::{BlockReadError, CoinLookup, Event, Observer, Options, PastError, UtxoSet};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

static CHAIN: LazyLock<Generated> = LazyLock::new(|| Generated::new(Profile::Mixed));

fn at(data: &Path, height: u32, threads: usize) -> Result<UtxoSet, PastError> {
    let set = UtxoSet::open(data, threads)?;
    set.at(height, &AtomicBool::new(false), &mut ())
}

/// The figures of a set, read in order and in batches.
fn figures(set: &UtxoSet) -> UtxoStats {
    let in_order = StatsBuilder::new(Hashes::Both).add_all(set.coins().unwrap()).unwrap();
    let mut in_batches = StatsBuilder::new(Hashes::Both);
    let convert = |batch: Vec<(OutPoint, Coin)>| Ok::<_, StoreError>(StatsPart::new(Hashes::Both, &batch));
    let taken = set.for_each_batch(&convert, &mut |part| {
        in_batches.add_part(&part);
        Ok(())
    });
    taken.unwrap();
    let figures = in_order.finish(&set.tip());
    assert_eq!(figures, in_batches.finish(&set.tip()));
    figures
}

/// All coins of sets that were connected up to some heights, from the last to the first.
fn connected_to(heights: impl Iterator<Item = u32>) -> BTreeMap<u32, BTreeMap<OutPoint, Coin>> {
    heights
        .map(|height| {
            let home = tempfile::tempdir().unwrap();
            let options = Options {
                stop_at_height: Some(height),
                ..options(2, LARGE)
            };
            let mut engine = open(home.path(), options);
            assert_eq!(connect(&mut engine, &[&CHAIN.blocks()]).height, height);
            drop(engine);
            let set = UtxoSet::open(home.path(), 1).unwrap();
            (height, set.coins().unwrap().map(Result::unwrap).collect())
        })
        .collect()
}

/// A chain with a branch that was left again, so that its tip is above blocks that are of no chain.
fn reorganised() -> Node {
    let mut node = Node::new(options(2, LARGE));
    let file = CHAIN.branch.clone();
    assert_eq!(node.connect(&[&CHAIN.blocks(), &file]).height, HEIGHT + 1);
    node
}

#[test]
fn at_fifty_heights_it_is_what_was_connected() {
    let mut seed = 20u32;
    let mut random = || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) % (HEIGHT + 1)
    };
    let mut heights: Vec<u32> = vec![0, 1, 100, HEIGHT - 1, HEIGHT];
    while heights.len() < 55 {
        heights.push(random());
    }
    let connected = connected_to(heights.iter().copied());
    let node = Node::new(options(2, LARGE));
    let mut engine = node.engine;
    connect(&mut engine, &[&CHAIN.blocks()]);
    let data = engine.directory().path().to_owned();
    drop(engine);
    let now: Vec<OutPoint> = connected[&HEIGHT].keys().copied().collect();
    for (&height, coins) in &connected {
        let set = at(&data, height, 1 + height as usize % 3).unwrap();
        assert_eq!(set.tip().height, height);
        let found: BTreeMap<OutPoint, Coin> = set.coins().unwrap().map(Result::unwrap).collect();
        assert!(found == *coins, "height {height}");
        let own = figures(&set);
        assert_eq!(own.txouts, coins.len() as u64);
        assert_eq!(own.best_block, set.tip().hash);
        drop(set);
        let lookup = CoinLookup::open(&data).unwrap();
        let lookup = lookup.at(height, 2, &AtomicBool::new(false), &mut ()).unwrap();
        for outpoint in coins.keys().chain(&now) {
            assert_eq!(
                lookup.get(outpoint).unwrap().as_ref(),
                coins.get(outpoint),
                "height {height}"
            );
        }
    }
}

#[test]
fn blocks_of_another_branch_do_not_count() {
    let node = reorganised();
    let data = node.engine.directory().path().to_owned();
    drop(node.engine);
    let connected = connected_to([FORK, FORK - 5].into_iter());
    for (height, coins) in &connected {
        let found: BTreeMap<_, _> = at(&data, *height, 2)
            .unwrap()
            .coins()
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert!(found == *coins);
    }
    let tip = at(&data, HEIGHT + 1, 2).unwrap();
    let stats = StatsBuilder::new(Hashes::Serialized)
        .add_all(tip.coins().unwrap())
        .unwrap();
    assert_eq!(stats.finish(&tip.tip()), CHAIN.branch_figures);
}

/// Asks to stop once a block was read.
struct Stop<'a>(&'a AtomicBool);

impl Observer for Stop<'_> {
    fn event(&mut self, event: &Event<'_>) {
        if let Event::LookingBack { blocks, of } = event {
            assert!(blocks <= of);
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

#[test]
fn what_cannot_be_had_is_said() {
    let home = tempfile::tempdir().unwrap();
    let (data, own) = (home.path().join("data"), home.path().join("chain"));
    copy_all(&CHAIN.blocks(), &own);
    let mut engine = open(&data, options(2, LARGE));
    assert_eq!(connect(&mut engine, &[&own]).height, HEIGHT);
    drop(engine);
    std::fs::remove_dir_all(data.join("kept")).unwrap();
    let fails = |height| match at(&data, height, 2) {
        Err(error) => error,
        Ok(_) => panic!("height {height}"),
    };
    assert!(matches!(
        fails(HEIGHT + 1),
        PastError::AboveTip { height, tip } if (height, tip) == (HEIGHT + 1, HEIGHT)
    ));
    let stop = AtomicBool::new(false);
    let set = UtxoSet::open(&data, 1).unwrap();
    assert!(matches!(set.at(0, &stop, &mut Stop(&stop)), Err(PastError::Stopped)));

    // A byte of the last block's undo data, and of the last block.
    let undo = data.join("undo.dat");
    flip(&undo, length(&undo) - 40);
    let BlockReadError::Undo { height, .. } = block_error(fails(HEIGHT - 1)) else {
        panic!("no error about undo data");
    };
    assert_eq!(height, HEIGHT);
    assert_eq!(at(&data, HEIGHT, 1).unwrap().tip().height, HEIGHT);
    flip(&undo, length(&undo) - 40);
    let file = own.join("blk00000.dat");
    let end = length(&file);
    flip(&file, end - 1);
    let BlockReadError::Unreadable {
        height, path, offset, ..
    } = block_error(fails(HEIGHT - 1))
    else {
        panic!("no error about a block");
    };
    assert_eq!((height, path), (HEIGHT, std::fs::canonicalize(&file).unwrap()));
    assert!(offset < end);
    flip(&file, end - 1);
    at(&data, HEIGHT - 1, 1).unwrap();

    // Without the block file, and without the note where it is.
    let away = own.with_extension("away");
    std::fs::rename(&own, &away).unwrap();
    let in_no_file = |error| matches!(error, BlockReadError::InNoFile { height: HEIGHT, .. });
    assert!(in_no_file(block_error(fails(HEIGHT - 1))));
    std::fs::rename(&away, &own).unwrap();
    at(&data, HEIGHT - 1, 1).unwrap();
    std::fs::remove_file(data.join("places.dat")).unwrap();
    assert!(in_no_file(block_error(fails(HEIGHT - 1))));
    let mut engine = open(&data, options(2, LARGE));
    assert_eq!(connect(&mut engine, &[&own]).height, HEIGHT);
    drop(engine);
    at(&data, HEIGHT - 1, 1).unwrap();
}

fn block_error(error: PastError) -> BlockReadError {
    match error {
        PastError::Block(error) => error,
        other => panic!("{other}"),
    }
}

/// Changes a bit of a byte.
fn flip(path: &Path, offset: u64) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[offset as usize] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

/// Blocks that came one by one are in the data directory, and their positions need no import.
#[test]
fn submitted_blocks_are_found() {
    let mut chain = Chain::of(101);
    let home = tempfile::tempdir().unwrap();
    let mut engine = open(home.path(), options(1, LARGE));
    let spend = spend_into(chain.coinbase(1), vec![output(1_000)]);
    chain.push(chain.next().transaction(spend).build());
    for block in &chain.blocks[1..] {
        submit_good(&mut engine, block);
    }
    engine.flush().unwrap();
    let old = chain.up_to(101);
    // The engine is still open: a reader needs no lock.
    let set = at(home.path(), 101, 1).unwrap();
    let stats = StatsBuilder::new(Hashes::Serialized)
        .add_all(set.coins().unwrap())
        .unwrap();
    assert_eq!(stats.finish(&set.tip()), figures_of(&old));
}
