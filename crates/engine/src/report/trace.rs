//! Which thread did what when, for [`Options::trace`](crate::Options).
//!
//! Each thread that has something to tell gets a lane: a list of spans, which it fills and the
//! connecting thread empties. Works of one kind that follow each other closely become one span, so
//! that cheap checks do not make a span each.

use crate::report::stages::{Span, Stage};
use blockmill_block::{Coin, OutPoint};
use blockmill_coins::{Changes, CoinIterator, CoinStore, LastCommit, StoreError, Tip};
use blockmill_validate::check_pool::CheckRecord;
use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Works closer to each other than this are one span.
const GAP_MAX: Duration = Duration::from_micros(2);

/// Longest span that is made of several works.
const JOINED_MAX: Duration = Duration::from_millis(1);

type SpanList = Arc<Mutex<Vec<Span>>>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The lists are whole at any moment, so a panic elsewhere does not matter.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    /// The thread's lane, and the trace that it belongs to.
    static LANE: RefCell<Option<(Arc<Lanes>, SpanList, u32)>> = const { RefCell::new(None) };
}

#[derive(Debug, Default)]
struct Lanes(Mutex<Vec<(String, SpanList)>>);

/// Called on a thread that has read, decoded, resolved or committed a block, or has inserted coins
/// that were fetched for it, before the thread goes on. With a trace, checks and reads of the store
/// call it too. For tests that delay threads.
#[derive(Clone)]
pub struct StageHook(pub Arc<dyn Fn(Stage) + Send + Sync>);

impl std::fmt::Debug for StageHook {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("StageHook")
    }
}

/// All lanes; nothing happens if it is not wanted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trace {
    lanes: Option<Arc<Lanes>>,
    hook: Option<StageHook>,
}

impl Trace {
    pub(crate) fn new(wanted: bool, hook: Option<StageHook>) -> Self {
        Self {
            lanes: wanted.then(Arc::default),
            hook,
        }
    }

    /// Who notes the checks of blocks in this trace.
    pub(crate) fn of_checks(&self) -> CheckRecord {
        if self.lanes.is_none() {
            return CheckRecord::default();
        }
        let trace = self.clone();
        CheckRecord::new(move |height, start, end| trace.add(Stage::Check, height, start, end))
    }

    /// The present, if it is wanted.
    #[inline]
    pub(crate) fn now(&self) -> Option<Instant> {
        self.lanes.as_ref().map(|_| Instant::now())
    }

    /// Notes what this thread has done since a moment that [`now`](Self::now) gave.
    #[inline]
    pub(crate) fn record_since(&self, stage: Stage, height: u32, start: Option<Instant>) {
        if let Some(start) = start {
            self.add(stage, height, start, Instant::now());
        }
    }

    /// Notes what this thread has done between two moments.
    pub(crate) fn add(&self, stage: Stage, height: u32, start: Instant, end: Instant) {
        if let Some(StageHook(hook)) = &self.hook {
            hook(stage);
        }
        let Some(lanes) = &self.lanes else {
            return;
        };
        LANE.with_borrow_mut(|lane| {
            // The thread may have served another engine, with a trace of its own.
            if !lane.as_ref().is_some_and(|(own, ..)| Arc::ptr_eq(own, lanes)) {
                *lane = Some(lanes.enter());
            }
            let Some((_, spans, thread)) = lane else {
                return;
            };
            let mut spans = lock(spans);
            if let Some(last) = spans.last_mut()
                && (last.stage, last.height) == (stage, height)
                && start.saturating_duration_since(last.end) < GAP_MAX
                && end.saturating_duration_since(last.start) < JOINED_MAX
            {
                last.end = end;
                return;
            }
            spans.push(Span {
                thread: *thread,
                stage,
                height,
                start,
                end,
            });
        });
    }

    /// Takes all spans out, those of a thread in their order.
    pub(crate) fn drain(&self, mut each: impl FnMut(&str, &Span)) {
        let Some(lanes) = &self.lanes else {
            return;
        };
        for (name, spans) in &*lock(&lanes.0) {
            // Taken out first: no thread waits for the observer to add a span.
            let spans = std::mem::take(&mut *lock(spans));
            spans.iter().for_each(|span| each(name, span));
        }
    }
}

/// What the threads of an engine have done. All copies are of the same engine.
#[derive(Debug, Clone)]
pub struct Spans(pub(crate) Trace);

impl Spans {
    /// Takes all spans out, those of a thread in their order, with the name of the thread.
    pub fn drain(&self, each: impl FnMut(&str, &Span)) {
        self.0.drain(each);
    }
}

impl Lanes {
    /// A lane for the calling thread.
    fn enter(self: &Arc<Self>) -> (Arc<Self>, SpanList, u32) {
        let spans = SpanList::default();
        let mut lanes = lock(&self.0);
        let name = std::thread::current().name().unwrap_or("master").to_owned();
        lanes.push((name, Arc::clone(&spans)));
        (Arc::clone(self), spans, lanes.len() as u32)
    }
}

/// A store whose reads and commits are noted.
pub(crate) struct TracedStore {
    pub(crate) store: Arc<dyn CoinStore>,
    pub(crate) trace: Trace,
}

impl CoinStore for TracedStore {
    fn get(&self, outpoint: &OutPoint) -> Result<Option<Coin>, StoreError> {
        let start = self.trace.now();
        let found = self.store.get(outpoint);
        self.trace.record_since(Stage::Fetch, 0, start);
        found
    }

    fn get_many(&self, outpoints: &[OutPoint], coins: &mut Vec<Option<Coin>>) -> Result<(), StoreError> {
        let start = self.trace.now();
        let outcome = self.store.get_many(outpoints, coins);
        self.trace.record_since(Stage::Fetch, 0, start);
        outcome
    }

    fn tip(&self) -> Result<Option<Tip>, StoreError> {
        self.store.tip()
    }

    fn identity(&self) -> Result<Option<[u8; 16]>, StoreError> {
        self.store.identity()
    }

    fn last_commit(&self) -> Result<Option<LastCommit>, StoreError> {
        self.store.last_commit()
    }

    fn commit(&self, changes: &dyn Changes, tip: &Tip) -> Result<(), StoreError> {
        let start = self.trace.now();
        let outcome = self.store.commit(changes, tip);
        self.trace.record_since(Stage::Flush, tip.height, start);
        outcome
    }

    fn coins(&self) -> Result<CoinIterator, StoreError> {
        self.store.coins()
    }

    fn memory(&self) -> usize {
        self.store.memory()
    }

    fn disk_size(&self) -> Result<u64, StoreError> {
        self.store.disk_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drained(trace: &Trace) -> Vec<(String, Span)> {
        let mut all = Vec::new();
        trace.drain(|name, span| all.push((name.to_owned(), *span)));
        all
    }

    #[test]
    fn each_thread_has_a_lane() {
        let trace = Trace::new(true, None);
        let start = trace.now();
        trace.record_since(Stage::Resolve, 1, start);
        std::thread::scope(|scope| {
            for name in ["one", "other"] {
                let trace = &trace;
                let thread = std::thread::Builder::new().name(name.to_owned());
                let work = move || trace.record_since(Stage::Check, 2, trace.now());
                thread.spawn_scoped(scope, work).unwrap();
            }
        });
        let all = drained(&trace);
        let mut lanes: Vec<u32> = all.iter().map(|(_, span)| span.thread).collect();
        lanes.sort_unstable();
        assert_eq!(lanes, [1, 2, 3]);
        let mut names: Vec<&str> = all[1..].iter().map(|(name, _)| &**name).collect();
        names.sort_unstable();
        assert_eq!(names, ["one", "other"]);
        assert!(drained(&trace).is_empty());
    }

    #[test]
    fn close_works_of_a_kind_are_one_span() {
        let trace = Trace::new(true, None);
        let start = Instant::now();
        let at = |nanoseconds| start + Duration::from_nanos(nanoseconds);
        trace.add(Stage::Check, 5, at(0), at(1_000));
        trace.add(Stage::Check, 5, at(1_500), at(3_000));
        trace.add(Stage::Check, 6, at(3_100), at(4_000));
        trace.add(Stage::Check, 6, at(10_000), at(11_000));
        trace.add(Stage::Resolve, 6, at(11_100), at(12_000));
        let spans: Vec<_> = drained(&trace)
            .into_iter()
            .map(|(_, span)| (span.stage, span.height, span.start, span.end))
            .collect();
        let expected = [
            (Stage::Check, 5, at(0), at(3_000)),
            (Stage::Check, 6, at(3_100), at(4_000)),
            (Stage::Check, 6, at(10_000), at(11_000)),
            (Stage::Resolve, 6, at(11_100), at(12_000)),
        ];
        assert_eq!(spans, expected);
    }

    #[test]
    fn nothing_is_kept_when_it_is_not_wanted() {
        let trace = Trace::new(false, None);
        assert_eq!(trace.now(), None);
        trace.add(Stage::Check, 5, Instant::now(), Instant::now());
        assert!(drained(&trace).is_empty());
    }
}
