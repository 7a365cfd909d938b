//! The object of `/status.json`.

use crate::build_info;
use crate::http::figures::{Figures, LastBlock, Reorganisation};
use crate::http::process::ThreadGroup;
use crate::http::snapshot::Snapshot;
use crate::http::table::ROWS;
use crate::output::path_text;
use crate::totals::{figure_json, put, put_stages};
use crate::verifier::hashes_json;
use crate::warnings::Warning;
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

/// The version of the names. Names may be added to it.
const VERSION: u32 = 1;

/// A moment in seconds since 1970.
fn seconds(time: SystemTime) -> f64 {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    (seconds * 1e3).round() / 1e3
}

/// A share, or a number of threads, without digits that mean nothing.
fn rounded(number: f64) -> f64 {
    (number * 1e4).round() / 1e4
}

/// The object.
pub(super) fn json_of(snapshot: &Snapshot) -> Value {
    let figures = &snapshot.figures;
    let mut object = json!({
        "version": VERSION,
        "program": {
            "version": env!("CARGO_PKG_VERSION"),
            "commit": build_info::COMMIT,
            "kernel": build_info::CORE,
        },
        "command": figures.command,
        "network": figures.network,
        "state": snapshot.state.name(),
        "doing": snapshot.doing,
        "started": seconds(figures.started),
        "time": seconds(snapshot.time),
        "tip": figures.tip.map(|tip| tip.to_string()),
        "start_height": figures.start_height,
        "data": figures.directory.as_deref().map(path_text),
        "threads": figures.threads,
        "thread_groups": snapshot.latest.threads.iter().map(thread_json).collect::<Value>(),
        "last_blocks": newest_first(&figures.last_blocks, block_json),
        "reorganisations": newest_first(&figures.reorganisations, reorganisation_json),
        "warnings": newest_first(&snapshot.warnings, warning_json),
    });
    for row in &ROWS {
        // A figure that is not there yet is null, so that the names are always the same.
        let value = (row.value)(snapshot).map(|number| number.json());
        put(&mut object, row.key, value.into());
    }
    for (figure, value) in snapshot.of_engine() {
        put(&mut object, figure.key, figure_json(value));
    }
    if let Some(totals) = &figures.totals {
        put_stages(&mut object, totals);
        for &(name, busy, waiting) in &snapshot.latest.stages {
            put(
                &mut object,
                &format!("stages.{name}.busy_threads"),
                rounded(busy).into(),
            );
            put(
                &mut object,
                &format!("stages.{name}.wait_share"),
                rounded(waiting).into(),
            );
        }
    }
    put_signatures(&mut object, figures);
    put(&mut object, "hashes", hashes_json());
    object
}

fn put_signatures(object: &mut Value, figures: &Figures) {
    if let Some((height, way)) = figures.signatures {
        put(
            object,
            "signatures.way",
            if way.lanes { "lanes" } else { "one-by-one" }.into(),
        );
        put(object, "signatures.from_height", height.into());
        put(object, "signatures.reason", way.reason.into());
    }
}

fn newest_first<'a, T: 'a>(
    kept: impl IntoIterator<Item = &'a T, IntoIter: DoubleEndedIterator>,
    json: fn(&T) -> Value,
) -> Value {
    kept.into_iter().rev().map(json).collect()
}

fn thread_json(group: &ThreadGroup) -> Value {
    json!({"name": group.name, "count": group.count, "busy": rounded(group.busy)})
}

fn block_json(block: &LastBlock) -> Value {
    json!({
        "height": block.height,
        "block_hash": block.hash.to_string(),
        "block_time": block.block_time,
        "transactions": block.transactions,
        "inputs": block.inputs,
        "block_size": block.block_size,
    })
}

fn reorganisation_json(reorganisation: &Reorganisation) -> Value {
    json!({
        "time": seconds(reorganisation.time),
        "fork_height": reorganisation.fork_height,
        "depth": reorganisation.depth,
        "from": reorganisation.from.to_string(),
    })
}

fn warning_json(warning: &Warning) -> Value {
    json!({"time": seconds(warning.time), "event": warning.event, "message": warning.message})
}
