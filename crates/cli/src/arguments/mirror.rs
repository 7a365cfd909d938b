//! The arguments of `mirror`.

use super::values::parse_threads;
use blockmill_mirror::MirrorTable;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use std::path::PathBuf;

fn table_parser() -> impl TypedValueParser<Value = MirrorTable> {
    let names = PossibleValuesParser::new(MirrorTable::ALL.map(MirrorTable::name));
    names.try_map(|name| MirrorTable::of_name(&name).ok_or("no table has this name"))
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
    #[arg(long, value_name = "TABLES", value_parser = table_parser(), value_delimiter = ',')]
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
