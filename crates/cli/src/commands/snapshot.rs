//! `blockmill snapshot`.

use crate::arguments::{DumpArguments, LoadArguments, SnapshotCommand, is_standard, or_standard_input};
use crate::commands::{connect, open_set};
use crate::failure::Failure;
use crate::headers;
use crate::log;
use crate::output::{self, Facts};
use crate::progress::EngineMeter;
use crate::signals;
use crate::verifier::verifier;
use blockmill_blockfiles::{FileError, Input};
use blockmill_coins::UtxoStats;
use blockmill_datadir::snapshot::{self, DumpSnapshotError};
use blockmill_engine::Options;
use serde_json::json;
use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;

pub(crate) fn run(command: &SnapshotCommand) -> Result<u8, Failure> {
    match command {
        SnapshotCommand::Dump(arguments) => dump(arguments),
        SnapshotCommand::Load(arguments) => load(arguments),
    }
}

/// The failure of a dump to standard output, which has no path.
fn of_stream(error: DumpSnapshotError) -> Failure {
    match error {
        DumpSnapshotError::File(FileError::Io { error, .. }) => Failure::Stream(error),
        error => error.into(),
    }
}

fn dump(arguments: &DumpArguments) -> Result<u8, Failure> {
    let stop = signals::stop_flag_of_output()?;
    let mut meter = EngineMeter::new();
    let set = open_set(&arguments.set, &stop, &mut meter)?;
    // Standard output has the snapshot, so the figures go to standard error.
    if is_standard(&arguments.file) {
        let mut out = BufWriter::with_capacity(1 << 20, output::stdout());
        let stats = snapshot::dump_to(&set, &mut out, &arguments.file, &stop, &mut meter).map_err(of_stream)?;
        drop(meter);
        let text = format!("{} at height {}", output::counted(stats.txouts, "coin"), stats.height);
        log::info("dumped", &text, json!({"coins": stats.txouts, "height": stats.height}));
        return Ok(0);
    }
    let new = arguments.force.begin(&arguments.file)?;
    let stats = snapshot::dump_into(&set, new, &stop, &mut meter)?;
    drop(meter);
    print(&stats, "coins_written", &arguments.file, arguments.json)
}

fn load(arguments: &LoadArguments) -> Result<u8, Failure> {
    let Some((blocks, file)) = arguments.paths() else {
        return Err(Failure::Usage(
            "--blocks or --headers, and the file of the snapshot are needed".to_owned(),
        ));
    };
    connect::check_sources(blocks)?;
    let file = or_standard_input(file);
    let stop = signals::stop_flag()?;
    // It may be a pipe, which is opened once.
    let input = Input::open(file, Arc::clone(&stop))?;
    let options = Options {
        // Nothing is validated.
        threads: 1,
        cache_bytes_max: (arguments.dbcache as usize) << 20,
        stop: Arc::clone(&stop),
        ..Options::default()
    };
    let verifier = verifier(options.signatures);
    let mut engine = arguments.data.engine()?.options(options).open(verifier)?;
    let mut meter = EngineMeter::new();
    if let Some(source) = &arguments.headers {
        let params = engine.directory().chain_id().params();
        let mut orphans = 0;
        let read = headers::read(source, &params, &stop, &mut meter, &mut |headers, meter| {
            orphans += engine.import_headers(&headers, meter);
            Ok(())
        });
        let failure = match read {
            Ok(true) => None,
            Ok(false) => Some(Failure::Stopped(file.to_owned())),
            Err(failure) => Some(failure),
        };
        if let Some(failure) = failure {
            // A directory that was made for this set goes with it.
            engine.close_unloaded()?;
            return Err(failure);
        }
        if orphans > 0 {
            let text = format!(
                "{source}: {} without a known parent",
                output::counted(orphans as u64, "header")
            );
            log::warning("left_over", &text, json!({"headers": orphans}));
        }
    }
    let stats = engine.load_snapshot_from(blocks, input, arguments.hash, &mut meter)?;
    drop(meter);
    print(&stats, "coins_loaded", file, arguments.json)
}

/// Prints the outcome with the names of Core's RPC answers, where Core has a name.
fn print(stats: &UtxoStats, coins: &'static str, path: &Path, as_json: bool) -> Result<u8, Failure> {
    Facts::default()
        .both(coins, stats.txouts)
        .both("base_hash", stats.best_block.to_string())
        .both("base_height", stats.height)
        .both_as("path", output::path_text(path), path.display())
        .both("txoutset_hash", stats.hash_serialized_3.to_string())
        .print(as_json)?;
    Ok(0)
}
