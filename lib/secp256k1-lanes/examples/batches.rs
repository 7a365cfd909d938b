//! Verifies batches of 256 ECDSA signatures and does nothing else, for profilers and counters of
//! instructions: `cargo run --release --example batches -- BACKEND BATCHES`, where BACKEND is
//! `Neon`, say, or `libsecp256k1`.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Rng, backends, reference, valid};
use secp256k1::Secp256k1;
use secp256k1_lanes::{BATCH, Check, Kind, Verdict, Verifier};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, name, batches] = arguments.as_slice() else {
        panic!("arguments: BACKEND BATCHES");
    };
    let mut dice = Rng(7);
    let checks: Vec<Check> = (0..BATCH).map(|_| valid(Kind::Ecdsa, &mut dice)).collect();
    let batches = 0..batches.parse::<usize>().expect("a number of batches");
    if name == "libsecp256k1" {
        let secp = Secp256k1::verification_only();
        for _ in batches {
            assert!(checks.iter().all(|check| reference(&secp, check)));
        }
        return;
    }
    let backend = backends().find(|backend| format!("{backend:?}") == *name);
    let mut verifier = Verifier::with_backend(backend.expect("a backend of this machine"));
    let mut verdicts = Vec::new();
    for _ in batches {
        verifier.verify(&checks, &mut verdicts);
        assert!(verdicts.iter().all(|&verdict| verdict == Verdict::Valid));
    }
}
