//! The lanes, and working memory for each thread that uses them.

use secp256k1_lanes::{Backend, Check, Verdict};
use std::sync::{Mutex, PoisonError};

/// Something that verifies many checks at once.
pub(crate) trait Lanes: Send {
    /// As [`secp256k1_lanes::Verifier::verify`].
    fn verify(&mut self, checks: &[Check], verdicts: &mut Vec<Verdict>);
}

impl Lanes for secp256k1_lanes::Verifier {
    fn verify(&mut self, checks: &[Check], verdicts: &mut Vec<Verdict>) {
        Self::verify(self, checks, verdicts);
    }
}

/// Makes lanes of a backend.
type Make = dyn Fn(Backend) -> Box<dyn Lanes> + Send + Sync;

/// Lanes that are not in use. There are as many as threads have ever verified at the same time.
pub(crate) struct Pool {
    free: Mutex<Vec<(Backend, Box<dyn Lanes>)>>,
    make: Box<Make>,
}

impl Pool {
    pub(crate) fn new(make: impl Fn(Backend) -> Box<dyn Lanes> + Send + Sync + 'static) -> Self {
        Self {
            free: Mutex::new(Vec::new()),
            make: Box::new(make),
        }
    }

    /// One verdict for each check; `CannotTell` for all if the lanes gave another number of them.
    pub(crate) fn verify(&self, backend: Backend, checks: &[Check]) -> Vec<Verdict> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut lanes = match free {
            Some((of, lanes)) if of == backend => lanes,
            // Those of another backend were made before the ways were measured.
            _ => (self.make)(backend),
        };
        let mut verdicts = Vec::new();
        lanes.verify(checks, &mut verdicts);
        self.free
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push((backend, lanes));
        if verdicts.len() != checks.len() {
            return vec![Verdict::CannotTell; checks.len()];
        }
        verdicts
    }
}
