//! Signature checks that are put off gather over several blocks. The headers decide which blocks
//! put them off.

use crate::common::deferring::{Batches, Deferring, TOGETHER};
use crate::common::{
    self, Chain, LARGE, SUBSIDY, builder, hash_of, options, outpoint, spend_failing, spend_into, write_blocks,
};
use blockmill_chaingen::builder::spend_any;
use blockmill_coins::MemoryStore;
use blockmill_engine::{ConnectReport, Engine, Event, Observer, Options, RunOutcome, Signatures};
use blockmill_kernel::KernelVerifier;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use tempfile::TempDir;

/// Blocks before those that spend.
const TRUNK: u32 = 101;

/// Blocks of one input each.
const SPENDING: u32 = 300;

/// Blocks in two weeks of work.
const BURIED: u32 = 2_016;

struct Setup {
    directory: TempDir,
    file: PathBuf,
}

/// What was said about signatures, in words.
#[derive(Default)]
struct Listener(Vec<String>);

impl Observer for Listener {
    fn event(&mut self, event: &Event<'_>) {
        if matches!(event, Event::Signatures { .. }) {
            self.0.push(event.to_string());
        }
    }
}

impl Setup {
    fn new(chain: &Chain) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = write_blocks(&directory.path().join("blocks.dat"), &chain.blocks);
        Self { directory, file }
    }

    fn engine(&self, options: Options) -> (Engine<Deferring<KernelVerifier>>, Batches) {
        let number = std::fs::read_dir(self.directory.path()).unwrap().count();
        let data = self.directory.path().join(format!("data-{number}"));
        let verifier = Deferring::new(KernelVerifier);
        let batches = Batches::clone(&verifier.batches);
        let store = Arc::new(MemoryStore::new());
        (
            builder(&data).store(store).options(options).open(verifier).unwrap(),
            batches,
        )
    }

    fn connect(&self, options: Options) -> (ConnectReport, Vec<usize>, Vec<String>) {
        let (mut engine, batches) = self.engine(options);
        let mut listener = Listener::default();
        let report = engine.connect(std::slice::from_ref(&self.file), &mut listener).unwrap();
        let batches = batches.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (report, batches, listener.0)
    }
}

fn signatures(signatures: Signatures, threads: usize) -> Options {
    Options {
        signatures,
        ..options(threads, LARGE)
    }
}

/// A chain of blocks that have only a coinbase, and then of blocks that each spend one coin, which
/// the block before has made.
fn one_input_blocks(count: u32) -> Chain {
    let mut chain = Chain::of(TRUNK);
    let mut coin = chain.coinbase(1);
    for _ in 0..count {
        let spend = spend_any(coin, SUBSIDY);
        coin = outpoint(&spend, 0);
        chain.push(chain.next().transaction(spend).build());
    }
    chain
}

#[test]
fn small_blocks_fill_batches() {
    let setup = Setup::new(&one_input_blocks(SPENDING));
    for threads in [1, 2, 4] {
        let (report, batches, _) = setup.connect(signatures(Signatures::Lanes, threads));
        assert_eq!(
            (report.outcome(), report.height),
            (RunOutcome::Complete, TRUNK + SPENDING)
        );
        let counts = report.totals.signatures;
        assert_eq!(counts.lanes, u64::from(SPENDING));
        // A third of the scripts is run again, and settled once more.
        let scripts = counts.lanes + counts.again;
        assert_eq!(batches.iter().sum::<usize>() as u64, scripts);
        let most = scripts as usize / TOGETHER * 2 + threads + 6;
        assert!(batches.len() <= most, "{threads} threads: {batches:?}");
        assert!(report.totals.queues.in_flight.max() > 1);
    }
}

#[test]
fn large_blocks_are_settled_with_each_other_too() {
    let mut chain = Chain::of(TRUNK);
    let coins: Vec<_> = (1..=3).map(|height| chain.coinbase(height)).collect();
    for coin in coins {
        let outputs = (0..100).map(|_| common::output(SUBSIDY / 100)).collect();
        let many = spend_into(coin, outputs);
        let mut block = chain.next().transaction(many.clone());
        for vout in 0..100 {
            block = block.transaction(spend_any(outpoint(&many, vout), SUBSIDY / 100));
        }
        chain.push(block.build());
    }
    let setup = Setup::new(&chain);
    let (report, batches, _) = setup.connect(signatures(Signatures::Lanes, 1));
    assert_eq!((report.outcome(), report.height), (RunOutcome::Complete, TRUNK + 3));
    // But for the last of all, and what these had to run again, a batch is full, not fuller, and
    // not cut off by the end of a block.
    let full = batches.iter().filter(|&&scripts| scripts == TOGETHER).count();
    assert!(full >= 303 / TOGETHER && batches.len() <= full + 2, "{batches:?}");
}

#[test]
fn the_first_failing_block_is_rejected() {
    for bad in [0, 1, 40, 199] {
        let mut chain = one_input_blocks(bad);
        let fails = spend_failing(chain.coinbase(2), SUBSIDY);
        let bad_block = chain.next().transaction(fails).build();
        let hash = hash_of(&bad_block);
        chain.push(bad_block);
        for height in 3..60 {
            let next = spend_failing(chain.coinbase(height), SUBSIDY);
            chain.push(chain.next().transaction(next).build());
        }
        let setup = Setup::new(&chain);
        for threads in [1, 2, 8] {
            let (report, ..) = setup.connect(signatures(Signatures::Lanes, threads));
            let rejected = &report.rejected[0];
            assert_eq!(
                (report.rejected.len(), rejected.hash, report.height),
                (1, hash, TRUNK + bad)
            );
            assert_eq!(rejected.reject.reason, "block-script-verify-flag-failed");
            assert_eq!((rejected.reject.transaction, rejected.reject.input), (Some(1), Some(0)));
        }
    }
}

#[test]
fn the_last_two_weeks_are_libsecp256k1s() {
    let mut chain = one_input_blocks(20);
    chain.mine(BURIED - 20);
    let height = TRUNK + BURIED;
    let setup = Setup::new(&chain);
    for threads in [1, 2] {
        let (report, _, said) = setup.connect(signatures(Signatures::Auto, threads));
        assert_eq!((report.outcome(), report.height), (RunOutcome::Complete, height));
        assert_eq!(
            report.signatures.to_string(),
            format!("lanes for heights 1 to 100, libsecp256k1 for 101 to {height} (less than two weeks of work above)")
        );
        assert_eq!(report.totals.signatures.lanes, 0, "all that spend are near the tip");
        assert_eq!(
            said,
            [
                "signatures are verified in lanes from height 1 on: more than two weeks of work above",
                "signatures are verified by libsecp256k1 alone from height 101 on: less than two weeks of work above",
            ]
        );
    }
    let (report, batches, said) = setup.connect(signatures(Signatures::OneByOne, 2));
    assert_eq!(
        report.signatures.to_string(),
        format!("libsecp256k1 for heights 1 to {height} (asked for)")
    );
    assert_eq!((batches.len(), said.len()), (0, 0));
    let (report, _, said) = setup.connect(signatures(Signatures::Lanes, 2));
    assert_eq!(
        report.signatures.to_string(),
        format!("lanes for heights 1 to {height}")
    );
    assert_eq!(report.totals.signatures.lanes, 20);
    assert_eq!(said, ["signatures are verified in lanes from height 1 on: asked for"]);
}
