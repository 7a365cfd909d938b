//! Whole script checks: inputs of real blocks, all of them and by script kind.

use super::kinds::{KINDS, kind_of};
use super::work::{Transaction, Way, Work};
use super::{ALL, BLOCKS, Plan, backend, counted, ours};
use blockmill_harness::{Clock, Contender, Failure, Progress, Row, Turns};
use blockmill_kernel::KernelVerifier;
use blockmill_realdata::{SingleBlock, blocks_of};
use blockmill_rules::Params;
use blockmill_rules::flags::block_script_flags;
use std::path::Path;

/// Folder of the blocks and their undo data, from the project's root.
pub(super) const FOLDER: &str = "../shared/data/blocks";

/// Blocks with fewer inputs are not among all.
const INPUTS_MIN: usize = 700;

/// The interface of Core's kernel library.
pub(super) const PEER: &str = "Core's kernel library";

/// A real block.
pub(super) struct RealBlock {
    pub(super) single: SingleBlock,
    pub(super) params: Params,
    pub(super) work: Work,
    /// The kind of each input, in order.
    kinds: Vec<Option<&'static str>>,
}

/// The blocks beside the project at `root`, in the order of their names. None if the folder is
/// missing.
pub(super) fn load(root: &Path) -> Result<Option<Vec<RealBlock>>, Failure> {
    let folder = root.join(FOLDER);
    if !folder.is_dir() {
        return Ok(None);
    }
    Ok(Some(blocks_of(&folder)?.into_iter().map(RealBlock::of).collect()))
}

impl RealBlock {
    fn of(single: SingleBlock) -> Self {
        let (block, undo) = (&single.block, &single.undo);
        let params = Params::new(single.network, None);
        // Old blocks have fewer rules.
        let flags = block_script_flags(&params, single.height, &block.hash());
        let (mut work, mut kinds) = (Work::once(), Vec::new());
        // The coinbase spends nothing, and has no undo data.
        for (index, transaction) in block.transactions().enumerate().skip(1) {
            let coins = undo.transaction(index - 1);
            let inputs = transaction.inputs().zip(coins.iter());
            kinds.extend(inputs.map(|(input, coin)| kind_of(&input, coin.script_pubkey)));
            let spent = coins
                .iter()
                .map(|coin| (coin.value, coin.script_pubkey.as_ref().into()));
            work.transactions.push(Transaction {
                bytes: transaction.raw().to_vec(),
                spent: spent.collect(),
                inputs: (0..coins.len()).collect(),
                flags,
            });
        }
        Self {
            params,
            work,
            kinds,
            single,
        }
    }

    /// The transactions with inputs of a kind, and only those inputs.
    fn of_kind(&self, kind: &'static str) -> impl Iterator<Item = Transaction> {
        let mut kinds = self.kinds.iter();
        self.work.transactions.iter().filter_map(move |transaction| {
            let own = transaction.inputs.iter().zip(&mut kinds);
            let inputs: Vec<usize> = own
                .filter(|&(_, other)| *other == Some(kind))
                .map(|(&input, _)| input)
                .collect();
            (!inputs.is_empty()).then(|| Transaction {
                inputs,
                ..transaction.clone()
            })
        })
    }
}

/// The blocks that are not too large for the plan.
fn chosen(plan: Plan, blocks: &[RealBlock]) -> impl Iterator<Item = &RealBlock> {
    blocks
        .iter()
        .filter(move |block| block.work.inputs() <= plan.block_inputs_max)
}

/// Those among them that have many inputs.
pub(super) fn large(plan: Plan, blocks: &[RealBlock]) -> impl Iterator<Item = &RealBlock> {
    chosen(plan, blocks).filter(|block| block.work.inputs() >= INPUTS_MIN)
}

/// The rows of all blocks together, and of the script kinds.
pub(super) fn rows(plan: Plan, blocks: &[RealBlock], progress: Progress<'_>) -> Result<Vec<Row>, Failure> {
    let chosen: Vec<&RealBlock> = chosen(plan, blocks).collect();
    let all = Work {
        transactions: large(plan, blocks)
            .flat_map(|block| block.work.transactions.clone())
            .collect(),
        ..Work::once()
    };
    let mut rows = beside(&all, ALL, plan, progress)?;
    for kind in KINDS {
        let work = Work {
            transactions: chosen.iter().flat_map(|block| block.of_kind(kind)).collect(),
            ..Work::once()
        };
        rows.extend(beside(&work, kind, plan, progress)?);
    }
    Ok(rows)
}

/// Both sides over the same inputs, in turns. No rows if there are none.
fn beside(work: &Work, name: &str, plan: Plan, progress: Progress<'_>) -> Result<Vec<Row>, Failure> {
    if work.inputs() == 0 {
        return Ok(Vec::new());
    }
    // One verifier for all runs: it has adapted after the first.
    let verifier = ours();
    let run = || counted(&verifier, || work.time(&verifier, Way::Deferring, name));
    let peer = || work.time(&KernelVerifier, Way::Ordinary, name);
    let row = |who: &str| Row::new(BLOCKS).with("what", name).with("who", who);
    let mut lanes = row("lanes");
    lanes.set_hidden("lanes", backend());
    let contenders = vec![
        Contender::new(PEER, row(PEER), peer),
        Contender::new("lanes", lanes, run).beside_peer(PEER),
    ];
    Turns::new(plan.runs).by(Clock::Cpu).take(name, contenders, progress)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_have_their_kinds() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let Some(blocks) = load(&root).unwrap() else {
            eprintln!("skipped: {FOLDER} is missing");
            return;
        };
        let modern = blocks
            .iter()
            .find(|block| block.single.name == "mainnet_866342")
            .unwrap();
        assert_eq!((modern.work.inputs(), modern.kinds.len()), (7_972, 7_972));
        let of = |kind| {
            modern
                .of_kind(kind)
                .map(|transaction| transaction.inputs.len())
                .sum::<usize>()
        };
        assert_eq!((of("P2WPKH"), of("P2PKH")), (4_374, 905));
        // All that spend a Taproot output are 2,373.
        assert!(of("P2TR script") < 2_373);
        for kind in KINDS {
            let has_some = blocks.iter().any(|block| block.of_kind(kind).next().is_some());
            assert!(has_some, "{kind}");
        }
        assert!(load(Path::new("/nowhere")).unwrap().is_none());
    }
}
