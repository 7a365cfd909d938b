//! How an engine is to work.

use blockmill_block::BlockHash;
use blockmill_chain::report::signatures::Signatures;
use blockmill_fetch::Options as FetchOptions;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How the engine is to work.
#[derive(Debug, Clone)]
pub struct Options {
    /// Threads that validate, the caller's included.
    pub threads: usize,
    /// Limit of the coins cache in bytes, the command's `--dbcache`. [`Plan`](crate::Plan) has what
    /// comes on top.
    pub cache_bytes_max: usize,
    /// Time of work after which changes are flushed. Zero: every block is flushed.
    pub flush_interval: Duration,
    /// A block whose chain is assumed to have valid scripts.
    pub assume_valid: Option<BlockHash>,
    /// How signatures are verified.
    pub signatures: Signatures,
    /// The height above which nothing is connected.
    pub stop_at_height: Option<u32>,
    /// Threads beside those that validate, which read coins when reads of the store block. The
    /// engine starts them when it needs them.
    pub readers: usize,
    /// Whether the observer hears of every stage of every block.
    pub trace: bool,
    /// Set by anyone to make the engine stop after the block it is at.
    pub stop: Arc<AtomicBool>,
}

impl Default for Options {
    /// All cores, 450 MiB, a flush a minute, every script checked, no end.
    fn default() -> Self {
        Self {
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            // Core's default for `-dbcache`.
            cache_bytes_max: 450 << 20,
            // A kill costs a minute of work at most.
            flush_interval: Duration::from_secs(60),
            assume_valid: None,
            signatures: Signatures::default(),
            stop_at_height: None,
            readers: FetchOptions::default().readers,
            trace: false,
            stop: Arc::new(AtomicBool::new(false)),
        }
    }
}
