//! `blockmill status`.

use crate::arguments::LookArguments;
use crate::failure::Failure;
use crate::output::{Facts, bytes, grouped};
use blockmill_datadir::Status;
use serde::Serialize;

/// The store, as `meta.json` names it.
const STORE: &str = "log";

/// The process that writes to the directory.
#[derive(Serialize)]
struct WriterJson {
    /// None if the process has not noted who it is.
    process: Option<u32>,
    command: Option<String>,
}

pub(crate) fn run(arguments: &LookArguments) -> Result<u8, Failure> {
    let status = Status::of(&arguments.data)?;
    let store = match status.has_store {
        true => format!("{STORE}, {}", bytes(status.disk_bytes)),
        false => "none yet".to_owned(),
    };
    let writer = match &status.writer {
        Some(writer) => writer.to_string(),
        None if status.is_writer_known => "none".to_owned(),
        None => "not known: the file lock may not be read".to_owned(),
    };
    let writer_json = status.writer.as_ref().map(|writer| {
        let (process, command) = writer.noted.clone().unzip();
        WriterJson { process, command }
    });
    Facts::default()
        .both("network", status.chain_id.network.to_string())
        .both("tip", status.tip.hash.to_string())
        .both("height", status.tip.height)
        .field("tip_time", status.tip_time)
        .both_as("coins", status.coins, grouped(status.coins))
        // No store where nothing was connected yet.
        .both_as("store", status.has_store.then_some(STORE), store)
        .field("disk_size", status.disk_bytes)
        .both_as("writer", writer_json, writer)
        .field_if("writer_known", (!status.is_writer_known).then_some(false))
        .both_if("snapshot_height", status.snapshot.map(|mark| mark.height))
        .print(arguments.json)?;
    Ok(0)
}
