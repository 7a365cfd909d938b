//! A list of scripts that were put off, with one signature check each.

use blockmill_rules::DeferredChecks;

/// Scripts that were put off.
pub(crate) struct Recorded<S>(pub(crate) Vec<S>);

impl<S> Default for Recorded<S> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T, S: Send> DeferredChecks<T> for Recorded<S> {
    fn signatures(&self) -> usize {
        self.0.len()
    }

    fn scripts(&self) -> usize {
        self.0.len()
    }

    fn memory(&self) -> usize {
        self.0.len() * size_of::<S>()
    }

    fn append(&mut self, other: &mut Self) {
        self.0.append(&mut other.0);
    }

    fn take(&mut self, signatures: usize) -> Self {
        Self(self.0.split_off(self.0.len().saturating_sub(signatures)))
    }
}
