//! `blockmill export`.

mod blocks;
mod coins;
mod hints;
mod pass;
mod plan;
mod tables;

use crate::arguments::export::ExportCommand;
use crate::failure::Failure;
use blockmill_tables::product::ProductKind;

pub(crate) fn run(command: &ExportCommand) -> Result<u8, Failure> {
    match command {
        ExportCommand::Coins(arguments) => coins::run(arguments),
        ExportCommand::Hints(arguments) => hints::run(arguments),
        ExportCommand::Blocks(arguments) => blocks::run(arguments),
        ExportCommand::Transactions(arguments) => tables::run(ProductKind::Transactions, arguments),
        ExportCommand::Inputs(arguments) => tables::run(ProductKind::Inputs, arguments),
        ExportCommand::Outputs(arguments) => tables::run(ProductKind::Outputs, arguments),
        ExportCommand::Spenders(arguments) => tables::run(ProductKind::Spenders, arguments),
        ExportCommand::Positions(arguments) => tables::run(ProductKind::Positions, arguments),
        #[cfg(feature = "descriptors")]
        ExportCommand::Filters(arguments) => tables::run(ProductKind::Filters, arguments),
        ExportCommand::Statistics(arguments) => tables::run(ProductKind::Statistics, arguments),
    }
}
