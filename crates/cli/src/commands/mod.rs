//! One module per subcommand. Each returns the exit status, or a `Failure`.

pub(crate) mod audit;
#[cfg(feature = "descriptors")]
pub(crate) mod balance;
pub(crate) mod coin;
pub(crate) mod connect;
#[cfg(feature = "generate")]
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod export;
pub(crate) mod feed;
pub(crate) mod follow;
#[cfg(feature = "generate")]
pub(crate) mod generate;
#[cfg(feature = "postgres")]
pub(crate) mod mirror;
pub(crate) mod shell;
pub(crate) mod snapshot;
pub(crate) mod stats;
pub(crate) mod status;
pub(crate) mod submit;
pub(crate) mod verify;

use crate::arguments::SetArguments;
use crate::doing::{self, Doing};
use crate::failure::Failure;
use crate::progress::EngineMeter;
use blockmill_datadir::{Earlier, UtxoSet};
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// For commands that a signal ends at once.
static NEVER: AtomicBool = AtomicBool::new(false);

/// Opens the set that the arguments name.
fn open_set(arguments: &SetArguments, stop: &AtomicBool, meter: &mut EngineMeter) -> Result<UtxoSet, Failure> {
    open_set_at(&arguments.data, arguments.at.earlier(), stop, meter)
}

/// Opens the set of a data directory, as it is or as it was at a height.
fn open_set_at(
    data: &Path,
    at: Option<Earlier<'_>>,
    stop: &AtomicBool,
    meter: &mut EngineMeter,
) -> Result<UtxoSet, Failure> {
    let set = open_newest(data, cores())?;
    match at {
        Some(earlier) => Ok(set.at(earlier, stop, meter)?),
        None => Ok(set),
    }
}

/// Opens the set of a data directory as it is.
fn open_newest(data: &Path, threads: usize) -> Result<UtxoSet, Failure> {
    doing::set(Doing::Something("opening the set"));
    Ok(UtxoSet::open(data, threads)?)
}

/// The threads that `--par` names, or all cores.
fn threads(par: Option<usize>) -> usize {
    par.unwrap_or_else(cores)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
