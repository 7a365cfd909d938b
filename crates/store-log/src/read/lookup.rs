//! Single coins, without the index.
//!
//! The words of a shard stand side by side in a checkpoint, so one coin is found by reading a
//! hundred kilobytes or so. What came after the checkpoint is found by the keys of its
//! pages. The state of all pages has to be there, 12 bytes for each.

use crate::format::label::checkpoint_path;
use crate::format::location::Location;
use crate::format::page::{KeyRange, RECORDS_MAX};
use crate::format::records::PageReader;
use crate::format::segment::Identity;
use crate::index::table::{IndexKey, locations};
use crate::open::checkpoint::Checkpoint;
use crate::open::directory::find_to_read;
use crate::open::recover::{Recovered, recover};
use blockmill_block::{Coin, OutPoint};
use blockmill_coins::{LastCommit, StoreError, Tip};
use std::path::{Path, PathBuf};

/// Looks up single coins of a store, as they were when it was made. It needs little memory, and
/// begins sooner than a [`LogStore`](crate::LogStore), whose look-ups are faster.
pub struct Lookup {
    directory: PathBuf,
    identity: Identity,
    recovered: Recovered,
    checkpoint: Option<Checkpoint>,
}

impl std::fmt::Debug for Lookup {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Lookup")
            .field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}

impl Lookup {
    /// Opens the store in a directory, also while another process writes it. Without a `network`
    /// every network is accepted.
    ///
    /// # Errors
    /// As [`LogStore::open_to_read`](crate::LogStore::open_to_read).
    pub fn open(directory: &Path, network: Option<&str>) -> Result<Self, StoreError> {
        find_to_read(directory, network, |segments, identity| {
            let mut take = |_: &Recovered, checkpoint| Ok(Some(checkpoint));
            let (recovered, checkpoint) = recover(directory, &identity, &segments, &mut take)?;
            Ok(Self {
                directory: directory.to_owned(),
                identity,
                recovered,
                checkpoint,
            })
        })
    }

    /// The network of the store, on signet with its challenge.
    pub fn network(&self) -> &str {
        &self.identity.network
    }

    /// The tip; none before the first commit.
    pub fn tip(&self) -> Option<Tip> {
        self.recovered.ledger.tip
    }

    /// The last commit.
    pub fn last_commit(&self) -> LastCommit {
        self.recovered.ledger.last_commit(&self.identity, self.recovered.tail)
    }

    /// The coin of an outpoint; none if the store has none.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] for a damaged page, else [`StoreError::Backend`].
    pub fn get(&self, outpoint: &OutPoint) -> Result<Option<Coin>, StoreError> {
        let Recovered { table, ledger, .. } = &self.recovered;
        let mut reader = PageReader::new(table);
        for location in self.candidates(outpoint)? {
            // The checkpoint may have words of records that died since.
            if ledger.is_live(location)
                && let Some(coin) = reader.coin(location, outpoint)?
            {
                return Ok(Some(coin));
            }
        }
        Ok(None)
    }

    /// Where the coin may lie.
    fn candidates(&self, outpoint: &OutPoint) -> Result<Vec<Location>, StoreError> {
        let key = IndexKey::of(self.identity.hash_key().hash(outpoint));
        let mut found = Vec::new();
        if let Some(checkpoint) = &self.checkpoint {
            let words = checkpoint.words(key.group, key.shard).ok_or_else(|| {
                let path = checkpoint_path(&self.directory);
                StoreError::Corrupt(format!(
                    "{}: not what was written; it may be removed, since the log has everything",
                    path.display()
                ))
            })?;
            found.extend(locations(&words, key.tag));
        }
        let prefix = KeyRange::of(&outpoint.txid.0).first;
        for &(slot, page) in &self.recovered.replayed.pages {
            let segment = self.recovered.ledger.segment(slot);
            let has_prefix = segment.is_some_and(|segment| {
                let range = segment.ranges()[page as usize];
                segment.masks()[page as usize] != 0 && range.first <= prefix && prefix <= range.last
            });
            // Any record of the page may be it: the look-up reads the page once for all.
            if has_prefix {
                found.extend((0..RECORDS_MAX as u32).map(|record| Location::new(slot, page, record)));
            }
        }
        Ok(found)
    }
}
