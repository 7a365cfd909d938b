//! `blockmill-bench checkqueue`: our check queue beside a locked queue and peers.
//!
//! All do the same job. The master adds the checks of a round in groups of 1 to 10, like those of a
//! block's transactions, and checks begin at once. At the end the master learns the lowest index of
//! a failed check. A check is a value of 64 bytes, about the size of Bitcoin Core's. The master
//! makes it, and the thread that runs it destroys it.

mod contenders;
mod job;
mod locked;
mod ours;
mod script;
mod static_split;
mod table;
mod targets;

pub(crate) use table::report;
