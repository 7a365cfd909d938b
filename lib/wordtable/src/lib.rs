//! A sorted table of 64-bit words with gaps.
//!
//! The upper half of a word is its *tag*. The lower half is the caller's. Each tag has a *home*: the
//! index in the table in proportion to its value. Words are sorted, and each is at its home or after
//! it. So a search begins at the home, and ends at the first word that is not smaller. For the same
//! reason a table can be copied into a larger table from front to back.
//!
//! ```
//! use blockmill_wordtable::{Insertion, Shape, WordTable};
//!
//! struct Dense;
//!
//! impl Shape for Dense {
//!     const FREE_SHARE: usize = 16;
//!     const GROWTH_SHARE: usize = 16;
//!     const SPARE_SHARE: usize = 10;
//! }
//!
//! let mut table = WordTable::<Dense>::from_sorted(&[1 << 32, 5 << 32], |_| true).unwrap();
//! assert_eq!(table.insert(3 << 32), Insertion::Inserted);
//! assert!(table.remove(1 << 32));
//! assert!(table.iter().eq([3 << 32, 5 << 32]));
//! ```
//!
//! In reading order:
//! - `prefetch`: loading a line of memory before it is read;
//! - `row`: a long row of words, in pieces;
//! - `table`: the table.

mod prefetch;
mod row;
mod table;

pub use prefetch::prefetch;
pub use row::GAP;
pub use table::{Distances, Insertion, Shape, WordTable, tag_of};

/// Compiles and runs the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
