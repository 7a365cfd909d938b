//! Who hears the figures of a run while it goes on.

use crate::report::stages::Span;
use crate::report::totals::Totals;
use blockmill_coins::CacheCounters;

/// Hears the figures of a run, on the connecting thread.
pub trait FiguresObserver {
    /// What was done so far, and how often the coins cache had what was asked for; after every
    /// [`progress`](blockmill_chain::Observer::progress).
    fn totals(&mut self, totals: &Totals, cache: &CacheCounters) {
        let _ = (totals, cache);
    }

    /// A thread of this name has done something; only with [`Options::trace`](crate::Options).
    fn span(&mut self, thread: &str, span: &Span) {
        let _ = (thread, span);
    }
}

/// Hears nothing.
impl FiguresObserver for () {}
