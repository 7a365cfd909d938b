//! The last warnings and errors that standard error has had, for the page.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// Warnings that are kept.
const KEPT_MAX: usize = 20;

/// Characters of a message that are kept.
const LENGTH_MAX: usize = 500;

/// A line on standard error.
#[derive(Debug, Clone)]
pub(crate) struct Warning {
    pub(crate) time: SystemTime,
    /// The word of the event.
    pub(crate) event: String,
    pub(crate) message: String,
}

#[derive(Debug)]
struct Warnings {
    /// The newest last.
    kept: VecDeque<Warning>,
    total: u64,
}

static WARNINGS: Mutex<Warnings> = Mutex::new(Warnings {
    kept: VecDeque::new(),
    total: 0,
});

fn warnings() -> MutexGuard<'static, Warnings> {
    WARNINGS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes a line. Its message has no private key.
pub(crate) fn note(event: &str, message: &str) {
    let new = Warning {
        time: SystemTime::now(),
        event: event.to_owned(),
        message: message.chars().take(LENGTH_MAX).collect(),
    };
    let mut warnings = warnings();
    if warnings.kept.len() == KEPT_MAX {
        warnings.kept.pop_front();
    }
    warnings.kept.push_back(new);
    warnings.total += 1;
}

/// The last ones, the newest last, and how many there were in all.
pub(crate) fn last() -> (Vec<Warning>, u64) {
    let warnings = warnings();
    (warnings.kept.iter().cloned().collect(), warnings.total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_warnings_are_kept_and_all_are_counted() {
        let (_, before) = last();
        for number in 0..=KEPT_MAX {
            note("damaged", &format!("{number} {}", "\u{e9}".repeat(2 * LENGTH_MAX)));
        }
        let (kept, total) = last();
        assert_eq!(kept.len(), KEPT_MAX);
        assert!(total > before + KEPT_MAX as u64);
        for warning in &kept {
            assert!(warning.message.chars().count() <= LENGTH_MAX);
        }
    }
}
