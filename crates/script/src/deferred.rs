//! Signature checks that were deferred.

use crate::balance::Cost;
use crate::ffi::Signers;
use blockmill_rules::{DeferredChecks, ScriptFlags};
use secp256k1_lanes::Check;

/// Signature checks that were deferred, with the scripts they belong to.
///
/// The checks of a script lie together, in the order of the scripts, so scripts only need to know
/// how many they have.
#[derive(Debug)]
pub struct Deferred<T> {
    pub(crate) scripts: Vec<Script<T>>,
    pub(crate) checks: Vec<Check>,
}

/// A script that was run as if all its checks were valid.
#[derive(Debug)]
pub(crate) struct Script<T> {
    /// The caller's name for it.
    pub(crate) name: T,
    /// The number of its prepared transaction.
    pub(crate) transaction: u64,
    pub(crate) input: usize,
    pub(crate) flags: ScriptFlags,
    /// How many checks the last run deferred.
    pub(crate) checks: usize,
    /// The keys of a multisig script that signed, if all those checks are valid.
    pub(crate) signers: Signers,
    /// Whether that was its second run, with known answers.
    pub(crate) again: bool,
    /// What was done for it so far.
    pub(crate) cost: Cost,
}

impl<T> Default for Deferred<T> {
    fn default() -> Self {
        Self {
            scripts: Vec::new(),
            checks: Vec::new(),
        }
    }
}

impl<T: Send> DeferredChecks<T> for Deferred<T> {
    fn signatures(&self) -> usize {
        self.checks.len()
    }

    fn scripts(&self) -> usize {
        self.scripts.len()
    }

    fn memory(&self) -> usize {
        self.checks.capacity() * size_of::<Check>() + self.scripts.capacity() * size_of::<Script<T>>()
    }

    fn append(&mut self, other: &mut Self) {
        self.scripts.append(&mut other.scripts);
        self.checks.append(&mut other.checks);
    }

    fn take(&mut self, signatures: usize) -> Self {
        let mut scripts = 0;
        let mut checks = 0;
        for script in self.scripts.iter().rev() {
            if checks >= signatures {
                break;
            }
            scripts += 1;
            checks += script.checks;
        }
        Self {
            scripts: self.scripts.split_off(self.scripts.len() - scripts),
            checks: self.checks.split_off(self.checks.len() - checks),
        }
    }
}
