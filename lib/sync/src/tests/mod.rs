//! Models under loom. Run them with
//!
//! ```sh
//! RUSTFLAGS="--cfg blockmill_loom" cargo test --release -p blockmill-sync --lib \
//!     --target-dir target-loom
//! ```

mod loom_event;
mod loom_semaphore;

use std::cell::Cell;

thread_local! {
    /// Whether the step that takes a permit, or finds an event set, is Relaxed. That is wrong: a
    /// planted weakening, which loom must catch. Loom runs all threads of a model on one thread of
    /// the system, so all of them see this flag.
    pub(crate) static WEAKENED: Cell<bool> = const { Cell::new(false) };
}

/// Explores a model with at most `preemptions` preemptions in an execution.
pub(crate) fn model(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(body);
}
