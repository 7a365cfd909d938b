//! `blockmill stats`.

use crate::arguments::StatsArguments;
use crate::commands::{NEVER, open_set_at, share};
use crate::failure::Failure;
use crate::output::{self, StatsJson, Validated};
use crate::progress::EngineMeter;
use crate::signals;
use blockmill_audit::Mark;
use blockmill_coins::stats::Hashes;
use blockmill_coins::{StatsBuilder, StatsPart, StoreError};
use blockmill_engine::{Batch, Earlier, Observer, Reach};
use std::io::Write;
use std::path::Path;

/// Computes the figures of the UTXO set in a data directory, as it is or as it was.
pub(crate) fn compute(
    data: &Path,
    at: Option<Earlier<'_>>,
    reach: Reach,
    hashes: Hashes,
) -> Result<StatsJson, Failure> {
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
    Ok(StatsJson::new(
        &figures,
        hashes,
        store.disk_size()?,
        store.memory(),
        Validated {
            snapshot_height: set.snapshot_height(),
            audit: Mark::of(&set).filter(|mark| mark.fits(&figures)),
        },
        older.map(|older| older.synced.height),
    ))
}

pub(crate) fn run(arguments: &StatsArguments) -> Result<u8, Failure> {
    signals::end_at_once()?;
    let stats = compute(
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
    Ok(0)
}
