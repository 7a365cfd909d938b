//! Whole blocks from their bytes, validated with given coins, beside Core's kernel library, which
//! runs their scripts alone.

use super::blocks::{PEER, RealBlock, large};
use super::work::{Way, Work};
use super::{ALL, GIVEN, Plan, backend, ours};
use blockmill_block::{Block, BlockUndo};
use blockmill_harness::{Clock, Contender, Failure, Progress, Row, Run, Stopwatch, Turns, same};
use blockmill_kernel::KernelVerifier;
use blockmill_script::CoreVerifier;
use blockmill_validate::{BlockPosition, GivenCoins, Validator, ValidatorOptions};
use std::sync::Arc;

/// Both sides over the same blocks, in turns, on one thread. No rows if there are none.
pub(super) fn rows(plan: Plan, blocks: &[RealBlock], progress: Progress<'_>) -> Result<Vec<Row>, Failure> {
    let blocks: Vec<&RealBlock> = large(plan, blocks).collect();
    let scripts = Work {
        transactions: blocks
            .iter()
            .flat_map(|block| block.work.transactions.clone())
            .collect(),
        ..Work::once()
    };
    if scripts.inputs() == 0 {
        return Ok(Vec::new());
    }
    let options = ValidatorOptions {
        threads: 1,
        lanes: true,
    };
    // One validator for all runs: its verifier has adapted after the first.
    let mut validator = Validator::new(Arc::new(ours()), options)?;
    let run = || validate(&mut validator, &blocks, scripts.inputs());
    let peer = || scripts.time(&KernelVerifier, Way::Ordinary, ALL);
    let row = |who: &str| Row::new(GIVEN).with("what", ALL).with("who", who);
    let mut lanes = row("whole blocks, lanes");
    lanes.set_hidden("lanes", backend());
    let contenders = vec![
        Contender::new(PEER, row("Core's kernel library, scripts alone"), peer),
        Contender::new("whole blocks", lanes, run).beside_peer(PEER),
    ];
    Turns::new(plan.runs)
        .by(Clock::Cpu)
        .take("whole blocks", contenders, progress)
}

fn validate(validator: &mut Validator<CoreVerifier>, blocks: &[&RealBlock], inputs: usize) -> Result<Run, Failure> {
    let clock = Stopwatch::start();
    let mut validated = 0;
    for real in blocks {
        let single = &real.single;
        let block = Arc::new(Block::decode(single.block.bytes().to_vec())?);
        let undo = Arc::new(BlockUndo::decode(&single.undo_bytes)?);
        let position = BlockPosition::at_height(&real.params, single.height);
        let coins: GivenCoins<'_> = GivenCoins::InOrder(&undo);
        let verified = validator.validate_block(&block, coins, &position);
        validated += verified.map_err(|error| format!("{}: {error}", single.name))?.inputs;
    }
    same("whole blocks", "number of inputs", validated, inputs as u64)?;
    Ok(clock.run(validated))
}
