//! Models under loom. Run them with
//! `RUSTFLAGS="--cfg blockmill_loom" cargo test --release -p blockmill-workqueue --lib --target-dir target-loom`.

mod loom_bell;
mod loom_lane;

use std::cell::Cell;

/// A step whose ordering is too weak, which is wrong: a planted weakening that loom must catch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weakened {
    Nothing,
    /// The requester's when it hands over.
    Fill,
    /// The server's when it has handled a job.
    Done,
    /// The server's when it leaves a lane.
    Serving,
    /// The fences between a store and a load of a requester that sleeps, and of who wakes it.
    Fence,
}

thread_local! {
    /// What is weakened. Loom runs all threads of a model on one thread of the system, so this is seen by all of them.
    pub(crate) static WEAKENED: Cell<Weakened> = const { Cell::new(Weakened::Nothing) };
}

/// Explores a model with at most so many preemptions in an execution.
pub(crate) fn model(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(body);
}
