//! The third table's work: outpoints that an attacker chose so that their hashes collide. The
//! attacker knows the key of the map, or another key.
//!
//! The highest 6 bits of a hash choose the shard, the next 4 the segment. The segment's table is
//! sorted by the 32 bits below them. Outpoints with the first 10 bits in common land in one table
//! of the 1,024; with more bits in common, in one part of that table.

use super::contenders::Tally;
use super::work::{Phase, expect};
use crate::error::BenchError;
use blockmill_block::{OutPoint, Txid};
use blockmill_coinmap::{CoinMap, CoinRef, EntryFlags, HashKey, IndexStatistics};
use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher13;

/// The key that the attacker knows.
const KNOWN: (u64, u64) = (0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210);

/// Outpoints whose hashes have their first bits in common.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Attack {
    /// Number of common bits; 0 for arbitrary outpoints.
    pub(super) bits: u32,
    /// Number of outpoints.
    pub(super) outpoints: usize,
    /// Whether the map has the key that the attacker knows, or a key from the system.
    pub(super) known: bool,
}

/// The outcome of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Outcome {
    pub(super) insert: Phase,
    pub(super) find: Phase,
    pub(super) remove: Phase,
    pub(super) distance_mean: f64,
    pub(super) distance_max: usize,
    pub(super) overflowed: usize,
    pub(super) accounted_bytes: usize,
}

/// Outpoints whose hashes under the known key begin with the same bits.
fn colliding(attack: Attack) -> Vec<OutPoint> {
    let sip = SipHasher13::new_with_keys(KNOWN.0, KNOWN.1);
    let mut bytes = [0x5a; OutPoint::LENGTH];
    bytes[32..].fill(0);
    let wanted = |hash: u64| attack.bits == 0 || hash >> (64 - attack.bits) == 0;
    let mut outpoints = Vec::with_capacity(attack.outpoints);
    let mut number = 0u64;
    while outpoints.len() < attack.outpoints {
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        number += 1;
        if wanted(sip.hash(&bytes)) {
            let mut txid = [0; 32];
            txid.copy_from_slice(&bytes[..32]);
            outpoints.push(OutPoint {
                txid: Txid(txid),
                vout: 0,
            });
        }
    }
    outpoints
}

fn coin(number: usize) -> CoinRef<'static> {
    CoinRef {
        value: number as i64,
        height: 1,
        is_coinbase: false,
        script_pubkey: &[0x51],
    }
}

/// Inserts the outpoints, finds each, removes each.
pub(super) fn run(attack: Attack) -> Result<Outcome, BenchError> {
    let outpoints = colliding(attack);
    let count = outpoints.len() as u64;
    let mut wanted = Tally::default();
    (0..outpoints.len()).for_each(|number| wanted.add(Some(number as i64)));
    let mut map = match attack.known {
        true => CoinMap::with_key(HashKey::known(KNOWN.0, KNOWN.1)),
        false => CoinMap::new(),
    };
    let mut insert = Phase::new("insert");
    let mut find = Phase::new("find");
    let mut remove = Phase::new("remove");
    insert.time(count, || {
        let mut map = map.exclusive();
        for (number, outpoint) in outpoints.iter().enumerate() {
            map.insert(outpoint, EntryFlags::NONE, Some(coin(number)));
        }
    });
    let IndexStatistics {
        words,
        overflowed,
        distance_sum,
        distance_max,
        ..
    } = map.index_statistics();
    let accounted_bytes = map.bytes();
    let found = find.time(count, || {
        let mut map = map.exclusive();
        let mut tally = Tally::default();
        for outpoint in &outpoints {
            tally.add(map.get(outpoint).map(|entry| entry.value()));
        }
        tally
    });
    expect("colliding outpoints, find", found, wanted)?;
    let removed = remove.time(count, || {
        let mut map = map.exclusive();
        outpoints.iter().filter(|outpoint| map.remove(outpoint)).count()
    });
    let removed = Tally {
        count: removed as u64,
        value_sum: wanted.value_sum,
    };
    expect("colliding outpoints, remove", removed, wanted)?;
    Ok(Outcome {
        insert,
        find,
        remove,
        distance_mean: distance_sum as f64 / words.max(1) as f64,
        distance_max,
        overflowed,
        accounted_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_knows_the_key_fills_one_table() {
        let attack = |known, bits| {
            run(Attack {
                bits,
                outpoints: 2000,
                known,
            })
            .unwrap()
        };
        let (usual, unknown, known) = (attack(true, 0), attack(false, 14), attack(true, 14));
        assert!(known.distance_mean > 100.0 && known.overflowed > 0, "{known:?}");
        for usual in [usual, unknown] {
            assert!(usual.distance_max < 100 && usual.overflowed == 0, "{usual:?}");
        }
    }
}
