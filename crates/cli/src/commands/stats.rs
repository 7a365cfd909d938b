//! `blockmill stats`.

use crate::arguments::StatsArguments;
use crate::commands::cores;
use crate::failure::Failure;
use crate::output::{self, StatsJson};
use crate::progress::Meter;
use blockmill_coins::StatsBuilder;
use blockmill_coins::stats::Hashes;
use blockmill_engine::UtxoSet;
use serde_json::json;
use std::io::Write;
use std::path::Path;

/// Coins between looks at the clock.
const COINS_PER_LOOK: u64 = 10_000;

/// Computes the figures of the UTXO set in a data directory.
pub(crate) fn compute(data: &Path) -> Result<StatsJson, Failure> {
    let set = UtxoSet::open(data, cores())?;
    let (store, tip) = (set.store(), set.tip());
    let mut meter = Meter::new();
    let mut builder = StatsBuilder::new(Hashes::Both);
    for (number, entry) in (1u64..).zip(store.coins()?) {
        let (outpoint, coin) = entry?;
        builder.add(&outpoint, &coin);
        if number.is_multiple_of(COINS_PER_LOOK) && meter.is_due() {
            // Transaction ids are spread evenly, so their first bytes tell the progress.
            let share = u64::from(u16::from_be_bytes([outpoint.txid.0[0], outpoint.txid.0[1]]));
            let text = format!("{number} coins, {:.1}%", share as f64 / 655.36);
            let fields = json!({"coins": number, "share": share as f64 / 65_536.0});
            meter.show(share, 65_536, text, "coins", fields);
        }
    }
    Ok(StatsJson::new(
        &builder.finish(&tip),
        store.disk_size()?,
        store.memory(),
        set.snapshot_height(),
    ))
}

pub(crate) fn run(arguments: &StatsArguments) -> Result<u8, Failure> {
    let stats = compute(&arguments.data)?;
    let mut out = std::io::stdout().lock();
    if arguments.json {
        output::json_line(&mut out, &stats)?;
    } else {
        output::table(&mut out, &stats.rows())?;
    }
    out.flush()?;
    Ok(0)
}
