//! What happened: figures, findings, events, and what each thread did when.
//!
//! - [`stages`]: the stages of a block's way, and their times;
//! - [`totals`]: what the engine did, in figures;
//! - [`findings`]: blocks that cannot be connected, and why;
//! - [`signatures`]: how signatures are verified;
//! - [`wholeness`]: whether block files hold a whole chain;
//! - [`connect_report`]: the result of a run;
//! - [`events`]: what is worth a line in a log;
//! - [`observer`]: who hears of all this while it happens;
//! - `trace`: which thread did what when;
//! - `telemetry`: where the engine gathers all of it.

pub mod connect_report;
pub mod events;
pub mod findings;
pub mod observer;
pub mod signatures;
pub mod stages;
pub mod totals;
pub mod wholeness;

pub(crate) mod telemetry;
pub(crate) mod trace;

pub use connect_report::{ConnectReport, Halt};
pub use findings::{Leftover, Rejected, Unreadable};
pub use observer::{Indexing, Observer, Progress};
pub use stages::{Span, Stage, StageTime, Stages};
pub use totals::{Depth, FetchTotals, QueueTotals, Totals};
pub use wholeness::{NotWhole, RunOutcome, Wholeness};
