//! Windows in shards beside the serial code, which is the referee, over the same coins.

use super::*;
use crate::pipeline::resolve::{self, ResolveError};
use blockmill_block::undo::write_record;
use blockmill_block::{Coin, CoinRef, Network, OutPoint};
use blockmill_coins::{Before, CoinStore, FlushEpoch, MemoryStore, Overwrite, Tip};
use blockmill_pool::ThreadPoolOptions;
use blockmill_rules::connect::{MedianTimes, Overwriting};
use blockmill_rules::{Params, ScriptFlags};
use case::{Case, Dice, Planned};
use std::sync::Arc;
use store::{Change, Commit};

mod case;
mod faults;
mod hashes;
mod store;
mod too_large;

const TIP: Tip = Tip {
    hash: blockmill_block::BlockHash([3; 32]),
    height: 3,
};

fn coins(cache: &CoinsCache) -> Vec<(OutPoint, Coin)> {
    cache.coins().unwrap().map(Result::unwrap).collect()
}

/// Writes all changes.
fn flush(cache: &mut CoinsCache) {
    cache.finish_flush().unwrap();
    cache.flush(&TIP, || Ok(())).unwrap();
}

/// A block takes the unit of locks by time.
fn median_time_past(height: u32) -> u32 {
    1_000_000 + 512 * height
}

fn params() -> Params {
    Params::new(Network::Regtest, None)
}

fn context<'a>(planned: &'a Planned, params: &'a Params) -> ConnectContext<'a> {
    ConnectContext {
        params,
        height: planned.height,
        flags: ScriptFlags::NONE,
        overwriting: planned.overwriting,
        median_times: Some(MedianTimes {
            parent: median_time_past(planned.height - 1),
            at_height: &median_time_past,
        }),
        legacy_sigops: &planned.sigops,
    }
}

/// What the serial code says: undo data of the first blocks, and why the next one is not resolved.
fn serially(blocks: &[Planned], cache: &mut CoinsCache) -> (Vec<BlockUndo>, Option<String>) {
    let params = params();
    let mut undo = Vec::new();
    for planned in blocks {
        let outline = Outline::new(&planned.block, cache.hash_key());
        let context = context(planned, &params);
        match resolve::resolve_block(&planned.block, &outline, &context, planned.absent_at, cache) {
            Ok(spent) => undo.push(spent),
            Err(ResolveError::Reject(reject)) => {
                return (
                    undo,
                    Some(format!("{} {:?} {:?}", reject, reject.transaction, reject.input)),
                );
            }
            Err(error) => return (undo, Some(error.to_string())),
        }
    }
    (undo, None)
}

/// Resolves blocks in shards.
fn in_shards(
    blocks: &[Planned],
    cache: &mut CoinsCache,
    jobs: usize,
    spent_bytes_max: usize,
    pool: &ThreadPool,
    fault: Option<Fault>,
) -> WindowOutcome {
    let params = params();
    let key = *cache.hash_key();
    let outlines: Vec<Outline> = blocks
        .iter()
        .map(|planned| Outline::new(&planned.block, &key))
        .collect();
    let window: Vec<WindowBlock<'_>> = blocks
        .iter()
        .zip(&outlines)
        .map(|(planned, outline)| WindowBlock {
            block: &planned.block,
            outline,
            context: context(planned, &params),
            must_be_new: match planned.overwriting {
                Overwriting::Allowed => MustBeNew::No,
                Overwriting::Forbidden => MustBeNew::Yes(planned.absent_at),
            },
        })
        .collect();
    let dealing = Dealing {
        pool,
        jobs,
        spent_bytes_max,
        magic: params.magic(),
        fault,
    };
    resolve_window(&window, cache, dealing, &|_, _, _| ())
}

/// How a case went in shards.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Found {
    /// As with the serial code; why a block was rejected.
    Same(Option<String>),
    /// Not so.
    Different(&'static str),
}

/// Runs a case by the serial code, and in shards.
fn check(case: &Case, blocks_max: usize, jobs: usize, pool: &ThreadPool, fault: Option<Fault>) -> Found {
    let magic = params().magic();
    let (mut serial, serial_store) = case.cache();
    let expected = serially(&case.blocks, &mut serial);
    let expected_coins = coins(&serial);

    let (mut cache, store) = case.cache();
    let mut undo = Vec::new();
    let mut verdict = None;
    for together in case.blocks.chunks(blocks_max) {
        let before = (coins(&cache), cache.dirty_len(), cache.counters());
        match in_shards(together, &mut cache, jobs, usize::MAX, pool, fault) {
            WindowOutcome::Valid(valid) => {
                for (planned, of_shards) in together.iter().zip(valid) {
                    let parent = &planned.block.header().prev_block_hash;
                    let mut record = Vec::new();
                    write_record(magic, parent, &of_shards.undo, &mut record);
                    if record != of_shards.record {
                        return Found::Different("record");
                    }
                    undo.push(of_shards.undo);
                }
            }
            WindowOutcome::TooLarge => return Found::Different("no room"),
            WindowOutcome::Odd => {
                if (coins(&cache), cache.dirty_len(), cache.counters()) != before {
                    return Found::Different("what was taken back");
                }
                let (replayed, reason) = serially(together, &mut cache);
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
    if (&undo, &verdict) != (&expected.0, &expected.1) {
        return Found::Different("verdict or undo data");
    }
    let found = coins(&cache);
    if found != expected_coins {
        return match case.only_has_older_coins(&found, &expected_coins) {
            true => Found::Same(verdict),
            false => Found::Different("coins"),
        };
    }
    flush(&mut serial);
    flush(&mut cache);
    if coins(&cache) != expected_coins {
        return Found::Different("coins after a flush");
    }
    // What the entries said of the store, too. Coins that repeat where they may overwrite make it
    // wrong, as often as with the serial code.
    let (changes, wrong) = store.last_commit();
    let (serial_changes, serial_wrong) = serial_store.last_commit();
    if wrong != serial_wrong || !agree(&changes, &serial_changes) {
        return Found::Different("changes of a flush");
    }
    Found::Same(verdict)
}

fn pool(workers: usize) -> ThreadPool {
    ThreadPool::new(&ThreadPoolOptions::workers(workers)).unwrap()
}

/// Runs cases; returns why they were rejected, with none for valid ones.
fn run(seeds: std::ops::Range<u64>, faulty: usize) -> Vec<Option<String>> {
    let pools = [pool(0), pool(1), pool(3)];
    let mut verdicts = Vec::new();
    for seed in seeds {
        let case = Case::new(seed, faulty);
        let mut dice = Dice(!seed);
        let (blocks, jobs) = (dice.choose(&[1, 2, 5, 32]), dice.choose(&[1, 2, 64]));
        let found = check(&case, blocks, jobs, &pools[dice.below(pools.len())], None);
        match found {
            Found::Same(verdict) => verdicts.push(verdict),
            Found::Different(what) => panic!("seed {seed}, {faulty}: {what} ({blocks} blocks, {jobs} jobs)"),
        }
    }
    verdicts
}

impl Case {
    /// Whether all that shards have too much are coins that a block of the window was allowed to
    /// overwrite, and a later one spent. BIP 34 is what allows it, and it rules such repeats out.
    /// Shards rest on that (`ShardOutcome::settle`).
    fn only_has_older_coins(&self, found: &[(OutPoint, Coin)], expected: &[(OutPoint, Coin)]) -> bool {
        let may_overwrite = |outpoint: &OutPoint| {
            let allowed = self
                .blocks
                .iter()
                .filter(|planned| planned.overwriting == Overwriting::Allowed);
            allowed
                .flat_map(|planned| planned.block.transactions())
                .any(|transaction| transaction.txid() == outpoint.txid)
        };
        let unexpected = found.iter().filter(|coin| !expected.contains(coin));
        expected.iter().all(|coin| found.contains(coin))
            && unexpected.into_iter().all(|(outpoint, _)| may_overwrite(outpoint))
    }
}

/// Whether two flushes change the same. Where ids repeat, one of them may know less of what the
/// store has.
fn agree(changes: &Commit, others: &Commit) -> bool {
    let same = |((outpoint, coin, before), other): (&Change, &Change)| {
        let knows_less = *before == Before::Unknown || other.2 == Before::Unknown;
        (outpoint, coin) == (&other.0, &other.1) && (*before == other.2 || knows_less)
    };
    changes.len() == others.len() && changes.iter().zip(others).all(same)
}

fn valid(verdicts: &[Option<String>]) -> usize {
    verdicts.iter().filter(|verdict| verdict.is_none()).count()
}

#[test]
fn shards_say_what_the_serial_code_says() {
    let verdicts = run(0..1_500, 1_000);
    assert!(valid(&verdicts) > 900, "{}", valid(&verdicts));
    let verdicts = run(1_500..4_000, 3);
    let count = valid(&verdicts);
    assert!((250..2_200).contains(&count), "{count}");
    // Each rule is broken often enough.
    for reason in [
        "bad-txns-BIP30",
        "bad-txns-inputs-missingorspent",
        "bad-txns-premature-spend-of-coinbase",
        "bad-txns-in-belowout",
        "bad-txns-nonfinal",
        "bad-blk-sigops",
        "bad-cb-amount",
    ] {
        let is_it = |verdict: &&Option<String>| verdict.as_ref().is_some_and(|verdict| verdict.starts_with(reason));
        let count = verdicts.iter().filter(is_it).count();
        assert!(count >= 20, "{reason}: {count}");
    }
}

#[test]
#[ignore = "minutes"]
fn shards_say_what_the_serial_code_says_of_many_windows() {
    run(10_000..110_000, 1_000);
    run(110_000..210_000, 3);
}
