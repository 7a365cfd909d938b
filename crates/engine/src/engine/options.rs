//! How an engine is to work.

use crate::report::signatures::Signatures;
use crate::report::trace::StageHook;
use blockmill_block::BlockHash;
use blockmill_fetch::Options as FetchOptions;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Parts of the pipeline that can be switched off. The outcome is the same without them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct Without {
    /// Fetching: resolve reads coins itself, one by one.
    pub fetch: bool,
    /// Overlap: a block is resolved when the one before it is committed.
    pub overlap: bool,
    /// Decoding ahead: a block is loaded when it is needed.
    pub decode: bool,
    /// Flushing in the background: connecting waits for every flush.
    pub background_flush: bool,
}

/// How the engine is to work.
#[derive(Debug, Clone)]
pub struct Options {
    /// Threads that validate, the caller's included.
    pub threads: usize,
    /// Memory for coins in bytes: the coins cache and the store's own cache.
    pub cache_bytes_max: usize,
    /// Time of work after which changes are flushed.
    pub flush_interval: Duration,
    /// A block whose chain is assumed to have valid scripts.
    pub assume_valid: Option<BlockHash>,
    /// How signatures are verified.
    pub signatures: Signatures,
    /// The height above which nothing is connected.
    pub stop_at_height: Option<u32>,
    /// Threads beside those that validate, which read coins from the store when its reads block.
    /// They are started when they are needed.
    pub readers: usize,
    /// What is to be left out, to show its share.
    pub without: Without,
    /// Whether the observer is told of every stage of every block.
    pub trace: bool,
    /// Called between the stages of every block.
    pub stage_hook: Option<StageHook>,
    /// Set by anyone to make the engine stop after the block it is at.
    pub stop: Arc<AtomicBool>,
}

impl Default for Options {
    /// All cores, 450 MiB, a flush a minute, every script checked, no end.
    fn default() -> Self {
        Self {
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            cache_bytes_max: 450 << 20,
            flush_interval: Duration::from_secs(60),
            assume_valid: None,
            signatures: Signatures::default(),
            stop_at_height: None,
            readers: FetchOptions::default().readers,
            without: Without::default(),
            trace: false,
            stage_hook: None,
            stop: Arc::new(AtomicBool::new(false)),
        }
    }
}
