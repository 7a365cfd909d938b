//! Permits that are released when they are dropped.

use super::Semaphore;
#[cfg(not(blockmill_loom))]
use crate::wait::Deadline;
use std::ops::Deref;
use std::sync::Arc;
#[cfg(not(blockmill_loom))]
use std::time::Duration;

/// Permits of a [`Semaphore`], one or several. Dropping them releases them.
///
/// ```
/// use blockmill_sync::Semaphore;
///
/// let semaphore = Semaphore::new(2);
/// let first = semaphore.permit();
/// let second = semaphore.permit();
/// assert!(semaphore.try_permit().is_none());
/// drop(first);
/// second.forget();
/// assert_eq!(semaphore.permits(), 1);
/// ```
pub type Permit<'a> = PermitOf<&'a Semaphore>;

/// Permits that keep their semaphore alive, so they can go to another thread or into a struct.
/// Dropping them releases them.
///
/// ```
/// use blockmill_sync::Semaphore;
/// use std::sync::Arc;
///
/// // At most 100 bytes are in the queue, whatever the number of messages.
/// let room = Arc::new(Semaphore::new(100));
/// let (sender, receiver) = std::sync::mpsc::channel();
/// let length = |(text, _permit): (String, _)| text.len();
/// let reader = std::thread::spawn(move || receiver.iter().map(length).sum());
/// for text in ["one", "two", "three"] {
///     let permit = room.permit_owned(text.len() as u32);
///     sender.send((text.to_owned(), permit)).unwrap();
/// }
/// drop(sender);
/// let bytes: usize = reader.join().unwrap();
/// assert_eq!((bytes, room.permits()), (11, 100));
/// ```
pub type OwnedPermit = PermitOf<Arc<Semaphore>>;

/// A [`Permit`] or an [`OwnedPermit`].
#[derive(Debug)]
#[must_use = "dropping the permit releases it"]
pub struct PermitOf<S: Deref<Target = Semaphore>> {
    semaphore: S,
    count: u32,
}

impl<S: Deref<Target = Semaphore>> PermitOf<S> {
    /// Number of permits.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Drops the permits without releasing them: the semaphore has so many fewer.
    pub fn forget(mut self) {
        self.count = 0;
    }
}

impl<S: Deref<Target = Semaphore>> Drop for PermitOf<S> {
    fn drop(&mut self) {
        // There is room for permits that were taken. If callers released more than they took, the
        // semaphore is full, and some permits fewer do no harm.
        let _ = self.semaphore.release(self.count);
    }
}

/// Guards. Each takes permits as the method of the same name with `acquire` does.
impl Semaphore {
    /// Takes a permit, as [`acquire`](Self::acquire) does. Dropping the [`Permit`] releases it.
    pub fn permit(&self) -> Permit<'_> {
        self.permit_many(1)
    }

    /// Takes a permit, if [`try_acquire`](Self::try_acquire) gets one.
    pub fn try_permit(&self) -> Option<Permit<'_>> {
        self.try_permit_many(1)
    }

    /// Takes a permit, if [`acquire_timeout`](Self::acquire_timeout) gets one.
    #[cfg(not(blockmill_loom))]
    pub fn permit_timeout(&self, time: Duration) -> Option<Permit<'_>> {
        self.permit_many_timeout(1, time)
    }

    /// Takes `count` permits, as [`acquire_many`](Self::acquire_many) does.
    pub fn permit_many(&self, count: u32) -> Permit<'_> {
        self.acquire_many(count);
        self.taken(count)
    }

    /// Takes `count` permits, if [`try_acquire_many`](Self::try_acquire_many) gets them.
    pub fn try_permit_many(&self, count: u32) -> Option<Permit<'_>> {
        self.try_acquire_many(count).then(|| self.taken(count))
    }

    /// Takes `count` permits, if [`acquire_many_until`](Self::acquire_many_until) gets them within
    /// `time`.
    #[cfg(not(blockmill_loom))]
    pub fn permit_many_timeout(&self, count: u32, time: Duration) -> Option<Permit<'_>> {
        self.acquire_many_until(count, &Deadline::after(time))
            .then(|| self.taken(count))
    }

    /// Takes `count` permits, as [`acquire_many`](Self::acquire_many) does.
    pub fn permit_owned(self: &Arc<Self>, count: u32) -> OwnedPermit {
        self.acquire_many(count);
        self.taken_owned(count)
    }

    /// Takes `count` permits, if [`try_acquire_many`](Self::try_acquire_many) gets them.
    pub fn try_permit_owned(self: &Arc<Self>, count: u32) -> Option<OwnedPermit> {
        self.try_acquire_many(count).then(|| self.taken_owned(count))
    }

    /// Takes `count` permits, if [`acquire_many_until`](Self::acquire_many_until) gets them within
    /// `time`.
    #[cfg(not(blockmill_loom))]
    pub fn permit_owned_timeout(self: &Arc<Self>, count: u32, time: Duration) -> Option<OwnedPermit> {
        self.acquire_many_until(count, &Deadline::after(time))
            .then(|| self.taken_owned(count))
    }

    fn taken(&self, count: u32) -> Permit<'_> {
        PermitOf { semaphore: self, count }
    }

    fn taken_owned(self: &Arc<Self>, count: u32) -> OwnedPermit {
        PermitOf {
            semaphore: Arc::clone(self),
            count,
        }
    }
}
