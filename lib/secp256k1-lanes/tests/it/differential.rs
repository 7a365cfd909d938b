//! Against libsecp256k1.

use crate::common::{Rng, backends, broken, is_degenerate, kind, reference, valid, valid_of};
use secp256k1::{Secp256k1, SecretKey, VerifyOnly};
use secp256k1_lanes::{BATCH, Backend, Check, Verdict, Verifier};

/// Verifies a batch, and fails where libsecp256k1 says something else. Gives back how many hold.
fn count_valid(
    verifier: &mut Verifier,
    secp: &Secp256k1<VerifyOnly>,
    batch: &[Check],
    verdicts: &mut Vec<Verdict>,
) -> usize {
    verifier.verify(batch, verdicts);
    assert_eq!(verdicts.len(), batch.len());
    let mut held = 0;
    for (check, verdict) in batch.iter().zip(verdicts) {
        let expected = reference(secp, check);
        held += usize::from(expected);
        // None of these is a special case but an r that happens to be tiny, and a zero.
        let expected = if expected { Verdict::Valid } else { Verdict::Invalid };
        let tiny_r = check.r[..15] == [0; 15];
        assert!(
            *verdict == expected || ((tiny_r || is_degenerate(check)) && *verdict == Verdict::CannotTell),
            "{check:?}: {verdict:?}"
        );
    }
    held
}

/// Random checks, half of them broken, in batches of random sizes.
fn compare(backend: Backend, cases: usize, seed: u64) {
    if !backend.is_available() {
        eprintln!("skipped: this machine has no {backend:?}");
        return;
    }
    let secp = Secp256k1::verification_only();
    let mut dice = Rng(seed);
    let mut verifier = Verifier::with_backend(backend);
    assert_eq!(verifier.backend(), backend);
    let mut verdicts = Vec::new();
    let [mut done, mut held] = [0; 2];
    while done < cases {
        let batch: Vec<Check> = (0..1 + dice.below(300))
            .map(|_| {
                let kind = kind(&mut dice);
                let check = valid(kind, &mut dice);
                if dice.below(2) == 0 {
                    broken(&check, &mut dice)
                } else {
                    check
                }
            })
            .collect();
        held += count_valid(&mut verifier, &secp, &batch, &mut verdicts);
        done += batch.len();
    }
    assert!(held > cases / 3 && held < cases * 2 / 3, "{held} of {done} hold");
}

#[cfg(target_arch = "x86_64")]
#[test]
fn eight_lanes_say_what_libsecp256k1_says() {
    compare(Backend::Avx512, 30_000, 1);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn eight_lanes_of_floats_say_what_libsecp256k1_says() {
    compare(Backend::Avx512F, 20_000, 5);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn four_lanes_of_ifma_say_what_libsecp256k1_says() {
    compare(Backend::AvxIfma, 30_000, 3);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn eight_lanes_of_avx2_say_what_libsecp256k1_says() {
    compare(Backend::Avx2, 20_000, 4);
}

#[cfg(target_arch = "aarch64")]
#[test]
fn two_lanes_say_what_libsecp256k1_says() {
    compare(Backend::Neon, 20_000, 6);
}

#[test]
fn one_lane_says_what_libsecp256k1_says() {
    compare(Backend::Portable, 8_000, 2);
}

/// Keys whose x coordinates end with the same ten bits: all of them look for the same slot first.
fn alike(count: usize, dice: &mut Rng) -> Vec<SecretKey> {
    let secp = Secp256k1::new();
    let end = |key: &SecretKey| u16::from_be_bytes(key.public_key(&secp).serialize()[31..].try_into().unwrap()) % 1024;
    // The last slot: the search goes on with the first one.
    let keys = std::iter::repeat_with(|| dice.secret()).filter(|key| end(key) == 1023);
    keys.take(count).collect()
}

/// Checks in random order: so many of each key, and the rest of keys of their own.
fn with_counts(counts: &[usize], size: usize, dice: &mut Rng) -> Vec<Check> {
    let mut batch = Vec::new();
    for &count in counts {
        let secret = dice.secret();
        batch.extend((0..count).map(|_| valid_of(kind(dice), &secret, dice)));
    }
    while batch.len() < size {
        batch.push(valid(kind(dice), dice));
    }
    for last in (1..batch.len()).rev() {
        batch.swap(last, dice.below(last + 1));
    }
    for check in &mut batch {
        match dice.below(6) {
            0 => *check = broken(check, dice),
            1 => check.key[0] ^= 1,
            _ => {}
        }
    }
    batch
}

/// Every number of repeats from 1 to 256, and many mixes of them.
#[test]
fn keys_that_repeat_in_every_mix() {
    let secp = Secp256k1::verification_only();
    let mut dice = Rng(42);
    let mut verdicts = Vec::new();
    let mut mixes: Vec<Vec<usize>> = (1..=BATCH).step_by(9).map(|count| vec![count]).collect();
    mixes.extend([2, 3, 4, 5, 8, 16, 32, 64, 128].map(|count| vec![count; BATCH / count]));
    mixes.extend((0..20).map(|_| {
        let largest = [2, 3, 8, 40, 256][dice.below(5)];
        let (mut counts, mut left) = (Vec::new(), 1 + dice.below(BATCH));
        while left > 0 {
            let count = (1 + dice.below(largest)).min(left);
            counts.push(count);
            left -= count;
        }
        counts
    }));
    for counts in &mixes {
        let repeats: usize = counts.iter().sum();
        let size = repeats.max(1 + dice.below(BATCH));
        let batch = with_counts(counts, size, &mut dice);
        for backend in backends() {
            // Few lanes take longer, so they get a share.
            if backend.is_fast() || dice.once_in(3) {
                count_valid(&mut Verifier::with_backend(backend), &secp, &batch, &mut verdicts);
            }
        }
    }
}

/// Keys that many checks have: each of every kind, and some that are no points.
#[test]
fn keys_that_repeat() {
    let secp = Secp256k1::verification_only();
    let mut dice = Rng(40);
    let mut verdicts = Vec::new();
    let keys = [
        vec![dice.secret()],
        (0..3).map(|_| dice.secret()).collect(),
        (0..100).map(|_| dice.secret()).collect(),
        alike(20, &mut dice),
    ];
    for keys in &keys {
        for size in [2, 9, 256, 300] {
            let batch: Vec<Check> = (0..size)
                .map(|_| {
                    let kind = kind(&mut dice);
                    let mut check = valid_of(kind, &keys[dice.below(keys.len())], &mut dice);
                    match dice.below(12) {
                        0 => check = broken(&check, &mut dice),
                        // The point with the other y.
                        1 => check.key[0] ^= 1,
                        // No point has this x.
                        2 => check.key[1..].copy_from_slice(&[&[0; 31][..], &[5]].concat()),
                        3 => check.message[5] ^= 1,
                        _ => {}
                    }
                    check
                })
                .collect();
            for backend in backends() {
                let mut verifier = Verifier::with_backend(backend);
                let held = count_valid(&mut verifier, &secp, &batch, &mut verdicts);
                assert!(held < size || size < 256, "all hold");
                assert!(held > size / 2 || size < 256, "{held} of {size} hold");
            }
        }
    }
}

/// Points from compressed keys, against libsecp256k1.
#[test]
fn keys_are_decompressed() {
    use secp256k1::PublicKey;
    use secp256k1_lanes::{decompress, is_point};
    let dice = &mut Rng(31);
    let (mut points, mut others) = (0, 0);
    for case in 0..20_000 {
        let mut key = [0; 33];
        key[0] = if case % 50 == 0 {
            dice.below(8) as u8
        } else {
            2 + dice.below(2) as u8
        };
        key[1..].copy_from_slice(&if dice.once_in(3) {
            dice.rough_bytes()
        } else {
            dice.bytes()
        });
        let expected = PublicKey::from_slice(&key).ok().map(|key| key.serialize_uncompressed());
        let y = decompress(&key);
        assert_eq!(
            y.as_ref().map(|y| &y[..]),
            expected.as_ref().map(|key| &key[33..]),
            "{key:02x?}"
        );
        let x = key[1..].try_into().unwrap();
        match y {
            Some(mut y) => {
                points += 1;
                assert!(is_point(&x, &y));
                y[dice.below(32)] ^= 1 << dice.below(8);
                let full = [&[4], &x[..], &y].concat();
                assert_eq!(is_point(&x, &y), PublicKey::from_slice(&full).is_ok());
            }
            None => others += 1,
        }
        let y = dice.rough_bytes();
        let full = [&[4], &x[..], &y].concat();
        assert_eq!(is_point(&x, &y), PublicKey::from_slice(&full).is_ok(), "{full:02x?}");
    }
    assert!(points > 5_000 && others > 5_000, "{points} {others}");
}
