//! The writers' input: the undo data of a generated chain, as our engine keeps it.

use crate::connect::{connect_ours, temporary_directory};
use crate::error::BenchError;
use blockmill_block::undo::{read_record, write_record};
use blockmill_block::{BlockHash, BlockUndo, Magic};
use blockmill_chain::index::HeaderIndex;
use blockmill_chaingen::{ChainSpec, Summary, write_chain};
use blockmill_datadir::DataDir;
use blockmill_datadir::chain_log::ChainLog;
use blockmill_engine::engine::internals::Without;
use std::path::Path;

/// The undo data of blocks that spend coins, lowest block first.
pub(super) struct Input {
    pub(super) magic: Magic,
    pub(super) records: Vec<Record>,
}

/// The undo data of a block.
pub(super) struct Record {
    /// Hash of the block's parent.
    pub(super) previous: BlockHash,
    pub(super) undo: BlockUndo,
    /// As the log keeps it, with its checksum.
    pub(super) encoded: Vec<u8>,
}

impl Input {
    /// Makes the chain of `spec`, connects it, and reads its undo data back.
    pub(super) fn make(spec: &ChainSpec) -> Result<Self, BenchError> {
        let directory = temporary_directory()?;
        let blocks = directory.path().join("blocks");
        let data = directory.path().join("data");
        let summary = write_chain(&blocks, spec, &mut |_| ())?;
        connect_ours(&blocks, &data, 1, Without::default())?;
        Self::read(&data, &summary)
    }

    /// Reads the undo data of the chain in a data directory.
    fn read(data: &Path, expected: &Summary) -> Result<Self, BenchError> {
        let directory = DataDir::open(data, None)?;
        let params = directory.chain_id().params();
        let magic = params.magic();
        let mut index = HeaderIndex::new(params);
        let log = ChainLog::open(&directory, magic, &mut index)?;
        let tip = index.best_header();
        check("tip", &index.entry(tip).hash.to_string(), &expected.tip)?;
        let mut records = Vec::new();
        for id in (1..=expected.height).filter_map(|height| index.ancestor(tip, height)) {
            if let Some(position) = index.entry(id).undo() {
                let header = index.header(id);
                let undo = log.read(&header, &position)?;
                if !undo.coins().is_empty() {
                    records.push(Record::new(magic, header.prev_block_hash, undo)?);
                }
            }
        }
        let coins: usize = records.iter().map(|record| record.undo.coins().len()).sum();
        check("coins spent", &coins.to_string(), &expected.inputs.to_string())?;
        Ok(Self { magic, records })
    }

    /// Bytes of a record, on average.
    pub(super) fn record_bytes_mean(&self) -> f64 {
        self.records.iter().map(Record::bytes).sum::<u64>() as f64 / self.records.len() as f64
    }
}

impl Record {
    fn new(magic: Magic, previous: BlockHash, undo: BlockUndo) -> Result<Self, BenchError> {
        let mut encoded = Vec::new();
        write_record(magic, &previous, &undo, &mut encoded);
        if read_record(magic, &previous, &encoded).as_ref() != Ok(&undo) {
            return Err(mismatch("record", "another", "the undo data encoded"));
        }
        Ok(Self {
            previous,
            undo,
            encoded,
        })
    }

    /// Length of the record in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.encoded.len() as u64
    }
}

fn check(what: &'static str, found: &str, wanted: &str) -> Result<(), BenchError> {
    if found == wanted {
        return Ok(());
    }
    Err(mismatch(what, found, wanted))
}

fn mismatch(what: &'static str, found: &str, wanted: &str) -> BenchError {
    BenchError::Mismatch {
        run: "undo data to append".to_owned(),
        what,
        found: found.to_owned(),
        wanted: wanted.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blockmill_chaingen::Profile;

    #[test]
    fn the_undo_data_is_that_of_the_chain() {
        let directory = tempfile::tempdir().unwrap();
        let blocks = directory.path().join("blocks");
        let data = directory.path().join("data");
        let spec = ChainSpec {
            inputs: 60,
            ..ChainSpec::new(Profile::Mixed, 110, 7)
        };
        let summary = write_chain(&blocks, &spec, &mut |_| ()).unwrap();
        connect_ours(&blocks, &data, 1, Without::default()).unwrap();
        let input = Input::read(&data, &summary).unwrap();
        let coins: usize = input.records.iter().map(|record| record.undo.coins().len()).sum();
        assert_eq!(coins as u64, summary.inputs);
        // Magic, length, checksum, and at least one coin each.
        assert!(input.records.iter().all(|record| record.bytes() > 8 + 32 + 3));
        let bytes: u64 = input.records.iter().map(Record::bytes).sum();
        assert_eq!(input.record_bytes_mean(), bytes as f64 / input.records.len() as f64);

        let other_tip = Summary {
            tip: "11".repeat(32),
            ..summary.clone()
        };
        let other_inputs = Summary {
            inputs: summary.inputs + 1,
            ..summary
        };
        for (expected, wrong) in [(other_tip, "tip"), (other_inputs, "coins spent")] {
            let read = Input::read(&data, &expected);
            assert!(matches!(read, Err(BenchError::Mismatch { what, .. }) if what == wrong));
        }
    }
}
