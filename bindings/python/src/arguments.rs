//! Arguments that several functions have.

use crate::reports::usage;
use blockmill_chain::Signatures;
use blockmill_script::CoreVerifier;
use blockmill_tables::batch::Ids;
use pyo3::prelude::*;
use std::sync::Arc;
use std::thread::available_parallelism;

/// The number of threads: all cores, if none is given.
pub(crate) fn threads(threads: Option<usize>) -> PyResult<usize> {
    match threads {
        Some(0) => Err(usage("threads: at least 1 is needed")),
        Some(threads) => Ok(threads),
        None => Ok(available_parallelism().map_or(1, usize::from)),
    }
}

/// The form of ids.
pub(crate) fn ids(binary: bool) -> Ids {
    if binary { Ids::Binary } else { Ids::Hex }
}

/// How signatures are verified, in the command's words.
pub(crate) fn signatures(name: &str) -> PyResult<Signatures> {
    match name {
        "auto" => Ok(Signatures::Auto),
        "one-by-one" => Ok(Signatures::OneByOne),
        "lanes" => Ok(Signatures::Lanes),
        other => Err(usage(format!(
            "signatures: {other:?} is none of auto, one-by-one, lanes"
        ))),
    }
}

/// A script verifier.
pub(crate) fn verifier(signatures: Signatures) -> Arc<CoreVerifier> {
    Arc::new(match signatures {
        Signatures::OneByOne => CoreVerifier::new(blockmill_script::Signatures::OneByOne),
        Signatures::Auto | Signatures::Lanes => CoreVerifier::new(blockmill_script::Signatures::Lanes),
    })
}
