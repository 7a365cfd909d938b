//! What all clients share: the figures of now and of the last ten minutes, and how much is done for
//! clients in a while.

use crate::http::Live;
use crate::http::body::{Broadcast, Watch};
use crate::http::directory::Directory;
use crate::http::history::{History, STEP};
use crate::http::page::Page;
use crate::http::prometheus;
use crate::http::snapshot::Snapshot;
use crate::http::status;
use hyper::body::Bytes;
use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// Time between two looks at the figures.
pub(super) const TICK: Duration = Duration::from_millis(500);

/// Clients that watch events at a time.
pub(super) const WATCHING_MAX: usize = 32;

/// Connections that are accepted and requests that are answered at once in each [`TICK`]. Those
/// above it wait a little.
const BUDGET: usize = 100;

/// The texts of a moment.
struct Texts {
    at: Instant,
    /// How often the figures had changed, and how many warnings there had been.
    changes: (u64, u64),
    status: String,
    metrics: Bytes,
}

/// The figures and those who ask for them. It lives on one thread.
pub(super) struct Site {
    live: Live,
    stop: Arc<AtomicBool>,
    /// Whether only this machine reaches it.
    is_loopback: bool,
    pub(super) page: Page,
    history: RefCell<History>,
    directory: RefCell<Directory>,
    texts: RefCell<Option<Texts>>,
    broadcast: Rc<Broadcast>,
    /// The changes of those that were told last.
    told: Cell<(u64, u64)>,
    sampled: Cell<Option<Instant>>,
    spent: Cell<usize>,
}

impl Site {
    /// What makes a site on its thread.
    pub(super) fn new(live: Live, stop: Arc<AtomicBool>, address: IpAddr) -> impl FnOnce() -> Self + Send {
        move || Self {
            live,
            stop,
            is_loopback: address.to_canonical().is_loopback(),
            page: Page::new(),
            history: RefCell::default(),
            directory: RefCell::default(),
            texts: RefCell::default(),
            broadcast: Rc::default(),
            told: Cell::default(),
            sampled: Cell::default(),
            spent: Cell::default(),
        }
    }

    pub(super) fn is_loopback(&self) -> bool {
        self.is_loopback
    }

    /// Counts a connection or a request. Returns whether it must wait.
    pub(super) fn spend(&self) -> bool {
        let spent = self.spent.get() + 1;
        self.spent.set(spent);
        spent > BUDGET
    }

    /// Calls `take` with texts that are younger than this.
    fn with_texts<R>(&self, age_max: Duration, take: impl FnOnce(&Texts) -> R) -> R {
        let mut texts = self.texts.borrow_mut();
        let fresh = texts.take().filter(|texts| texts.at.elapsed() < age_max);
        take(texts.insert(fresh.unwrap_or_else(|| self.look())))
    }

    /// Reads the figures.
    fn look(&self) -> Texts {
        let figures = self.live.read();
        let (directory, store) = (figures.directory.clone(), figures.store.clone());
        let sizes = self
            .directory
            .borrow_mut()
            .sizes(directory.as_deref(), store.as_deref());
        let latest = self.history.borrow().latest().clone();
        let snapshot = Snapshot::new(figures, self.stop.load(Ordering::Relaxed), latest, sizes);
        Texts {
            at: Instant::now(),
            changes: (snapshot.figures.changes, snapshot.warnings_total),
            status: status::json_of(&snapshot).to_string(),
            metrics: prometheus::text_of(&snapshot).into(),
        }
    }

    /// The text of `/metrics`.
    pub(super) fn metrics(&self) -> Bytes {
        self.with_texts(TICK, |texts| texts.metrics.clone())
    }

    /// The text of `/status.json`: the figures of now, and the past.
    pub(super) fn status(&self) -> String {
        let history = self.history.borrow().json();
        self.with_texts(TICK, |texts| {
            let inner = texts.status.strip_suffix('}').unwrap_or_default();
            format!("{inner},\"history\":{history}}}\n")
        })
    }

    /// The events for one more client; none if there are too many.
    pub(super) fn watch(&self) -> Option<Watch> {
        if self.broadcast.watching() == WATCHING_MAX {
            return None;
        }
        // Nobody may have watched for hours.
        self.tell();
        Some(self.broadcast.watch())
    }

    fn tell(&self) {
        self.broadcast.history(&self.history.borrow().json().to_string());
        self.tell_if(|_| true);
    }

    /// Tells the figures of now if their changes are worth it.
    fn tell_if(&self, is_worth_it: impl FnOnce((u64, u64)) -> bool) {
        // Each tick has texts of its own. Those of a request may be older.
        self.with_texts(TICK / 2, |texts| {
            if is_worth_it(texts.changes) {
                self.told.set(texts.changes);
                self.broadcast.status(&texts.status);
            }
        });
    }

    /// Does what is due, once in a [`TICK`].
    pub(super) fn tick(&self) {
        self.spent.set(0);
        let now = Instant::now();
        // Ticks come a little early or late.
        let is_due = |sampled: Instant| now.duration_since(sampled) + TICK / 2 >= STEP;
        let is_sampled = self.sampled.get().is_none_or(is_due);
        if is_sampled {
            self.sampled.set(Some(now));
            self.history.borrow_mut().add(&self.live.read(), now, SystemTime::now());
        }
        if self.broadcast.watching() == 0 {
            return;
        }
        if is_sampled {
            self.tell();
        } else {
            self.tell_if(|changes| changes != self.told.get());
        }
    }

    /// Tells the last figures, and ends all events.
    pub(super) fn end(&self) {
        self.texts.take();
        if self.broadcast.watching() > 0 {
            self.tell();
        }
        self.broadcast.end();
    }

    pub(super) fn watching(&self) -> usize {
        self.broadcast.watching()
    }
}
