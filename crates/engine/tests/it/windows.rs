//! Blocks that are bad in each way, at each position of a window: with shards and without them the
//! report, the tip and the set are the same.

use crate::common::faults::FaultyStore;
use crate::common::generated::copy_all;
use crate::common::{
    Chain, LARGE, SPACING, SUBSIDY, Settings, connect, figures, open_with, options, outpoint, output, output_to,
    spend_into, spend_locked, write_blocks,
};
use bitcoin::hashes::Hash;
use bitcoin::{Block, OutPoint, ScriptBuf, Transaction, Txid};
use blockmill_chaingen::builder::{BlockBuilder, spend_any};
use blockmill_coins::UtxoStats;
use blockmill_engine::ConnectReport;
use blockmill_engine::internals::WindowSizes;
use blockmill_rules::Reject;
use std::sync::Arc;
use tempfile::TempDir;

/// Blocks before the window.
const TRUNK: u32 = 125;

/// Blocks of the window.
const LENGTH: u32 = 4;

/// A mature coinbase that good blocks do not spend.
const SPARE: u32 = 15;

/// A bit of a sequence number: the lock counts units of 512 seconds.
const BY_TIME: u32 = 1 << 22;

/// Units that have passed from a block to the next.
const UNITS_OF_BLOCK: u32 = SPACING / 512;

/// Signature operations whose cost reaches the limit of a block.
const CHECKSIGS_MAX: usize = 20_000;

const MISSING: &str = "bad-txns-inputs-missingorspent";
const PREMATURE: &str = "bad-txns-premature-spend-of-coinbase";
const NONFINAL: &str = "bad-txns-nonfinal";

/// The transaction of a good block, with this number in the window, that makes coins for the next.
fn split(trunk: &Chain, number: u32) -> Transaction {
    spend_into(trunk.coinbase(number + 1), vec![output(1_000); 5])
}

/// Where a block is built.
struct Position<'c> {
    trunk: &'c Chain,
    /// The chain below the block.
    chain: &'c Chain,
    /// Number of the block in the window, from 1.
    number: u32,
}

impl Position<'_> {
    fn height(&self) -> u32 {
        self.chain.height() + 1
    }

    fn spare(&self) -> OutPoint {
        self.trunk.coinbase(SPARE)
    }

    /// A coin that the block before has made.
    fn recent(&self, vout: u32) -> OutPoint {
        outpoint(&split(self.trunk, self.number - 1), vout)
    }

    /// A good block: it spends a coin of the trunk, one of its own, and two of the block before
    /// under locks that are just open.
    fn good(&self) -> BlockBuilder {
        let own = split(self.trunk, self.number);
        let child = spend_any(outpoint(&own, 0), 900);
        let mut block = self.chain.next().transaction(own).transaction(child);
        for (vout, sequence) in [(1, 1), (2, BY_TIME | UNITS_OF_BLOCK)] {
            block = block.transaction(spend_locked(self.recent(vout), 1_000, sequence));
        }
        block
    }

    /// The good block, and a transaction.
    fn with(&self, transaction: Transaction) -> Block {
        self.good().transaction(transaction).build()
    }
}

/// A way to be bad: its name, the reason, and the block, if a block at that position can be so.
type Way = (&'static str, &'static str, fn(&Position<'_>) -> Option<Block>);

const WAYS: &[Way] = &[
    ("a coin that never was", MISSING, |position| {
        let nowhere = OutPoint::new(Txid::from_byte_array([9; 32]), 0);
        Some(position.with(spend_any(nowhere, 1)))
    }),
    (
        "a coin of the trunk that an earlier block spends",
        MISSING,
        |position| (position.number > 1).then(|| position.with(spend_any(position.trunk.coinbase(2), 1))),
    ),
    (
        "a coin of the window that an earlier block spends",
        MISSING,
        |position| (position.number > 2).then(|| position.with(spend_any(outpoint(&split(position.trunk, 1), 1), 1))),
    ),
    ("a coin that a later block makes", MISSING, |position| {
        Some(position.with(spend_any(outpoint(&split(position.trunk, position.number + 1), 0), 1)))
    }),
    ("a coin spent twice in its block", MISSING, |position| {
        let twice = position.good().transaction(spend_any(position.spare(), 1));
        Some(twice.transaction(spend_any(position.spare(), 2)).build())
    }),
    ("a coin made and spent twice in a block", MISSING, |position| {
        Some(position.with(spend_any(outpoint(&split(position.trunk, position.number), 0), 1)))
    }),
    ("a coin spent before it is made", MISSING, |position| {
        let made = spend_any(position.spare(), 10);
        let spent = position.good().transaction(spend_any(outpoint(&made, 0), 1));
        Some(spent.transaction(made).build())
    }),
    (
        "a coin spent twice in a transaction",
        "bad-txns-inputs-duplicate",
        |position| {
            let mut twice = spend_any(position.spare(), 1);
            twice.input.push(twice.input[0].clone());
            Some(position.with(twice))
        },
    ),
    ("a coinbase with 99 confirmations", PREMATURE, |position| {
        Some(position.with(spend_any(position.trunk.coinbase(position.height() - 99), 1)))
    }),
    ("a coinbase of the window", PREMATURE, |position| {
        (position.number > 1).then(|| position.with(spend_any(position.chain.coinbase(position.height() - 1), 1)))
    }),
    ("its own coinbase", PREMATURE, |position| {
        let own = outpoint(&position.good().build().txdata[0], 0);
        Some(position.with(spend_any(own, 1)))
    }),
    ("more than its coin has", "bad-txns-in-belowout", |position| {
        Some(position.with(spend_any(position.spare(), SUBSIDY + 1)))
    }),
    ("a value out of range", "bad-txns-vout-toolarge", |position| {
        Some(position.with(spend_any(position.spare(), 21_000_000 * 100_000_000 + 1)))
    }),
    ("more than subsidy and fees", "bad-cb-amount", |position| {
        let fees = SUBSIDY - 5_000 + 100;
        Some(position.good().fees(fees + 1).build())
    }),
    ("a lock of blocks", NONFINAL, |position| {
        Some(position.with(spend_locked(position.recent(3), 1, 2)))
    }),
    ("a lock of time", NONFINAL, |position| {
        Some(position.with(spend_locked(position.recent(3), 1, BY_TIME | (UNITS_OF_BLOCK + 1))))
    }),
    (
        "a transaction of the block before once more",
        "bad-txns-BIP30",
        |position| Some(position.with(split(position.trunk, position.number - 1))),
    ),
    ("its own transaction once more", MISSING, |position| {
        // The copy is not the last, or the block would be a mutated one.
        let again = position.good().transaction(split(position.trunk, position.number));
        Some(again.transaction(spend_any(position.spare(), 1)).build())
    }),
    ("too many signature operations", "bad-blk-sigops", |position| {
        let checks = vec![0xac; 5];
        let idle = ScriptBuf::from_bytes([&[0x00, 0x63][..], &checks, &[0x68, 0x51]].concat());
        let made = spend_into(position.spare(), vec![output_to(10, idle.to_p2wsh())]);
        let mut spent = spend_any(outpoint(&made, 0), 1);
        spent.input[0].witness.push(idle.as_bytes());
        let others = ScriptBuf::from_bytes(vec![0xac; CHECKSIGS_MAX - 1]);
        let many = spend_into(position.trunk.coinbase(SPARE + 1), vec![output_to(1, others)]);
        let block = position.good().transaction(made).transaction(spent);
        Some(block.transaction(many).build())
    }),
];

/// What a run says of the blocks: those rejected, the tip and the set.
type Outcome = (Vec<(u32, Reject)>, u32, UtxoStats);

/// A data directory and a store that have the trunk, for engines to begin with.
struct Base {
    trunk: Chain,
    directory: TempDir,
    store: Arc<FaultyStore>,
}

impl Base {
    fn new() -> Self {
        let trunk = trunk();
        let base = Self {
            trunk,
            directory: tempfile::tempdir().unwrap(),
            store: Arc::default(),
        };
        let file = write_blocks(&base.directory.path().join("trunk.dat"), &base.trunk.blocks);
        let store = Arc::<FaultyStore>::clone(&base.store);
        let mut engine = open_with(&base.directory.path().join("data"), store, options(2, LARGE)).unwrap();
        assert_eq!(connect(&mut engine, &[&file]).height, TRUNK);
        base
    }

    /// Connects the blocks of the window, with jobs of these sizes or without them.
    fn run(&self, window: &Chain, sizes: Option<WindowSizes>) -> (Outcome, ConnectReport) {
        let mut settings = Settings::from(options(2, LARGE));
        settings.internals.windows = sizes;
        settings.internals.without.shards = sizes.is_none();
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        copy_all(&self.directory.path().join("data"), &data);
        let store = Arc::new(FaultyStore::copy_of(&self.store));
        let mut engine = open_with(&data, store, settings).unwrap();
        let blocks = &window.blocks[TRUNK as usize + 1..];
        let report = connect(
            &mut engine,
            &[&write_blocks(&directory.path().join("window.dat"), blocks)],
        );
        let rejected = report.rejected.iter();
        let rejected = rejected.map(|block| (block.height, block.reject.clone())).collect();
        ((rejected, report.height, figures(&engine)), report)
    }
}

/// The blocks before the window. The last of them makes coins for the first block of the window.
fn trunk() -> Chain {
    let mut chain = Chain::of(TRUNK - 1);
    let last = chain.next().transaction(split(&chain, 0)).build();
    chain.push(last);
    chain
}

/// The window with a block at a position, and good ones below and above it.
fn window(trunk: &Chain, way: &Way, number: u32) -> Option<Chain> {
    let mut chain = trunk.clone();
    for at in 1..=LENGTH {
        let position = Position {
            trunk,
            chain: &chain,
            number: at,
        };
        let block = if at == number {
            way.2(&position)?
        } else {
            position.good().build()
        };
        chain.push(block);
    }
    Some(chain)
}

#[test]
fn a_block_that_is_bad_in_each_way_at_each_position() {
    let base = Base::new();
    for way @ (name, reason, _) in WAYS {
        for number in 1..=LENGTH {
            let Some(window) = window(&base.trunk, way, number) else {
                continue;
            };
            let (blocks, jobs) = [(32, 64), (2, 1), (5, 2)][number as usize % 3];
            let (expected, report) = base.run(&window, None);
            let alone = report.totals.windows_rolled_back;
            let (found, report) = base.run(&window, Some(WindowSizes { blocks, jobs }));
            assert_eq!(found, expected, "{name} at {number}");
            // The block is bad in the way that is meant.
            let (rejected, height, _) = found;
            let reasons: Vec<_> = rejected
                .iter()
                .map(|(height, reject)| (*height, &*reject.reason))
                .collect();
            assert_eq!(reasons, [(TRUNK + number, *reason)], "{name} at {number}");
            assert_eq!(height, TRUNK + number - 1, "{name} at {number}");
            // A rule of coins is found broken in a window, and then once more in the block's own.
            assert_eq!(report.totals.windows_rolled_back > 0, alone > 0, "{name} at {number}");
        }
    }
}

/// Windows of good blocks are not rolled back.
#[test]
fn windows_of_good_blocks_stand() {
    let base = Base::new();
    let good: Way = ("", "", |position| Some(position.with(spend_any(position.spare(), 1))));
    let window = window(&base.trunk, &good, 2).unwrap();
    let (expected, _) = base.run(&window, None);
    for (blocks, jobs) in [(1, 1), (2, 64), (32, 2)] {
        let (found, report) = base.run(&window, Some(WindowSizes { blocks, jobs }));
        assert_eq!(found, expected);
        assert_eq!((found.0, found.1), (vec![], TRUNK + LENGTH));
        let totals = report.totals;
        assert_eq!((totals.blocks, totals.windows_rolled_back), (u64::from(LENGTH), 0));
    }
}
