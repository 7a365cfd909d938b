//! What is said of blocks and chains, and who hears it.
//!
//! - [`events`]: events, their log levels, and the observer that receives them;
//! - [`wholeness`]: whether block files hold a whole chain;
//! - [`findings`]: blocks that cannot be connected, and why;
//! - [`signatures`]: how signatures are verified.

pub mod events;
pub mod findings;
pub mod signatures;
pub mod wholeness;

pub use events::{BlockChange, Event, Indexing, Level, Observer, Older, Progress};
pub use findings::{Leftover, Rejected, Unreadable};
pub use signatures::Signatures;
pub use wholeness::{NotWhole, RunOutcome, Wholeness};
