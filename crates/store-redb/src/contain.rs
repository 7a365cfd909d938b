//! Panics of redb, which meets damage in its file with them here and there: they end a call with an error, and nothing else.
//!
//! A call of redb in [`contained`] cannot panic, and neither can the drop of what it gave back, in [`Contained`]. What runs in the middle of such a
//! call and is not redb's (an iterator of the caller's) runs in [`passing`]: its panics go on their way.

use std::cell::Cell;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

thread_local! {
    /// Whether this thread is in a call whose panics are caught.
    static CONTAINED: Cell<bool> = const { Cell::new(false) };
}

/// Whether a panic of this thread would be caught and become an error of the store, so that a panic hook need not print it.
pub fn is_panic_contained() -> bool {
    CONTAINED.get()
}

/// Does some work with redb. If it panics, the message.
///
/// What the work was about may be in any state then, but for its file, which has what was committed.
pub(super) fn contained<R>(work: impl FnOnce() -> R) -> Result<R, String> {
    let outer = CONTAINED.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(work));
    let is_of_redb = CONTAINED.replace(outer);
    outcome.map_err(|payload| {
        if !is_of_redb {
            resume_unwind(payload);
        }
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        text.unwrap_or("no message").to_owned()
    })
}

/// Does something in the middle of contained work whose panics are not redb's.
pub(super) fn passing<R>(work: impl FnOnce() -> R) -> R {
    CONTAINED.set(false);
    let result = work();
    CONTAINED.set(true);
    result
}

/// Something of redb's, whose drop may do things and panic.
pub(super) struct Contained<T>(Option<T>);

impl<T> Contained<T> {
    pub(super) fn new(value: T) -> Self {
        Self(Some(value))
    }

    /// Drops it in such a way that it writes nothing more: redb does not when a panic is on its way.
    pub(super) fn abandon(&mut self) {
        if let Some(value) = self.0.take() {
            let _ = contained(|| {
                let _dropped_by_the_panic = Self(Some(value));
                resume_unwind(Box::new("abandoned"))
            });
        }
    }

    pub(super) fn get_mut(&mut self) -> Option<&mut T> {
        self.0.as_mut()
    }
}

impl<T> Deref for Contained<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.0 {
            Some(value) => value,
            None => unreachable!("it is used after it was abandoned"),
        }
    }
}

impl<T> Drop for Contained<T> {
    fn drop(&mut self) {
        let value = self.0.take();
        let _ = contained(|| drop(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_become_messages() {
        assert_eq!(contained(|| 5), Ok(5));
        assert_eq!(
            contained(|| panic!("number {}", 5)),
            Err::<(), _>("number 5".to_owned())
        );
        assert_eq!(
            contained(|| contained(|| panic!("inner"))),
            Ok(Err::<(), _>("inner".to_owned()))
        );
        assert!(!is_panic_contained());
        assert_eq!(contained(is_panic_contained), Ok(true));
    }

    #[test]
    fn panics_of_others_pass() {
        let passed = catch_unwind(|| contained(|| passing(|| panic!("ours"))));
        assert_eq!(
            passed.map(|_: Result<(), _>| ()).unwrap_err().downcast_ref(),
            Some(&"ours")
        );
        assert!(!is_panic_contained());
        assert_eq!(contained(|| passing(is_panic_contained)), Ok(false));
    }

    #[test]
    fn a_drop_that_panics_does_no_harm() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("dropped");
            }
        }
        drop(Contained::new(Bomb));
        Contained::new(Bomb).abandon();
    }

    #[test]
    fn what_is_abandoned_is_dropped_by_a_panic() {
        struct Dropped<'a>(&'a Cell<Option<bool>>);
        impl Drop for Dropped<'_> {
            fn drop(&mut self) {
                self.0.set(Some(std::thread::panicking()));
            }
        }
        let seen = Cell::new(None);
        Contained::new(Dropped(&seen)).abandon();
        assert_eq!(seen.get(), Some(true));
        drop(Contained::new(Dropped(&seen)));
        assert_eq!(seen.get(), Some(false));
    }
}
