//! `blockmill export`.

mod blocks;
mod coins;
mod pass;
mod tables;

use crate::arguments::export::{ExportCommand, ProductKind};
use crate::failure::Failure;

pub(crate) fn run(command: &ExportCommand) -> Result<u8, Failure> {
    match command {
        ExportCommand::Coins(arguments) => coins::run(arguments),
        ExportCommand::Blocks(arguments) => blocks::run(arguments),
        ExportCommand::Transactions(arguments) => tables::run(ProductKind::Transactions, arguments),
        ExportCommand::Inputs(arguments) => tables::run(ProductKind::Inputs, arguments),
        ExportCommand::Outputs(arguments) => tables::run(ProductKind::Outputs, arguments),
        ExportCommand::Spenders(arguments) => tables::run(ProductKind::Spenders, arguments),
        #[cfg(feature = "descriptors")]
        ExportCommand::Filters(arguments) => tables::run(ProductKind::Filters, arguments),
    }
}
