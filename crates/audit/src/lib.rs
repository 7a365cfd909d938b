//! A whole chain of blocks validated in any order, on any number of threads and machines.
//!
//! Undo data has the coins that each block spends. With it every rule of every block is checked
//! alone. Whether it is true, two products say: the coins that all blocks create are those that all
//! blocks spend, and those of a UTXO set. `docs/audit.md` has the argument.
//!
//! - [`Auditor`] audits a directory of block files and a snapshot, a data directory, or a range of
//!   heights;
//! - [`merge`] joins the [parts](Part) of ranges;
//! - [`Key`] is the secret of a run.
//!
//! ```no_run
//! use blockmill_audit::{Auditor, Sources, Verdict};
//! use blockmill_block::Network;
//! use blockmill_chain::Signatures;
//! use blockmill_rules::Params;
//! use blockmill_script::CoreVerifier;
//! use std::sync::{Arc, atomic::AtomicBool};
//!
//! let (verifier, stop) = (Arc::new(CoreVerifier::new(blockmill_script::Signatures::Lanes)), AtomicBool::new(false));
//! let auditor = Auditor::new(&verifier, 16, Signatures::Auto, &stop);
//! let sources = Sources {
//!     blocks: &["blocks".into()],
//!     headers: &[],
//!     params: &Params::new(Network::Bitcoin, None),
//! };
//! let report = auditor.files(&sources, "utxo.dat".as_ref(), None, &mut ())?;
//! assert_eq!(report.verdict, Verdict::Proved);
//! # Ok::<(), blockmill_audit::AuditError>(())
//! ```

mod audit;
mod conditions;
mod error;
mod field;
mod file_states;
mod finding;
mod fingerprint;
mod joined;
mod key;
mod mark;
mod merge;
mod own_folder;
mod part;
mod range_sums;
mod report;
mod set;
mod sum;
mod whole;
mod workplace;

pub use audit::{Auditor, ChainOfSet, PartReport, Sources};
pub use error::AuditError;
pub use finding::{Finding, FindingKind};
pub use key::{Key, KeyError, RunId};
pub use mark::{Mark, MarkError, Noted, StoreName};
pub use merge::{NamedPart, merge, read_parts};
pub use part::{JoinError, Part, PartError};
pub use report::{Report, Verdict};
pub use set::AuditedSet;
pub use workplace::ranges;

#[cfg(test)]
mod tests;
