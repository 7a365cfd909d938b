//! Windows in lanes beside the serial code, which is the referee, over the same coins.

use super::*;
use crate::pipeline::resolve::{self, ResolveError};
use blockmill_block::undo::write_record;
use blockmill_block::{Coin, CoinRef, Network, OutPoint};
use blockmill_chaingen::bitcoin::absolute::LockTime;
use blockmill_chaingen::bitcoin::consensus::serialize;
use blockmill_chaingen::bitcoin::hashes::Hash;
use blockmill_chaingen::bitcoin::{self, Amount, OutPoint as Point, ScriptBuf, Sequence, TxIn, TxOut, Witness};
use blockmill_coins::{CoinStore, FlushEpoch, MemoryStore, Overwrite, Tip};
use blockmill_pool::ThreadPoolOptions;
use blockmill_rules::connect::Overwriting;
use blockmill_rules::{Params, ScriptFlags};
use std::collections::HashMap;
use std::sync::Arc;

const TIP: Tip = Tip {
    hash: blockmill_block::BlockHash([3; 32]),
    height: 3,
};

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((value ^ (value >> 31)) % end as u64) as usize
    }

    fn one_of(&mut self, chance: usize) -> bool {
        self.below(chance) == 0
    }

    fn choose<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }
}

/// A block of a case.
struct Planned {
    block: Block,
    height: u32,
    overwriting: Overwriting,
    absent_at: Option<FlushEpoch>,
}

/// Coins that two caches begin with, and blocks for both.
struct Case {
    /// Coins of the store.
    stored: Vec<(OutPoint, Coin)>,
    /// What changes in the cache before the window: coins that are read, spent, and made.
    read: Vec<OutPoint>,
    spent: Vec<OutPoint>,
    made: Vec<(OutPoint, Coin)>,
    /// Whether those changes are frozen, and a flush writes them.
    flushing: bool,
    blocks: Vec<Planned>,
}

fn outpoint(point: Point) -> OutPoint {
    OutPoint {
        txid: blockmill_block::Txid(point.txid.to_byte_array()),
        vout: point.vout,
    }
}

fn old_point(number: u8) -> Point {
    Point::new(bitcoin::Txid::from_byte_array([number; 32]), u32::from(number % 3))
}

fn old_coin(height: u32) -> Coin {
    Coin {
        value: 100_000,
        height,
        is_coinbase: height == 150,
        script_pubkey: vec![0x51; height as usize % 40].into(),
    }
}

fn transaction(inputs: &[Point], values: &[u64], mark: u32) -> bitcoin::Transaction {
    bitcoin::Transaction {
        version: bitcoin::transaction::Version::TWO,
        lock_time: LockTime::from_consensus(mark),
        input: inputs
            .iter()
            .map(|&previous_output| TxIn {
                previous_output,
                script_sig: ScriptBuf::new(),
                sequence: Sequence::MAX,
                witness: Witness::new(),
            })
            .collect(),
        output: values
            .iter()
            .map(|&value| TxOut {
                value: Amount::from_sat(value),
                script_pubkey: ScriptBuf::from_bytes(match value % 5 {
                    // Never spendable.
                    0 => vec![0x6a],
                    length => vec![0x51; length as usize * 9],
                }),
            })
            .collect(),
    }
}

impl Case {
    /// `faulty` says how often something is wrong: about once in so many choices.
    fn new(seed: u64, faulty: usize) -> Self {
        let dice = &mut Dice(seed);
        let old: Vec<Point> = (1..=30).map(old_point).collect();
        let (stored, rest) = old.split_at(18);
        let (made, unknown) = rest.split_at(8);
        let height = |dice: &mut Dice| {
            if dice.one_of(4 * faulty) {
                150
            } else {
                20 + dice.below(30) as u32
            }
        };
        let read = stored.iter().filter(|_| dice.one_of(3)).copied().collect::<Vec<_>>();
        let spent = stored.iter().filter(|_| dice.one_of(6)).copied().collect::<Vec<_>>();
        let mut unspent: Vec<Point> = old[..26]
            .iter()
            .filter(|point| !spent.contains(point))
            .copied()
            .collect();
        let mut gone: Vec<Point> = spent.iter().chain(unknown).copied().collect();
        let mut all: Vec<bitcoin::Transaction> = Vec::new();
        let repeats = dice.one_of(3);
        let mut worths: HashMap<Point, u64> = HashMap::new();
        let mut blocks = Vec::new();
        for number in 0..1 + dice.below(6) as u32 {
            let mut transactions = Vec::new();
            let mark = if repeats && dice.one_of(2) { 0 } else { number };
            transactions.push(transaction(&[Point::null()], &[u64::from(mark) + 1, 7], mark));
            let mut fresh: Vec<Point> = Vec::new();
            for count in 0..dice.below(7) as u32 {
                if repeats && dice.one_of(3) && !all.is_empty() {
                    transactions.push(all[dice.below(all.len())].clone());
                    continue;
                }
                let inputs: Vec<Point> = (0..1 + dice.below(3))
                    .map(|_| {
                        let from = match dice.one_of(8 * faulty) {
                            false if !fresh.is_empty() && dice.one_of(2) => &mut fresh,
                            false if !unspent.is_empty() => &mut unspent,
                            _ => &mut gone,
                        };
                        let point = from.remove(dice.below(from.len()));
                        gone.push(point);
                        point
                    })
                    .collect();
                let worth: u64 = inputs.iter().map(|point| worths.get(point).unwrap_or(&100_000)).sum();
                let outputs = 1 + dice.below(4) as u64;
                let mut values: Vec<u64> = (0..outputs)
                    .map(|number| (worth / outputs).saturating_sub(number))
                    .collect();
                if dice.one_of(8 * faulty) {
                    values[0] = 1_000_001;
                }
                let made = transaction(&inputs, &values, number * 100 + count + 1);
                let id = made.compute_txid();
                worths.extend((0..).map(|vout| Point::new(id, vout)).zip(values.iter().copied()));
                let points = (0..values.len() as u32).filter(|&vout| !values[vout as usize].is_multiple_of(5));
                fresh.extend(points.map(|vout| Point::new(made.compute_txid(), vout)));
                transactions.push(made);
            }
            if dice.one_of(4 * faulty) && transactions.len() > 2 {
                // A coin is spent before it is made, perhaps.
                let last = transactions.len() - 1;
                transactions.swap(last - 1, last);
            }
            unspent.append(&mut fresh);
            all.extend(transactions.iter().cloned());
            let header = bitcoin::block::Header {
                version: bitcoin::block::Version::TWO,
                prev_blockhash: bitcoin::BlockHash::from_byte_array([number as u8; 32]),
                merkle_root: bitcoin::TxMerkleNode::all_zeros(),
                time: 1,
                bits: bitcoin::CompactTarget::from_consensus(0),
                nonce: number,
            };
            let block = bitcoin::Block {
                header,
                txdata: transactions,
            };
            blocks.push(Planned {
                block: Block::decode(serialize(&block)).unwrap(),
                // Coinbases are mature within a window, sometimes.
                height: 200 + number * if repeats { 110 } else { 1 },
                overwriting: Overwriting::Forbidden,
                absent_at: None,
            });
        }
        if !repeats && dice.one_of(3) {
            blocks
                .iter_mut()
                .for_each(|planned| planned.overwriting = Overwriting::Allowed);
        }
        let coins = |points: &[Point], dice: &mut Dice| {
            let coin = |point: &Point| (outpoint(*point), old_coin(height(dice)));
            points.iter().map(coin).collect::<Vec<_>>()
        };
        let mut stored = coins(stored, dice);
        if repeats && dice.one_of(2) {
            // A coin that the window makes is there already.
            let made = &all[dice.below(all.len())];
            let vout = dice.below(made.output.len()) as u32;
            let is_kept = !made.output[vout as usize].value.to_sat().is_multiple_of(5);
            let coin = (outpoint(Point::new(made.compute_txid(), vout)), old_coin(30));
            stored.extend(is_kept.then_some(coin));
        } else if dice.one_of(2) {
            // The store was seen to have none of them.
            blocks
                .iter_mut()
                .for_each(|planned| planned.absent_at = Some(FlushEpoch::default()));
        }
        Self {
            stored,
            read: read.into_iter().map(outpoint).collect(),
            spent: spent.into_iter().map(outpoint).collect(),
            made: coins(made, dice),
            flushing: dice.one_of(3),
            blocks,
        }
    }

    /// A cache with the coins of the case.
    fn cache(&self) -> CoinsCache {
        let store = Arc::new(MemoryStore::new());
        let stored: Vec<_> = self
            .stored
            .iter()
            .map(|(point, coin)| (*point, Some(coin.clone())))
            .collect();
        store.commit(&stored, &TIP).unwrap();
        let mut cache = CoinsCache::new(store, 8 << 20);
        for point in &self.read {
            cache.get(point).unwrap();
        }
        for point in &self.spent {
            cache.spend(point).unwrap().unwrap();
        }
        for (point, coin) in &self.made {
            cache.add(point, CoinRef::from(coin), Overwrite::Impossible);
        }
        if self.flushing {
            cache.begin_flush(&TIP, || Ok(())).unwrap();
        }
        cache
    }
}

fn coins(cache: &CoinsCache) -> Vec<(OutPoint, Coin)> {
    cache.coins().unwrap().map(Result::unwrap).collect()
}

/// Everything that the store has after a flush.
fn flushed(mut cache: CoinsCache) -> Vec<(OutPoint, Coin)> {
    cache.finish_flush().unwrap();
    cache.flush(&TIP, || Ok(())).unwrap();
    cache.store().coins().unwrap().map(Result::unwrap).collect()
}

fn context<'a>(planned: &Planned, params: &'a Params, sigops: &'a [u64]) -> ConnectContext<'a> {
    ConnectContext {
        params,
        height: planned.height,
        flags: ScriptFlags::NONE,
        overwriting: planned.overwriting,
        median_times: None,
        legacy_sigops: sigops,
    }
}

/// What the serial code says: undo data of the first blocks, and why the next one is rejected.
fn serially(blocks: &[Planned], params: &Params, cache: &mut CoinsCache) -> (Vec<BlockUndo>, Option<String>) {
    let sigops = vec![0; 100];
    let mut undo = Vec::new();
    for planned in blocks {
        match resolve::apply(
            &planned.block,
            &context(planned, params, &sigops),
            planned.absent_at,
            cache,
        ) {
            Ok(spent) => undo.push(spent),
            Err(ResolveError::Reject(reject)) => {
                return (
                    undo,
                    Some(format!("{} {:?} {:?}", reject, reject.transaction, reject.input)),
                );
            }
            Err(error) => panic!("{error}"),
        }
    }
    (undo, None)
}

/// How a case went in lanes.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    /// As with the serial code; the verdict.
    Same { valid: bool },
    /// Not so.
    Different(&'static str),
}

/// Runs a case by the serial code, and in lanes.
fn check(case: &Case, blocks_max: usize, jobs: usize, pool: &ThreadPool, fault: Option<Fault>) -> Found {
    let params = Params::new(Network::Regtest, None);
    let sigops = vec![0; 100];
    let mut cache = case.cache();
    let expected = serially(&case.blocks, &params, &mut cache);
    let expected_coins = coins(&cache);

    let mut cache_of_lanes = case.cache();
    let cache = (cache, &mut cache_of_lanes);
    let mut undo = Vec::new();
    let mut verdict = None;
    for together in case.blocks.chunks(blocks_max) {
        let before = (coins(cache.1), cache.1.dirty_len());
        let key = *cache.1.hash_key();
        let outlines: Vec<Outline> = together
            .iter()
            .map(|planned| Outline::new(&planned.block, &key))
            .collect();
        let window: Vec<WindowBlock<'_>> = together
            .iter()
            .zip(&outlines)
            .map(|(planned, outline)| WindowBlock {
                block: &planned.block,
                outline,
                context: context(planned, &params, &sigops),
                must_be_new: match planned.overwriting {
                    Overwriting::Allowed => MustBeNew::No,
                    Overwriting::Forbidden => MustBeNew::Yes(planned.absent_at),
                },
            })
            .collect();
        let dealing = Dealing {
            pool,
            jobs,
            spent_bytes_max: usize::MAX,
            magic: params.magic(),
            fault,
        };
        match resolve_window(&window, cache.1, dealing, &|_, _, _| ()) {
            WindowOutcome::Judged(judged) => {
                for (planned, judged) in together.iter().zip(judged) {
                    let mut record = Vec::new();
                    write_record(
                        params.magic(),
                        &planned.block.header().prev_block_hash,
                        &judged.undo,
                        &mut record,
                    );
                    if record != judged.record {
                        return Found::Different("record");
                    }
                    undo.push(judged.undo);
                }
            }
            WindowOutcome::TooLarge => return Found::Different("no room"),
            WindowOutcome::Odd => {
                if coins(cache.1) != before.0 || cache.1.dirty_len() != before.1 {
                    return Found::Different("what was taken back");
                }
                let (replayed, reason) = serially(together, &params, cache.1);
                if reason.is_none() && case.is_without_repeats() {
                    return Found::Different("a valid window was odd");
                }
                undo.extend(replayed);
                verdict = reason;
                if verdict.is_some() {
                    break;
                }
            }
        }
    }
    if (undo, verdict) != expected {
        return Found::Different("verdict or undo data");
    }
    if coins(cache.1) != expected_coins {
        return Found::Different("coins");
    }
    if flushed(cache.0) != flushed(cache_of_lanes) {
        return Found::Different("coins after a flush");
    }
    Found::Same {
        valid: expected.1.is_none(),
    }
}

impl Case {
    /// Whether no outpoint is made twice.
    fn is_without_repeats(&self) -> bool {
        let mut ids: Vec<_> = self
            .blocks
            .iter()
            .flat_map(|planned| planned.block.transactions().map(|transaction| transaction.txid()))
            .collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        ids.len() == all
    }
}

fn pool(workers: usize) -> ThreadPool {
    ThreadPool::new(&ThreadPoolOptions::workers(workers)).unwrap()
}

/// Runs cases; returns how many of them are valid.
fn run(seeds: std::ops::Range<u64>, faulty: usize) -> usize {
    let pools = [pool(0), pool(1), pool(3)];
    let mut valid = 0;
    for seed in seeds {
        let case = Case::new(seed, faulty);
        let mut dice = Dice(!seed);
        let (blocks, jobs) = (dice.choose(&[1, 2, 5, 32]), dice.choose(&[1, 2, 64]));
        let found = check(&case, blocks, jobs, &pools[dice.below(pools.len())], None);
        match found {
            Found::Same { valid: is_valid } => valid += usize::from(is_valid),
            Found::Different(what) => panic!("seed {seed}, {faulty}: {what} ({blocks} blocks, {jobs} jobs)"),
        }
    }
    valid
}

#[test]
fn lanes_say_what_the_serial_code_says() {
    let valid = run(0..1_500, 1_000);
    assert!(valid > 900, "{valid}");
    let valid = run(1_500..4_000, 3);
    assert!((250..2_200).contains(&valid), "{valid}");
}

#[test]
#[ignore = "minutes"]
fn lanes_say_what_the_serial_code_says_of_many_windows() {
    run(10_000..110_000, 1_000);
    run(110_000..210_000, 3);
}

/// Each fault is found by the test above.
#[test]
fn planted_faults_are_found() {
    let pool = pool(1);
    for fault in [
        Fault::DropsSpend,
        Fault::SwapsLanes,
        Fault::SpendsTwice,
        Fault::SeesTooEarly,
        Fault::ForgetsToTakeBack,
        Fault::OverwritesUnasked,
    ] {
        let is_found = |seed: u64| {
            let case = Case::new(seed, 3);
            matches!(check(&case, 32, 64, &pool, Some(fault)), Found::Different(_))
        };
        let found = (0..3_000).filter(|&seed| is_found(seed)).take(3).count();
        assert_eq!(found, 3, "{fault:?}");
    }
}
