//! Deferred signature checks, gathered over transactions and blocks, and verified many at a time.
//!
//! Each thread records in a slot of its own while that slot is free. When a slot has as many
//! signature checks as the verifier wants together, the thread that filled the slot verifies them
//! at once, as a part of the check that it runs. So no block waits for its own signatures alone.
//! The records stay bounded: by the number of slots, and in each slot by that many signature checks
//! and those of one script.
//!
//! [`Gather::verify_all`] moves the scripts out of all slots, and deals them out to all threads.
//! Otherwise a script stays in its slot until it is decided. A slot is locked meanwhile, and
//! `verify_all` locks every slot: so it waits for scripts that other threads are verifying. A
//! script that had to be run again is in a slot when `verify_all` returns. A second call decides
//! it.

use super::block::{Again, BlockChecks, Offering, Script, lock};
use super::record::CheckRecord;
use blockmill_checkqueue::{Check, CheckQueue, ClosedRound, TooManyRounds};
use blockmill_pool::{ThreadPool, contain};
use blockmill_rules::{DeferredChecks, Outcome, ScriptVerifier, VerifyError};
use blockmill_sync::CachePadded;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

/// Fewer signature checks are not verified while more may come: they would not fill the lanes.
const VERIFIED_MIN: usize = 32;

type Batch<V> = <V as ScriptVerifier>::Deferred<Script<V>>;

/// What one thread has recorded.
struct Slot<V: ScriptVerifier + 'static> {
    batch: Mutex<Batch<V>>,
    /// Signature checks and memory of the batch, for threads that only look. Written under the
    /// lock.
    signatures: AtomicUsize,
    memory: AtomicUsize,
}

/// Where the scripts are whose signature checks were deferred.
pub(super) struct Gather<V: ScriptVerifier + 'static> {
    verifier: Arc<V>,
    record: CheckRecord,
    /// Signature checks at which those of a slot are verified.
    together: usize,
    slots: Box<[CachePadded<Slot<V>>]>,
    /// Held while the slots are emptied, until what was in them is decided or back.
    emptying: Mutex<()>,
    chunks: CheckQueue<Chunk<V>>,
}

/// Time that was spent on deferred checks.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TimeSpent {
    pub(super) busy: Duration,
    /// Time that the caller waited for others.
    pub(super) wait: Duration,
}

impl<V: ScriptVerifier + 'static> Gather<V> {
    /// None for a verifier that defers nothing.
    pub(super) fn new(
        verifier: &Arc<V>,
        thread_pool: &ThreadPool,
        priority: u32,
        record: CheckRecord,
    ) -> Option<Arc<Self>> {
        let together = verifier.signatures_together();
        let slot = || Slot {
            batch: Mutex::default(),
            signatures: AtomicUsize::new(0),
            memory: AtomicUsize::new(0),
        };
        (together > 0).then(|| {
            Arc::new(Self {
                verifier: Arc::clone(verifier),
                record,
                together,
                // One for each worker, and one for the caller.
                slots: (0..=thread_pool.workers()).map(|_| CachePadded::new(slot())).collect(),
                emptying: Mutex::new(()),
                chunks: CheckQueue::new(thread_pool, priority),
            })
        })
    }

    /// Memory in bytes of what lies in the slots.
    pub(super) fn memory(&self) -> usize {
        let memory = |slot: &CachePadded<Slot<V>>| slot.memory.load(Ordering::Relaxed);
        self.slots.iter().map(memory).sum()
    }

    /// A slot for the calling thread: its own, or another one that is free.
    pub(super) fn recorder(&self) -> Recorder<'_, V> {
        let own = thread_number() % self.slots.len();
        let (before, from_own) = self.slots.split_at(own);
        let free = from_own.iter().chain(before).find_map(|slot| self.try_open(slot));
        // All slots are locked, so this thread waits for its own.
        free.unwrap_or_else(|| self.open(&self.slots[own]))
    }

    fn open<'a>(&'a self, slot: &'a Slot<V>) -> Recorder<'a, V> {
        Recorder {
            gather: self,
            slot,
            batch: lock(&slot.batch),
        }
    }

    fn try_open<'a>(&'a self, slot: &'a Slot<V>) -> Option<Recorder<'a, V>> {
        let batch = match slot.batch.try_lock() {
            Ok(batch) => batch,
            Err(TryLockError::Poisoned(batch)) => batch.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(Recorder {
            gather: self,
            slot,
            batch,
        })
    }

    /// Verifies a batch. Scripts that were run again stay in it. After a panic all that it still
    /// had have failed.
    fn verify(&self, batch: &mut Batch<V>) -> Duration {
        if batch.scripts() == 0 {
            return Duration::ZERO;
        }
        let start = Instant::now();
        let outcome = contain(|| {
            let mut last: Option<Again<V>> = None;
            self.verifier.verify_deferred(
                batch,
                &mut |script| script.prepare_again(&mut last),
                &mut Script::answer,
            );
        });
        if outcome.is_err() {
            // A script that is dropped without a verdict fails its block.
            let lost = std::mem::take(batch);
            let _ = contain(|| drop(lost));
        }
        start.elapsed()
    }

    /// As `verify`, recorded too. For what is done outside of any block's checks.
    fn verify_for_all(&self, batch: &mut Batch<V>) -> Duration {
        let start = self.record.now();
        let busy = self.verify(batch);
        self.record.add_since(0, start);
        busy
    }

    /// Verifies a slot that has enough to fill the lanes, and says how long that took. None if
    /// there is no such slot.
    pub(super) fn verify_some(&self) -> Option<Duration> {
        self.slots.iter().find_map(|slot| {
            if slot.signatures.load(Ordering::Relaxed) < VERIFIED_MIN {
                return None;
            }
            let mut recorder = self.try_open(slot)?;
            // Asked again under the lock: another thread may have verified them.
            (recorder.batch.signatures() >= VERIFIED_MIN).then(|| self.verify_for_all(&mut recorder.batch))
        })
    }

    /// Verifies everything that lies in the slots, on all threads. Scripts that were run again lie
    /// there afterwards.
    pub(super) fn verify_all(self: &Arc<Self>) -> TimeSpent {
        let mut spent = TimeSpent::default();
        let emptying = lock(&self.emptying);
        let mut all = Batch::<V>::default();
        for slot in &self.slots {
            all.append(&mut self.open(slot).batch);
        }
        let signatures = all.signatures();
        // One for each thread at most, this one included.
        let chunks = (signatures / VERIFIED_MIN).clamp(1, self.slots.len());
        // One chunk is left for this thread.
        let others = (chunks > 1)
            .then(|| self.deal_out(&mut all, chunks - 1, signatures.div_ceil(chunks)))
            .flatten();
        spent.busy = self.verify_for_all(&mut all);
        self.put_back(&mut all);
        if let Some((round, busy_ns)) = others {
            round.help();
            let waiting = Instant::now();
            // A chunk has no failure of its own, and its scripts fail if it panics.
            let _ = round.wait();
            spent.wait = waiting.elapsed();
            spent.busy += Duration::from_nanos(busy_ns.load(Ordering::Relaxed));
        }
        drop(emptying);
        spent
    }

    /// Takes chunks of so many signature checks out of a batch, for the workers.
    fn deal_out(
        self: &Arc<Self>,
        all: &mut Batch<V>,
        chunks: usize,
        signatures: usize,
    ) -> Option<(ClosedRound<Chunk<V>>, Arc<AtomicU64>)> {
        let busy_ns = Arc::new(AtomicU64::new(0));
        let shared = (Arc::clone(self), Arc::clone(&busy_ns));
        let mut round = match self.chunks.begin(chunks, shared) {
            Ok(round) => round,
            // There is one at most, under `emptying`. Without a round the caller verifies all by
            // itself.
            Err(TooManyRounds(_)) => return None,
        };
        round.add((0..chunks).map(|_| Chunk(all.take(signatures))));
        Some((round.close(), busy_ns))
    }

    /// Puts what is left of a batch into a slot.
    fn put_back(&self, batch: &mut Batch<V>) {
        if batch.scripts() > 0 {
            self.recorder().batch.append(batch);
        }
    }
}

/// A slot that is locked by the thread which records in it.
pub(super) struct Recorder<'a, V: ScriptVerifier + 'static> {
    gather: &'a Gather<V>,
    slot: &'a Slot<V>,
    batch: MutexGuard<'a, Batch<V>>,
}

impl<V: ScriptVerifier + 'static> Recorder<'_, V> {
    /// Runs the script of an input. Signature checks are deferred, if the verifier does so.
    pub(super) fn run(
        &mut self,
        checks: &Arc<BlockChecks<V>>,
        prepared: &V::Prepared,
        transaction: usize,
        number: usize,
    ) -> Result<(), VerifyError> {
        let scripts = self.batch.scripts();
        let script = Script::new(checks, transaction, number);
        let offering = Offering::begin();
        let outcome = self
            .gather
            .verifier
            .verify_deferring(prepared, number, checks.flags, script, &mut self.batch);
        drop(offering);
        match outcome? {
            Outcome::Deferred if self.batch.scripts() <= scripts => {
                let lost = "a script was deferred, and is not among those that were";
                Err(VerifyError::Verifier(lost.to_owned()))
            }
            Outcome::Passed | Outcome::Deferred => Ok(()),
        }
    }

    /// Verifies the slot if it is full. Returns how long that took.
    pub(super) fn verify_if_full(&mut self) -> Duration {
        if self.batch.signatures() < self.gather.together {
            return Duration::ZERO;
        }
        self.gather.verify(&mut self.batch)
    }
}

impl<V: ScriptVerifier + 'static> Drop for Recorder<'_, V> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The verifier may have recorded half a script. The scripts that are dropped fail their
            // blocks.
            let lost = std::mem::take(&mut *self.batch);
            let _ = contain(|| drop(lost));
        }
        self.slot.signatures.store(self.batch.signatures(), Ordering::Relaxed);
        self.slot.memory.store(self.batch.memory(), Ordering::Relaxed);
    }
}

/// A part of what lay in the slots.
struct Chunk<V: ScriptVerifier + 'static>(Batch<V>);

impl<V: ScriptVerifier + 'static> Check for Chunk<V> {
    /// Where the chunk comes from, and the nanoseconds that chunks took.
    type Shared = (Arc<Gather<V>>, Arc<AtomicU64>);
    type Error = Infallible;

    fn run(&mut self, (gather, busy_ns): &Self::Shared) -> Result<(), Infallible> {
        let busy = gather.verify_for_all(&mut self.0);
        busy_ns.fetch_add(busy.as_nanos() as u64, Ordering::Relaxed);
        gather.put_back(&mut self.0);
        Ok(())
    }
}

/// Number of the calling thread, in the order in which threads first asked.
fn thread_number() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = THREADS.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|&number| number)
}
