//! Whether block files hold a whole chain, in the words of the command line.

use crate::advice::with_advice;
use crate::log;
use crate::output;
use blockmill_blockfiles::{Skipped, has_block_files};
use blockmill_chain::{Leftover, NotWhole, RunOutcome, Wholeness};
use serde_json::{Value, json};
use std::io::ErrorKind;

/// Reports why a chain is not whole. What was reported during the run is not said again: damage,
/// and blocks that are rejected or unreadable.
pub(crate) fn say(wholeness: &Wholeness) {
    for reason in &wholeness.reasons {
        let fields = match reason {
            NotWhole::LeftOver { blocks, first } => {
                let mut fields = leftover_json(*blocks, first);
                fields["parent"] = json!(first.parent.to_string());
                fields
            }
            NotWhole::Undecided { blocks, first } => leftover_json(*blocks, first),
            NotWhole::MissingFiles { files, first } => missing_json(*files, first),
            // It was reported when it was found.
            _ => continue,
        };
        log::warning(reason.kind(), &with_advice(reason.to_string(), advice(reason)), fields);
    }
}

/// Reports that the highest blocks of a chain have no undo data yet.
pub(crate) fn say_without_undo_yet(blocks: u32, tip: u32) {
    let text = format!(
        "the undo files have nothing yet for the last {} (the tip is at height {tip}), as where a node was writing: \
         they are left out",
        output::counted(blocks.into(), "block")
    );
    log::warning("without_undo_yet", &text, json!({"blocks": blocks, "tip": tip}));
}

fn leftover_json(blocks: u64, first: &Leftover) -> Value {
    json!({
        "blocks": blocks,
        "file": output::path_text(&first.path),
        "offset": first.offset,
        "hash": first.hash.to_string(),
    })
}

fn missing_json(files: u64, first: &Skipped) -> Value {
    json!({"files": files, "file": output::path_text(&first.path)})
}

/// What the user can do about a chain that is not whole.
fn advice(reason: &NotWhole) -> Option<&'static str> {
    match reason {
        NotWhole::LeftOver { first, .. } => of_leftover(first),
        NotWhole::Undecided { .. } => Some("connect validates it, and the next block of the node decides"),
        NotWhole::MissingFiles { .. } => Some("is the disk there that the link leads to?"),
        _ => None,
    }
}

/// A node that prunes has no first file, and one that has loaded a snapshot has blocks above it
/// first. Both have what a snapshot needs.
fn of_leftover(first: &Leftover) -> Option<&'static str> {
    let folder = first.path.parent()?;
    let is_missing = |name: &str| {
        // A link is there, wherever it leads.
        let found = folder.join(name).symlink_metadata();
        found.is_err_and(|error| error.kind() == ErrorKind::NotFound)
    };
    // A node that prunes removes its oldest files first.
    if is_missing("blk00000.dat") && has_block_files(folder).unwrap_or(false) {
        return Some(
            "the first block file is not there, as on a pruned node: load a snapshot of that node with `snapshot load \
             --headers`, and connect goes on above it; `export blocks --data` then takes --from",
        );
    }
    // Core keeps the chain state of a snapshot there until the blocks below are validated.
    if !is_missing("../chainstate_snapshot") {
        return Some(
            "the node has loaded a snapshot, and does not have all blocks below it yet: load that snapshot with \
             `snapshot load --headers`, and connect goes on above it; `export blocks --data` then takes --from",
        );
    }
    None
}

/// The reasons why a chain is not whole, as JSON.
pub(crate) fn why(wholeness: &Wholeness) -> Value {
    wholeness.reasons.iter().map(ToString::to_string).collect()
}

/// The exit status of a run that comes to this.
pub(crate) fn exit_status(outcome: RunOutcome) -> u8 {
    match outcome {
        RunOutcome::Complete => 0,
        RunOutcome::Rejected => 1,
        RunOutcome::Incomplete => 3,
    }
}
