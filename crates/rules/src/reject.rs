//! Refusals.

use std::borrow::Cow;
use std::fmt;

/// What a refusal says about the block's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RejectKind {
    /// The block is invalid, and so is everything that builds on it.
    Consensus,
    /// The header itself is invalid.
    Header,
    /// The header has no proof of work: nobody has mined it, so it is damage and not a block.
    NoWork,
    /// The content does not belong to the header, or may not: another content under the same header may be valid.
    Mutated,
    /// The header's time is too far in the future: it may become valid.
    TimeFuture,
}

/// Why a block is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reject {
    /// Bitcoin Core's word for it.
    pub reason: Cow<'static, str>,
    /// What follows for the block's name.
    pub kind: RejectKind,
    /// Place of the transaction in the block, where one is to blame.
    pub transaction: Option<usize>,
    /// Place of the input in that transaction, where one is to blame.
    pub input: Option<usize>,
}

impl Reject {
    const fn new(reason: &'static str, kind: RejectKind) -> Self {
        Self {
            reason: Cow::Borrowed(reason),
            kind,
            transaction: None,
            input: None,
        }
    }

    /// The block breaks a rule of consensus.
    pub const fn consensus(reason: &'static str) -> Self {
        Self::new(reason, RejectKind::Consensus)
    }

    /// The header breaks a rule.
    pub const fn header(reason: &'static str) -> Self {
        Self::new(reason, RejectKind::Header)
    }

    /// The content may not be that of the header.
    pub const fn mutated(reason: &'static str) -> Self {
        Self::new(reason, RejectKind::Mutated)
    }

    /// The header lies in the future.
    pub const fn time_future(reason: &'static str) -> Self {
        Self::new(reason, RejectKind::TimeFuture)
    }

    /// The same, blamed on a transaction.
    #[must_use]
    pub fn in_transaction(self, transaction: usize) -> Self {
        Self {
            transaction: Some(transaction),
            ..self
        }
    }

    /// The same, blamed on an input of the transaction.
    #[must_use]
    pub fn at_input(self, input: usize) -> Self {
        Self {
            input: Some(input),
            ..self
        }
    }
}

impl fmt::Display for Reject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        match (self.transaction, self.input) {
            (Some(transaction), Some(input)) => write!(f, " (transaction {transaction}, input {input})"),
            (Some(transaction), None) => write!(f, " (transaction {transaction})"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for Reject {}
