//! `blockmill verify`.

mod files;
mod one;

use crate::arguments::VerifyArguments;
use crate::failure::Failure;

pub(crate) fn run(arguments: &VerifyArguments) -> Result<u8, Failure> {
    match (&arguments.block, &arguments.undo, arguments.height) {
        (Some(block), Some(undo), Some(height)) => one::run(arguments, block, undo, height),
        _ => files::run(arguments),
    }
}
