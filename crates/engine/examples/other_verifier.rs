//! An engine with a script verifier of its own: it lets Core's interpreter judge every script, and
//! counts which kinds of scripts are spent.
//!
//! The verifier wraps another one, so the verdicts are Core's. Any type that implements
//! `ScriptVerifier` will do.

use blockmill_block::Network;
use blockmill_chaingen::{ChainSpec, Profile, write_chain};
use blockmill_engine::Engine;
use blockmill_kernel::KernelVerifier;
use blockmill_rules::{ScriptFlags, ScriptVerifier, SpentOutput, VerifyError};
use std::error::Error;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of spent outputs, shared by all threads of the engine.
#[derive(Debug, Default)]
struct Counts {
    segwit: AtomicU64,
    other: AtomicU64,
}

/// Counts the outputs that are spent, and lets another verifier judge.
struct Counting {
    verifier: KernelVerifier,
    counts: Arc<Counts>,
}

impl ScriptVerifier for Counting {
    type Prepared = <KernelVerifier as ScriptVerifier>::Prepared;
    type Deferred<T: Send> = ();

    fn prepare(&self, transaction: &[u8], spent: &[SpentOutput<'_>]) -> Result<Self::Prepared, VerifyError> {
        for output in spent {
            // A witness program: its version, and one push of 2 to 40 bytes.
            let is_segwit = match output.script_pubkey {
                [0 | 0x51..=0x60, length, program @ ..] => program.len() == usize::from(*length),
                _ => false,
            };
            let count = if is_segwit {
                &self.counts.segwit
            } else {
                &self.counts.other
            };
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.verifier.prepare(transaction, spent)
    }

    fn verify(&self, prepared: &Self::Prepared, input: usize, flags: ScriptFlags) -> Result<(), VerifyError> {
        self.verifier.verify(prepared, input, flags)
    }
}

/// Connects a small chain. Returns its inputs, and those of them that spend a witness program.
fn run() -> Result<(u64, u64), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let blocks = directory.path().join("blocks");
    let spec = ChainSpec::new(Profile::Mixed, 130, 7);
    write_chain(&blocks, &spec, &mut |_| ())?;
    let counts = Arc::new(Counts::default());
    let verifier = Counting {
        verifier: KernelVerifier,
        counts: Arc::clone(&counts),
    };
    let data = directory.path().join("data");
    let mut engine = Engine::builder(data).network(Network::Regtest).open(verifier)?;
    let report = engine.connect(&[blocks], &mut ())?;
    let (segwit, other) = (
        counts.segwit.load(Ordering::Relaxed),
        counts.other.load(Ordering::Relaxed),
    );
    assert_eq!(segwit + other, report.totals.inputs, "every input is counted once");
    Ok((report.totals.inputs, segwit))
}

fn main() -> Result<(), Box<dyn Error>> {
    let (inputs, segwit) = run()?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{inputs} inputs, {segwit} of them spend a witness program")?;
    Ok(())
}

#[test]
fn kinds_of_scripts_are_counted() {
    let (inputs, segwit) = run().unwrap();
    assert!(segwit > 0 && segwit < inputs, "{segwit} of {inputs}");
}
