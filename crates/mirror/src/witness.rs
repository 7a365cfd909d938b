//! Who hears what a mirror does.

use blockmill_chain::{Event, Level, Observer};
use serde_json::Value;

/// Hears what a mirror does, on any of its threads.
pub trait Witness: Send + Sync {
    /// Work has begun that cannot be counted.
    fn begins(&self, what: &'static str);

    /// Coins are read, or blocks that an earlier set is made from.
    fn event(&self, event: &Event<'_>);

    /// So many blocks of all are in the tables, which have so many transactions.
    fn blocks(&self, done: u64, of: u64, transactions: u64);

    /// A line for a log: its name, its text, and an object of fields.
    fn line(&self, level: Level, name: &str, text: &str, fields: Value);
}

/// A witness as an observer.
pub(crate) struct Heard<'w>(pub(crate) &'w dyn Witness);

impl Observer for Heard<'_> {
    fn event(&mut self, event: &Event<'_>) {
        self.0.event(event);
    }
}

/// Hears nothing.
#[cfg(test)]
pub(crate) struct Mute;

#[cfg(test)]
impl Witness for Mute {
    fn begins(&self, _: &'static str) {}

    fn event(&self, _: &Event<'_>) {}

    fn blocks(&self, _: u64, _: u64, _: u64) {}

    fn line(&self, _: Level, _: &str, _: &str, _: Value) {}
}
