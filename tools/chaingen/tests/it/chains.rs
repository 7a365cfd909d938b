//! Whole chains: deterministic, valid, of the size of their spec, and with all shapes of their
//! profile.

use std::collections::{BTreeMap, HashMap};

use crate::common::{Connected, chain, check};
use blockmill_chaingen::bitcoin::{Block, Txid, consensus::deserialize};
use blockmill_chaingen::{ChainSpec, Profile};

/// Counts of the features that a chain should have somewhere.
#[derive(Default)]
struct Census {
    seen: BTreeMap<&'static str, u64>,
    /// For each transaction of the block at `height`, the length of its longest line of ancestors
    /// in that block.
    depths: HashMap<Txid, u64>,
    height: u32,
    ages: Vec<u32>,
}

impl Census {
    fn visit(&mut self, connected: &Connected<'_>) {
        if self.height != connected.height {
            self.height = connected.height;
            self.depths.clear();
        }
        let tx = connected.tx;
        let (inputs, outputs) = (tx.input.len(), tx.output.len());
        let mut depth = 0;
        for (input, live) in tx.input.iter().zip(connected.spent) {
            if let Some(parent) = self.depths.get(&input.previous_output.txid) {
                depth = depth.max(parent + 1);
            }
            let age = connected.height - live.height;
            self.ages.push(age);
            let sequence = input.sequence.0;
            let relative = tx.version.0 == 2 && sequence & (1 << 31) == 0;
            self.note(
                "relative height lock",
                relative && sequence & (1 << 22) == 0 && sequence & 0xffff > 0,
            );
            self.note(
                "relative time lock",
                relative && sequence & (1 << 22) != 0 && sequence & 0xffff > 0,
            );
            self.note("coinbase spent", live.coinbase);
        }
        self.depths.insert(tx.compute_txid(), depth);
        self.note("payment", inputs <= 2 && outputs == 2);
        self.note("consolidation of over 100", inputs > 100 && outputs <= 2);
        self.note("fan-out to over 100", inputs <= 2 && outputs > 100);
        self.note("spends from its block", depth > 0);
        self.note("five deep in its block", depth > 5);
        self.note(
            "data",
            tx.output.iter().any(|output| output.script_pubkey.is_op_return()),
        );
        self.note("version 1", tx.version.0 == 1);
        let lock_time = tx.lock_time.to_consensus_u32();
        self.note("height lock", (1..500_000_000).contains(&lock_time));
        self.note("time lock", lock_time >= 500_000_000);
    }

    fn note(&mut self, what: &'static str, is_so: bool) {
        *self.seen.entry(what).or_default() += u64::from(is_so);
    }

    fn assert_complete(&self) {
        for (what, &count) in &self.seen {
            assert!(count > 0, "{what} does not occur: {:?}", self.seen);
        }
        let share = |from: u32, to: u32| {
            self.ages.iter().filter(|&&age| (from..=to).contains(&age)).count() * 100 / self.ages.len()
        };
        assert!(
            share(0, 12) > 50,
            "young coins are most of what is spent: {}",
            share(0, 12)
        );
        assert!(
            share(30, u32::MAX) > 5,
            "old coins are spent, too: {}",
            share(30, u32::MAX)
        );
    }
}

#[test]
fn a_mixed_chain_of_300_blocks_has_every_shape() {
    let mut census = Census::default();
    let spec = ChainSpec::new(Profile::Mixed, 300, 1);
    let summary = check(&spec, &mut |connected| census.visit(connected));
    assert!(
        (100_000..105_000).contains(&summary.inputs),
        "{} inputs",
        summary.inputs
    );
    census.assert_complete();
}

#[test]
fn a_utxo_chain_reaches_its_coins_and_has_every_shape() {
    let mut census = Census::default();
    let spec = ChainSpec {
        coins: 400_000,
        ..ChainSpec::new(Profile::Utxo, 250, 2)
    };
    let summary = check(&spec, &mut |connected| census.visit(connected));
    assert!(summary.inputs >= 250_000);
    assert!(summary.coins.abs_diff(400_000) < 1_000, "{} coins", summary.coins);
    census.assert_complete();
}

#[test]
fn few_coins_are_reached_too() {
    let spec = ChainSpec {
        coins: 1_000,
        inputs: 100_000,
        ..ChainSpec::new(Profile::Utxo, 250, 2)
    };
    let summary = check(&spec, &mut |_| ());
    assert!(summary.coins.abs_diff(1_000) < 100, "{} coins", summary.coins);
}

#[test]
fn the_bytes_do_not_depend_on_threads_but_on_the_seed() {
    for profile in [Profile::Mixed, Profile::Utxo] {
        let spec = ChainSpec {
            inputs: 4_000,
            threads: 1,
            ..ChainSpec::new(profile, 115, 7)
        };
        let one = chain(&spec);
        assert!(one.1.inputs >= 4_000);
        assert_eq!(
            one,
            chain(&ChainSpec {
                threads: 3,
                ..spec.clone()
            })
        );
        let other = chain(&ChainSpec { seed: 8, ..spec });
        assert_eq!(one.0[0], other.0[0]);
        assert!(one.0.iter().zip(&other.0).skip(1).all(|(one, other)| one != other));
    }
}

#[test]
fn short_chains_have_only_coinbases() {
    for blocks in [0, 1, 5, 17, 100] {
        for profile in [Profile::Mixed, Profile::Utxo] {
            let summary = check(&ChainSpec::new(profile, blocks, 1), &mut |_| {
                panic!("nothing can be spent")
            });
            assert_eq!((summary.inputs, summary.transactions), (0, u64::from(blocks) + 1));
        }
    }
    check(&ChainSpec::new(Profile::Mixed, 101, 1), &mut |_| ());
}

#[test]
fn a_short_chain_still_carries_its_inputs() {
    for seed in 0..4 {
        let spec = ChainSpec {
            inputs: 5_000,
            ..ChainSpec::new(Profile::Mixed, 130, seed)
        };
        let summary = check(&spec, &mut |_| ());
        assert!((5_000..5_500).contains(&summary.inputs), "{} inputs", summary.inputs);
    }
}

#[test]
fn blocks_fill_up_to_any_weight_limit() {
    for (profile, block_weight_max, inputs) in [
        (Profile::Mixed, 10_000, 5_000),
        (Profile::Mixed, 100_000, 50_000),
        (Profile::Utxo, 50_000, 50_000),
        (Profile::Utxo, 4_000_000, 250_000),
        (Profile::Mixed, 4_000_000, 60_000),
    ] {
        let spec = ChainSpec {
            block_weight_max,
            inputs,
            ..ChainSpec::new(profile, 106, 5)
        };
        check(&spec, &mut |_| ());
        let heaviest = chain(&spec)
            .0
            .iter()
            .map(|block| deserialize::<Block>(block).unwrap().weight().to_wu())
            .max();
        let least = u64::from(block_weight_max) * 97 / 100 - 2_500;
        assert!(
            heaviest.unwrap() > least,
            "{profile}: {heaviest:?} of {block_weight_max}"
        );
    }
}

#[test]
fn chains_outlive_the_subsidy() {
    let spec = ChainSpec {
        inputs: 30_000,
        ..ChainSpec::new(Profile::Utxo, 5_500, 1)
    };
    let mut last = 0;
    let summary = check(&spec, &mut |connected| last = last.max(connected.height));
    assert!(summary.inputs >= 30_000);
    assert!(last > 5_480, "the last blocks spend, too: {last}");
}
