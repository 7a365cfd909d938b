//! What all stores share: how they are opened, keys, values, and waiting for rest.

#[cfg(feature = "leveldb")]
use crate::meter::disk_bytes;
use blockmill_block::reader::DecodeError;
use blockmill_block::{BlockHash, Coin, OutPoint};
use blockmill_coins::store::{KEY_LENGTH, OutpointKey, decode_coin, outpoint_from_key, outpoint_key};
use blockmill_coins::{Changes, CoinIterator, CoinStore, OwnedChange, StoreError, Tip};
use blockmill_store_log::LogStore;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

/// What a store is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The bulk load: commits come in the order of keys, each above the one before.
    Load,
    /// Everything else.
    Use,
}

/// How a store is opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) purpose: Purpose,
    /// Memory for the store's own cache of pages or blocks.
    pub(crate) cache_bytes: usize,
    /// Largest number of coins, for a store that must know its size beforehand.
    pub(crate) coins_max: u64,
}

/// A store with the one thing that the trait has no word for.
pub(crate) trait Contestant: CoinStore {
    /// Waits until work in the background has come to rest.
    ///
    /// # Errors
    /// [`StoreError::Backend`].
    fn settle(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

impl Contestant for LogStore {}

pub(super) fn backend(error: impl std::fmt::Display) -> StoreError {
    StoreError::Backend(error.to_string())
}

/// How long nothing must go on in the background before it counts as at rest.
pub(super) const REST: Duration = Duration::from_millis(500);
pub(super) const REST_CHECKS: u32 = 10;

/// The key of the tip where coins and tip share a table: above all keys of coins.
pub(super) const TIP_KEY: [u8; KEY_LENGTH + 1] = [0xff; KEY_LENGTH + 1];

pub(super) fn damaged(what: &str, wanted: usize) -> StoreError {
    StoreError::Damaged {
        what: what.to_owned(),
        error: DecodeError::UnexpectedEnd { offset: 0, wanted },
    }
}

pub(super) fn decode_entry(key: &[u8], value: &[u8]) -> Result<(OutPoint, Coin), StoreError> {
    let outpoint = outpoint_from_key(key.try_into().map_err(|_| damaged("a key", KEY_LENGTH))?);
    Ok((outpoint, decode_coin(&outpoint, value)?))
}

/// Calls `each` with the key of each change, and the value as it is stored or none.
pub(super) fn visit_encoded<E>(
    changes: &dyn Changes,
    mut each: impl FnMut(&OutpointKey, Option<&[u8]>) -> Result<(), E>,
) -> Result<(), E> {
    let mut value = Vec::new();
    let mut result = Ok(());
    changes.visit_all(&mut |change| {
        if result.is_err() {
            return;
        }
        value.clear();
        let coin = change.coin.map(|coin| {
            coin.write_compressed(&mut value);
            &value[..]
        });
        result = each(&outpoint_key(&change.outpoint), coin);
    });
    result
}

/// No changes: a commit of the tip alone.
pub(super) const NO_CHANGES: &[OwnedChange] = &[];

pub(super) fn tip_bytes(tip: &Tip) -> Vec<u8> {
    let mut bytes = tip.hash.0.to_vec();
    bytes.extend(tip.height.to_le_bytes());
    bytes
}

pub(super) fn decode_tip(bytes: &[u8]) -> Result<Tip, StoreError> {
    let bytes: &[u8; 36] = bytes.try_into().map_err(|_| damaged("the tip", 36))?;
    let mut hash = [0; 32];
    hash.copy_from_slice(&bytes[..32]);
    Ok(Tip {
        hash: BlockHash(hash),
        height: u32::from_le_bytes([bytes[32], bytes[33], bytes[34], bytes[35]]),
    })
}

/// Waits until nothing has gone on in the background for a while.
pub(super) fn wait_for_rest(mut is_busy: impl FnMut() -> Result<bool, StoreError>) -> Result<(), StoreError> {
    let mut quiet = 0;
    while quiet < REST_CHECKS {
        quiet = if is_busy()? { 0 } else { quiet + 1 };
        std::thread::sleep(REST / REST_CHECKS);
    }
    Ok(())
}

/// CPU time of the whole process between two looks that is too little for work in the background.
#[cfg(feature = "leveldb")]
pub(super) const QUIET_CPU_SECONDS: f64 = 0.1 * REST.as_millis() as f64 / 1e3 / REST_CHECKS as f64;

/// The same for a store that does not say what it does: waits until the process has used next to no
/// CPU time for a while, and no disk.
#[cfg(feature = "leveldb")]
pub(super) fn wait_until_quiet() -> Result<(), StoreError> {
    let mut before = None;
    wait_for_rest(|| {
        let now = (blockmill_harness::process_cpu_seconds(), disk_bytes());
        let is_quiet = |before: (f64, u64)| now.0 - before.0 < QUIET_CPU_SECONDS && now.1 == before.1;
        Ok(!before.replace(now).is_some_and(is_quiet))
    })
}

pub(super) type Entry = Result<(OutPoint, Coin), StoreError>;

/// Entries come through a channel in parts of this many.
pub(super) const PART_ENTRIES: usize = 1024;

/// Iterates in a thread, for stores whose iterators borrow from them. `iterate` says once that its
/// snapshot stands, then hands over entries until it is told to stop.
pub(super) fn iterate_in_thread<F>(iterate: F) -> Result<CoinIterator, StoreError>
where
    F: FnOnce(&mut dyn FnMut(), &mut dyn FnMut(Entry) -> bool) + Send + 'static,
{
    let (ready, stands) = sync_channel(1);
    let (sender, receiver) = sync_channel::<Vec<Entry>>(4);
    std::thread::spawn(move || {
        let mut part = Vec::with_capacity(PART_ENTRIES);
        iterate(&mut || ready.send(()).unwrap_or(()), &mut |entry| {
            part.push(entry);
            part.len() < PART_ENTRIES || sender.send(std::mem::take(&mut part)).is_ok()
        });
        sender.send(part).unwrap_or(());
    });
    stands.recv().map_err(backend)?;
    Ok(Box::new(receiver.into_iter().flatten()))
}
