//! What is said of blocks and chains, and who hears it.
//!
//! - [`observer`]: who hears what happens while it happens;
//! - [`events`]: what happens, and whether it is worth a line in a log;
//! - [`wholeness`]: whether block files hold a whole chain;
//! - [`findings`]: blocks that cannot be connected, and why;
//! - [`signatures`]: how signatures are verified.

pub mod events;
pub mod findings;
pub mod observer;
pub mod signatures;
pub mod wholeness;

pub use events::{BlockChange, Event, Indexing, Level, Older, Progress};
pub use findings::{Leftover, Rejected, Unreadable};
pub use observer::Observer;
pub use signatures::Signatures;
pub use wholeness::{NotWhole, RunOutcome, Wholeness};
