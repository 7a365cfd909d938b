//! Windows in shards beside the rules over a plain map of the same coins, which are the referee.

use super::*;
use blockmill_block::coin::is_unspendable;
use blockmill_block::undo::write_record;
use blockmill_block::{Coin, CoinRef, Network, OutPoint};
use blockmill_coins::{CoinStore, FlushEpoch, HashKey, MemoryStore, Overwrite, Tip};
use blockmill_pool::ThreadPoolOptions;
use blockmill_rules::connect::{MedianTimes, Overwriting};
use blockmill_rules::{Params, ScriptFlags};
use blockmill_validate::connect_looked_up;
use case::{Case, Dice, Planned};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

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

/// A set without a cache or a store.
type PlainCoins = BTreeMap<OutPoint, Coin>;

fn reason(reject: &Reject) -> String {
    format!("{reject} {:?} {:?}", reject.transaction, reject.input)
}

/// What the rules say: undo data of the first blocks, and why the next one is rejected. The coins
/// are changed by the first blocks.
fn plainly(blocks: &[Planned], coins: &mut PlainCoins) -> (Vec<BlockUndo>, Option<String>) {
    let params = params();
    let mut undo = Vec::new();
    for planned in blocks {
        let mut lookup = |outpoint: &OutPoint| Ok::<_, Infallible>(coins.get(outpoint).cloned());
        match connect_looked_up(&planned.block, &context(planned, &params), &mut lookup) {
            Ok((_, spent)) => undo.push(spent),
            Err(BlockError::Reject(reject)) => return (undo, Some(reason(&reject))),
        }
        planned.change(coins);
    }
    (undo, None)
}

impl Planned {
    /// Spends and creates its coins.
    fn change(&self, coins: &mut PlainCoins) {
        for (index, transaction) in self.block.transactions().enumerate() {
            for input in transaction.inputs().filter(|_| index > 0) {
                coins.remove(&input.previous_output());
            }
            let txid = transaction.txid();
            for (vout, output) in (0..).zip(transaction.outputs()) {
                let coin = Coin {
                    value: output.value(),
                    height: self.height,
                    is_coinbase: index == 0,
                    script_pubkey: output.script_pubkey().into(),
                };
                if !is_unspendable(output.script_pubkey()) {
                    coins.insert(OutPoint { txid, vout }, coin);
                }
            }
        }
    }
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
    let key = *cache.hash_key();
    in_shards_with(blocks, &key, cache, jobs, spent_bytes_max, pool, fault)
}

/// The same, with outlines under a key. Without jobs the caller's thread does everything.
fn in_shards_with(
    blocks: &[Planned],
    key: &HashKey,
    cache: &mut CoinsCache,
    jobs: usize,
    spent_bytes_max: usize,
    pool: &ThreadPool,
    fault: Option<Fault>,
) -> WindowOutcome {
    let params = params();
    let outlines: Vec<Outline> = blocks.iter().map(|planned| Outline::new(&planned.block, key)).collect();
    let window: Vec<WindowBlock<'_>> = blocks
        .iter()
        .zip(&outlines)
        .map(|(planned, outline)| WindowBlock {
            block: &planned.block,
            outline,
            context: context(planned, &params),
            absent_at: planned.absent_at,
        })
        .collect();
    let dealing = Dealing {
        pool: Some(pool).filter(|_| jobs > 0),
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
    /// As the rules say; why a block was rejected.
    Same(Option<String>),
    /// Not so.
    Different(&'static str),
}

/// A case that is run in shards.
struct Running<'c> {
    case: &'c Case,
    cache: CoinsCache,
    jobs: usize,
    pool: &'c ThreadPool,
    fault: Option<Fault>,
    /// Undo data of the blocks that were resolved.
    undo: Vec<BlockUndo>,
}

impl Running<'_> {
    /// Resolves blocks as the engine does: together, and one at a time if that is odd. Returns why
    /// one is rejected.
    fn resolve(&mut self, together: &[Planned]) -> Result<Option<String>, &'static str> {
        let before = (coins(&self.cache), self.cache.dirty_len(), self.cache.counters());
        let outcome = in_shards(together, &mut self.cache, self.jobs, usize::MAX, self.pool, self.fault);
        if !matches!(outcome, WindowOutcome::Valid(_))
            && (coins(&self.cache), self.cache.dirty_len(), self.cache.counters()) != before
        {
            return Err("what was taken back");
        }
        match outcome {
            WindowOutcome::Valid(valid) => {
                for (planned, of_shards) in together.iter().zip(valid) {
                    let parent = &planned.block.header().prev_block_hash;
                    let mut record = Vec::new();
                    write_record(params().magic(), parent, &of_shards.undo, &mut record);
                    if record != of_shards.record {
                        return Err("record");
                    }
                    self.undo.push(of_shards.undo);
                }
                Ok(None)
            }
            WindowOutcome::Odd => {
                for planned in together {
                    let verdict = self.resolve(std::slice::from_ref(planned))?;
                    if verdict.is_some() {
                        return Ok(verdict);
                    }
                }
                match self.case.is_without_repeats() {
                    true => Err("a valid window was odd"),
                    false => Ok(None),
                }
            }
            WindowOutcome::Rejected(reject) => Ok(Some(reason(&reject))),
            WindowOutcome::TooLarge => Err("no room"),
            WindowOutcome::Failed(_) => Err("the store"),
            WindowOutcome::Contradiction => Err("a contradiction"),
        }
    }

    /// Disconnects all blocks, the highest one first. Returns whether each had its outputs.
    fn disconnect_all(&mut self) -> bool {
        let mut is_clean = true;
        for (planned, undo) in self.case.blocks.iter().zip(&self.undo).rev() {
            let outline = Outline::new(&planned.block, self.cache.hash_key());
            is_clean &= disconnect(&planned.block, &outline, undo, &mut self.cache).unwrap();
        }
        is_clean
    }
}

/// Runs a case by the rules, and in shards.
fn check(case: &Case, blocks_max: usize, jobs: usize, pool: &ThreadPool, fault: Option<Fault>) -> Found {
    let (cache, store) = case.cache();
    let first: PlainCoins = coins(&cache).into_iter().collect();
    let mut expected_coins = first.clone();
    let expected = plainly(&case.blocks, &mut expected_coins);
    let mut running = Running {
        case,
        cache,
        jobs,
        pool,
        fault,
        undo: Vec::new(),
    };
    let mut verdict = None;
    for together in case.blocks.chunks(blocks_max) {
        match running.resolve(together) {
            Ok(None) => {}
            Ok(rejected) => {
                verdict = rejected;
                break;
            }
            // BIP 34 is what allows blocks to overwrite coins, and it rules such repeats out.
            Err("a contradiction") if case.may_overwrite_older() => return Found::Same(None),
            Err(what) => return Found::Different(what),
        }
    }
    if (&running.undo, &verdict) != (&expected.0, &expected.1) {
        return Found::Different("verdict or undo data");
    }
    let found: PlainCoins = coins(&running.cache).into_iter().collect();
    if found != expected_coins {
        return match case.only_has_older_coins(&found, &expected_coins) {
            true => Found::Same(verdict),
            false => Found::Different("coins"),
        };
    }
    flush(&mut running.cache);
    let flushed: PlainCoins = coins(&running.cache).into_iter().collect();
    if flushed != expected_coins {
        return Found::Different("coins after a flush");
    }
    // What the entries said of the store, too.
    if store.last_commit().1 > 0 && !case.may_overwrite_older() {
        return Found::Different("changes of a flush");
    }
    // A coinbase that repeats an older one has replaced it.
    let is_clean = running.disconnect_all();
    let left: PlainCoins = coins(&running.cache).into_iter().collect();
    if case.is_without_repeats() && !(is_clean && left == first) {
        return Found::Different("coins when all is disconnected");
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
        let (blocks, jobs) = (dice.choose(&[1, 2, 5, 32]), dice.choose(&[0, 1, 2, 64]));
        let found = check(&case, blocks, jobs, &pools[dice.below(pools.len())], None);
        match found {
            Found::Same(verdict) => verdicts.push(verdict),
            Found::Different(what) => panic!("seed {seed}, {faulty}: {what} ({blocks} blocks, {jobs} jobs)"),
        }
    }
    verdicts
}

impl Case {
    /// Whether a block may overwrite a coin that was made before it.
    fn may_overwrite_older(&self) -> bool {
        let may = |planned: &Planned| planned.overwriting == Overwriting::Allowed;
        !self.is_without_repeats() && self.blocks.iter().any(may)
    }

    /// Whether all that shards have too much are coins that a block of the window was allowed to
    /// overwrite, and a later one spent. BIP 34 is what allows it, and it rules such repeats out.
    /// Shards rest on that (`ShardOutcome::settle`).
    fn only_has_older_coins(&self, found: &PlainCoins, expected: &PlainCoins) -> bool {
        let may_overwrite = |outpoint: &OutPoint| {
            let allowed = self
                .blocks
                .iter()
                .filter(|planned| planned.overwriting == Overwriting::Allowed);
            allowed
                .flat_map(|planned| planned.block.transactions())
                .any(|transaction| transaction.txid() == outpoint.txid)
        };
        let unexpected = found
            .iter()
            .filter(|&(outpoint, coin)| expected.get(outpoint) != Some(coin));
        expected.keys().all(|outpoint| found.contains_key(outpoint))
            && unexpected.into_iter().all(|(outpoint, _)| may_overwrite(outpoint))
    }
}

fn valid(verdicts: &[Option<String>]) -> usize {
    verdicts.iter().filter(|verdict| verdict.is_none()).count()
}

#[test]
fn shards_say_what_the_rules_say() {
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
fn shards_say_what_the_rules_say_of_many_windows() {
    run(10_000..110_000, 1_000);
    run(110_000..210_000, 3);
}
