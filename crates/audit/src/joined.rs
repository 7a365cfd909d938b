//! The sums of joined parts.

use crate::finding::{Finding, FindingKind, Unread, by_cause};

/// The sums of joined parts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Joined {
    pub(crate) blocks: u64,
    pub(crate) transactions: u64,
    pub(crate) inputs: u64,
    pub(crate) findings: Vec<Finding>,
}

impl Joined {
    /// Adds blocks that cannot be read, and says of all such blocks each cause once.
    pub(crate) fn say_causes_once(&mut self, mut unread: Vec<Unread>) {
        let is_unread = |finding: &mut Finding| finding.kind == FindingKind::Unreadable && finding.height.is_some();
        unread.extend(self.findings.extract_if(.., is_unread).map(Unread::from));
        self.findings.extend(by_cause(unread));
        self.findings.sort();
    }
}
