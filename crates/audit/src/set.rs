//! The fingerprint of a set: of a snapshot, or of a data directory.

use crate::error::AuditError;
use crate::finding::{Finding, FindingKind};
use crate::fingerprint::{Fingerprint, Fingerprinter};
use blockmill_block::{BlockHash, Coin, Magic, OutPoint};
use blockmill_blockfiles::{FileError, open_regular};
use blockmill_chain::{Event, Observer};
use blockmill_coins::stats::{Hashes, StatsBuilder, StatsPart};
use blockmill_coins::{SnapshotError, SnapshotMetadata, SnapshotReader, UtxoStats};
use blockmill_datadir::{Batch, UtxoSet, for_each_batch_of};
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The set that an audit is about.
#[derive(Clone, Copy)]
pub enum AuditedSet<'a> {
    /// A snapshot, as Core's `dumptxoutset` writes it.
    Snapshot(&'a Path),
    /// That of a data directory.
    Data(&'a UtxoSet),
}

/// A set, and the block after which it is as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SetSums {
    pub(crate) block: BlockHash,
    pub(crate) coins: Fingerprint,
    /// Of a data directory's set.
    pub(crate) figures: Option<UtxoStats>,
    /// Time of all threads for them.
    pub(crate) time: Duration,
}

/// The head of a snapshot.
pub(crate) fn snapshot_head(path: &Path, magic: Magic) -> Result<SnapshotMetadata, AuditError> {
    Ok(*open(path, magic)?.metadata())
}

/// The network that a snapshot belongs to.
pub(crate) fn snapshot_network(path: &Path) -> Result<Magic, AuditError> {
    blockmill_coins::snapshot_network(open_regular(path)?).map_err(AuditError::snapshot(path))
}

impl SetSums {
    /// Of no coins.
    pub(crate) fn nothing(block: BlockHash) -> Self {
        Self {
            block,
            coins: Fingerprint::default(),
            figures: None,
            time: Duration::ZERO,
        }
    }
}

/// A snapshot after its head. It is opened several times, which a pipe cannot be.
fn open(path: &Path, magic: Magic) -> Result<SnapshotReader<File>, AuditError> {
    SnapshotReader::new(open_regular(path)?, magic).map_err(AuditError::snapshot(path))
}

/// The sums of a set, whose block has this height. A set that is damaged, or whose file cannot be
/// read to its end, is a finding: what was found in the blocks still counts.
pub(crate) fn set_sums(
    set: AuditedSet<'_>,
    (block, height): (BlockHash, u32),
    fingerprinter: &Fingerprinter,
    threads: usize,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<(SetSums, Option<Finding>), AuditError> {
    let sums = match set {
        AuditedSet::Snapshot(path) => of_snapshot(path, height, fingerprinter, threads, stop, observer),
        AuditedSet::Data(set) => of_data(set, fingerprinter, stop, observer),
    };
    match sums {
        Ok(sums) => Ok((sums, None)),
        Err(error) if is_about_set(&error) => {
            let finding = Finding::general(FindingKind::Set, error.to_string());
            Ok((SetSums::nothing(block), Some(finding)))
        }
        Err(error) => Err(error),
    }
}

fn is_about_set(error: &AuditError) -> bool {
    match error {
        AuditError::Snapshot { .. } | AuditError::File(_) => true,
        // A store that fails says nothing about the set.
        AuditError::Store(error) => error.is_corruption(),
        _ => false,
    }
}

/// Adds up batches of coins, and says how far it is.
struct SetReader<'a> {
    fingerprint: Fingerprint,
    /// Time of all threads.
    time: Duration,
    /// Coins that there are.
    of: Option<u64>,
    stop: &'a AtomicBool,
    observer: &'a mut dyn Observer,
}

impl<'a> SetReader<'a> {
    fn new(of: Option<u64>, stop: &'a AtomicBool, observer: &'a mut dyn Observer) -> Self {
        Self {
            fingerprint: Fingerprint::default(),
            time: Duration::ZERO,
            of,
            stop,
            observer,
        }
    }

    fn add(&mut self, (batch, time): &(Fingerprint, Duration)) -> Result<(), AuditError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(AuditError::Stopped);
        }
        self.fingerprint.add(batch);
        self.time += *time;
        let share = self
            .of
            .map_or(0.0, |of| self.fingerprint.coins as f64 / of.max(1) as f64);
        let coins = self.fingerprint.coins;
        self.observer.event(&Event::Coins { coins, share });
        Ok(())
    }
}

fn of_batch(fingerprinter: &Fingerprinter, batch: &[(OutPoint, Coin)]) -> (Fingerprint, Duration) {
    let start = Instant::now();
    let mut fingerprint = Fingerprint::default();
    fingerprinter.add_coins(batch, &mut fingerprint);
    (fingerprint, start.elapsed())
}

/// The sums of a snapshot, whose base has this height.
pub(crate) fn of_snapshot(
    path: &Path,
    base_height: u32,
    fingerprinter: &Fingerprinter,
    threads: usize,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<SetSums, AuditError> {
    let magic = snapshot_network(path)?;
    let reader = open(path, magic)?;
    let metadata = *reader.metadata();
    let mut adding = SetReader::new(Some(metadata.coins), stop, observer);
    for_each_batch_of(
        reader.chunks(base_height),
        threads,
        AuditError::snapshot(path),
        &|batch: Batch| Ok(of_batch(fingerprinter, &batch)),
        &mut |batch| adding.add(&batch),
    )?;
    Ok(SetSums {
        block: metadata.base,
        coins: adding.fingerprint,
        figures: None,
        time: adding.time,
    })
}

/// The sums of a data directory's set.
pub(crate) fn of_data(
    set: &UtxoSet,
    fingerprinter: &Fingerprinter,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<SetSums, AuditError> {
    let mut adding = SetReader::new(None, stop, observer);
    let mut stats = StatsBuilder::new(Hashes::Serialized);
    set.for_each_batch(
        &|batch: Batch| {
            let part = StatsPart::new(Hashes::Serialized, &batch);
            Ok::<_, AuditError>((of_batch(fingerprinter, &batch), part))
        },
        &mut |(batch, part)| {
            stats.add_part(&part);
            adding.add(&batch)
        },
    )?;
    Ok(SetSums {
        block: set.tip().hash,
        coins: adding.fingerprint,
        figures: Some(stats.finish(&set.tip())),
        time: adding.time,
    })
}

impl AuditError {
    pub(crate) fn snapshot(path: &Path) -> impl Fn(SnapshotError) -> Self + Copy {
        move |error| match error {
            SnapshotError::Io(error) => Self::File(FileError::io(path)(error)),
            error => Self::Snapshot {
                path: path.to_owned(),
                error,
            },
        }
    }
}
