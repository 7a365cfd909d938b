//! What a long command does, for a browser (`/`), as JSON (`/status.json`) and for Prometheus
//! (`/metrics`): one server, one set of figures.
//!
//! Observers of the engine note the latest figures under a lock, and go on. A thread of its own
//! reads them at most twice a second, whatever clients do, and answers all clients with what it has
//! read. The thread ends with the command.

mod answer;
mod directory;
mod figures;
mod page;
mod patient;
mod process;
mod prometheus;
mod rates;
mod server;
mod site;
mod snapshot;
mod status;
mod table;

use crate::failure::Failure;
use crate::listener::{Command, Listener};
use crate::log;
use blockmill_chain::Event;
use blockmill_engine::report::LiveTotals;
use figures::{Figures, State};
use serde_json::json;
use site::Site;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use tokio::sync::oneshot;

/// The figures of a command.
struct Live(Mutex<Figures>);

impl Live {
    /// A panic of another thread leaves the figures whole, so poison is ignored.
    fn lock(&self) -> MutexGuard<'_, Figures> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The figures as they are.
    fn read(&self) -> Figures {
        self.lock().clone()
    }
}

impl Listener for Live {
    fn waits_for_lock(&self) {
        self.lock().state = State::WaitingForLock;
    }

    fn opened(&self, network: &'static str, height: u32, totals: LiveTotals) {
        self.lock().opened(network, height, totals);
    }

    fn network(&self, network: &'static str) {
        self.lock().network = Some(network);
    }

    fn event(&self, event: &Event<'_>) {
        self.lock().event(event);
    }
}

/// A server. It ends when it is dropped.
pub(crate) struct Server {
    live: Arc<Live>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves the figures of a command.
    pub(crate) fn start(address: SocketAddr, command: &Command<'_>) -> Result<Self, Failure> {
        let usage = |error: std::io::Error| Failure::Usage(format!("--http {address}: {error}"));
        let runtime = server::runtime().map_err(usage)?;
        let listener = server::listen(&runtime, address).map_err(usage)?;
        let local = listener.local_addr().map_err(usage)?;
        let live = Arc::new(Live(Mutex::new(Figures::new(command))));
        let (end, ended) = oneshot::channel();
        let (served, stop) = (Arc::clone(&live), Arc::clone(command.stop));
        let thread = std::thread::Builder::new()
            .name("http".to_owned())
            .spawn(move || server::run(&runtime, listener, Site::new(served, stop, local.ip()), ended))
            .map_err(usage)?;
        log::info(
            "http",
            &format!("page at http://{local}/"),
            json!({"address": local.to_string()}),
        );
        Ok(Self {
            live,
            end: Some(end),
            thread: Some(thread),
        })
    }

    /// What notes the figures.
    pub(crate) fn listener(&self) -> Arc<dyn Listener> {
        Arc::<Live>::clone(&self.live)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
