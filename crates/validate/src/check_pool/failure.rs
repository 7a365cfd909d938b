//! A check that has failed.

use blockmill_rules::VerifyError;

/// A check that has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckFailure {
    /// The input's number, counted through the block.
    pub input: usize,
    /// Why.
    pub error: VerifyError,
}

impl CheckFailure {
    /// The one of the lower input.
    pub(super) fn lower(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        one.into_iter().chain(other).min_by_key(|failure| failure.input)
    }
}
