//! The blocks that came through `submit`.

use super::findings::{Findings, Health, Problems};
use crate::DataDir;
use crate::error::Remedy;
use crate::files::{BLOCKS_FOLDER, FIRST_BLOCK_FILE};
use blockmill_block::Block;
use blockmill_blockfiles::{BlockFiles, FileError, is_there};
use blockmill_chain::copies::{decode_copy, mutated};
use blockmill_rules::Params;
use blockmill_rules::block::check_commitments;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

const PART: &str = "blocks/";

/// Reads the blocks that were submitted.
pub(super) fn examine(directory: &DataDir, stop: &AtomicBool, findings: &mut Findings) {
    let folder = directory.file(BLOCKS_FOLDER);
    match is_there(&folder.join(FIRST_BLOCK_FILE)) {
        Ok(true) => {}
        Ok(false) => return,
        Err(error) => return findings.add_error(PART, &error.into()),
    }
    let mut seen = Seen::default();
    let read = look(&folder, &directory.chain_id().params(), stop, &mut seen);
    let Seen {
        problems,
        unfinished,
        blocks,
    } = seen;
    if !problems.is_empty() {
        findings.add_damage(PART, problems.to_string(), Remedy::SubmitAgain);
    } else if let Err(error) = read {
        findings.add_error(PART, &error.into());
    } else if stop.load(Ordering::Relaxed) {
        findings.add(PART, Health::NotExamined, format!("stopped after {blocks} blocks"));
    } else if unfinished > 0 {
        let detail = format!("{blocks} blocks, and a record that is cut off, as a kill leaves it");
        findings.add(PART, Health::Harmless, detail);
    } else {
        findings.add(PART, Health::Sound, format!("{blocks} blocks"));
    }
}

/// What was seen in the files.
#[derive(Debug, Default)]
struct Seen {
    problems: Problems,
    /// Records that were being written.
    unfinished: u64,
    blocks: u64,
}

fn look(folder: &Path, params: &Params, stop: &AtomicBool, seen: &mut Seen) -> Result<(), FileError> {
    let mut files = BlockFiles::new();
    for file in files.add(folder)? {
        let scan = files.scan(file, params.magic())?;
        for damage in &scan.damages {
            if damage.is_unfinished_write() {
                seen.unfinished += 1;
            } else {
                seen.problems.add(damage.to_string());
            }
        }
        for record in scan.records {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            seen.blocks += 1;
            let bytes = files.read(&record.position)?;
            let decoded = decode_copy(&files, record.position, bytes, &record.hash);
            let Some(problem) = decoded.map_or_else(Some, |block| problem(&block, params)) else {
                continue;
            };
            let path = files.path(file).display();
            seen.problems.add(format!(
                "{path}: offset {}: block {}: {problem}",
                record.position.offset, record.hash
            ));
        }
    }
    Ok(())
}

/// What shows that a block's content is not that of its header. Its height is not known, so the
/// rules of before segwit and those of after it may hold.
fn problem(block: &Block, params: &Params) -> Option<String> {
    check_commitments(block, params, 0).err()?;
    let reject = check_commitments(block, params, u32::MAX).err()?;
    Some(mutated(&reject))
}
