//! The UTXO set of a data directory.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use crate::arguments::{ids, threads};
use crate::blocks::{Wanted, kind_of, rows};
use crate::coins::CoinRows;
use crate::fault::Fault;
use crate::feed::Events;
use crate::opened::Opened;
use crate::process::Process;
use crate::table::Rows;
use crate::work::run;
use blockmill_block::{OutPoint, hex};
use blockmill_coins::stats::Hashes;
use blockmill_coins::{StatsBuilder, StatsPart};
use blockmill_datadir::{Batch, ChainId, CoinLookup, Earlier};
use blockmill_descriptors::{IndexRange, ScriptKind, TargetReader, address};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A number of coins, and their sum in satoshi.
type Sum = (u64, i128);

/// The scripts that texts stand for: each with the numbers of the texts.
fn scripts(texts: &[String], last_index: u32, chain_id: &ChainId) -> Result<HashMap<Vec<u8>, Vec<usize>>, Fault> {
    let mut scripts: HashMap<Vec<u8>, Vec<usize>> = HashMap::new();
    let range: IndexRange = last_index
        .to_string()
        .parse()
        .map_err(|why| Fault::Usage(format!("range: {why}")))?;
    let reader = TargetReader::new(range.indices(), chain_id.network);
    for (number, text) in texts.iter().enumerate() {
        let targets = reader.targets(text);
        for target in targets.map_err(|error| Fault::Usage(format!("target {}: {error}", number + 1)))? {
            let numbers = scripts.entry(target.script_pubkey).or_default();
            // A descriptor may stand for a script twice.
            if numbers.last() != Some(&number) {
                numbers.push(number);
            }
        }
    }
    Ok(scripts)
}

/// The set of a data directory, as it was after the block that was the tip when it was opened.
#[pyclass(frozen, module = "blockmill._blockmill")]
pub(crate) struct Set {
    opened: Arc<Opened>,
    process: Process,
}

impl Set {
    fn of(opened: Opened) -> Self {
        Self {
            opened: Arc::new(opened),
            process: Process::this(),
        }
    }
}

/// Opens a data directory.
#[pyfunction]
#[pyo3(signature = (path, blocks, threads_wanted))]
pub(crate) fn open_set(
    py: Python<'_>,
    path: PathBuf,
    blocks: Vec<PathBuf>,
    threads_wanted: Option<usize>,
) -> PyResult<Set> {
    let threads = threads(threads_wanted)?;
    let lookup = py.detach(|| CoinLookup::open(&path)).map_err(Fault::from)?;
    Ok(Set::of(Opened::new(path, blocks, threads, lookup)))
}

#[pymethods]
impl Set {
    #[getter]
    fn path(&self) -> PathBuf {
        self.opened.path.clone()
    }

    #[getter]
    fn network(&self) -> &'static str {
        self.opened.chain_id.network.name()
    }

    #[getter]
    fn height(&self) -> u32 {
        self.opened.tip.height
    }

    #[getter]
    fn tip(&self) -> String {
        self.opened.tip.hash.to_string()
    }

    /// The set after an earlier block.
    fn at(&self, py: Python<'_>, height: u32, hear: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.process.check()?;
        let opened = &self.opened;
        let lookup = run(py, hear, |stop, observer| {
            let lookup = CoinLookup::open(&opened.path)?;
            opened.check_reach(&lookup, height)?;
            let sources = &opened.blocks;
            let earlier = Earlier { height, sources };
            Ok::<_, Fault>(lookup.at(earlier, opened.threads, stop, observer)?)
        })?;
        let (path, blocks) = (opened.path.clone(), opened.blocks.clone());
        Ok(Self::of(Opened::new(path, blocks, opened.threads, lookup)))
    }

    /// The coin of an outpoint as a dictionary, or none.
    fn coin<'py>(&self, py: Python<'py>, outpoint: &str) -> PyResult<Option<Bound<'py, PyDict>>> {
        self.process.check()?;
        let outpoint: OutPoint = outpoint
            .parse()
            .map_err(|error| Fault::Usage(format!("{outpoint}: {error}")))?;
        let coin = py.detach(|| self.opened.lookup.get(&outpoint)).map_err(Fault::from)?;
        let Some(coin) = coin else { return Ok(None) };
        let script = &*coin.script_pubkey;
        let dict = PyDict::new(py);
        dict.set_item("txid", outpoint.txid.to_string())?;
        dict.set_item("vout", outpoint.vout)?;
        dict.set_item("height", coin.height)?;
        dict.set_item("coinbase", coin.is_coinbase)?;
        dict.set_item("value", coin.value)?;
        dict.set_item("script", hex::encode(script))?;
        dict.set_item("script_type", ScriptKind::of(script).word())?;
        dict.set_item("address", address(script, self.opened.chain_id.network))?;
        Ok(Some(dict))
    }

    /// All coins, or those of some scripts, as a table.
    fn coins(&self, wanted: Option<Vec<String>>, last_index: u32, binary: bool) -> PyResult<Rows> {
        self.process.check()?;
        let scripts = wanted.map(|texts| scripts(&texts, last_index, &self.opened.chain_id));
        let wanted: Option<HashSet<Vec<u8>>> = scripts.transpose()?.map(|scripts| scripts.into_keys().collect());
        Ok(Rows::new(CoinRows::new(&self.opened, wanted, ids(binary))))
    }

    /// The number of coins and the satoshi of each text: of all its scripts.
    fn balance(
        &self,
        py: Python<'_>,
        texts: Vec<String>,
        last_index: u32,
        hear: &Bound<'_, PyAny>,
    ) -> PyResult<(Vec<Sum>, Sum)> {
        self.process.check()?;
        let opened = &self.opened;
        run(py, hear, |stop, observer| {
            let scripts = scripts(&texts, last_index, &opened.chain_id)?;
            let set = opened.set(stop, observer)?;
            let convert = |mut batch: Batch| {
                if stop.load(Ordering::Relaxed) {
                    return Err(Fault::Stopped);
                }
                batch.retain(|(_, coin)| scripts.contains_key(&*coin.script_pubkey));
                Ok(batch)
            };
            let mut sums = vec![(0, 0); texts.len()];
            let mut all = (0, 0);
            // A damaged set may have amounts whose sum has more than 64 bits.
            let add = |sum: &mut Sum, of_coin: i128| {
                sum.0 += 1;
                sum.1 += of_coin;
            };
            set.for_each_batch(&convert, &mut |batch| {
                for (_, coin) in batch {
                    add(&mut all, coin.value.into());
                    for &number in scripts.get(&*coin.script_pubkey).into_iter().flatten() {
                        add(&mut sums[number], coin.value.into());
                    }
                }
                Ok(())
            })?;
            Ok::<_, Fault>((sums, all))
        })
    }

    /// The figures of the set as a dictionary.
    fn stats<'py>(
        &self,
        py: Python<'py>,
        serialized: bool,
        muhash: bool,
        hear: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyDict>> {
        self.process.check()?;
        let hashes = match (serialized, muhash) {
            (true, true) => Hashes::Both,
            (true, false) => Hashes::Serialized,
            (false, true) => Hashes::MuHash,
            (false, false) => Hashes::Neither,
        };
        let (figures, disk_size) = run(py, hear, |stop, observer| {
            let set = self.opened.set(stop, observer)?;
            let mut builder = StatsBuilder::new(hashes);
            let convert = |batch: Batch| match stop.load(Ordering::Relaxed) {
                true => Err(Fault::Stopped),
                false => Ok(StatsPart::new(hashes, &batch)),
            };
            set.for_each_batch(&convert, &mut |part| {
                builder.add_part(&part);
                Ok(())
            })?;
            Ok::<_, Fault>((builder.finish(&set.tip()), set.store().disk_size()?))
        })?;
        let dict = PyDict::new(py);
        dict.set_item("height", figures.height)?;
        dict.set_item("bestblock", figures.best_block.to_string())?;
        dict.set_item("txouts", figures.txouts)?;
        dict.set_item("bogosize", figures.bogosize)?;
        dict.set_item("transactions", figures.transactions)?;
        dict.set_item("total_amount", figures.total_amount)?;
        let serialized = hashes.has_serialized().then(|| figures.hash_serialized_3.to_string());
        dict.set_item("hash_serialized_3", serialized)?;
        dict.set_item("muhash", figures.muhash.map(|hash| hash.to_string()))?;
        dict.set_item("disk_size", disk_size)?;
        Ok(dict)
    }

    /// A table of the blocks up to the tip.
    #[pyo3(signature = (name, first, last, binary, hear))]
    fn table(
        &self,
        py: Python<'_>,
        name: &str,
        first: u32,
        last: Option<u32>,
        binary: bool,
        hear: &Bound<'_, PyAny>,
    ) -> PyResult<Rows> {
        self.process.check()?;
        let opened = &self.opened;
        let wanted = Wanted {
            kind: kind_of(name)?,
            first,
            last,
            ids: ids(binary),
            threads: opened.threads,
            may_be_partial: false,
            is_alone: false,
        };
        run(py, hear, |stop, observer| {
            let chain = opened.chain(stop, observer)?;
            rows(chain, opened.chain_id.network, &wanted)
        })
    }

    /// What has happened to the chain since a block, as events.
    fn feed(&self, cursor: &str, is_followed: bool) -> PyResult<Events> {
        self.process.check()?;
        let opened = &self.opened;
        Ok(Events::open(
            &opened.path,
            cursor,
            opened.chain_id.network,
            opened.threads,
            is_followed,
        )?)
    }
}
