//! Models under loom. Run them with `RUSTFLAGS="--cfg blockmill_loom" cargo test --release -p
//! blockmill-workqueue --lib --target-dir target-loom`.

mod loom_notifier;
mod loom_slot_ring;

use std::cell::Cell;

/// A planted weakening: a step whose ordering is too weak. Loom must catch each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weakened {
    Nothing,
    /// The requester hands over with Relaxed.
    Fill,
    /// The server returns a handled job with Relaxed.
    Done,
    /// The server leaves a ring with Relaxed.
    Serving,
    /// The fences between store and load, of a requester that sleeps and of a server that wakes,
    /// are AcqRel.
    Fence,
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
