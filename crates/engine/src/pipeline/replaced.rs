//! Coins that a repeated coinbase replaces. Only the two exceptions of BIP 30 replace any, and undo
//! data does not have those coins.

use crate::pipeline::outline::Outline;
use blockmill_block::{Coin, CoinRef};
use blockmill_coins::{CoinsCache, HashedOutPoint, Overwrite, StoreError};

/// Coins that were spent to make room. Once the block is committed that replaces them they are gone
/// for good.
#[derive(Debug, Default)]
pub(crate) struct Replaced(Vec<(HashedOutPoint, Coin)>);

impl Replaced {
    /// Spends the coins that are where the coinbase of a block creates its own.
    pub(crate) fn spend(outline: &Outline, cache: &mut CoinsCache) -> Result<Self, StoreError> {
        let mut replaced = Vec::new();
        for create in outline.all_creates().iter().filter(|create| create.transaction == 0) {
            let coin = cache.spend(create.at.outpoint())?;
            replaced.extend(coin.map(|coin| (create.at, coin)));
        }
        Ok(Self(replaced))
    }

    /// Restores the coins, as the block is not in flight, or no longer.
    pub(crate) fn restore(&self, cache: &mut CoinsCache) {
        for (at, coin) in &self.0 {
            cache.add(at.outpoint(), CoinRef::from(coin), Overwrite::Possible);
        }
    }
}
