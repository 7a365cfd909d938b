//! A chain of block files that were searched.

use crate::arguments::{ids, threads};
use crate::blocks::{Wanted, kind_of, rows};
use crate::process::Process;
use crate::reports::usage;
use crate::table::Rows;
use blockmill_block::Network;
use blockmill_chain::ChainBlocks;
use blockmill_rules::Params;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::{Arc, OnceLock};

/// The parameters of a network; of a signet with its own challenge, if one is given.
pub(crate) fn params(network: &str, challenge: Option<&[u8]>) -> PyResult<Params> {
    let network: Network = network.parse().map_err(|why| usage(format!("network: {why}")))?;
    if challenge.is_some() && network != Network::Signet {
        return Err(usage(format!("signet_challenge is for signet, not for {network}")));
    }
    Ok(Params::new(network, challenge.map(<[u8]>::to_vec)))
}

/// A chain, and where its blocks are.
#[pyclass(frozen, module = "blockmill._blockmill")]
pub(crate) struct Chain {
    pub(crate) blocks: Arc<ChainBlocks>,
    pub(crate) network: String,
    pub(crate) challenge: Option<Vec<u8>>,
    process: Process,
    /// As [`ChainBlocks::to_bytes`] writes it, made when it is wanted first.
    bytes: OnceLock<Vec<u8>>,
}

impl Chain {
    pub(crate) fn new(blocks: ChainBlocks, network: String, challenge: Option<Vec<u8>>) -> Self {
        Self {
            blocks: Arc::new(blocks),
            network,
            challenge,
            process: Process::this(),
            bytes: OnceLock::new(),
        }
    }
}

/// What a pickle has of a chain.
type Pickled<'py> = (String, Option<Bound<'py, PyBytes>>, Bound<'py, PyBytes>);

#[pymethods]
impl Chain {
    #[staticmethod]
    #[pyo3(signature = (network, challenge, bytes))]
    fn _of_bytes(py: Python<'_>, network: String, challenge: Option<Vec<u8>>, bytes: &[u8]) -> PyResult<Self> {
        let params = params(&network, challenge.as_deref())?;
        // A long chain takes a while, in which other threads may go on.
        let blocks = py.detach(|| ChainBlocks::from_bytes(bytes, &params));
        let blocks = blocks.map_err(|why| usage(why.to_string()))?;
        Ok(Self::new(blocks, network, challenge))
    }

    /// By the name that data directories and manifests have.
    #[getter]
    fn network(&self) -> &'static str {
        self.blocks.params().network.name()
    }

    #[getter]
    fn height(&self) -> u32 {
        self.blocks.height()
    }

    /// Hash of the block at a height.
    fn hash(&self, height: u32) -> PyResult<String> {
        let hash = self.blocks.hash(height).map_err(|why| usage(why.to_string()))?;
        Ok(hash.to_string())
    }

    /// Why the block files do not hold a whole chain.
    #[getter]
    fn why(&self) -> Vec<String> {
        let reasons = self.blocks.wholeness().reasons.iter();
        reasons.map(ToString::to_string).collect()
    }

    /// A table of the blocks of some heights. Rows that rest on those of blocks below have what is
    /// theirs alone, if `is_alone` says so.
    #[pyo3(signature = (name, first, last, binary, threads_wanted, may_be_partial, is_alone))]
    #[expect(clippy::too_many_arguments, reason = "the Python code around it has names for them")]
    fn table(
        &self,
        py: Python<'_>,
        name: &str,
        first: u32,
        last: Option<u32>,
        binary: bool,
        threads_wanted: Option<usize>,
        may_be_partial: bool,
        is_alone: bool,
    ) -> PyResult<Rows> {
        self.process.check()?;
        let wanted = Wanted {
            kind: kind_of(name)?,
            first,
            last,
            ids: ids(binary),
            threads: threads(threads_wanted)?,
            may_be_partial,
            is_alone,
        };
        Ok(py.detach(|| rows(&self.blocks, self.blocks.params().network, &wanted))?)
    }

    /// Ranges of heights for parts, each with its bytes of blocks.
    fn ranges(&self, bytes: u64) -> Vec<(u32, u32, u64)> {
        let ranges = blockmill_audit::ranges(&self.blocks, bytes).into_iter();
        ranges
            .map(|range| {
                let bytes = range.clone().map(|height| u64::from(self.blocks.length(height))).sum();
                (*range.start(), *range.end(), bytes)
            })
            .collect()
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Pickled<'py>)> {
        let make = py.get_type::<Self>().getattr("_of_bytes")?;
        let bytes = py.detach(|| self.bytes.get_or_init(|| self.blocks.to_bytes()));
        let challenge = self.challenge.as_deref().map(|challenge| PyBytes::new(py, challenge));
        Ok((make, (self.network.clone(), challenge, PyBytes::new(py, bytes))))
    }

    /// About the memory in bytes: of each block its header, its position, and their indices.
    fn __sizeof__(&self) -> usize {
        250 * (self.blocks.height() as usize + 1)
    }

    fn __repr__(&self) -> String {
        format!("Chain(network='{}', height={})", self.network, self.blocks.height())
    }
}
