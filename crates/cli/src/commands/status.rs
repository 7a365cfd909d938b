//! `blockmill status`.

use crate::arguments::StatusArguments;
use crate::failure::Failure;
use crate::log;
use crate::output::{self, bytes, grouped};
use blockmill_datadir::Status;
use serde::Serialize;
use std::io::Write;

/// The store, as `meta.json` names it.
const STORE: &str = "log";

/// The process that writes to the directory.
#[derive(Serialize)]
struct WriterJson {
    /// None if the process has not noted who it is.
    process: Option<u32>,
    command: Option<String>,
}

#[derive(Serialize)]
struct StatusJson {
    network: String,
    tip: String,
    height: u32,
    coins: u64,
    /// None where nothing was connected yet.
    store: Option<&'static str>,
    disk_size: u64,
    writer: Option<WriterJson>,
    /// Whether that is known.
    #[serde(skip_serializing_if = "is_true")]
    writer_known: bool,
    /// Base height of the snapshot that was loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot_height: Option<u32>,
    /// Height of the set that was written last, where this is an older one.
    #[serde(skip_serializing_if = "Option::is_none")]
    synced_height: Option<u32>,
}

impl StatusJson {
    fn new(status: &Status) -> Self {
        Self {
            network: status.chain_id.network.to_string(),
            tip: status.tip.hash.to_string(),
            height: status.tip.height,
            coins: status.coins,
            store: status.has_store.then_some(STORE),
            disk_size: status.disk_bytes,
            writer: status.writer.as_ref().map(|writer| {
                let (process, command) = writer.noted.clone().unzip();
                WriterJson { process, command }
            }),
            writer_known: status.is_writer_known,
            snapshot_height: status.snapshot.map(|mark| mark.height),
            synced_height: status.older.map(|older| older.synced.height),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_true(value: &bool) -> bool {
    *value
}

fn rows(status: &Status) -> Vec<(&'static str, String)> {
    let store = match status.has_store {
        true => format!("{STORE}, {}", bytes(status.disk_bytes)),
        false => "none yet".to_owned(),
    };
    let writer = match &status.writer {
        Some(writer) => writer.to_string(),
        None if status.is_writer_known => "none".to_owned(),
        None => "not known: the file lock may not be read".to_owned(),
    };
    let mut rows = vec![
        ("network", status.chain_id.network.to_string()),
        ("tip", status.tip.hash.to_string()),
        ("height", status.tip.height.to_string()),
        ("coins", grouped(status.coins)),
        ("store", store),
        ("writer", writer),
    ];
    let heights = [
        ("snapshot_height", status.snapshot.map(|mark| mark.height)),
        ("synced_height", status.older.map(|older| older.synced.height)),
    ];
    rows.extend(
        heights
            .into_iter()
            .filter_map(|(name, height)| Some((name, height?.to_string()))),
    );
    rows
}

pub(crate) fn run(arguments: &StatusArguments) -> Result<u8, Failure> {
    let status = Status::of(&arguments.data, arguments.older.reach())?;
    log::older(status.older.as_ref());
    let mut out = output::stdout();
    if arguments.json {
        output::json_line(&mut out, &StatusJson::new(&status))?;
    } else {
        output::table(&mut out, &rows(&status))?;
    }
    out.flush()?;
    Ok(0)
}
