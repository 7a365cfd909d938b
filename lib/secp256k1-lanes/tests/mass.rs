//! Many checks. People run this program by hand for hours, so it is one of its own.
//!
//! The environment says how many checks:
//!
//! - `BLOCKMILL_TEST_LANES_DIFFERENTIAL`: checks to compare with libsecp256k1;
//! - `BLOCKMILL_TEST_LANES_KNOWN`: checks whose verdict is known by construction; libsecp256k1
//!   takes no part;
//! - `BLOCKMILL_TEST_LANES_SEED`: another seed. Checks depend on the seed alone, not on the number
//!   of threads.

mod common;

use common::known::{Expected, Known, POINTS, Tables};
use common::scalar::Scalar;
use common::{Rng, backends, broken, has_small_r, is_degenerate, reference};
use num_bigint::BigUint;
use secp256k1::Secp256k1;
use secp256k1_lanes::{BATCH, Backend, Check, Kind, Verdict, Verifier};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

fn variable(name: &str, default: usize) -> usize {
    let Ok(value) = std::env::var(name) else {
        return default;
    };
    value
        .replace('_', "")
        .parse()
        .unwrap_or_else(|_| panic!("{name} is not a number: {value}"))
}

fn number_of_cases(name: &str, default: usize) -> usize {
    let cases = variable(name, default);
    if cases <= default {
        eprintln!("short: {cases} checks; {name} sets the number");
    }
    cases
}

/// A line of the table: checks by verdict.
#[derive(Debug, Clone, Copy, Default)]
struct Line {
    cases: usize,
    valid: usize,
    invalid: usize,
    small_r: usize,
    special: usize,
}

impl Line {
    fn add(&mut self, other: &Self) {
        self.cases += other.cases;
        self.valid += other.valid;
        self.invalid += other.invalid;
        self.small_r += other.small_r;
        self.special += other.special;
    }

    fn print(&self, name: &str) {
        eprintln!(
            "{name:<58} {:>11} {:>11} {:>11} {:>9} {:>9}",
            self.cases, self.valid, self.invalid, self.small_r, self.special
        );
    }
}

type Table = BTreeMap<String, Line>;

fn count(table: &mut Table, known: &Known, verdict: Verdict) {
    let name = format!("{:?}: {}", known.check.kind, known.change);
    let line = table.entry(name).or_default();
    line.cases += 1;
    match (verdict, known.expected) {
        (Verdict::Valid, _) => line.valid += 1,
        (Verdict::Invalid, _) => line.invalid += 1,
        (Verdict::CannotTell, expected) if expected == Expected::Special || is_degenerate(&known.check) => {
            line.special += 1;
        }
        (Verdict::CannotTell, _) => line.small_r += 1,
    }
}

/// Verifies `cases` checks on all cores, in rounds with tables of their own. `is_right` sees each
/// check with its verdict.
fn run(
    backend: Backend,
    cases: usize,
    round: usize,
    change: impl Fn(&mut Known, &mut Rng) + Sync,
    is_right: impl Fn(&Known, Verdict) -> bool + Sync,
) -> Line {
    let seed = variable("BLOCKMILL_TEST_LANES_SEED", 1) as u64;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let rounds = cases.div_ceil(round);
    let next = AtomicUsize::new(0);
    let all = Mutex::new(Table::new());
    let start = Instant::now();
    let work = || {
        let mut verifier = Verifier::with_backend(backend);
        assert_eq!(verifier.backend(), backend);
        let mut table = Table::new();
        let (mut batch, mut checks, mut verdicts) = (Vec::<Known>::new(), Vec::<Check>::new(), Vec::new());
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= rounds {
                break;
            }
            let mut dice = Rng(seed.wrapping_mul(0x9E6C_63D0_676A_9A99) ^ Rng(number as u64).next());
            let tables = Tables::new(&mut dice);
            let mut left = round.min(cases - number * round);
            while left > 0 {
                // Most batches are full.
                let size = if dice.once_in(8) { 1 + dice.below(BATCH) } else { BATCH }.min(left);
                left -= size;
                // Few keys, so that they repeat, or many.
                let keys = [1, 2, 8, 32, 100, 200, POINTS, POINTS][dice.below(8)];
                batch.clear();
                batch.extend((0..size).map(|_| {
                    let mut known = tables.known_of(keys, &mut dice);
                    change(&mut known, &mut dice);
                    known
                }));
                checks.clear();
                checks.extend(batch.iter().map(|known| known.check));
                verifier.verify(&checks, &mut verdicts);
                assert_eq!(verdicts.len(), batch.len());
                for (index, (known, &verdict)) in batch.iter().zip(&verdicts).enumerate() {
                    assert!(
                        is_right(known, verdict),
                        "{backend:?}, seed {seed}, round {number}, index {index} of {size}: {verdict:?} of {known:?}"
                    );
                    count(&mut table, known, verdict);
                }
            }
        }
        let mut all = all.lock().unwrap();
        for (name, line) in &table {
            all.entry(name.clone()).or_default().add(line);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.min(rounds) {
            scope.spawn(work);
        }
    });
    let seconds = start.elapsed().as_secs_f64();
    let all = all.into_inner().unwrap();
    eprintln!(
        "{backend:?}, seed {seed}, {threads} threads, {rounds} rounds, {seconds:.1} s, {:.0} cases/s",
        cases as f64 / seconds
    );
    eprintln!(
        "{:<58} {:>11} {:>11} {:>11} {:>9} {:>9}",
        "", "cases", "valid", "invalid", "small r", "special"
    );
    let mut total = Line::default();
    for (name, line) in &all {
        line.print(name);
        total.add(line);
    }
    total.print("all");
    assert_eq!(total.cases, cases);
    assert_eq!(total.cases, total.valid + total.invalid + total.small_r + total.special);
    total
}

/// About half of the checks hold, and lanes leave few to others.
fn is_balanced(line: &Line) {
    assert!(
        line.valid > line.cases * 2 / 5 && line.valid < line.cases * 3 / 5,
        "{line:?}"
    );
    assert!(line.small_r + line.special < line.cases / 20, "{line:?}");
}

/// The backend that is used here gets all. The others are slower and get a share.
fn share(backend: Backend, cases: usize) -> usize {
    if backend == Backend::detect() {
        return cases;
    }
    (cases / 64).max(cases.min(5_000))
}

#[test]
fn verdicts_are_those_of_libsecp256k1() {
    let cases = number_of_cases("BLOCKMILL_TEST_LANES_DIFFERENTIAL", 50_000);
    for backend in backends() {
        let line = run(
            backend,
            share(backend, cases),
            1 << 14,
            |known, dice| {
                // Some are broken further, so that nothing is known of them.
                if dice.once_in(8) {
                    known.check = broken(&known.check, dice);
                    known.change = "unknown";
                }
            },
            |known, verdict| {
                thread_local!(static SECP: Secp256k1<secp256k1::VerifyOnly> = Secp256k1::verification_only());
                let holds = SECP.with(|secp| reference(secp, &known.check));
                let is_known = known.change != "unknown";
                assert!(
                    !is_known || holds == (known.expected == Expected::Valid),
                    "wrongly known: {known:?}"
                );
                match verdict {
                    Verdict::Valid => holds,
                    Verdict::Invalid => !holds,
                    Verdict::CannotTell => {
                        known.expected == Expected::Special || has_small_r(&known.check) || is_degenerate(&known.check)
                    }
                }
            },
        );
        is_balanced(&line);
    }
}

#[test]
fn verdicts_are_those_known_by_construction() {
    let cases = number_of_cases("BLOCKMILL_TEST_LANES_KNOWN", 400_000);
    for backend in backends() {
        let line = run(
            backend,
            share(backend, cases),
            1 << 18,
            |_, _| {},
            |known, verdict| known.expected.allows(verdict),
        );
        is_balanced(&line);
    }
}

/// The tests' own scalars, against a library of big numbers.
#[test]
fn scalars_are_right() {
    let n = BigUint::from_bytes_be(&common::hex::<32>(
        "FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141",
    ));
    let mut dice = Rng(11);
    let big = |scalar: Scalar| BigUint::from_bytes_be(&scalar.bytes());
    for case in 0..100_000 {
        let mut bytes = || {
            if dice.once_in(2) {
                dice.bytes()
            } else {
                dice.rough_bytes()
            }
        };
        let (first, second) = (bytes(), bytes());
        let (a, b) = (Scalar::from_bytes(&first), Scalar::from_bytes(&second));
        assert_eq!(big(a), BigUint::from_bytes_be(&first) % &n);
        assert_eq!(big(a + b), (big(a) + big(b)) % &n);
        assert_eq!(big(a - b), (big(a) + &n - big(b)) % &n);
        assert_eq!(big(a * b), big(a) * big(b) % &n);
        assert_eq!(big(-a), (&n - big(a)) % &n);
        assert_eq!(a.is_high(), big(a) > &n >> 1);
        if case % 100 == 0 && !a.is_zero() {
            assert_eq!(a * a.invert(), Scalar::ONE);
        }
    }
    let lambda = Scalar::LAMBDA;
    assert_eq!(lambda * lambda + lambda, -Scalar::ONE);
    assert_eq!(Scalar::small(-5) + Scalar::small(7), Scalar::small(2));
}

/// [`Tables`] make the kinds of checks that their head promises.
#[test]
fn half_of_the_known_checks_are_valid() {
    let mut dice = Rng(12);
    let tables = Tables::new(&mut dice);
    let known: Vec<Known> = (0..3000).map(|_| tables.known(&mut dice)).collect();
    for kind in [Kind::Ecdsa, Kind::Schnorr, Kind::Tweak] {
        let of_kind = known.iter().filter(|known| known.check.kind == kind);
        let valid = of_kind
            .clone()
            .filter(|known| known.expected == Expected::Valid)
            .count();
        assert!((300..700).contains(&valid), "{valid} of {} {kind:?}", of_kind.count());
    }
}
