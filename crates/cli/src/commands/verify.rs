//! `blockmill verify`.

mod files;
mod one;

use crate::arguments::{VerifyArguments, challenge_of};
use crate::failure::Failure;
use blockmill_datadir::ChainId;
use blockmill_rules::Params;

pub(crate) fn run(arguments: &VerifyArguments) -> Result<u8, Failure> {
    match (&arguments.block, &arguments.undo, arguments.height) {
        (Some(block), Some(undo), Some(height)) => one::run(arguments, block, undo, height),
        _ => files::run(arguments),
    }
}

fn params(arguments: &VerifyArguments) -> Result<Params, Failure> {
    let chain_id = ChainId {
        network: arguments.network,
        signet_challenge: challenge_of(arguments.network, arguments.signet_challenge.as_ref())?,
    };
    Ok(chain_id.params())
}

fn threads(arguments: &VerifyArguments) -> usize {
    arguments.par.unwrap_or(super::cores())
}
