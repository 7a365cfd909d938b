//! The undo data of the active chain, which a reorganisation needs.

use super::findings::{Findings, Health, Problems};
use crate::DataDir;
use crate::error::Remedy;
use crate::files::UNDO_FILE;
use blockmill_blockfiles::disk::DiskFile;
use blockmill_blockfiles::{FileError, find_regular};
use blockmill_chain::index::{BlockId, HeaderIndex};
use blockmill_coins::{Tip, UndoLog, UndoLogError};
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) const PART: &str = UNDO_FILE;

/// The blocks of the active chain above a snapshot, the tip first; none if the tip is not among the
/// headers.
pub(super) fn active_chain(directory: &DataDir, index: &HeaderIndex, tip: Option<&Tip>) -> Option<Vec<BlockId>> {
    let Some(tip) = tip else { return Some(Vec::new()) };
    let first = directory.snapshot().map_or(1, |mark| mark.height + 1);
    let mut next = index.find(&tip.hash);
    // Without its header the chain is unknown, which is not an empty chain.
    next?;
    let mut chain = Vec::new();
    while let Some(id) = next.filter(|&id| index.entry(id).height >= first) {
        chain.push(id);
        next = index.entry(id).parent;
    }
    Some(chain)
}

/// Reads the undo data of the active chain. `named_end` is the largest end of undo data that a
/// header names.
pub(super) fn examine(
    directory: &DataDir,
    index: &HeaderIndex,
    tip: Option<&Tip>,
    named_end: u64,
    stop: &AtomicBool,
    findings: &mut Findings,
) {
    let Some(chain) = active_chain(directory, index, tip) else {
        return findings.add(
            PART,
            Health::NotExamined,
            "without the header of the tip nobody knows what should be in it",
        );
    };
    let path = directory.file(PART);
    let opened = find_regular(&path).and_then(|file| {
        let Some(file) = file else { return Ok(None) };
        let length = file.length().map_err(FileError::io(&path))?;
        Ok((length > 0).then_some((file, length)))
    });
    let (file, length) = match opened {
        Ok(Some(opened)) => opened,
        Ok(None) if chain.is_empty() => {
            return findings.add(PART, Health::Sound, "nothing yet, and nothing is needed");
        }
        Ok(None) => {
            let height = index.entry(chain[0]).height;
            let detail = format!("it is not there: no reorganisation below height {height} can succeed");
            return findings.add_damage(PART, detail, Remedy::NewDirectoryToReorganise);
        }
        Err(error) => return findings.add_error(PART, &error.into()),
    };
    let log = match <UndoLog>::with_file(&path, Box::new(file), 0) {
        Ok(log) => log,
        Err(error) => return findings.add_error(PART, &error.into()),
    };
    let magic = directory.chain_id().params().magic();
    let mut problems = Problems::default();
    let mut highest = 0;
    for (number, &id) in chain.iter().enumerate() {
        // Damage that was found is said, even if not all was read.
        if stop.load(Ordering::Relaxed) && problems.is_empty() {
            let detail = format!("stopped after the undo data of {number} of {} blocks", chain.len());
            return findings.add(PART, Health::NotExamined, detail);
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let entry = index.entry(id);
        let problem = match entry.undo() {
            None => "there is none".to_owned(),
            Some(undo) => match log.read(magic, &index.header(id).prev_block_hash, &undo) {
                Ok(_) => continue,
                Err(UndoLogError::Io(error)) => return findings.add_error(PART, &error.into()),
                Err(error) => format!("offset {}: {error}", undo.offset),
            },
        };
        highest = highest.max(entry.height);
        problems.add(format!(
            "undo data of block {} (height {}): {problem}",
            entry.hash, entry.height
        ));
    }
    if !problems.is_empty() {
        let detail = format!("{problems}: no reorganisation below height {highest} can succeed");
        findings.add_damage(PART, detail, Remedy::NewDirectoryToReorganise);
    } else if length > named_end {
        let after = length - named_end;
        let detail = format!(
            "undo data of {} blocks, and {after} bytes after it, as a kill leaves them",
            chain.len()
        );
        findings.add(PART, Health::Harmless, detail);
    } else {
        findings.add(PART, Health::Sound, format!("undo data of {} blocks", chain.len()));
    }
}
