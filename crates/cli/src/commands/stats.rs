//! `blockmill stats`.

use crate::arguments::StatsArguments;
use crate::commands::{NEVER, open_set_at, share};
use crate::failure::Failure;
use crate::log;
use crate::output::{self, StatsJson, Validated};
use crate::progress::EngineMeter;
use crate::signals;
use blockmill_audit::{Mark, Noted};
use blockmill_chain::Observer;
use blockmill_coins::stats::Hashes;
use blockmill_coins::{StatsBuilder, StatsPart, StoreError, UtxoStats};
use blockmill_datadir::{Batch, Earlier, Reach, UtxoSet};
use std::io::Write;
use std::path::Path;

/// Computes the figures of the UTXO set in a data directory, as it is or as it was. They come with
/// the exit status: 3 where the note of an audit is damaged, or nobody can tell whether it counts.
pub(crate) fn compute(
    data: &Path,
    at: Option<Earlier<'_>>,
    reach: Reach,
    hashes: Hashes,
) -> Result<(StatsJson, u8), Failure> {
    let mut meter = EngineMeter::new();
    let set = open_set_at(data, at, reach, &NEVER, &mut meter)?;
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
    let store = set.store();
    let figures = builder.finish(&set.tip());
    let older = set.older();
    let (audit, status) = audit(&set, &figures, hashes);
    let stats = StatsJson::new(
        &figures,
        hashes,
        store.disk_size()?,
        store.memory(),
        Validated {
            snapshot_height: set.snapshot_height(),
            audit,
        },
        older.map(|older| older.synced.height),
    );
    Ok((stats, status))
}

/// The proof of a set, and the exit status.
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
        Noted::Earlier => {
            log::note(
                &path,
                "an earlier version wrote this note of an audit; it does not count",
            );
            (None, 0)
        }
        Noted::Damaged(problem) => {
            log::note(
                &path,
                &format!("the note of an audit is damaged: {problem}; remove it, or audit again"),
            );
            (None, 3)
        }
    }
}

pub(crate) fn run(arguments: &StatsArguments) -> Result<u8, Failure> {
    signals::end_at_once()?;
    let (stats, status) = compute(
        &arguments.set.data,
        arguments.set.at.earlier(),
        arguments.set.older.reach(),
        arguments.hash.into(),
    )?;
    let mut out = output::stdout();
    if arguments.json {
        output::json_line(&mut out, &stats)?;
    } else {
        output::table(&mut out, &stats.rows())?;
    }
    out.flush()?;
    Ok(status)
}
