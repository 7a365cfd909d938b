//! RocksDB: a log-structured merge tree with a log, in C++.
//!
//! As its makers advise, and as point reads of a large set want it:
//! - sorted tables ingested for the load;
//! - level compaction with dynamic level bytes, which leaves the least garbage;
//! - bloom filters of ten bits a key: absent outpoints are asked for;
//! - index and filters in memory of their own, outside of the cache, with all files open: some 2
//!   bytes a coin. Inside a cache that is smaller than they are, each read fetched them anew;
//! - a hash index inside of blocks, so that a found block is not searched;
//! - the whole cache of the given size for blocks of coins;
//! - memtables that hold a large flush, so that a commit seldom waits for compaction;
//! - no compression: values are hashes;
//! - synced writes, since a commit is durable.
//!
//! Files are read through the page cache, as those of all other stores. An open may begin
//! compaction; `settle` awaits it before reads are timed.

use super::common::{
    Contestant, NO_CHANGES, Purpose, Settings, TIP_KEY, backend, decode_entry, decode_tip, iterate_in_thread,
    tip_bytes, visit_encoded, wait_for_rest,
};
use crate::meter::disk_size;
use blockmill_block::{Coin, OutPoint};
use blockmill_coins::store::{KEY_LENGTH, decode_coin, outpoint_key};
use blockmill_coins::{Changes, CoinIterator, CoinStore, StoreError, Tip};
use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamilyDescriptor, DB, DBCompressionType, DataBlockIndexType,
    IngestExternalFileOptions, IteratorMode, Options, ReadOptions, SstFileWriter, WriteBatch, WriteOptions,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MEMTABLE_BYTES: usize = 128 << 20;
const MEMTABLES_MAX: i32 = 3;
const BLOCK_BYTES: usize = 4 << 10;
const FILTER_BITS: f64 = 10.0;
const SYNC_EVERY_BYTES: u64 = 1 << 20;

/// Counts of work in the background, none of which is left at rest.
const WORK: [&str; 4] = [
    "rocksdb.mem-table-flush-pending",
    "rocksdb.num-running-flushes",
    "rocksdb.compaction-pending",
    "rocksdb.num-running-compactions",
];

pub(super) struct Rocks {
    directory: PathBuf,
    database: Arc<DB>,
    options: Options,
    purpose: Purpose,
    /// Whether a commit becomes a sorted table at once instead of going through the log.
    ingest: bool,
}

fn options(settings: Settings) -> Result<Options, StoreError> {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as i32);
    let mut table = BlockBasedOptions::default();
    table.set_block_size(BLOCK_BYTES);
    table.set_format_version(5);
    table.set_block_cache(&Cache::new_lru_cache(settings.cache_bytes).map_err(backend)?);
    table.set_bloom_filter(FILTER_BITS, false);
    table.set_cache_index_and_filter_blocks(false);
    table.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&table);
    options.set_compression_type(DBCompressionType::None);
    options.set_level_compaction_dynamic_level_bytes(true);
    options.set_max_open_files(-1);
    options.set_write_buffer_size(MEMTABLE_BYTES);
    options.set_max_write_buffer_number(MEMTABLES_MAX);
    options.set_max_bytes_for_level_base(4 * MEMTABLE_BYTES as u64);
    options.set_max_background_jobs(cores.max(2) + 2);
    options.set_bytes_per_sync(SYNC_EVERY_BYTES);
    options.set_keep_log_file_num(1);
    Ok(options)
}

impl Rocks {
    pub(super) fn open(directory: &Path, settings: Settings, ingest: bool) -> Result<Self, StoreError> {
        let options = options(settings)?;
        let family = ColumnFamilyDescriptor::new("default", options.clone());
        let database = DB::open_cf_descriptors(&options, directory.join("store"), [family]).map_err(backend)?;
        Ok(Self {
            directory: directory.to_owned(),
            database: Arc::new(database),
            options,
            purpose: settings.purpose,
            ingest,
        })
    }

    fn write_batch(&self, changes: &dyn Changes, tip: &Tip) -> Result<(), StoreError> {
        let mut batch = WriteBatch::default();
        visit_encoded(changes, |key, value| {
            match value {
                Some(value) => batch.put(key, value),
                None => batch.delete(key),
            }
            Ok::<_, StoreError>(())
        })?;
        batch.put(TIP_KEY, tip_bytes(tip));
        let mut synced = WriteOptions::default();
        synced.set_sync(true);
        self.database.write_opt(batch, &synced).map_err(backend)
    }

    /// Writes a sorted table, with the tip at its end where it must come together with the coins.
    fn write_table(&self, changes: &dyn Changes, tip: Option<&Tip>) -> Result<(), StoreError> {
        let path = self.directory.join("table.sst");
        let mut table = SstFileWriter::create(&self.options);
        table.open(&path).map_err(backend)?;
        visit_encoded(changes, |key, value| match value {
            Some(value) => table.put(key, value),
            None => table.delete(key),
        })
        .map_err(backend)?;
        if let Some(tip) = tip {
            table.put(TIP_KEY, tip_bytes(tip)).map_err(backend)?;
        }
        table.finish().map_err(backend)?;
        let mut how = IngestExternalFileOptions::default();
        how.set_move_files(true);
        self.database
            .ingest_external_file_opts(&how, vec![path])
            .map_err(backend)
    }
}

impl CoinStore for Rocks {
    fn get(&self, outpoint: &OutPoint) -> Result<Option<Coin>, StoreError> {
        let value = self.database.get_pinned(outpoint_key(outpoint)).map_err(backend)?;
        value.map(|value| decode_coin(outpoint, &value)).transpose()
    }

    fn get_many(&self, outpoints: &[OutPoint], coins: &mut Vec<Option<Coin>>) -> Result<(), StoreError> {
        let family = self.database.cf_handle("default");
        let family = family.ok_or_else(|| backend("the table is missing"))?;
        let keys: Vec<_> = outpoints.iter().map(outpoint_key).collect();
        let values = self.database.batched_multi_get_cf(family, &keys, false);
        for (outpoint, value) in outpoints.iter().zip(values) {
            let value = value.map_err(backend)?;
            coins.push(value.map(|value| decode_coin(outpoint, &value)).transpose()?);
        }
        Ok(())
    }

    fn tip(&self) -> Result<Option<Tip>, StoreError> {
        let value = self.database.get_pinned(TIP_KEY).map_err(backend)?;
        value.map(|value| decode_tip(&value)).transpose()
    }

    fn commit(&self, changes: &dyn Changes, tip: &Tip) -> Result<(), StoreError> {
        if self.purpose == Purpose::Load {
            // Tables of a load must not overlap, so the tip follows; a load that is cut short
            // begins again.
            self.write_table(changes, None)?;
            return self.write_batch(&NO_CHANGES, tip);
        }
        if self.ingest {
            return self.write_table(changes, Some(tip));
        }
        self.write_batch(changes, tip)
    }

    fn coins(&self) -> Result<CoinIterator, StoreError> {
        let database = Arc::clone(&self.database);
        iterate_in_thread(move |ready, give| {
            // The iterator itself is a snapshot.
            let mut how = ReadOptions::default();
            how.fill_cache(false);
            let entries = database.iterator_opt(IteratorMode::Start, how);
            ready();
            for entry in entries {
                let entry = match entry {
                    Ok((key, _)) if key.len() != KEY_LENGTH => continue,
                    Ok((key, value)) => decode_entry(&key, &value),
                    Err(error) => Err(backend(error)),
                };
                if !give(entry) {
                    return;
                }
            }
        })
    }

    fn disk_size(&self) -> Result<u64, StoreError> {
        disk_size(&self.directory).map_err(backend)
    }
}

impl Contestant for Rocks {
    fn settle(&self) -> Result<(), StoreError> {
        wait_for_rest(|| {
            for property in WORK {
                if self.database.property_int_value(property).map_err(backend)? != Some(0) {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    }
}
