//! `blockmill snapshot`.

use crate::arguments::{DumpArguments, LoadArguments, SnapshotCommand};
use crate::commands::{connect, open_set};
use crate::failure::Failure;
use crate::output;
use crate::progress::{EngineMeter, Meter};
use crate::signals;
use crate::verifier::verifier;
use blockmill_coins::UtxoStats;
use blockmill_engine::Options;
use blockmill_engine::datadir::snapshot;
use serde_json::json;
use std::fs::File;
use std::io::Write;
use std::path::Path;

pub(crate) fn run(command: &SnapshotCommand) -> Result<u8, Failure> {
    match command {
        SnapshotCommand::Dump(arguments) => dump(arguments),
        SnapshotCommand::Load(arguments) => load(arguments),
    }
}

fn dump(arguments: &DumpArguments) -> Result<u8, Failure> {
    let mut meter = EngineMeter(Meter::new());
    let set = open_set(&arguments.set, &mut meter)?;
    let stop = signals::stop_flag()?;
    let stats = snapshot::dump(&set, &arguments.file, &stop, &mut meter)?;
    drop(meter);
    print(&stats, "coins_written", &arguments.file, arguments.json)
}

fn load(arguments: &LoadArguments) -> Result<u8, Failure> {
    let Some((blocks, file)) = arguments.paths() else {
        return Err(Failure::Usage(
            "--blocks and the file of the snapshot are both needed".to_owned(),
        ));
    };
    connect::check_sources(blocks)?;
    File::open(file).map_err(Failure::file(file))?;
    let options = Options {
        threads: 1,
        cache_bytes_max: (arguments.dbcache as usize) << 20,
        store: arguments.store.kind,
        stop: signals::stop_flag()?,
        ..Options::default()
    };
    let verifier = verifier(options.signatures);
    let engine = arguments.data.engine()?.options(options).open(verifier)?;
    let mut meter = EngineMeter(Meter::new());
    let stats = engine.load_snapshot(blocks, file, arguments.hash, &mut meter)?;
    drop(meter);
    print(&stats, "coins_loaded", file, arguments.json)
}

/// Prints the outcome with the names of Core's RPC answers, where Core has a name.
fn print(stats: &UtxoStats, coins: &str, path: &Path, as_json: bool) -> Result<u8, Failure> {
    let mut out = std::io::stdout().lock();
    if as_json {
        let value = json!({
            coins: stats.txouts,
            "base_hash": stats.best_block.to_string(),
            "base_height": stats.height,
            "path": output::path_text(path),
            "txoutset_hash": stats.hash_serialized_3.to_string(),
        });
        output::json_line(&mut out, &value)?;
    } else {
        let rows = [
            (coins, stats.txouts.to_string()),
            ("base_hash", stats.best_block.to_string()),
            ("base_height", stats.height.to_string()),
            ("path", path.display().to_string()),
            ("txoutset_hash", stats.hash_serialized_3.to_string()),
        ];
        output::table(&mut out, &rows)?;
    }
    out.flush()?;
    Ok(0)
}
