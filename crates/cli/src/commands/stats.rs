//! `blockmill stats`.

use crate::arguments::StatsArguments;
use crate::commands::{NEVER, open_set_at};
use crate::failure::Failure;
use crate::log;
use crate::output::{Facts, amount, bitcoins, bytes};
use crate::progress::{EngineMeter, share};
use crate::signals;
use blockmill_audit::{Mark, Noted};
use blockmill_coins::stats::Hashes;
use blockmill_coins::{StatsBuilder, StatsPart, StoreError, UtxoStats};
use blockmill_datadir::{Batch, Earlier, UtxoSet};
use std::path::Path;

/// Opens the UTXO set of a data directory, as it is or as it was, and computes its figures.
pub(crate) fn compute(data: &Path, at: Option<Earlier<'_>>, hashes: Hashes) -> Result<(UtxoSet, UtxoStats), Failure> {
    let mut meter = EngineMeter::new();
    let set = open_set_at(data, at, &NEVER, &mut meter)?;
    let mut builder = StatsBuilder::new(hashes);
    let mut coins = 0;
    let convert = |batch: Batch| {
        let share = share(&batch);
        Ok::<_, StoreError>((StatsPart::new(hashes, &batch), share))
    };
    set.for_each_batch(&convert, &mut |(part, share)| {
        coins += part.txouts();
        builder.add_part(&part);
        meter.coins(coins, share);
        Ok(())
    })?;
    let figures = builder.finish(&set.tip());
    Ok((set, figures))
}

/// The proof of a set that an audit has left, and the exit status: 3 where its note is damaged or
/// cannot be read, or nobody can tell whether it counts.
fn audit(set: &UtxoSet, figures: &UtxoStats, hashes: Hashes) -> (Option<Mark>, u8) {
    let path = set.directory().path().join(Mark::FILE);
    match Noted::read(set.directory().path()) {
        Noted::Nothing => (None, 0),
        Noted::Proof(mark) => match mark.is_of(set, figures, hashes) {
            Ok(is_of_set) => (is_of_set.then_some(mark), 0),
            Err(error) => {
                let problem = format!("whether this note of an audit counts cannot be found out: {error}");
                log::note(&path, &problem);
                (None, 3)
            }
        },
        Noted::Damaged(problem) => {
            log::note(
                &path,
                &format!("the note of an audit is damaged: {problem}; remove it, or audit again"),
            );
            (None, 3)
        }
        Noted::Unreadable(problem) => {
            log::note(&path, &format!("the note of an audit cannot be read: {problem}"));
            (None, 3)
        }
    }
}

/// What was validated of the blocks below a set, in words.
fn validated(snapshot_height: Option<u32>, audit: Option<&Mark>) -> String {
    match (snapshot_height, audit) {
        (None, None) => "from the first block on".to_owned(),
        (Some(height), Some(mark)) if mark.height >= height => {
            format!(
                "from the first block on; up to height {} by audit run {}",
                mark.height, mark.run
            )
        }
        (None, Some(mark)) => {
            format!(
                "from the first block on; up to height {} once more by audit run {}",
                mark.height, mark.run
            )
        }
        (Some(height), _) => format!("above height {height}; a snapshot gave the coins up to there, unvalidated"),
    }
}

/// Prints the figures of the UTXO set, with the keys of Core's `gettxoutsetinfo`.
pub(crate) fn run(arguments: &StatsArguments) -> Result<u8, Failure> {
    signals::end_at_once()?;
    let (source, hashes) = (&arguments.set, arguments.hash);
    let (set, figures) = compute(&source.data, source.at.earlier(), hashes)?;
    let (audit, status) = audit(&set, &figures, hashes);
    let (disk_size, store_memory) = (set.store().disk_size()?, set.store().memory());
    let serialized = hashes.has_serialized().then_some(figures.hash_serialized_3);
    // In BTC. A double has not all digits of a sum beyond the money supply, so the text has its
    // own.
    let total = (amount(figures.total_amount), bitcoins(figures.total_amount));
    let mut facts = Facts::default();
    facts
        .both("height", figures.height)
        .both("bestblock", figures.best_block.to_string())
        .both("txouts", figures.txouts)
        .both("bogosize", figures.bogosize)
        .both("transactions", figures.transactions)
        .both_as("total_amount", total.0, total.1)
        .both_if("hash_serialized_3", serialized.map(|hash| hash.to_string()))
        .both_if("muhash", figures.muhash.map(|hash| hash.to_string()))
        .both_as("disk_size", disk_size, bytes(disk_size));
    if store_memory > 0 {
        facts.both_as("store_memory", store_memory, bytes(store_memory as u64));
    }
    facts
        .field_if("snapshot_height", set.snapshot_height())
        .field_if("audited_height", audit.map(|mark| mark.height))
        .field_if("audit_run", audit.map(|mark| mark.run.to_string()))
        .row("validated", validated(set.snapshot_height(), audit.as_ref()))
        .print(arguments.json)?;
    Ok(status)
}
