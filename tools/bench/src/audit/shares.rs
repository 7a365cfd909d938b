//! What the time of an audit goes into.

use super::Audited;
use crate::Failure;
use blockmill_audit::{Auditor, Report, Sources, Verdict};
use blockmill_block::Network;
use blockmill_engine::Signatures;
use blockmill_harness::{same, timed};
use blockmill_rules::{Outcome, Params, ScriptFlags, ScriptVerifier, SignatureCounts, SpentOutput, VerifyError};
use blockmill_script::CoreVerifier;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A verifier that knows how long it took, all threads together.
struct Timed {
    verifier: CoreVerifier,
    nanoseconds: AtomicU64,
}

impl Timed {
    fn timed<T>(&self, work: impl FnOnce(&CoreVerifier) -> T) -> T {
        let start = Instant::now();
        let done = work(&self.verifier);
        let nanoseconds = start.elapsed().as_nanos() as u64;
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
        done
    }
}

impl ScriptVerifier for Timed {
    type Prepared = <CoreVerifier as ScriptVerifier>::Prepared;
    type Deferred<T: Send> = <CoreVerifier as ScriptVerifier>::Deferred<T>;

    fn prepare(&self, transaction: &[u8], spent: &[SpentOutput<'_>]) -> Result<Self::Prepared, VerifyError> {
        self.timed(|verifier| verifier.prepare(transaction, spent))
    }

    fn verify(&self, prepared: &Self::Prepared, input: usize, flags: ScriptFlags) -> Result<(), VerifyError> {
        self.timed(|verifier| verifier.verify(prepared, input, flags))
    }

    fn verify_deferring<T: Send>(
        &self,
        prepared: &Self::Prepared,
        input: usize,
        flags: ScriptFlags,
        script: T,
        deferred: &mut Self::Deferred<T>,
    ) -> Result<Outcome, VerifyError> {
        self.timed(|verifier| verifier.verify_deferring(prepared, input, flags, script, deferred))
    }

    fn settle<T: Send>(
        &self,
        deferred: &mut Self::Deferred<T>,
        prepare: &mut dyn FnMut(&T) -> Result<Arc<Self::Prepared>, VerifyError>,
        settled: &mut dyn FnMut(T, Result<(), VerifyError>),
    ) {
        self.timed(|verifier| verifier.settle(deferred, prepare, settled));
    }

    fn signatures_together(&self) -> usize {
        self.verifier.signatures_together()
    }

    fn signature_counts(&self) -> SignatureCounts {
        self.verifier.signature_counts()
    }
}

/// What one run took.
pub(super) struct Shares {
    /// Share of script checks in the CPU time, on one thread.
    pub(super) scripts: f64,
    /// Share of the sums, on one thread.
    pub(super) sums: f64,
    /// Share of the time that the least busy thread works while blocks are verified, with a thread
    /// for each core.
    pub(super) busy: f64,
    /// CPU seconds on one thread: of scripts, of sums, and of the rest.
    pub(super) cpu_seconds: [f64; 3],
    /// Inputs, coins that are made, spent or in the set, bytes of blocks.
    pub(super) counts: [f64; 3],
}

impl Shares {
    pub(super) fn measure(audited: &Audited<'_>, cores: usize) -> Result<Self, Failure> {
        let (verifier, ways) = match audited.signatures {
            "lanes" => (blockmill_script::Signatures::Lanes, Signatures::Lanes),
            _ => (blockmill_script::Signatures::Kernel, Signatures::Kernel),
        };
        let verifier = Arc::new(Timed {
            verifier: CoreVerifier::new(verifier),
            nanoseconds: AtomicU64::new(0),
        });
        let (alone, run) = timed(1, || audit(audited, &verifier, ways, 1));
        let scripts = Duration::from_nanos(verifier.nanoseconds.load(Ordering::Relaxed)).as_secs_f64();
        let (sums, cpu) = (alone?.sum_time.as_secs_f64(), run.cpu_seconds);
        let times = audit(audited, &verifier, ways, cores)?.times;
        let least = times.cpu.iter().min().copied().unwrap_or_default();
        let summary = &audited.site.summary;
        let coins = summary.outputs + summary.inputs + summary.coins;
        Ok(Self {
            scripts: scripts / cpu,
            sums: sums / cpu,
            busy: least.as_secs_f64() / times.wall.as_secs_f64(),
            cpu_seconds: [scripts, sums, cpu - scripts - sums],
            counts: [summary.inputs as f64, coins as f64, summary.bytes as f64],
        })
    }
}

impl fmt::Display for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "script checks are {:.1}% of the CPU time, sums {:.2}%; each thread works {:.1}% of the time",
            self.scripts * 100.0,
            self.sums * 100.0,
            self.busy * 100.0
        )
    }
}

fn audit(
    audited: &Audited<'_>,
    verifier: &Arc<Timed>,
    signatures: Signatures,
    threads: usize,
) -> Result<Report, Failure> {
    let stop = AtomicBool::new(false);
    let auditor = Auditor::new(verifier, threads, signatures, &stop);
    let sources = Sources {
        blocks: &[audited.blocks()],
        headers: &[],
        params: &Params::new(Network::Regtest, None),
    };
    let report = auditor.files(&sources, &audited.snapshot(), None, &mut ())?;
    same("audit", "verdict", report.verdict.name(), Verdict::Proved.name())?;
    Ok(report)
}
