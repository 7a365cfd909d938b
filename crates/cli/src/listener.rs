//! Who hears what a long command does, beside the terminal and the log.

use blockmill_chain::Event;
use blockmill_datadir::Status;
use blockmill_engine::report::LiveTotals;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Hears what a command does, on any of its threads.
pub(crate) trait Listener: Send + Sync {
    /// Another process has the data directory.
    fn waits_for_lock(&self);

    /// The data directory is open.
    fn opened(&self, network: &'static str, height: u32, totals: LiveTotals);

    /// The network is known.
    fn network(&self, network: &'static str);

    /// The engine, or what reads blocks beside it, tells something.
    fn event(&self, event: &Event<'_>);
}

/// What is known of a command before it begins.
#[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only the page shows it"))]
pub(crate) struct Command<'a> {
    /// Its name.
    pub(crate) name: &'static str,
    /// Threads that validate.
    pub(crate) threads: usize,
    /// Memory for the coins cache, where there is one.
    pub(crate) cache_bytes_max: Option<u64>,
    /// Its data directory, where blocks are connected, and how far that is. A directory that cannot
    /// be read has no status, which its opening reports.
    pub(crate) data: Option<(&'a Path, Option<Status>)>,
    /// Set when the command is to stop.
    pub(crate) stop: &'a Arc<AtomicBool>,
}
