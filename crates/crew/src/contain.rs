//! Panics in units of work.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// What a unit of work panicked with.
pub struct Panic(Box<dyn Any + Send>);

impl Panic {
    /// The message, if the panic has one.
    pub fn message(&self) -> &str {
        let text = self.0.downcast_ref::<&str>().copied();
        text.or_else(|| self.0.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("no message")
    }

    /// Goes on with the panic in this thread.
    pub fn resume(self) -> ! {
        resume_unwind(self.0)
    }
}

impl fmt::Debug for Panic {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Panic").field(&self.message()).finish()
    }
}

impl fmt::Display for Panic {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a unit of work panicked: {}", self.message())
    }
}

impl std::error::Error for Panic {}

/// Does a unit of work, and catches its panic.
///
/// What the work was about is given up when it panics: nobody may look at it again but to drop it.
///
/// # Errors
/// The [`Panic`].
#[inline]
pub fn contain<R>(work: impl FnOnce() -> R) -> Result<R, Panic> {
    if cfg!(blockmill_loom) {
        // Loom reports what it finds by panics.
        return Ok(work());
    }
    catch_unwind(AssertUnwindSafe(work)).map_err(Panic)
}

#[cfg(all(test, not(blockmill_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_caught_with_its_message() {
        assert_eq!(contain(|| 5).unwrap(), 5);
        let of = |panic: fn()| contain(panic).unwrap_err().to_string();
        assert_eq!(of(|| panic!("text")), "a unit of work panicked: text");
        assert_eq!(of(|| panic!("number {}", 5)), "a unit of work panicked: number 5");
        assert_eq!(of(|| std::panic::panic_any(5)), "a unit of work panicked: no message");
        let again = contain(|| contain(|| panic!("text")).unwrap_err().resume());
        assert_eq!(again.map(|_: ()| ()).unwrap_err().message(), "text");
    }
}
