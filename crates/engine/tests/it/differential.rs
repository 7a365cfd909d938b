//! Mutated blocks, judged by this engine twice, with signatures verified by the kernel library and
//! in lanes, by validation with given coins, and by Bitcoin Core's ChainstateManager, side by side.
//!
//! Valid regtest blocks of several script kinds are made on the tip, and now and then on a block
//! before it. Up to two mutations are applied. In nine of ten blocks, witness commitment, merkle
//! root and nonce are then repaired, so that the mutations reach the deep rules. A quarter of the
//! blocks has mutated signatures instead: in r, s, key, message, encoding, and order of multisig.
//! Verdict, reason and tip must be the same on all sides after every block. The sets of both
//! engines are compared now and then.
//!
//! `BLOCKMILL_TEST_MUTATIONS` sets the number of blocks, `BLOCKMILL_TEST_MUTATIONS_SEED` the seed,
//! `BLOCKMILL_TEST_MUTATIONS_EPISODE` the episode to begin with; all are printed, with a histogram
//! of reasons.
//!
//! [`imports`] compares imports of block files in the same way, and [`given_forms`] validation with
//! coins in each form that a caller may give them in: `BLOCKMILL_TEST_GIVEN_COINS` sets the number
//! of blocks.
//!
//! Core's log and its main lock are one for the whole process, so one test at a time has Core. No
//! test elsewhere in this program makes a ChainstateManager.

mod candidate;
mod core_node;
mod forest;
#[path = "../../../validate/tests/it/given_chain.rs"]
mod given_chain;
mod given_forms;
mod given_side;
mod imports;
mod mutations;
mod payments;
pub(crate) mod random;
mod tree;
mod world;

use blockmill_chaingen::bitcoin::Transaction;
use blockmill_chaingen::bitcoin::consensus::serialize;
use candidate::Candidate;
use given_forms::Forms;
use random::Random;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use world::World;

/// Blocks judged in an ordinary run of the tests.
const MUTATIONS: u64 = 20_000;

/// Blocks after which both sides begin anew, so that subsidies do not run out.
const EPISODE: u64 = 1_500;

/// Blocks after which the sets of both engines are compared.
const BETWEEN_SETS: u64 = 250;

/// Times that every reason must occur in a run of at least [`MUTATIONS`] blocks.
const LEAST: u64 = 40;

/// Reasons that must be reached. Other reasons are counted too.
const REASONS: &[&str] = &[
    "bad-blk-length",
    "bad-blk-sigops",
    "bad-blk-weight",
    "bad-cb-amount",
    "bad-cb-height",
    "bad-cb-length",
    "bad-cb-missing",
    "bad-cb-multiple",
    "bad-diffbits",
    "bad-prevblk",
    "bad-txnmrklroot",
    "bad-txns-BIP30",
    "bad-txns-duplicate",
    "bad-txns-in-belowout",
    "bad-txns-inputs-duplicate",
    "bad-txns-inputs-missingorspent",
    "bad-txns-nonfinal",
    "bad-txns-premature-spend-of-coinbase",
    "bad-txns-prevout-null",
    "bad-txns-txouttotal-toolarge",
    "bad-txns-vout-empty",
    "bad-txns-vout-negative",
    "bad-txns-vout-toolarge",
    "bad-version",
    "bad-witness-merkle-match",
    "bad-witness-nonce-size",
    "block-script-verify-flag-failed",
    "duplicate-invalid",
    "high-hash",
    "prev-blk-not-found",
    "time-too-new",
    "time-too-old",
    "unexpected-witness",
];

/// Blocks whose coins are given in each form, in an ordinary run of the tests.
const GIVEN_COINS: u64 = 2_000;

/// What must be reached among them: verdicts on true coins, and on coins of which one was changed.
const GIVEN_OUTCOMES: &[&str] = &[
    "valid",
    "bad-cb-amount",
    "bad-txns-BIP30",
    "bad-txns-in-belowout",
    "bad-txns-inputs-duplicate",
    "bad-txns-inputs-missingorspent",
    "bad-txns-nonfinal",
    "bad-txns-premature-spend-of-coinbase",
    "height: valid",
    "height: bad-txns-inputs-missingorspent",
    "coinbase flag: bad-txns-inputs-missingorspent",
    "amount: valid",
    "amount: bad-txns-inputs-missingorspent",
    "script: bad-txns-inputs-missingorspent",
    "swapped: bad-txns-inputs-missingorspent",
];

/// The right to use Core.
fn core() -> MutexGuard<'static, ()> {
    static CORE: Mutex<()> = Mutex::new(());
    CORE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn number(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")),
        Err(_) => default,
    }
}

#[test]
fn verdicts_reasons_and_tips_are_those_of_core() {
    let count = number("BLOCKMILL_TEST_MUTATIONS", MUTATIONS);
    if count <= MUTATIONS {
        eprintln!("short: {count} blocks; BLOCKMILL_TEST_MUTATIONS sets the number");
    }
    let seed = number("BLOCKMILL_TEST_MUTATIONS_SEED", 1);
    let _core = core();
    eprintln!("{count} blocks, seed {seed}");
    let log = core_node::CoreLog::connect();
    let mut histogram: BTreeMap<String, u64> = BTreeMap::new();
    let mut signatures = Vec::new();
    let mut done = 0;
    for episode in number("BLOCKMILL_TEST_MUTATIONS_EPISODE", 0).. {
        if done >= count {
            break;
        }
        let mut random = Random::new(seed.wrapping_mul(1_000_003).wrapping_add(episode));
        let mut world = World::new(&log, [1, 2, 4][episode as usize % 3]);
        for _ in 0..EPISODE.min(count - done) {
            let (bytes, names) = next_block(&mut world, &mut random);
            let outcome = world.judge(&bytes).unwrap_or_else(|difference| {
                panic!(
                    "seed {seed}, episode {episode}, mutations {names:?}: {difference}\nblock {}",
                    blockmill_block::hex::encode(&bytes)
                )
            });
            *histogram.entry(outcome).or_default() += 1;
            done += 1;
            if done % BETWEEN_SETS == 0 {
                world.compare_sets();
            }
        }
        signatures.push(world.finish());
    }
    let in_lanes: u64 = signatures.iter().map(|counts| counts.lanes).sum();
    let again: u64 = signatures.iter().map(|counts| counts.again).sum();
    eprintln!("{in_lanes:>8}  signatures in lanes\n{again:>8}  scripts run again");
    assert!(in_lanes > count && again > count / 20, "{signatures:?}");
    for (outcome, count) in &histogram {
        eprintln!("{count:>8}  {outcome}");
    }
    if count >= MUTATIONS {
        for reason in REASONS {
            let found = histogram.get(*reason).copied().unwrap_or(0);
            assert!(found >= LEAST, "{reason} was reached {found} times");
        }
    }
}

#[test]
fn given_coins_in_each_form_have_the_verdicts_of_core() {
    let count = number("BLOCKMILL_TEST_GIVEN_COINS", GIVEN_COINS);
    if count <= GIVEN_COINS {
        eprintln!("short: {count} blocks; BLOCKMILL_TEST_GIVEN_COINS sets the number");
    }
    let seed = number("BLOCKMILL_TEST_MUTATIONS_SEED", 1);
    let _core = core();
    let log = core_node::CoreLog::connect();
    let mut histogram: BTreeMap<String, u64> = BTreeMap::new();
    let mut done = 0;
    for episode in number("BLOCKMILL_TEST_MUTATIONS_EPISODE", 0).. {
        if done >= count {
            break;
        }
        let mut random = Random::new(seed.wrapping_mul(1_000_003).wrapping_add(episode));
        let mut forms = Forms::new(&log);
        for _ in 0..EPISODE.min(count - done) {
            let (block, mutations) = forms.next_block(&mut random);
            let outcome = forms.judge(&block, &mut random).unwrap_or_else(|difference| {
                let bytes = serialize(&block);
                panic!(
                    "seed {seed}, episode {episode}, mutations {mutations:?}: {difference}\nblock {}",
                    blockmill_block::hex::encode(&bytes)
                )
            });
            for word in [outcome.verdict].into_iter().chain(outcome.lie) {
                *histogram.entry(word).or_default() += 1;
            }
            done += 1;
        }
    }
    for (outcome, count) in &histogram {
        eprintln!("{count:>8}  {outcome}");
    }
    if count >= GIVEN_COINS {
        for outcome in GIVEN_OUTCOMES {
            let found = histogram.get(*outcome).copied().unwrap_or(0);
            assert!(found >= 5, "{outcome} was reached {found} times");
        }
    }
}

/// The next block to judge, and the names of the mutations in it.
fn next_block(world: &mut World, random: &mut Random) -> (Vec<u8>, Vec<&'static str>) {
    if random.one_in(40)
        && let Some(bytes) = world.tree.earlier_block(random)
    {
        return (bytes, vec!["sent again"]);
    }
    if random.one_in(20) && !world.tree.owed.is_empty() {
        let index = random.below(world.tree.owed.len() as u64) as usize;
        return (world.tree.owed.swap_remove(index), vec!["body sent late"]);
    }
    let mut candidate = Candidate::new(&world.tree, random);
    if random.one_in(40) {
        let (mutated, whole) = candidate.finish_mutated(random);
        world.tree.owed.push(whole);
        return (mutated, vec!["mutated body"]);
    }
    let mut names = Vec::new();
    if random.one_in(4) {
        for _ in 0..1 + random.below(2) {
            names.push(mutations::apply_to_signatures(&mut candidate, &world.tree, random));
        }
        return (candidate.finish(random), names);
    }
    for _ in 0..[0, 1, 1, 1, 1, 2][random.below(6) as usize] {
        let whole = |transaction: &Transaction| !transaction.input.is_empty() && !transaction.output.is_empty();
        let block = &candidate.block;
        if block.txdata.is_empty() || !block.txdata.iter().all(whole) {
            break;
        }
        names.push(mutations::apply(&mut candidate, &world.tree, random));
    }
    (candidate.finish(random), names)
}
