//! What a liar may try, and which condition is meant for it.

mod chains;
mod changes;
mod lies;
mod mergers;
