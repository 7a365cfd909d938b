//! Panics of redb, which happen on damaged files: they end a call with an error, and do nothing
//! else.
//!
//! A call of redb in [`contained`] cannot panic. Neither can the drop of its result, in
//! [`Contained`]. Code of others that runs in the middle of a call (the caller's changes) runs in
//! [`pass_through`]: its panics continue. Calls of redb in the middle of that are in
//! [`contained_again`].

use std::cell::Cell;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

thread_local! {
    /// Whether this thread is in a call whose panics are caught.
    static CONTAINED: Cell<bool> = const { Cell::new(false) };
}

/// Whether a panic of this thread would be caught and become an error of the store. A panic hook
/// need not print it.
pub fn is_panic_contained() -> bool {
    CONTAINED.get()
}

/// Runs work with redb. If the work panics the result is the message.
///
/// After a panic the objects of the work may be in any state. The file still has what was
/// committed.
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

/// Runs code of others in the middle of contained work. Its panics are not caught.
pub(super) fn pass_through<R>(work: impl FnOnce() -> R) -> R {
    CONTAINED.set(false);
    let result = work();
    CONTAINED.set(true);
    result
}

/// Runs work with redb in the middle of code of others. Its panics are caught again.
pub(super) fn contained_again<R>(work: impl FnOnce() -> R) -> R {
    CONTAINED.set(true);
    let result = work();
    CONTAINED.set(false);
    result
}

/// An object of redb, whose drop may do work and panic.
pub(super) struct Contained<T>(Option<T>);

impl<T> Contained<T> {
    pub(super) fn new(value: T) -> Self {
        Self(Some(value))
    }

    /// Drops the object without a write: redb writes nothing while a panic unwinds.
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
            None => unreachable!("used after `abandon`"),
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
        let passed = catch_unwind(|| contained(|| pass_through(|| panic!("ours"))));
        assert_eq!(
            passed.map(|_: Result<(), _>| ()).unwrap_err().downcast_ref(),
            Some(&"ours")
        );
        assert!(!is_panic_contained());
        assert_eq!(contained(|| pass_through(is_panic_contained)), Ok(false));
        assert_eq!(
            contained(|| pass_through(|| contained_again(|| panic!("its own")))),
            Err::<(), _>("its own".to_owned())
        );
        assert!(!is_panic_contained());
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
