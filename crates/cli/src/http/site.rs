//! What all clients share: the figures of now, and how much is done for clients in a while.

use crate::http::Live;
use crate::http::directory::Directory;
use crate::http::page::Page;
use crate::http::prometheus;
use crate::http::rates::{Rates, STEP};
use crate::http::snapshot::Snapshot;
use crate::http::status;
use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time between two looks at the figures.
pub(super) const TICK: Duration = Duration::from_millis(500);

/// Connections that are accepted and requests that are answered at once in each [`TICK`]. Those
/// above it wait a little.
const BUDGET: usize = 100;

/// The texts of a moment.
struct Texts {
    at: Instant,
    status: String,
    metrics: String,
}

/// The figures and those who ask for them. It lives on one thread.
pub(super) struct Site {
    live: Arc<Live>,
    stop: Arc<AtomicBool>,
    /// Whether only this machine reaches it.
    pub(super) is_loopback: bool,
    pub(super) page: Page,
    rates: RefCell<Rates>,
    directory: RefCell<Directory>,
    texts: RefCell<Option<Texts>>,
    sampled: Cell<Option<Instant>>,
    spent: Cell<usize>,
}

impl Site {
    /// What makes a site on its thread.
    pub(super) fn new(live: Arc<Live>, stop: Arc<AtomicBool>, address: IpAddr) -> impl FnOnce() -> Self + Send {
        move || Self {
            live,
            stop,
            is_loopback: address.to_canonical().is_loopback(),
            page: Page::new(),
            rates: RefCell::default(),
            directory: RefCell::default(),
            texts: RefCell::default(),
            sampled: Cell::default(),
            spent: Cell::default(),
        }
    }

    /// Counts a connection or a request. Returns whether it must wait.
    pub(super) fn spend(&self) -> bool {
        let spent = self.spent.get() + 1;
        self.spent.set(spent);
        spent > BUDGET
    }

    /// Calls `take` with texts that are younger than a [`TICK`].
    fn with_texts<R>(&self, take: impl FnOnce(&Texts) -> R) -> R {
        let mut texts = self.texts.borrow_mut();
        let fresh = texts.take().filter(|texts| texts.at.elapsed() < TICK);
        take(texts.insert(fresh.unwrap_or_else(|| self.look())))
    }

    /// Reads the figures.
    fn look(&self) -> Texts {
        let figures = self.live.read();
        let sizes = self.directory.borrow_mut().sizes(figures.directory.as_deref());
        let latest = self.rates.borrow().latest.clone();
        let snapshot = Snapshot::new(figures, self.stop.load(Ordering::Relaxed), latest, sizes);
        Texts {
            at: Instant::now(),
            status: format!("{}\n", status::json_of(&snapshot)),
            metrics: prometheus::text_of(&snapshot),
        }
    }

    /// The text of `/metrics`.
    pub(super) fn metrics(&self) -> String {
        self.with_texts(|texts| texts.metrics.clone())
    }

    /// The text of `/status.json`.
    pub(super) fn status(&self) -> String {
        self.with_texts(|texts| texts.status.clone())
    }

    /// Does what is due, once in a [`TICK`].
    pub(super) fn tick(&self) {
        self.spent.set(0);
        let now = Instant::now();
        // Ticks come a little early or late.
        let is_due = |sampled: Instant| now.duration_since(sampled) + TICK / 2 >= STEP;
        if self.sampled.get().is_none_or(is_due) {
            self.sampled.set(Some(now));
            self.rates.borrow_mut().add(&self.live.read(), now);
        }
    }
}
