//! `blockmill stats`.

use crate::arguments::StatsArguments;
use crate::failure::Failure;
use crate::output::{self, StatsJson};
use crate::progress::Meter;
use blockmill_coins::stats::Hashes;
use blockmill_coins::{StatsBuilder, Tip};
use blockmill_engine::DataDir;
use blockmill_engine::datadir::store_file::{self, StoreLimits};
use serde_json::json;
use std::io::Write;
use std::path::Path;
use std::thread::available_parallelism;

/// Bytes of the store's page cache while all coins are read once.
const STORE_CACHE: usize = 16 << 20;

/// Coins between looks at the clock.
const COINS_PER_LOOK: u64 = 10_000;

/// Computes the figures of the UTXO set in a data directory.
pub(crate) fn compute(directory: &DataDir) -> Result<StatsJson, Failure> {
    let limits = StoreLimits {
        cache_bytes: STORE_CACHE,
        threads: available_parallelism().map_or(1, usize::from),
    };
    let store = store_file::read_store(directory, limits)?;
    let tip = store.tip()?.unwrap_or_else(|| Tip {
        hash: directory.chain_id().params().genesis.hash(),
        height: 0,
    });
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
    // An interrupted load leaves its mark without a set.
    let snapshot = directory.snapshot().filter(|mark| mark.height <= tip.height);
    let snapshot_height = snapshot.map(|mark| mark.height);
    Ok(StatsJson::new(
        &builder.finish(&tip),
        store.disk_size()?,
        store.memory(),
        snapshot_height,
    ))
}

fn open_directory(path: &Path) -> Result<DataDir, Failure> {
    Ok(DataDir::open_to_read(path)?)
}

pub(crate) fn run(arguments: &StatsArguments) -> Result<u8, Failure> {
    let directory = open_directory(&arguments.data)?;
    let stats = compute(&directory)?;
    let mut out = std::io::stdout().lock();
    if arguments.json {
        output::json_line(&mut out, &stats)?;
    } else {
        output::table(&mut out, &stats.rows())?;
    }
    out.flush()?;
    Ok(0)
}
