//! What only tests and benchmarks change: parts left out, and delays between stages. None of it is
//! covered by semantic versions.

pub use crate::report::trace::StageHook;

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
    /// Windows of several blocks, dealt out to threads: each block is resolved by itself, by one.
    pub shards: bool,
    /// Flushing in the background: connecting waits for every flush.
    pub background_flush: bool,
}

/// Sizes of windows and jobs, for all blocks, however few coins they spend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowSizes {
    /// Most blocks of a window.
    pub blocks: usize,
    /// Jobs that the shards are put into.
    pub jobs: usize,
}

/// Changes of an engine for tests and benchmarks.
#[derive(Debug, Clone, Default)]
pub struct Internals {
    /// What is left out, to show its share.
    pub without: Without,
    /// Called between the stages of every block.
    pub stage_hook: Option<StageHook>,
    /// Windows and jobs of other sizes.
    pub windows: Option<WindowSizes>,
}
