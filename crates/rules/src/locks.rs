//! Lock times and sequence locks.

use blockmill_block::Transaction;

/// Lock times below this are heights. The others are seconds since 1970.
pub const LOCKTIME_THRESHOLD: u32 = 500_000_000;

/// The sequence number that switches lock times off.
pub const SEQUENCE_FINAL: u32 = u32::MAX;

/// Bit of a sequence number without a relative lock.
pub const SEQUENCE_LOCKTIME_DISABLE: u32 = 1 << 31;

/// Bit of a sequence number that counts units of 512 seconds instead of blocks.
pub const SEQUENCE_LOCKTIME_TYPE: u32 = 1 << 22;

/// Bits of a sequence number that hold the count.
pub const SEQUENCE_LOCKTIME_MASK: u32 = 0xffff;

/// Binary logarithm of the seconds in a unit of time.
const SEQUENCE_LOCKTIME_GRANULARITY: u32 = 9;

/// Whether a transaction is final in a block at `height` (Core's `IsFinalTx`). Lock times are
/// compared with `cutoff`: the block's time, and from BIP 113 on the median time past of its
/// parent.
pub fn is_final(transaction: &Transaction<'_>, height: u32, cutoff: u32) -> bool {
    let lock_time = transaction.lock_time();
    let limit = if lock_time < LOCKTIME_THRESHOLD { height } else { cutoff };
    // The lock time is the last height or time at which the transaction is not final.
    lock_time == 0 || lock_time < limit || transaction.inputs().all(|input| input.sequence() == SEQUENCE_FINAL)
}

/// The relative locks of a transaction, combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceLock {
    /// Last height at which the transaction is locked. -1 without a lock by height.
    pub height: i64,
    /// Last median time past of a block's parent at which the transaction is locked. -1 without a
    /// lock by time.
    pub time: i64,
}

/// The relative locks of a transaction (BIP 68, Core's `CalculateSequenceLocks`). `coin_height`
/// gives the height of the coin of an input, `median_time_past` the median time past of the block
/// at a height.
pub fn sequence_lock(
    transaction: &Transaction<'_>,
    coin_height: impl Fn(usize) -> u32,
    median_time_past: impl Fn(u32) -> u32,
) -> SequenceLock {
    let mut lock = SequenceLock { height: -1, time: -1 };
    // Older transactions use sequence numbers for other things.
    if transaction.version() < 2 {
        return lock;
    }
    for (index, input) in transaction.inputs().enumerate() {
        let sequence = input.sequence();
        if sequence & SEQUENCE_LOCKTIME_DISABLE != 0 {
            continue;
        }
        let height = coin_height(index);
        let count = i64::from(sequence & SEQUENCE_LOCKTIME_MASK);
        if sequence & SEQUENCE_LOCKTIME_TYPE != 0 {
            // The lock counts from the block before the coin's, as its median time is known then.
            let coin_time = i64::from(median_time_past(height.saturating_sub(1)));
            lock.time = lock.time.max(coin_time + (count << SEQUENCE_LOCKTIME_GRANULARITY) - 1);
        } else {
            lock.height = lock.height.max(i64::from(height) + count - 1);
        }
    }
    lock
}

impl SequenceLock {
    /// Whether the locks are open for a block at `height` whose parent has this median time past.
    pub fn is_open(&self, height: u32, parent_median_time_past: u32) -> bool {
        self.height < i64::from(height) && self.time < i64::from(parent_median_time_past)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blockmill_block::transaction::OwnedTransaction;

    fn transaction(version: u8, sequences: &[u32], lock_time: u32) -> OwnedTransaction {
        let mut bytes = vec![version, 0, 0, 0, sequences.len() as u8];
        for sequence in sequences {
            bytes.extend([7; 36]);
            bytes.push(0);
            bytes.extend(sequence.to_le_bytes());
        }
        bytes.extend([1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend(lock_time.to_le_bytes());
        OwnedTransaction::decode(bytes).unwrap()
    }

    #[test]
    fn finality_at_its_boundaries() {
        let check = |lock_time, sequences: &[u32], expected| {
            let transaction = transaction(1, sequences, lock_time);
            assert_eq!(is_final(&transaction.view(), 100, 600_000_000), expected, "{lock_time}");
        };
        check(0, &[0], true);
        check(99, &[0], true);
        check(100, &[0], false);
        check(100, &[SEQUENCE_FINAL], true);
        check(100, &[SEQUENCE_FINAL, SEQUENCE_FINAL - 1], false);
        check(LOCKTIME_THRESHOLD - 1, &[0], false);
        check(LOCKTIME_THRESHOLD, &[0], true);
        check(599_999_999, &[0], true);
        check(600_000_000, &[0], false);
    }

    fn check_lock(version: u8, sequences: &[u32], height: i64, time: i64) {
        let transaction = transaction(version, sequences, 0);
        let lock = sequence_lock(&transaction.view(), |input| 50 + input as u32, |height| height * 1000);
        assert_eq!(lock, SequenceLock { height, time });
    }

    #[test]
    fn relative_locks() {
        check_lock(1, &[10], -1, -1);
        check_lock(2, &[10], 59, -1);
        check_lock(2, &[10, 10], 60, -1);
        check_lock(2, &[0], 49, -1);
        check_lock(2, &[SEQUENCE_LOCKTIME_DISABLE | 10], -1, -1);
        // The time runs from the block before the coin's.
        check_lock(2, &[SEQUENCE_LOCKTIME_TYPE | 3], -1, 49_000 + 3 * 512 - 1);
        check_lock(2, &[0x003f_0000 | 10], 59, -1);
        check_lock(255, &[10], 59, -1);
    }

    #[test]
    fn openness_at_its_boundaries() {
        let lock = SequenceLock { height: 59, time: 999 };
        assert!(lock.is_open(60, 1000));
        assert!(!lock.is_open(59, 1000));
        assert!(!lock.is_open(60, 999));
    }
}
