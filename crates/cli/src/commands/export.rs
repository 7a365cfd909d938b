//! `blockmill export`.

mod blocks;
mod coins;
mod hints;
mod pass;
mod plan;
mod tables;

use crate::arguments::export::{ExportCommand, TableKind};
use crate::failure::Failure;

pub(crate) fn run(command: &ExportCommand) -> Result<u8, Failure> {
    match command {
        ExportCommand::Coins(arguments) => coins::run(arguments),
        ExportCommand::Hints(arguments) => hints::run(arguments),
        ExportCommand::Blocks(arguments) => blocks::run(arguments),
        ExportCommand::Transactions(arguments) => tables::run(TableKind::Transactions, arguments),
        ExportCommand::Inputs(arguments) => tables::run(TableKind::Inputs, arguments),
        ExportCommand::Outputs(arguments) => tables::run(TableKind::Outputs, arguments),
        ExportCommand::Spenders(arguments) => tables::run(TableKind::Spenders, arguments),
        ExportCommand::Positions(arguments) => tables::run(TableKind::Positions, arguments),
        #[cfg(feature = "descriptors")]
        ExportCommand::Filters(arguments) => tables::run(TableKind::Filters, arguments),
        ExportCommand::Statistics(arguments) => tables::run(TableKind::Statistics, arguments),
    }
}
