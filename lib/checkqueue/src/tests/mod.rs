//! Models under loom. Run them with `RUSTFLAGS="--cfg blockmill_loom" cargo test --release -p
//! blockmill-checkqueue --lib --target-dir target-loom`.

mod loom_round;

use std::cell::Cell;

/// A planted weakening: a step whose ordering is too weak. Loom must catch each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weakened {
    Nothing,
    /// The master publishes checks with Relaxed.
    Publish,
    /// Threads claim checks with Relaxed.
    Claim,
    /// Workers leave with Relaxed.
    Leave,
}

thread_local! {
    /// The current weakening. Loom runs all threads of a model on one thread of the system, so all
    /// of them see this value.
    pub(crate) static WEAKENED: Cell<Weakened> = const { Cell::new(Weakened::Nothing) };
}

/// Explores a model with at most this many preemptions per execution.
pub(crate) fn model(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(body);
}
