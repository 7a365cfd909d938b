//! The form of a rule.

use crate::params::{Deployment, Params};
use crate::reject::Reject;

/// The result of a check.
pub type Verdict = Result<(), Reject>;

/// When a rule holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// In every block.
    Always,
    /// From the height of a deployment on.
    From(Deployment),
    /// On networks with BIP 94.
    Bip94,
    /// On networks whose blocks are signed.
    Signet,
}

impl Activation {
    /// Whether the rule holds for a block at `height`.
    pub fn holds(self, params: &Params, height: u32) -> bool {
        match self {
            Self::Always => true,
            Self::From(deployment) => params.is_active(deployment, height),
            Self::Bip94 => params.enforce_bip94,
            Self::Signet => params.signet_challenge.is_some(),
        }
    }
}

/// A rule: a pure function, its source, and its activation. `C` is the function's type.
#[derive(Debug, Clone, Copy)]
pub struct Rule<C> {
    /// Name of the rule in this project.
    pub name: &'static str,
    /// The BIP or the function of Bitcoin Core that the rule follows.
    pub source: &'static str,
    /// When the rule holds.
    pub activation: Activation,
    /// The function.
    pub check: C,
}

/// Defines a table of rules. A rule has a name, which is also its function's, a source and an
/// activation.
macro_rules! rules {
    ($(#[$doc:meta])* $visibility:vis $table:ident: $check:ty = [$($name:ident, $source:literal, $activation:expr;)*]) => {
        $(#[$doc])*
        $visibility const $table: &[$crate::rule::Rule<$check>] = &[
            $($crate::rule::Rule {
                name: stringify!($name),
                source: $source,
                activation: $activation,
                check: $name,
            },)*
        ];
    };
}
pub(crate) use rules;
