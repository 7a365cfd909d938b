//! The store of the coins.

use super::findings::{Findings, Health, Problems, STOPPED};
use crate::DataDir;
use crate::error::{OpenError, Remedy};
use crate::files::STORE_FOLDER;
use crate::store_file::store_to_read;
use blockmill_chain::report::events::{Event, Observer, Older};
use blockmill_coins::stats::Hashes;
use blockmill_coins::{CoinStore, StatsBuilder, StoreError, Tip};
use blockmill_rules::MAX_MONEY;
use blockmill_store_log::{LogOptions, LogStore};
use std::sync::atomic::{AtomicBool, Ordering};

/// Coins between looks whether to stop.
const COINS_PER_LOOK: u64 = 20_000;

/// What came of reading all coins.
enum Read {
    /// The figures.
    All(String),
    /// So many, and then it was stopped.
    Stopped(u64),
}

/// A store that is open, and the name of its folder.
struct Opened {
    part: &'static str,
    store: LogStore,
    /// Bytes that the next writer cuts off.
    bytes_after: u64,
    /// What it lacks of the commits that were synced.
    older: Option<Older>,
}

/// Opens the store and compares its pages with their checksums. None if there is none yet.
fn open(directory: &DataDir, stop: &AtomicBool, problems: &mut Problems) -> Result<Option<Opened>, OpenError> {
    let mark = directory.commit_mark()?;
    let Some(part) = store_to_read(directory)? else {
        return Ok(None);
    };
    let path = directory.file(part);
    let network = directory.chain_id().text();
    let store = LogStore::open_to_read(&path, Some(&network), LogOptions::default())?;
    if let Err(error) = store.check_pages(&|| stop.load(Ordering::Relaxed)) {
        problems.add(error.to_string());
    }
    let bytes_after = store.bytes_after_last_commit()?;
    let commit = store.last_commit()?;
    Ok(Some(Opened {
        part,
        older: commit.and_then(|commit| directory.older(mark, &commit)),
        store,
        bytes_after,
    }))
}

/// The name of the store among the findings.
pub(super) const PART: &str = STORE_FOLDER;

/// Reads the whole store. Returns its tip: `Some(None)` where nothing was connected yet, and `None`
/// where the store cannot be read.
pub(super) fn examine(
    directory: &DataDir,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
    findings: &mut Findings,
) -> Option<Option<Tip>> {
    let mut problems = Problems::default();
    let opened = match open(directory, stop, &mut problems) {
        Ok(None) => {
            findings.add(PART, Health::Sound, "not there yet: nothing was connected");
            return Some(None);
        }
        Ok(Some(_)) if stop.load(Ordering::Relaxed) => {
            findings.add(PART, Health::NotExamined, STOPPED);
            return None;
        }
        Ok(Some(opened)) => opened.store.tip().map(|tip| (opened, tip)).map_err(OpenError::from),
        Err(error) => Err(error),
    };
    let (opened, tip) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            findings.add_error(PART, &error);
            return None;
        }
    };
    let Opened { part, store, .. } = &opened;
    if let Some(older) = opened.older {
        let detail = match opened.bytes_after {
            0 => older.to_string(),
            bytes => format!("{older}: {bytes} bytes after the last whole commit"),
        };
        findings.add_damage(part, detail, Remedy::ConnectAgain);
    } else if opened.bytes_after > 0 {
        let detail = format!(
            "{} bytes after the last whole commit, as a kill or a damaged page in them leaves them; the next run of \
             connect goes on from that commit",
            opened.bytes_after
        );
        findings.add(part, Health::Harmless, detail);
    }
    let end = tip.unwrap_or_else(|| directory.genesis());
    let read = if problems.is_empty() {
        read_coins(store, &end, stop, observer, &mut problems)
    } else {
        // With pages that are damaged there is no saying what it reads.
        Ok(Read::Stopped(0))
    };
    if !problems.is_empty() {
        findings.add_damage(part, problems.to_string(), Remedy::NewDirectory);
        return Some(tip);
    }
    match read {
        Err(error) => findings.add_error(part, &error.into()),
        Ok(Read::All(figures)) => findings.add(part, Health::Sound, figures),
        Ok(Read::Stopped(coins)) => {
            let detail = format!("stopped after {coins} coins, in which nothing is wrong");
            findings.add(part, Health::NotExamined, detail);
        }
    }
    Some(tip)
}

/// Reads all coins, and says what they come to.
fn read_coins(
    store: &LogStore,
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
            observer.event(&Event::coins_up_to(number, &outpoint));
        }
    }
    let stats = stats.finish(tip);
    Ok(Read::All(format!(
        "{} coins at block {} (height {}), hash_serialized_3 {}",
        stats.txouts, tip.hash, tip.height, stats.hash_serialized_3
    )))
}
