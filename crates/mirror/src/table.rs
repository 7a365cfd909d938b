//! The tables of a mirror.

use blockmill_tables::batch::Table;
use blockmill_tables::product::ProductKind;
use blockmill_tables::{block_row, coin_row};

/// A table of a mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MirrorTable {
    /// The coins of the set.
    Coins,
    /// A row for each block.
    Blocks,
    /// A row for each transaction.
    Transactions,
    /// A row for each input.
    Inputs,
    /// A row for each output.
    Outputs,
}

impl MirrorTable {
    /// All of them, in the order in which they are made.
    pub const ALL: [Self; 5] = [
        Self::Coins,
        Self::Blocks,
        Self::Transactions,
        Self::Inputs,
        Self::Outputs,
    ];

    /// What a pass over blocks makes the rows with.
    pub(crate) fn product(self) -> Option<ProductKind> {
        match self {
            Self::Coins | Self::Blocks => None,
            Self::Transactions => Some(ProductKind::Transactions),
            Self::Inputs => Some(ProductKind::Inputs),
            Self::Outputs => Some(ProductKind::Outputs),
        }
    }

    pub(crate) fn table(self) -> &'static Table {
        match (self.product(), self) {
            (Some(product), _) => product.table(),
            (None, Self::Blocks) => &block_row::TABLE,
            (None, _) => &coin_row::TABLE,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.table().name
    }

    /// The table of a name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.name() == name)
    }
}
