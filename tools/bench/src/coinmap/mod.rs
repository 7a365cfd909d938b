//! `blockmill-bench coinmap`: our coin map beside the maps of the standard library and of
//! `hashbrown`.
//!
//! Three tables: inserts and clears; all that a coins cache does, with many coins of mixed scripts;
//! and outpoints that somebody chose so that they collide. Each run of a map is a process of its
//! own, so that its memory is its own.
//!
//! In reading order: `coins`, what goes into the maps; `contenders`, the maps; `document`, `work`
//! and `hostile`, what is done with them; `part`, the processes; `table` and `rows`, the plan and
//! what is printed; `memory` and `allocator`, what the system says.

mod allocator;
mod coins;
mod contenders;
mod document;
mod hostile;
mod memory;
mod part;
mod rows;
mod table;
mod work;

pub(crate) use part::run_part;
pub(crate) use table::report;
