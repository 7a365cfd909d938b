//! Containment of panics in units of work.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// The payload of a panic in a unit of work. Dropping a `Panic` never panics, whatever the payload
/// does.
pub struct Panic(Option<Box<dyn Any + Send>>);

impl Panic {
    /// The message of the panic, or "no message" if the payload is no string.
    pub fn message(&self) -> &str {
        let Some(payload) = &self.0 else {
            return "no message";
        };
        let text = payload.downcast_ref::<&str>().copied();
        // A literal message is a `&str`, a formatted one a `String`. `panic_any` may carry
        // anything.
        text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("no message")
    }

    /// Resumes the panic on this thread.
    pub fn resume(mut self) -> ! {
        let payload = self.0.take();
        resume_unwind(payload.unwrap_or_else(|| Box::new("no payload")))
    }
}

impl Drop for Panic {
    fn drop(&mut self) {
        let payload = self.0.take();
        if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            // Dropping `another` could panic with one more payload, and so on without end.
            std::mem::forget(another);
        }
    }
}

/// Aborts the process if a panic unwinds past this guard. Prints the message first.
#[cfg(not(blockmill_loom))]
#[doc(hidden)]
#[derive(Debug)]
pub struct AbortOnUnwind(pub &'static str);

#[cfg(not(blockmill_loom))]
impl AbortOnUnwind {
    /// Removes the guard: the code that must not unwind has ended.
    pub fn disarm(self) {
        std::mem::forget(self);
    }
}

#[cfg(not(blockmill_loom))]
impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        eprintln!("{}", self.0);
        std::process::abort();
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

/// Runs a unit of work and catches its panic.
///
/// After a panic the caller must give up the data that the work changed, and only drop it.
///
/// ```
/// use blockmill_sync::contain;
///
/// assert_eq!(contain(|| 6 * 7).unwrap(), 42);
/// let panic = contain(|| -> u32 { panic!("no answer") }).unwrap_err();
/// assert_eq!(panic.message(), "no answer");
/// ```
///
/// # Errors
/// The [`Panic`], if `work` panics.
#[inline]
pub fn contain<R>(work: impl FnOnce() -> R) -> Result<R, Panic> {
    if cfg!(blockmill_loom) {
        // Loom reports its findings by panics.
        return Ok(work());
    }
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| Panic(Some(payload)))
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

    /// Panics when it is dropped, with another bomb as payload.
    struct Bomb(u32);

    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::panic_any(Self(self.0 + 1));
        }
    }

    #[test]
    fn a_payload_that_panics_in_its_drop_is_forgotten() {
        let panic = contain(|| std::panic::panic_any(Bomb(0))).unwrap_err();
        assert!(contain(|| drop(panic)).is_ok());
    }
}
