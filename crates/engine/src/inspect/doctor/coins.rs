//! The store of the coins.

use super::findings::{Findings, Health, Problems, STOPPED};
use crate::datadir::DataDir;
use crate::datadir::error::{OpenError, Remedy};
use crate::datadir::files::STORE_FILE;
use crate::datadir::lost_store::check_not_lost;
use crate::report::observer::Observer;
use blockmill_coins::stats::Hashes;
use blockmill_coins::{CoinStore, StatsBuilder, StoreError, Tip};
use blockmill_rules::MAX_MONEY;
use blockmill_store_redb::{RedbStore, is_there};
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) const PART: &str = STORE_FILE;

/// Memory for pages of the store while it is read once, in bytes.
const STORE_CACHE: usize = 16 << 20;

/// Coins between looks whether to stop.
const COINS_PER_LOOK: u64 = 20_000;

/// What came of reading all coins.
enum Read {
    /// The figures.
    All(String),
    /// So many, and then it was stopped.
    Stopped(u64),
}

/// Opens the store; none if there is none yet.
fn open(directory: &DataDir) -> Result<Option<RedbStore>, OpenError> {
    check_not_lost(directory.path())?;
    let path = directory.file(PART);
    if !is_there(&path)? {
        return Ok(None);
    }
    let network = directory.chain_id().text();
    Ok(Some(RedbStore::open_to_read(&path, Some(&network), STORE_CACHE)?))
}

/// Compares the pages of the store with their checksums, and reads its tip.
fn check(store: &mut RedbStore, problems: &mut Problems) -> Result<Option<Tip>, StoreError> {
    if !store.check_pages()? {
        problems.add("a page is not what was written".to_owned());
    }
    store.tip()
}

/// Reads the whole store. Returns its tip, which may be none; none at all if nobody knows.
pub(super) fn examine(
    directory: &DataDir,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
    findings: &mut Findings,
) -> Option<Option<Tip>> {
    let mut problems = Problems::default();
    let checked = match open(directory) {
        Ok(None) => {
            findings.add(PART, Health::Sound, "not there yet: nothing was connected");
            return Some(None);
        }
        Ok(Some(_)) if stop.load(Ordering::Relaxed) => {
            findings.add(PART, Health::NotExamined, STOPPED);
            return None;
        }
        Ok(Some(mut store)) => match check(&mut store, &mut problems) {
            Ok(tip) => Ok((store, tip)),
            Err(error) => Err(error.into()),
        },
        Err(error) => Err(error),
    };
    let (store, tip) = match checked {
        Ok(checked) => checked,
        Err(error) => {
            findings.add_error(PART, &error);
            return None;
        }
    };
    let genesis = || Tip {
        hash: directory.chain_id().params().genesis.hash(),
        height: 0,
    };
    let read = if problems.is_empty() {
        read_coins(&store, &tip.unwrap_or_else(genesis), stop, observer, &mut problems)
    } else {
        // With pages that are damaged there is no saying what it reads.
        Ok(Read::Stopped(0))
    };
    if !problems.is_empty() {
        findings.add_damage(PART, problems.to_string(), Remedy::NewDirectory);
        return Some(tip);
    }
    match read {
        Err(error) => findings.add_error(PART, &error.into()),
        Ok(Read::All(figures)) => findings.add(PART, Health::Sound, figures),
        Ok(Read::Stopped(coins)) => {
            let detail = format!("stopped after {coins} coins, in which nothing is wrong");
            findings.add(PART, Health::NotExamined, detail);
        }
    }
    Some(tip)
}

/// Reads all coins, and says what they come to.
fn read_coins(
    store: &RedbStore,
    tip: &Tip,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
    problems: &mut Problems,
) -> Result<Read, StoreError> {
    let mut stats = StatsBuilder::new(Hashes::Serialized);
    for (number, entry) in (1u64..).zip(store.coins()?) {
        let (outpoint, coin) = match entry {
            Ok(entry) => entry,
            // The next ones may be sound.
            Err(error @ StoreError::Damaged { .. }) => {
                problems.add(error.to_string());
                continue;
            }
            Err(error) => return Err(error),
        };
        if coin.height > tip.height {
            problems.add(format!("coin {outpoint} has height {}, above the tip", coin.height));
        }
        if !(0..=MAX_MONEY).contains(&coin.value) {
            problems.add(format!("coin {outpoint} has the amount {}", coin.value));
        }
        stats.add(&outpoint, &coin);
        if number % COINS_PER_LOOK == 0 {
            if stop.load(Ordering::Relaxed) {
                return Ok(Read::Stopped(number));
            }
            let share = f64::from(u16::from_be_bytes([outpoint.txid.0[0], outpoint.txid.0[1]])) / 65_536.0;
            observer.coins(number, share);
        }
    }
    let stats = stats.finish(tip);
    Ok(Read::All(format!(
        "{} coins at block {} (height {}), hash_serialized_3 {}",
        stats.txouts, tip.hash, tip.height, stats.hash_serialized_3
    )))
}
