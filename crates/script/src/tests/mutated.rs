//! Inputs with something changed: deferred and verified, run ordinarily, and run through the
//! interface of Core's kernel library, unless a cfg leaves the library out. All three agree.

use super::cases;
use super::lanes::{Lie, honest_verifier, verifier_with};
use super::random::Random;
use super::samples::{Sample, generated, other_s, real_blocks, unusual};
use crate::{CoreVerifier, Deferred, Signatures};
use bitcoin::{Amount, ScriptBuf, Sequence, Witness, absolute};
#[cfg(not(blockmill_without_kernel))]
use blockmill_kernel::KernelVerifier;
use blockmill_rules::{DeferredChecks, Outcome, ScriptFlags, ScriptVerifier, VerifyError};
use std::sync::Arc;

/// The largest transaction that is changed: larger ones take most of the time and have nothing new.
const INPUTS_MAX: usize = 30;

/// Inputs that are verified together.
const TOGETHER: usize = 40;

/// Where an element that is pushed stands in a script: opcode, and bytes.
fn pushes(script: &[u8]) -> Vec<(usize, std::ops::Range<usize>)> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < script.len() {
        let (head, length) = match script[at] {
            length @ 1..=75 => (1, usize::from(length)),
            76 if at + 1 < script.len() => (2, usize::from(script[at + 1])),
            77 if at + 2 < script.len() => (3, usize::from(script[at + 1]) | usize::from(script[at + 2]) << 8),
            _ => (1, 0),
        };
        let range = at + head..at + head + length;
        if range.end > script.len() {
            break;
        }
        if length > 0 {
            found.push((at, range.clone()));
        }
        at = range.end;
    }
    found
}

/// Changes a byte, adds one or takes one away.
fn change_bytes(bytes: &mut Vec<u8>, random: &mut Random) {
    if bytes.is_empty() {
        bytes.push(random.byte());
        return;
    }
    let at = random.below(bytes.len());
    match random.below(8) {
        0 => bytes.insert(at, random.byte()),
        1 => {
            bytes.remove(at);
        }
        2 => bytes[at] = random.byte(),
        3 => bytes[at] = 0,
        _ => bytes[at] ^= 1 << random.below(8),
    }
}

/// Changes an element that a script or witness pushes.
fn change_element(element: &mut Vec<u8>, random: &mut Random) {
    match random.below(8) {
        // The hash type, or the last byte of something else.
        0 => {
            if let Some(last) = element.last_mut() {
                *last = *random.of(&[0, 1, 2, 3, 0x81, 0x82, 0x83, 4, 0x41]);
            }
        }
        1 => {
            if let Some(other) = other_s(element) {
                *element = other;
            }
        }
        2 => element.clear(),
        // Another encoding of r or s: padding, or too long a length.
        3 if element.len() > 8 && element[0] == 0x30 => {
            element.insert(4, 0);
            element[3] = element[3].wrapping_add(1);
            element[1] = element[1].wrapping_add(1);
        }
        _ => change_bytes(element, random),
    }
}

/// Changes something that the scripts of an input depend on.
fn mutate(sample: &mut Sample, input: usize, random: &mut Random) {
    let count = sample.transaction.input.len();
    match random.below(12) {
        0 => {
            let output = &mut sample.spent[input];
            output.value = Amount::from_sat(output.value.to_sat() ^ 1 << random.below(20));
        }
        1 => {
            let mut script = sample.spent[input].script_pubkey.to_bytes();
            change_bytes(&mut script, random);
            sample.spent[input].script_pubkey = ScriptBuf::from_bytes(script);
        }
        2 => match random.below(4) {
            0 => sample.transaction.lock_time = absolute::LockTime::from_consensus(random.byte().into()),
            1 => sample.transaction.input[random.below(count)].sequence = Sequence(random.byte().into()),
            2 => {
                let output = random.below(sample.transaction.output.len());
                sample.transaction.output[output].value += Amount::from_sat(1);
            }
            _ => sample.spent[random.below(count)].value += Amount::from_sat(1),
        },
        3 => {
            sample.flags = ScriptFlags(random.next() as u32 & ScriptFlags::ALL.0);
            if sample.flags.contains(ScriptFlags::WITNESS) {
                sample.flags = sample.flags | ScriptFlags::P2SH;
            }
        }
        4 => {
            let mut script = sample.transaction.input[input].script_sig.to_bytes();
            change_bytes(&mut script, random);
            sample.transaction.input[input].script_sig = ScriptBuf::from_bytes(script);
        }
        5 | 6 => change_pushes(sample, input, random),
        _ => change_witness(sample, input, random),
    }
}

/// Changes an element that the script of an input pushes, or exchanges two.
fn change_pushes(sample: &mut Sample, input: usize, random: &mut Random) {
    let script = sample.transaction.input[input].script_sig.to_bytes();
    let found = pushes(&script);
    if found.is_empty() {
        return;
    }
    let (start, range) = random.of(&found).clone();
    let mut element = script[range.clone()].to_vec();
    let (other_start, other) = random.of(&found).clone();
    let mut changed = script.clone();
    if random.one_in(4) && range.end <= other_start {
        let between = &script[range.end..other_start];
        let middle = [&script[other_start..other.end], between, &script[start..range.end]].concat();
        changed.splice(start..other.end, middle);
    } else {
        change_element(&mut element, random);
        let head = match element.len() {
            length @ 0..=75 => vec![length as u8],
            length @ 76..=255 => vec![76, length as u8],
            length => vec![77, length as u8, (length >> 8) as u8],
        };
        changed.splice(start..range.end, [head, element].concat());
    }
    sample.transaction.input[input].script_sig = ScriptBuf::from_bytes(changed);
}

/// Changes the witness of an input.
fn change_witness(sample: &mut Sample, input: usize, random: &mut Random) {
    let mut elements = sample.transaction.input[input].witness.to_vec();
    if elements.is_empty() {
        return;
    }
    let at = random.below(elements.len());
    match random.below(12) {
        0 => elements.push(vec![0x50, random.byte()]),
        1 => {
            elements.remove(at);
        }
        2 => elements.insert(at, elements[at].clone()),
        3 | 4 => {
            let other = random.below(elements.len());
            elements.swap(at, other);
        }
        _ => change_element(&mut elements[at], random),
    }
    sample.transaction.input[input].witness = Witness::from_slice(&elements);
}

/// All samples that are changed.
fn samples() -> Vec<Sample> {
    let mut samples = generated();
    let real = real_blocks().into_iter().flat_map(|block| block.transactions);
    samples.extend(real.filter(|sample| sample.spent.len() <= INPUTS_MAX && sample.bytes().len() < 20_000));
    // There are few of these: each counts as many.
    let unusual = unusual();
    let times = samples.len() / unusual.len() / 4 + 1;
    samples.extend(std::iter::repeat_n(unusual, times).flatten());
    samples
}

/// What the three ways said.
#[derive(Default, Debug)]
struct Tally {
    passed: u64,
    failed: u64,
    deferred: u64,
}

/// Tries inputs, `count` of them, changed or not.
fn compare(verifier: &CoreVerifier, samples: &[Sample], count: u64, seed: u64) -> Tally {
    let random = &mut Random(seed);
    let mut tally = Tally::default();
    let mut tried = 0;
    while tried < count {
        let mut deferred = Deferred::default();
        let mut group: Vec<(Sample, usize, bool)> = Vec::new();
        for _ in 0..TOGETHER {
            let name = group.len();
            let mut sample = random.of(samples).clone();
            let input = random.below(sample.spent.len());
            for _ in 0..random.below(3) {
                mutate(&mut sample, input, random);
            }
            let (bytes, spent) = (sample.bytes(), sample.spent());
            let what = || format!("seed {seed}, input {input}, flags {:x}, {sample:?}", sample.flags.0);
            #[cfg(not(blockmill_without_kernel))]
            let by_kernel = KernelVerifier.prepare(&bytes, &spent);
            let prepared = match verifier.prepare(&bytes, &spent) {
                Ok(prepared) => prepared,
                Err(_) => {
                    #[cfg(not(blockmill_without_kernel))]
                    assert!(by_kernel.is_err(), "{}", what());
                    continue;
                }
            };
            let expected = verifier.verify(&prepared, input, sample.flags);
            assert!(!matches!(expected, Err(VerifyError::Verifier(_))), "{}", what());
            #[cfg(not(blockmill_without_kernel))]
            {
                let by_kernel = KernelVerifier.verify(&by_kernel.unwrap(), input, sample.flags);
                assert_eq!(by_kernel, expected, "{}", what());
            }
            match verifier.verify_deferring(&prepared, input, sample.flags, name, &mut deferred) {
                Ok(Outcome::Passed) => assert_eq!(expected, Ok(()), "{}", what()),
                Ok(Outcome::Deferred) => tally.deferred += 1,
                Err(error) => assert_eq!(Err(error), expected, "{}", what()),
            }
            tried += 1;
            *if expected.is_ok() {
                &mut tally.passed
            } else {
                &mut tally.failed
            } += 1;
            group.push((sample, input, expected.is_ok()));
        }
        verify_group(verifier, &mut deferred, &group, seed);
    }
    tally
}

/// Verifies a group, and compares the verdicts.
fn verify_group(verifier: &CoreVerifier, deferred: &mut Deferred<usize>, group: &[(Sample, usize, bool)], seed: u64) {
    let mut left = deferred.scripts();
    for _ in 0..2 {
        verifier.verify_deferred(
            deferred,
            &mut |&name: &usize| {
                let (sample, ..) = &group[name];
                verifier.prepare(&sample.bytes(), &sample.spent()).map(Arc::new)
            },
            &mut |name, verdict| {
                let (sample, input, passes) = &group[name];
                let expected = if *passes { Ok(()) } else { Err(VerifyError::Invalid) };
                assert_eq!(verdict, expected, "seed {seed}, input {input}, {sample:?}");
                left -= 1;
            },
        );
    }
    assert_eq!((left, deferred.scripts(), deferred.signatures()), (0, 0, 0));
}

fn check(verifier: &CoreVerifier, count: u64, seed: u64) {
    let samples = samples();
    let tally = compare(verifier, &samples, count, seed);
    eprintln!("{tally:?} {:?}", verifier.signature_counts());
    assert!(tally.passed > count / 10 && tally.failed > count / 10, "{tally:?}");
    assert!(tally.deferred > count / 10, "{tally:?}");
    assert!(verifier.signature_counts().again > 0);
}

#[test]
fn all_ways_agree() {
    let verifier = honest_verifier();
    check(&verifier, cases(10_000), 1);
}

#[test]
fn all_ways_agree_with_the_real_lanes() {
    check(&CoreVerifier::new(Signatures::Lanes), cases(4_000), 2);
}

#[test]
fn lanes_that_cannot_tell_change_no_verdict() {
    let verifier = verifier_with(Lie::CannotTell);
    check(&verifier, cases(3_000), 3);
    assert!(verifier.signature_counts().cannot_tell > 0);
}

#[test]
fn lanes_that_call_valid_signatures_invalid_change_no_verdict() {
    let verifier = verifier_with(Lie::Invalid);
    check(&verifier, cases(3_000), 4);
    let verifier = verifier_with(Lie::AlwaysInvalid);
    check(&verifier, cases(3_000), 5);
}

#[test]
fn lanes_without_verdicts_change_no_verdict() {
    let verifier = verifier_with(Lie::Nothing);
    check(&verifier, cases(1_000), 6);
    assert_eq!(verifier.signature_counts().lanes, 0);
}

#[test]
fn records_that_have_no_room_change_no_verdict() {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let sometimes = honest_verifier()
        .with_reserve(|records| CALLS.fetch_add(1, Relaxed) % 4 != 3 && records.try_reserve(1).is_ok());
    check(&sometimes, cases(2_000), 7);
    let never = honest_verifier().with_reserve(|_| false);
    let tally = compare(&never, &samples(), 1_000, 8);
    assert_eq!(tally.deferred, 0, "{tally:?}");
    assert!(tally.passed > 100 && tally.failed > 100, "{tally:?}");
    assert_eq!(never.signature_counts().lanes, 0);
}
