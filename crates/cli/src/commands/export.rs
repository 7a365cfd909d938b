//! `blockmill export`.

mod blocks;
mod coins;

use crate::arguments::export::ExportCommand;
use crate::failure::Failure;

pub(crate) fn run(command: &ExportCommand) -> Result<u8, Failure> {
    match command {
        ExportCommand::Coins(arguments) => coins::run(arguments),
        ExportCommand::Blocks(arguments) => blocks::run(arguments),
    }
}
