//! Whole script checks: inputs of real blocks, by block and by script kind.

use super::Plan;
use super::kinds::ScriptKind;
use super::rows::{ALL, BLOCKS, KINDS, Row};
use super::sides::{ours, peer};
use super::work::{Transaction, Way, Work};
use crate::clock::Elapsed;
use crate::error::BenchError;
use blockmill_block::{Block, BlockUndo, Network};
use blockmill_rules::flags::block_script_flags;
use blockmill_rules::{Params, ScriptVerifier, SignatureCounts};
use std::path::Path;

/// Folder of the blocks and their undo data, from the project's root.
pub(super) const FOLDER: &str = "../shared/data/blocks";

/// Blocks with fewer inputs have no row.
pub(super) const INPUTS_MIN: usize = 700;

/// A real block.
pub(super) struct RealBlock {
    name: String,
    height: u32,
    work: Work,
    /// The kind of each input, in order.
    kinds: Vec<ScriptKind>,
}

/// The blocks beside the project at `root`, in the order of their names. None if the folder is
/// missing.
///
/// # Errors
/// [`BenchError::File`]; [`BenchError::Mismatch`] if a file is not a block or not its undo data.
pub(super) fn load(root: &Path) -> Result<Option<Vec<RealBlock>>, BenchError> {
    let folder = root.join(FOLDER);
    let Ok(entries) = std::fs::read_dir(&folder) else {
        return Ok(None);
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(BenchError::file(&folder))?.path();
        if path.extension().is_some_and(|extension| extension == "raw") {
            paths.push(path);
        }
    }
    paths.sort();
    paths
        .iter()
        .map(|path| RealBlock::read(path))
        .collect::<Result<_, _>>()
        .map(Some)
}

impl RealBlock {
    fn read(path: &Path) -> Result<Self, BenchError> {
        let damaged = |found: &dyn std::fmt::Display| BenchError::Mismatch {
            run: path.display().to_string(),
            what: "block",
            found: found.to_string(),
            wanted: "NETWORK_HEIGHT, a block with its undo data".to_owned(),
        };
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let (network, height) = name.split_once('_').ok_or_else(|| damaged(&"named otherwise"))?;
        let network = match network {
            "mainnet" => Network::Bitcoin,
            other => other.parse().map_err(|error| damaged(&error))?,
        };
        let height = height.parse().map_err(|error| damaged(&error))?;
        let bytes = std::fs::read(path).map_err(BenchError::file(path))?;
        let undo_path = path.with_extension("undo");
        let undo = std::fs::read(&undo_path).map_err(BenchError::file(&undo_path))?;
        let block = Block::decode(bytes).map_err(|error| damaged(&error))?;
        let undo = BlockUndo::decode(&undo).map_err(|error| damaged(&error))?;
        let flags = block_script_flags(&Params::new(network, None), height, &block.hash());
        let (mut work, mut kinds) = (Work::once(), Vec::new());
        for (index, transaction) in block.transactions().enumerate().skip(1) {
            let coins = undo.transaction(index - 1);
            let inputs = transaction.inputs().zip(coins.iter());
            kinds.extend(inputs.map(|(input, coin)| ScriptKind::of(&input, coin.script_pubkey)));
            work.transactions.push(Transaction {
                bytes: transaction.raw().to_vec(),
                spent: coins
                    .iter()
                    .map(|coin| (coin.value, coin.script_pubkey.as_ref().into()))
                    .collect(),
                inputs: (0..coins.len()).collect(),
                flags,
            });
        }
        Ok(Self {
            name,
            height,
            work,
            kinds,
        })
    }

    /// The transactions with inputs of a kind, and only those inputs.
    fn of_kind(&self, kind: ScriptKind) -> impl Iterator<Item = Transaction> {
        let mut kinds = self.kinds.iter();
        self.work.transactions.iter().filter_map(move |transaction| {
            let own = transaction.inputs.iter().zip(&mut kinds);
            let inputs: Vec<usize> = own
                .filter(|&(_, other)| *other == kind)
                .map(|(&input, _)| input)
                .collect();
            (!inputs.is_empty()).then(|| Transaction {
                inputs,
                ..transaction.clone()
            })
        })
    }
}

/// The rows of the blocks, of all blocks together, and of the script kinds.
pub(super) fn rows(plan: Plan, blocks: &[RealBlock], progress: &mut dyn FnMut(&str)) -> Result<Vec<Row>, BenchError> {
    let few = |block: &&RealBlock| block.work.inputs() <= plan.block_inputs_max;
    let chosen: Vec<&RealBlock> = blocks.iter().filter(few).collect();
    let mut rows = Vec::new();
    let mut all = Work::once();
    for block in chosen.iter().filter(|block| block.work.inputs() >= INPUTS_MIN) {
        let sides = Sides::measure(&block.work, &block.name, plan.blocks_runs)?;
        let mut row = sides.row(BLOCKS, &block.name, block.work.inputs());
        row.height = Some(block.height);
        rows.push(row);
        progress(&format!("block {}: {} inputs", block.name, block.work.inputs()));
        all.transactions.extend(block.work.transactions.iter().cloned());
    }
    if all.inputs() > 0 {
        let sides = Sides::measure(&all, ALL, plan.blocks_runs)?;
        rows.push(sides.row(BLOCKS, ALL, all.inputs()));
        progress(&format!("all these blocks: {} inputs", all.inputs()));
    }
    for kind in ScriptKind::ALL {
        let mut work = Work::once();
        work.transactions
            .extend(chosen.iter().flat_map(|block| block.of_kind(kind)));
        if work.inputs() == 0 {
            continue;
        }
        let sides = Sides::measure(&work, kind.name(), plan.blocks_runs)?;
        rows.push(sides.row(KINDS, kind.name(), work.inputs()));
        progress(&format!("script kind {}: {} inputs", kind.name(), work.inputs()));
    }
    Ok(rows)
}

/// Runs of both sides over the same inputs, in turns, and the signature counts over all our runs.
#[derive(Debug, Default)]
struct Sides {
    ours: Vec<Elapsed>,
    peer: Vec<Elapsed>,
    counts: SignatureCounts,
}

impl Sides {
    fn measure(work: &Work, name: &str, runs: usize) -> Result<Self, BenchError> {
        let (verifier, other) = (ours(), peer());
        let mut sides = Self::default();
        for _ in 0..runs {
            sides.peer.push(work.time(&other, Way::Ordinary, name)?);
            sides.ours.push(work.time(&verifier, Way::Deferring, name)?);
        }
        sides.counts = verifier.signature_counts();
        Ok(sides)
    }

    fn row(&self, table: &'static str, name: &str, inputs: usize) -> Row {
        let inputs = inputs as u64;
        let row = Row::timed(table, name, inputs, &self.ours).beside(inputs, &self.peer);
        row.counted(&self.counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_input_has_a_kind() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let Some(blocks) = load(&root).unwrap() else {
            eprintln!("skipped: {FOLDER} is missing");
            return;
        };
        let modern = blocks.iter().find(|block| block.name == "mainnet_866342").unwrap();
        assert_eq!((modern.work.inputs(), modern.kinds.len()), (7_972, 7_972));
        let of = |kind| {
            modern
                .of_kind(kind)
                .map(|transaction| transaction.inputs.len())
                .sum::<usize>()
        };
        assert_eq!(ScriptKind::ALL.map(of).into_iter().sum::<usize>(), 7_972);
        assert_eq!(of(ScriptKind::P2trKey) + of(ScriptKind::P2trScript), 2_373);
        assert_eq!(
            (of(ScriptKind::P2wpkh), of(ScriptKind::P2pkh), of(ScriptKind::P2wsh)),
            (4_374, 905, 74)
        );
        assert!(load(Path::new("/nowhere")).unwrap().is_none());
    }
}
