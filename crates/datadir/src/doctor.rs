//! Looking a data directory over: what is in it, whether it is whole and fits together, and what to
//! do where it is not.
//!
//! No file is changed: what opening a store does after a kill is done in memory. The doctor
//! cannot see wrong coins that are well-formed. Only the hash of the set shows them, and only the
//! user can compare that.

mod blocks;
mod coins;
mod findings;
mod undo;

pub use findings::{Finding, Findings, Health};

use crate::DataDir;
use crate::commit_mark::Mark;
use crate::error::{OpenError, Remedy, no_parent, no_tip_header};
use crate::files::{COMMIT_FILE, HEADERS_FILE, LOADING_FOLDER, LOCK_FILE, META_FILE, POSITIONS_FILE, STORE_FOLDER};
use crate::headers_file::{NO_UNDO, RECORD, decode};
use crate::lost_store::network_of;
use crate::status::if_readable;
use crate::store_file::is_nameless;
use blockmill_blockfiles::read_regular;
use blockmill_chain::index::HeaderIndex;
use blockmill_chain::positions::{FoundPositions, PositionsHealth};
use blockmill_chain::report::events::Observer;
use blockmill_coins::Tip;
use findings::STOPPED;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Looks a data directory over. When `stop` is set it ends early, and what was not looked at is
/// said to be so.
///
/// # Errors
/// [`OpenError`] where the directory cannot be opened. Damage is no error, and neither is a part
/// that cannot be read.
pub fn examine(path: &Path, stop: &AtomicBool, observer: &mut dyn Observer) -> Result<Findings, OpenError> {
    let mut findings = Findings::default();
    let Some(directory) = examine_chain_id(path, &mut findings)? else {
        return Ok(findings);
    };
    match if_readable(directory.writer())? {
        Some(Some(writer)) => {
            let detail = format!("in use by {writer}: this is what its last flush left, and what it has written since");
            findings.add(LOCK_FILE, Health::Sound, detail);
        }
        Some(None) => {}
        None => {
            let detail = "it may not be read, so whether a process writes is not known";
            findings.add(LOCK_FILE, Health::Harmless, detail);
        }
    }
    // A flush writes headers and undo data before the coins. So they are read after the coins,
    // while another process goes on.
    let mut of_coins = Findings::default();
    let tip = coins::examine(&directory, stop, observer, &mut of_coins);
    let mut index = HeaderIndex::new(directory.chain_id().params());
    let named_end = examine_headers(&directory, &mut index, &mut findings);
    findings.0.append(&mut of_coins.0);
    examine_commit_mark(&directory, &mut findings);
    examine_loading(&directory, &mut findings);
    examine_positions(&directory, &mut findings);
    match named_end.zip(tip) {
        Some((named_end, tip)) => {
            examine_chain(&directory, &index, tip.as_ref(), &mut findings);
            undo::examine(&directory, &index, tip.as_ref(), named_end, stop, &mut findings);
        }
        // Which undo data there should be is not known.
        None => findings.add(
            undo::PART,
            Health::NotExamined,
            if stop.load(Ordering::Relaxed) {
                STOPPED
            } else {
                "what should be in it is not known"
            },
        ),
    }
    blocks::examine(&directory, stop, &mut findings);
    if let Some(tip) = tip.flatten().filter(|_| !stop.load(Ordering::Relaxed)) {
        blocks::examine_chain(&directory, &index, &tip, &mut findings);
    }
    Ok(findings)
}

/// Opens the directory. Where its chain id is damaged, the store says which chain it belongs to.
/// None if the store does not know either.
fn examine_chain_id(path: &Path, findings: &mut Findings) -> Result<Option<DataDir>, OpenError> {
    let error = match DataDir::open_to_read(path) {
        Ok(directory) => {
            let detail = format!("a data directory for {}", directory.chain_id().text());
            findings.add(META_FILE, Health::Sound, detail);
            return Ok(Some(directory));
        }
        Err(error @ OpenError::Damaged { .. }) => error,
        Err(error) => return Err(error),
    };
    findings.add_error(META_FILE, &error);
    match network_of(path) {
        Ok(Some(chain_id)) => Ok(Some(DataDir::open_without_chain_id(path, chain_id))),
        Ok(None) => {
            findings.add(
                coins::PART,
                Health::NotExamined,
                "there is none, and nothing says what the rest belongs to",
            );
            Ok(None)
        }
        Err(error) => {
            findings.add_error(coins::PART, &error);
            Ok(None)
        }
    }
}

/// Reads the headers into the index. Returns the largest end of undo data that one names; none if
/// they cannot be read.
fn examine_headers(directory: &DataDir, index: &mut HeaderIndex, findings: &mut Findings) -> Option<u64> {
    const PART: &str = HEADERS_FILE;
    let path = directory.file(PART);
    let bytes = match read_regular(&path) {
        Ok(bytes) => bytes.unwrap_or_default(),
        Err(error) => {
            findings.add_error(PART, &error.into());
            return None;
        }
    };
    let mut count: u64 = 0;
    let mut undo_end = 0;
    for record in bytes.chunks(RECORD) {
        let Some((header, position)) = decode(record) else {
            break;
        };
        let Some(id) = index.insert_trusted(&header, header.hash()) else {
            let offset = count * RECORD as u64;
            let detail = format!("offset {offset}: {}", no_parent(&header.hash()));
            findings.add_damage(PART, detail, Remedy::NewDirectory);
            return Some(undo_end);
        };
        if position != NO_UNDO {
            index.set_undo(id, position);
            undo_end = position.end().unwrap_or(u64::MAX).max(undo_end);
        }
        count += 1;
    }
    let after = bytes.len() as u64 - count * RECORD as u64;
    if after == 0 {
        findings.add(PART, Health::Sound, format!("{count} headers"));
    } else {
        // Whether it is more than that shows when the headers of the chain are looked for.
        let detail = format!("{count} headers, and {after} bytes after them, as a kill leaves them");
        findings.add(PART, Health::Harmless, detail);
    }
    Some(undo_end)
}

/// Looks at the mark of the last commit. What it says of the store is said there.
fn examine_commit_mark(directory: &DataDir, findings: &mut Findings) {
    match directory.commit_mark() {
        Ok(Mark::None) => {}
        Ok(Mark::Damaged) => {
            let detail = "not whole, as power cuts leave it: whether the store has its last commit is not known; the \
                          next connect writes it again";
            findings.add(COMMIT_FILE, Health::Harmless, detail);
        }
        Ok(Mark::At(commit)) => {
            let height = commit.tip.map_or(0, |tip| tip.height);
            let detail = format!("the last flush that was synced, or the one before, led to height {height}");
            findings.add(COMMIT_FILE, Health::Sound, detail);
        }
        Err(error) => findings.add_error(COMMIT_FILE, &error.into()),
    }
}

/// Looks for what a load of a snapshot has left that was cut off.
fn examine_loading(directory: &DataDir, findings: &mut Findings) {
    if std::fs::symlink_metadata(directory.file(LOADING_FOLDER)).is_err() {
        return;
    }
    let detail = if is_nameless(directory).unwrap_or(false) {
        format!("a snapshot was loaded into it; the next run of connect gives it the name {STORE_FOLDER}")
    } else {
        "left by a load of a snapshot that was cut off; the next run of connect removes it".to_owned()
    };
    findings.add(LOADING_FOLDER, Health::Harmless, detail);
}

/// Looks at what says where blocks are. Nothing rests on it, and it is not synced. Blocks that are
/// not found without it are said elsewhere.
fn examine_positions(directory: &DataDir, findings: &mut Findings) {
    const PART: &str = POSITIONS_FILE;
    match FoundPositions::health(&directory.file(PART)) {
        // Blocks that were submitted need none.
        Ok(None) => {}
        Ok(Some(PositionsHealth::Whole(searches))) => {
            findings.add(PART, Health::Sound, format!("{searches} searches of block files"));
        }
        Ok(Some(PositionsHealth::CutOff(searches, after))) => {
            let detail = format!(
                "{searches} searches of block files, and {after} bytes after them, as a kill leaves them; the next \
                 run of connect searches what is missing"
            );
            findings.add(PART, Health::Harmless, detail);
        }
        Ok(Some(PositionsHealth::Damaged(offset))) => {
            let detail = format!(
                "offset {offset}: not what was written, as power cuts leave it; the next run of connect searches what \
                 is missing"
            );
            findings.add(PART, Health::Harmless, detail);
        }
        Err(error) => findings.add_error(PART, &error.into()),
    }
}

fn examine_chain(directory: &DataDir, index: &HeaderIndex, tip: Option<&Tip>, findings: &mut Findings) {
    const PART: &str = HEADERS_FILE;
    let Some(tip) = tip else { return };
    match index.find(&tip.hash) {
        None => {
            findings.add_damage(PART, no_tip_header(tip), Remedy::NewDirectory);
        }
        Some(id) if index.entry(id).height != tip.height => {
            let height = index.entry(id).height;
            let detail = format!(
                "the tip {} has height {height} here, and {} in the store",
                tip.hash, tip.height
            );
            findings.add_damage(PART, detail, Remedy::NewDirectory);
        }
        Some(_) => {
            let validated = match directory.snapshot() {
                Some(mark) => format!("validated above height {}, where a snapshot was loaded", mark.height),
                None => "validated from the first block on".to_owned(),
            };
            findings.add(PART, Health::Sound, format!("all headers up to the tip; {validated}"));
        }
    }
}
