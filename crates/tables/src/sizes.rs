//! The sizes of a transaction.

use blockmill_chain::SpendingTransaction;

/// The sizes of a transaction.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// In bytes.
    pub size: u64,
    /// In virtual bytes.
    pub vsize: u64,
    /// In weight units.
    pub weight: u64,
}

impl Sizes {
    /// Those of a transaction.
    pub fn of(spending: &SpendingTransaction<'_>) -> Self {
        let transaction = &spending.transaction;
        let (base, size) = (transaction.base_size() as u64, transaction.total_size() as u64);
        // BIP 141: what is no witness counts four times.
        let weight = base * 3 + size;
        Self {
            size,
            vsize: weight.div_ceil(4),
            weight,
        }
    }
}
