//! Refusals.

use std::borrow::Cow;
use std::fmt;

/// The consequence of a refusal for the block's hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RejectKind {
    /// The block is invalid, and so are its descendants.
    Consensus,
    /// The header itself is invalid.
    Header,
    /// The header has no proof of work: nobody has mined it, so the bytes are damage and not a
    /// block.
    NoWork,
    /// The content may not belong to the header. Another content under the same header may be
    /// valid.
    Mutated,
    /// The header's time is too far in the future: it may become valid.
    TimeFuture,
}

/// Why a block is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reject {
    /// Bitcoin Core's reject reason.
    pub reason: Cow<'static, str>,
    /// The consequence for the block's hash.
    pub kind: RejectKind,
    /// Index of the transaction that breaks the rule, if it is one of a transaction.
    pub transaction: Option<usize>,
    /// Index of the input in that transaction, if the rule is one of an input.
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

    /// The header's time is in the future.
    pub const fn time_future(reason: &'static str) -> Self {
        Self::new(reason, RejectKind::TimeFuture)
    }

    /// The same refusal, with the index of the transaction.
    #[must_use]
    pub fn in_transaction(self, transaction: usize) -> Self {
        Self {
            transaction: Some(transaction),
            ..self
        }
    }

    /// The same refusal, with the index of the input.
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
