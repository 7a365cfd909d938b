//! `blockmill-bench coinmap`: our coin map beside the maps of the standard library and of
//! `hashbrown`.
//!
//! There are three tables: inserting and clearing; all operations of a coins cache, with many coins
//! of mixed scripts; and outpoints chosen to collide. Each run of a map is a process of its own, so
//! that its memory can be measured.
//!
//! In reading order: `coins`, the content; `contenders`, the maps; `document`, `work` and
//! `hostile`, the work of the three tables; `subprocess`, the processes; `table` and `rows`, the
//! plan and the printed rows; `memory` and `allocator`, the system's figures.

mod allocator;
mod coins;
mod contenders;
mod document;
mod hostile;
mod memory;
mod rows;
mod subprocess;
mod table;
mod work;

pub(crate) use subprocess::run_part;
pub(crate) use table::report;
