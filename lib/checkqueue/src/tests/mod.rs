//! Models under loom. Run them with
//! `RUSTFLAGS="--cfg blockmill_loom" cargo test --release -p blockmill-checkqueue --lib --target-dir target-loom`.

mod loom_round;

use std::cell::Cell;

/// A planted weakening, which is wrong and which loom must catch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weakened {
    Nothing,
    /// Checks are published with Relaxed.
    Publish,
    /// Checks are claimed with Relaxed.
    Claim,
    /// Workers leave with Relaxed.
    Leave,
}

thread_local! {
    /// Loom runs all threads of a model on one thread of the system, so this is seen by all of them.
    pub(crate) static WEAKENED: Cell<Weakened> = const { Cell::new(Weakened::Nothing) };
}

/// Explores a model with at most so many preemptions in an execution.
pub(crate) fn model(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(body);
}
