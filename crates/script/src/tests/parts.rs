//! The parts by themselves, wrong arguments, and many threads.

use super::lanes::honest_verifier;
use super::samples::{Form, Push, Sample, both_or_neither, generated, public, secret, spend};
use crate::balance::{Balance, CAP_NS, Cost, LaneCosts, SIGNATURE_NS};
use crate::ffi::{Answer, Answers, Report, Signers};
use crate::recorder::{CHECKS_MAX, Known, Recorder, reserve};
use crate::{CoreTransaction, CoreVerifier, Deferred, Signatures};
use bitcoin::key::Secp256k1;
use bitcoin::opcodes::all as op;
use bitcoin::script::{Builder, PushBytesBuf};
use blockmill_rules::{DeferredChecks, Outcome, ScriptFlags, ScriptVerifier, SpentOutput, VerifyError};
use secp256k1_lanes::{Backend, Check, Kind, Verdict};
use std::sync::Arc;

/// Two checks, both valid.
pub(super) fn two_checks() -> Sample {
    spend(Form::Witness, &both_or_neither(), &[Push::Signed(2), Push::Signed(1)])
}

pub(super) fn prepare(verifier: &CoreVerifier, sample: &Sample) -> Result<CoreTransaction, VerifyError> {
    verifier.prepare(&sample.bytes(), &sample.spent())
}

fn check_number(number: u32) -> Check {
    let mut message = [0; 32];
    message[..4].copy_from_slice(&number.to_be_bytes());
    Check {
        kind: Kind::Ecdsa,
        key: public(1),
        r: [1; 32],
        s: [2; 32],
        message,
    }
}

#[test]
fn wrong_arguments_are_no_verdict() {
    let verifier = honest_verifier();
    let sample = two_checks();
    let (bytes, spent) = (sample.bytes(), sample.spent());
    let refused = |bytes: &[u8], spent: &[SpentOutput<'_>]| {
        matches!(verifier.prepare(bytes, spent), Err(VerifyError::Verifier(_)))
    };
    assert!(!refused(&bytes, &spent));
    assert!(refused(&bytes, &[]));
    assert!(refused(&bytes, &[spent[0], spent[0]]));
    assert!(refused(&bytes[..bytes.len() - 1], &spent));
    assert!(refused(&[&bytes[..], &[0]].concat(), &spent));
    assert!(refused(&[], &[]));
    let prepared = prepare(&verifier, &sample).unwrap();
    let without_p2sh = ScriptFlags::ALL.without(ScriptFlags::P2SH);
    let unknown = ScriptFlags::ALL | ScriptFlags(1 << 14);
    for (input, flags) in [(1, ScriptFlags::ALL), (0, without_p2sh), (0, unknown)] {
        let mut deferred = Deferred::default();
        let outcome = verifier.verify_deferring(&prepared, input, flags, (), &mut deferred);
        assert!(matches!(outcome, Err(VerifyError::Verifier(_))), "{outcome:?}");
        let verdict = verifier.verify(&prepared, input, flags);
        assert!(matches!(verdict, Err(VerifyError::Verifier(_))), "{verdict:?}");
        assert_eq!(deferred.scripts(), 0);
    }
}

#[test]
fn a_verifier_without_lanes_puts_nothing_off() {
    let verifier = CoreVerifier::new(Signatures::OneByOne);
    assert_eq!(verifier.signatures(), Signatures::OneByOne);
    assert_eq!(verifier.signatures_together(), 0);
    let prepared = prepare(&verifier, &two_checks()).unwrap();
    let mut deferred = Deferred::default();
    let outcome = verifier.verify_deferring(&prepared, 0, ScriptFlags::ALL, (), &mut deferred);
    assert_eq!((outcome, deferred.scripts()), (Ok(Outcome::Passed), 0));
    assert_eq!(verifier.signature_counts().libsecp256k1, 2);
    assert!(CoreVerifier::new(Signatures::Lanes).signatures_together() > 0);
}

/// Whatever the form of key and signature, a valid one is valid at once: no second run, no ordinary
/// one.
#[test]
fn all_forms_of_keys_and_signatures_are_deferred() {
    let point = secret(1).public_key(&Secp256k1::new());
    let long = point.serialize_uncompressed();
    let mut hybrid = long;
    hybrid[0] = point.serialize()[0] + 4;
    let verifier = honest_verifier();
    let mut deferred = Deferred::default();
    let mut count = 0;
    for key in [&point.serialize()[..], &long, &hybrid] {
        let key = PushBytesBuf::try_from(key.to_vec()).unwrap();
        let script = Builder::new()
            .push_slice(key)
            .push_opcode(op::OP_CHECKSIG)
            .into_script();
        for form in [Form::Bare, Form::ScriptHash, Form::Witness] {
            for push in [Push::Signed(1), Push::HighS(1)] {
                let sample = spend(form, &script, &[push]);
                let prepared = prepare(&verifier, &sample).unwrap();
                assert_eq!(verifier.verify(&prepared, 0, ScriptFlags::ALL), Ok(()));
                let name = (form, push);
                let outcome = verifier.verify_deferring(&prepared, 0, ScriptFlags::ALL, name, &mut deferred);
                assert_eq!(outcome, Ok(Outcome::Deferred));
                count += 1;
            }
        }
    }
    let before = verifier.signature_counts();
    assert_eq!((before.libsecp256k1, deferred.signatures()), (count, 18));
    verifier.verify_deferred(
        &mut deferred,
        &mut |name| unreachable!("{name:?}"),
        &mut |name, verdict| {
            assert_eq!(verdict, Ok(()), "{name:?}");
        },
    );
    let after = verifier.signature_counts();
    assert_eq!(
        (after.again, after.libsecp256k1, after.lanes),
        (0, before.libsecp256k1, 18)
    );
}

#[test]
fn what_one_verifier_defers_another_verifies() {
    let (verifier, one_by_one) = (honest_verifier(), CoreVerifier::new(Signatures::OneByOne));
    let pushes = [[Push::Signed(2), Push::Signed(1)], [Push::Signed(2), Push::Wrong(1)]];
    let samples = pushes.map(|pushes| spend(Form::Witness, &both_or_neither(), &pushes));
    for other in [&verifier, &one_by_one] {
        let mut deferred = Deferred::default();
        for (name, sample) in samples.iter().enumerate() {
            let prepared = prepare(&verifier, sample).unwrap();
            let outcome = verifier.verify_deferring(&prepared, 0, ScriptFlags::ALL, name, &mut deferred);
            assert_eq!(outcome, Ok(Outcome::Deferred));
        }
        let mut verdicts = Vec::new();
        let mut again = |&name: &usize| prepare(other, &samples[name]).map(Arc::new);
        other.verify_deferred(&mut deferred, &mut again, &mut |_, verdict| verdicts.push(verdict));
        assert_eq!(verdicts, [Ok(()), Err(VerifyError::Invalid)]);
        assert_eq!(deferred.scripts(), 0);
    }
}

/// A caller that gives the wrong transaction, or none, gets no verdict.
#[test]
fn a_transaction_that_is_not_the_right_one_is_no_verdict() {
    let verifier = honest_verifier();
    let sample = spend(Form::Witness, &both_or_neither(), &[Push::Signed(2), Push::Wrong(1)]);
    let mut twice = sample.clone();
    twice.transaction.input.insert(0, super::samples::empty_input(3));
    twice.spent.insert(0, sample.spent[0].clone());
    for error in [VerifyError::Verifier("not there".to_owned()), VerifyError::Invalid] {
        let mut deferred = Deferred::default();
        let prepared = prepare(&verifier, &twice).unwrap();
        let outcome = verifier.verify_deferring(&prepared, 1, ScriptFlags::ALL, (), &mut deferred);
        assert_eq!(outcome, Ok(Outcome::Deferred));
        let mut again = |(): &()| match &error {
            VerifyError::Invalid => prepare(&verifier, &sample).map(Arc::new),
            error => Err(error.clone()),
        };
        let mut verdicts = Vec::new();
        verifier.verify_deferred(&mut deferred, &mut again, &mut |(), verdict| verdicts.push(verdict));
        assert!(matches!(&verdicts[..], [Err(VerifyError::Verifier(_))]), "{verdicts:?}");
    }
}

#[test]
fn checks_are_taken_from_the_end_by_scripts() {
    let verifier = honest_verifier();
    let sample = two_checks();
    let prepared = prepare(&verifier, &sample).unwrap();
    let defer = |names: std::ops::Range<u32>| {
        let mut deferred = Deferred::default();
        for name in names {
            let outcome = verifier.verify_deferring(&prepared, 0, ScriptFlags::ALL, name, &mut deferred);
            assert_eq!(outcome, Ok(Outcome::Deferred));
        }
        deferred
    };
    let names = |mut deferred: Deferred<u32>| {
        let mut names = Vec::new();
        verifier.verify_deferred(&mut deferred, &mut |_| unreachable!(), &mut |name, verdict| {
            assert_eq!(verdict, Ok(()));
            names.push(name);
        });
        names
    };
    let mut deferred = defer(0..3);
    deferred.append(&mut defer(3..7));
    assert_eq!((deferred.scripts(), deferred.signatures()), (7, 14));
    assert!(deferred.memory() >= 14 * 130 + 7 * size_of::<u32>());
    assert_eq!(deferred.take(0).scripts(), 0);
    assert_eq!(names(deferred.take(3)), [5, 6]);
    assert_eq!(names(deferred.take(1)), [4]);
    assert_eq!((deferred.scripts(), deferred.signatures()), (4, 8));
    assert_eq!(names(deferred.take(100)), [0, 1, 2, 3]);
    assert_eq!((deferred.scripts(), deferred.signatures()), (0, 0));
}

#[test]
fn a_recorder_stops_at_its_bound() {
    let mut records = vec![check_number(0)];
    let known = [check_number(7), check_number(8), check_number(9)];
    let verdicts = [Verdict::Valid, Verdict::Invalid, Verdict::CannotTell];
    let known = Known {
        checks: &known,
        verdicts: &verdicts,
    };
    let mut recorder = Recorder::second(known, &mut records, reserve);
    // In any order, and again.
    for (number, answer) in [(8, Answer::Invalid), (7, Answer::Valid), (7, Answer::Valid)] {
        assert_eq!(recorder.answer(&check_number(number)), answer);
    }
    assert_eq!(recorder.answer(&check_number(9)), Answer::Stop);
    assert_eq!(recorder.recorded(), 0);
    for number in 0..CHECKS_MAX as u32 {
        assert_eq!(recorder.answer(&check_number(100 + number)), Answer::Valid);
    }
    assert_eq!(recorder.answer(&check_number(50)), Answer::Stop);
    assert_eq!(recorder.recorded(), CHECKS_MAX);
    recorder.discard();
    assert_eq!(records, [check_number(0)]);
}

/// Whatever comes, all work is at most 1.15 times the ordinary one, and the cap.
#[test]
fn the_account_bounds_the_work() {
    for backend in Backend::ALL {
        the_account_bounds_the_work_of(LaneCosts::of(backend));
    }
}

fn the_account_bounds_the_work_of(costs: LaneCosts) {
    let report = |asked: u64, hashed: u64| Report {
        asked,
        hashed,
        script: 300,
        signers: Signers::default(),
    };
    let random = &mut super::random::Random(3);
    for vain in [0, 1, 2, 5, 50] {
        let balance = Balance::new();
        let (mut spent, mut ordinary, mut closed) = (0, 0, 0);
        for _ in 0..100_000 {
            let short = report(1, random.below(1000) as u64);
            if !balance.allows() {
                closed += 1;
                let cost = crate::balance::ordinary_ns(&short);
                spent += cost;
                ordinary += cost;
                balance.ordinary(&short);
                continue;
            }
            let is_vain = vain > 0 && random.one_in(vain);
            let first = if is_vain {
                report(65, random.below(2_000_000) as u64)
            } else {
                short
            };
            let mut cost = Cost::default();
            cost.run(&first);
            balance.defer(&mut cost, &first, first.asked as usize, costs);
            cost.spent += costs.check_ns(256) * first.asked as i64;
            if is_vain {
                cost.went_astray();
                cost.prepared(10_000);
                cost.ended_ordinarily(&short);
            }
            balance.add(cost.change());
            spent += cost.spent;
            ordinary += cost.ordinary;
        }
        // One script may go beyond the cap.
        assert!(
            spent < ordinary / 100 * 115 + CAP_NS + 5_000_000,
            "{vain}: {spent} {ordinary}"
        );
        assert_eq!(closed > 0, vain > 0, "{vain}: {closed}");
        assert!(balance.nanoseconds() <= CAP_NS);
    }
}

/// Lanes take over where a group of their size has become cheaper; those of NEON, of which that is
/// not known, where it is full.
#[test]
fn few_checks_are_left_to_libsecp256k1() {
    let first = |backend| (1..=256).find(|&checks| LaneCosts::of(backend).take(checks));
    assert_eq!(
        Backend::ALL.map(first),
        [Some(3), Some(5), Some(6), Some(8), Some(4), Some(8)]
    );
    for backend in Backend::ALL {
        let costs = LaneCosts::of(backend);
        assert_eq!(
            costs.check_ns(256) < SIGNATURE_NS,
            backend != Backend::Neon,
            "{backend:?}"
        );
        assert!(costs.check_ns(1) > 5 * costs.check_ns(256) / 2);
        // One check more than a full group costs as much as two groups.
        let group = (1..=256).find(|&checks| costs.check_ns(checks + 1) > costs.check_ns(checks));
        let group = group.unwrap() as i64;
        let one_more = costs.check_ns(group as usize + 1);
        assert_eq!(one_more, costs.check_ns(256) * 2 * group / (group + 1));
    }
}

/// Threads defer and verify at once, each for itself and for each other.
#[test]
fn many_threads() {
    let verifier = honest_verifier();
    let samples = generated();
    let shared = std::sync::Mutex::new(Deferred::<(usize, usize)>::default());
    let passed = std::sync::atomic::AtomicUsize::new(0);
    let verify_together = |deferred: &mut Deferred<(usize, usize)>| {
        let mut prepare = |&(index, _): &(usize, usize)| prepare(&verifier, &samples[index]).map(Arc::new);
        verifier.verify_deferred(deferred, &mut prepare, &mut |_, verdict| {
            assert_eq!(verdict, Ok(()));
            passed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        });
    };
    let work = |thread: usize| {
        let mut own = Deferred::default();
        for (index, sample) in samples.iter().enumerate().filter(|(index, _)| index % 4 == thread) {
            let prepared = prepare(&verifier, sample).unwrap();
            for input in 0..sample.spent.len() {
                let name = (index, input);
                let outcome = verifier.verify_deferring(&prepared, input, sample.flags, name, &mut own);
                if outcome.unwrap() == Outcome::Passed {
                    passed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                }
            }
            if own.signatures() > 40 {
                let mut others = shared.lock().unwrap().take(30);
                verify_together(&mut others);
                let mut shared = shared.lock().unwrap();
                shared.append(&mut own);
                shared.append(&mut others);
            }
        }
        shared.lock().unwrap().append(&mut own);
    };
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let work = &work;
            scope.spawn(move || work(thread));
        }
    });
    let mut rest = shared.into_inner().unwrap();
    for _ in 0..2 {
        verify_together(&mut rest);
    }
    assert_eq!(rest.scripts(), 0);
    let inputs: usize = samples.iter().map(|sample| sample.spent.len()).sum();
    assert_eq!(passed.into_inner(), inputs);
    assert!(verifier.signature_counts().lanes > inputs as u64 / 2);
}
