//! The arguments of `mirror`.

use super::values::parse_threads;
use blockmill_tables::batch::Table;
use blockmill_tables::product::ProductKind;
use blockmill_tables::{block_row, coin_row};
use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// A table of a mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MirrorTable {
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
    pub(crate) const ALL: [Self; 5] = [
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

    pub(crate) fn name(self) -> &'static str {
        self.table().name
    }

    pub(crate) fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.name() == name)
    }
}

impl ValueEnum for MirrorTable {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()))
    }
}

/// Most bytes of a name. PostgreSQL cuts off what is more, so that two names may be one.
const SCHEMA_BYTES_MAX: usize = 63;

fn parse_schema(name: &str) -> Result<String, String> {
    match name {
        "" => Err("expected a name".to_owned()),
        // PostgreSQL refuses them.
        name if name.starts_with("pg_") => Err("names that begin with pg_ are PostgreSQL's own".to_owned()),
        name if name.len() > SCHEMA_BYTES_MAX => Err(format!(
            "a schema's name has at most {SCHEMA_BYTES_MAX} bytes, not {}",
            name.len()
        )),
        name => Ok(name.to_owned()),
    }
}

#[derive(Debug, Args)]
pub(crate) struct MirrorArguments {
    /// Data directory
    #[arg(long, value_name = "DIR", env = "BLOCKMILL_DATA")]
    pub(crate) data: PathBuf,
    /// The database, as postgresql://USER@HOST/DATABASE; a password comes from ~/.pgpass or
    /// PGPASSWORD
    #[arg(long, value_name = "URL")]
    pub(crate) to: String,
    /// The schema of the tables; it is made if it is not there
    #[arg(long, value_name = "NAME", default_value = "blockmill", value_parser = parse_schema)]
    pub(crate) schema: String,
    /// The tables [default: those that are there, or else coins and blocks]
    #[arg(long, value_name = "TABLES", value_enum, value_delimiter = ',')]
    pub(crate) tables: Vec<MirrorTable>,
    /// The first block of the tables but coins [default: 0, the whole chain]
    #[arg(long, value_name = "HEIGHT")]
    pub(crate) from: Option<u32>,
    /// Follow each block that is connected; retry while the server is away
    #[arg(long)]
    pub(crate) follow: bool,
    /// Threads, and connections of the first load [default: all cores]
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub(crate) par: Option<usize>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
