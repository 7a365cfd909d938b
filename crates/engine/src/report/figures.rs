//! Who hears the figures of a run while it goes on.

use crate::report::connect_report::ConnectReport;
use crate::report::stages::Span;
use crate::report::totals::Totals;
use blockmill_blockfiles::FileError;

/// Hears the figures of a run, on the connecting thread.
pub trait FiguresObserver {
    /// What was done so far; after every [`progress`](blockmill_chain::Observer::progress).
    fn totals(&mut self, totals: &Totals) {
        let _ = totals;
    }

    /// A run of [`Engine::follow`](crate::Engine::follow) has ended: the first one, and each look
    /// at the files since.
    fn ended(&mut self, report: &ConnectReport) {
        let _ = report;
    }

    /// A look at the files of [`Engine::follow`](crate::Engine::follow) has failed, and is retried.
    fn failed(&mut self, error: &FileError) {
        let _ = error;
    }

    /// A thread of this name has done something; only with [`Options::trace`](crate::Options).
    fn span(&mut self, thread: &str, span: &Span) {
        let _ = (thread, span);
    }
}

/// Hears nothing.
impl FiguresObserver for () {}
