//! Stored coins merged with the changes of a cache.

use crate::store::StoreError;
use blockmill_block::{Coin, OutPoint};
use std::iter::Peekable;

/// Stored coins merged with changes. Both inputs are sorted by key.
pub(crate) struct MergedCoins<C: Iterator, S: Iterator> {
    changes: Peekable<C>,
    stored: Peekable<S>,
}

impl<C: Iterator, S: Iterator> MergedCoins<C, S> {
    pub(crate) fn new(changes: C, stored: S) -> Self {
        Self {
            changes: changes.peekable(),
            stored: stored.peekable(),
        }
    }
}

impl<C, S> Iterator for MergedCoins<C, S>
where
    C: Iterator<Item = (OutPoint, Option<Coin>)>,
    S: Iterator<Item = Result<(OutPoint, Coin), StoreError>>,
{
    type Item = Result<(OutPoint, Coin), StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let stored = match self.stored.peek() {
                Some(Ok((outpoint, _))) => Some(*outpoint),
                // What comes after an error is unknown, so it is not held back.
                Some(Err(_)) => return self.stored.next(),
                None => None,
            };
            let Some(changed) = self.changes.peek().map(|change| change.0) else {
                return self.stored.next();
            };
            if stored.is_some_and(|stored| stored < changed) {
                return self.stored.next();
            }
            // The change is newer than what the store has.
            if stored == Some(changed) {
                self.stored.next();
            }
            // A change without a coin hides the stored one, and the loop goes on.
            if let Some((outpoint, Some(coin))) = self.changes.next() {
                return Some(Ok((outpoint, coin)));
            }
        }
    }
}
