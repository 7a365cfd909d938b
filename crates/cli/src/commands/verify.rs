//! `blockmill verify`.

use crate::arguments::VerifyArguments;
use crate::failure::Failure;
use crate::output;
use blockmill_block::{Block, BlockUndo};
use blockmill_engine::verify::{VerifyBlockError, VerifyOptions, verify_block};
use blockmill_engine::{Marks, Options};
use blockmill_script::KernelVerifier;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(Failure::file(path))
}

pub(crate) fn run(arguments: &VerifyArguments) -> Result<u8, Failure> {
    let corrupt = |path: &Path, error: String| Failure::Corrupt(format!("{}: {error}", path.display()));
    let block = Block::decode(read(&arguments.block)?)
        .map_err(|error| corrupt(&arguments.block, format!("the block does not decode: {error}")))?;
    let undo = BlockUndo::decode(&read(&arguments.undo)?)
        .map_err(|error| corrupt(&arguments.undo, format!("the undo data does not decode: {error}")))?;
    let params = Marks {
        network: arguments.network,
        signet_challenge: arguments.signet_challenge.as_ref().map(|challenge| challenge.0.clone()),
    }
    .params();
    let options = VerifyOptions {
        height: arguments.height,
        threads: arguments.par.unwrap_or(Options::default().threads),
        proof_of_work: true,
    };
    let hash = block.hash();
    let start = Instant::now();
    let outcome = verify_block(
        &Arc::new(block),
        &Arc::new(undo),
        &params,
        &Arc::new(KernelVerifier),
        options,
    );
    let seconds = start.elapsed().as_secs_f64();
    match outcome {
        Ok(verified) => {
            let mut out = std::io::stdout().lock();
            let rows = [
                ("block", hash.to_string()),
                ("verdict", "valid".to_owned()),
                ("transactions", verified.transactions.to_string()),
                ("inputs", verified.inputs.to_string()),
                ("fees", format!("{} satoshi", verified.fees)),
                ("sigops_cost", verified.sigops_cost.to_string()),
                ("weight", verified.weight.to_string()),
                ("seconds", format!("{seconds:.3}")),
            ];
            output::table(&mut out, &rows)?;
            out.flush()?;
            Ok(0)
        }
        Err(VerifyBlockError::Reject(reject)) => {
            let mut out = std::io::stdout().lock();
            let rows = [
                ("block", hash.to_string()),
                ("verdict", "invalid".to_owned()),
                ("reason", reject.to_string()),
            ];
            output::table(&mut out, &rows)?;
            out.flush()?;
            eprintln!("blockmill: {}: block {hash}: {reject}", arguments.block.display());
            Ok(1)
        }
        Err(VerifyBlockError::Verifier(detail)) => Err(corrupt(&arguments.block, detail)),
    }
}
