//! `blockmill-bench checkqueue`: our check queue beside a locked queue and the queues of others.
//!
//! All do the same job. The master adds the checks of a round in groups of 1 to 10, as the
//! transactions of a block give them; checks begin at once; at the end the master learns the failed
//! check of the lowest index, if one failed. A check is a value of 64 bytes, about what Bitcoin
//! Core's is, that is made by the master and destroyed by who has run it.

mod contenders;
mod divided;
mod job;
mod locked;
mod ours;
mod script;
mod table;
mod targets;

pub(crate) use table::report;
