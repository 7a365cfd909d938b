//! What a run did: figures, and what each thread did when. What is said of blocks and chains is in
//! `blockmill-chain`.
//!
//! - `telemetry`: where the engine gathers all of it;
//! - [`connect_report`]: the result of a run;
//! - `trace`: which thread did what when;
//! - [`totals`]: what the engine did, in figures;
//! - [`table`]: the names of these figures, and how they add up;
//! - [`stages`]: the stages of a block's way, and their times.

pub mod connect_report;
pub mod stages;
pub mod table;
pub mod totals;

pub(crate) mod telemetry;
pub(crate) mod trace;

pub use blockmill_chain::report::{
    Indexing, Leftover, NotWhole, Observer, Progress, Rejected, RunOutcome, Unreadable, Wholeness, events, findings,
    signatures, wholeness,
};
pub use connect_report::{ConnectReport, Halt};
pub use stages::{Span, Stage, StageTime, Stages};
pub use table::{FIGURES, Figure, Value};
pub use totals::{Depth, FetchTotals, LiveTotals, QueueTotals, Totals};
pub use trace::Spans;
