//! The blocks that the directory has itself.

use super::findings::{Findings, Health, Problems};
use super::undo::active_chain;
use crate::DataDir;
use crate::chain_blocks::search_own_blocks;
use crate::error::{OpenError, Remedy};
use crate::files::{BLOCKS_FOLDER, KEPT_FOLDER, POSITIONS_FILE};
use crate::own_blocks::OWN_FOLDERS;
use blockmill_block::Block;
use blockmill_blockfiles::{BlockFiles, FileError, has_block_files};
use blockmill_chain::copies::{decode_copy, mutated};
use blockmill_chain::index::{BlockId, HeaderIndex};
use blockmill_chain::positions::FoundPositions;
use blockmill_coins::Tip;
use blockmill_rules::Params;
use blockmill_rules::block::check_commitments;
use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// The folders.
const PARTS: [(&str, &str); 2] = [(BLOCKS_FOLDER, "blocks/"), (KEPT_FOLDER, "kept/")];

/// Reads the blocks that were submitted, and those that are kept for a while.
pub(super) fn examine(directory: &DataDir, stop: &AtomicBool, findings: &mut Findings) {
    for part in PARTS {
        examine_folder(directory, part, stop, findings);
    }
}

fn examine_folder(directory: &DataDir, (name, part): (&str, &'static str), stop: &AtomicBool, findings: &mut Findings) {
    let folder = directory.file(name);
    match has_block_files(&folder) {
        Ok(true) => {}
        Ok(false) => return,
        Err(error) => return findings.add_error(part, &error.into()),
    }
    let mut seen = Seen::default();
    let read = look(&folder, &directory.chain_id().params(), stop, &mut seen);
    let Seen {
        problems,
        unfinished,
        blocks,
    } = seen;
    if !problems.is_empty() && name == KEPT_FOLDER {
        // Many of these copies are written before one sync.
        let detail = format!("{problems}: passed over, as power cuts leave it");
        findings.add(part, Health::Harmless, detail);
    } else if !problems.is_empty() {
        findings.add_damage(part, problems.to_string(), Remedy::SubmitAgain);
    } else if let Err(error) = read {
        findings.add_error(part, &error.into());
    } else if stop.load(Ordering::Relaxed) {
        findings.add(part, Health::NotExamined, format!("stopped after {blocks} blocks"));
    } else if unfinished > 0 {
        let detail = format!("{blocks} blocks, and a record that is cut off, as a kill leaves it");
        findings.add(part, Health::Harmless, detail);
    } else {
        findings.add(part, Health::Sound, format!("{blocks} blocks"));
    }
}

/// Looks for blocks of the chain that are in no file. Block files elsewhere may go: a node prunes
/// them, the highest blocks last. So what is above them all was in files of the directory, or the
/// note of where it is was lost, as a power cut may have it.
pub(super) fn examine_chain(directory: &DataDir, index: &HeaderIndex, tip: &Tip, findings: &mut Findings) {
    let (part, remedy) = match directory.file(BLOCKS_FOLDER).exists() {
        true => ("blocks/", Remedy::SubmitAgain),
        false => (POSITIONS_FILE, Remedy::ConnectAgain),
    };
    let Some(chain) = active_chain(directory, index, Some(tip)) else {
        return;
    };
    let found = FoundPositions::read(&directory.file(POSITIONS_FILE)).map_err(OpenError::from);
    let found = found.and_then(|mut found| {
        search_own_blocks(directory, directory.chain_id().params().magic(), &mut found)?;
        Ok(found)
    });
    let found = match found {
        Ok(found) => found,
        Err(error) => return findings.add_error(part, &error),
    };
    let own = OWN_FOLDERS.map(|name| std::fs::canonicalize(directory.file(name)).ok());
    let (mut known, mut elsewhere) = (HashSet::new(), 0);
    for (path, blocks) in found.blocks() {
        let is_own = own.iter().flatten().any(|own| path.parent() == Some(own));
        if is_own && !path.exists() {
            continue;
        }
        for id in blocks.filter_map(|hash| index.find(&hash)) {
            known.insert(id);
            if !is_own {
                elsewhere = elsewhere.max(index.entry(id).height);
            }
        }
    }
    let height = |id: &BlockId| index.entry(*id).height;
    let nowhere = chain
        .iter()
        .filter(|id| height(id) > elsewhere && !known.contains(id))
        .collect::<Vec<_>>();
    if let Some(lowest) = nowhere.last() {
        let detail = format!(
            "{} blocks of the chain are in no file, the first at height {}: what reads blocks ends there",
            nowhere.len(),
            height(lowest)
        );
        findings.add_missing(part, detail, remedy);
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
        let scan = match files.scan(file, params.magic()) {
            // A writer has removed it.
            Err(error) if error.is_gone() => continue,
            scan => scan?,
        };
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
