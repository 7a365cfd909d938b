//! Who hears when checks ran.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

/// Called on the thread that ran a check, with the height of its block, and when it began and
/// ended. The height is 0 for signature checks of several blocks.
type Hear = dyn Fn(u32, Instant, Instant) + Send + Sync;

/// Records when checks ran: for a trace. By default nothing is recorded, and no clock is asked.
#[derive(Clone, Default)]
pub struct CheckRecord(Option<Arc<Hear>>);

impl CheckRecord {
    /// A record that `hear` gets, on the threads that run checks.
    pub fn new(hear: impl Fn(u32, Instant, Instant) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(hear)))
    }

    /// The present, if it is wanted.
    #[inline]
    pub(super) fn now(&self) -> Option<Instant> {
        self.0.as_ref().map(|_| Instant::now())
    }

    /// Records what this thread has done since a moment that [`now`](Self::now) gave.
    #[inline]
    pub(super) fn add_since(&self, height: u32, start: Option<Instant>) {
        if let (Some(hear), Some(start)) = (&self.0, start) {
            hear(height, start, Instant::now());
        }
    }
}

impl fmt::Debug for CheckRecord {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("CheckRecord").field(&self.0.is_some()).finish()
    }
}
