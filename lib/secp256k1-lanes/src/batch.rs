//! A batch of checks, from bytes to verdicts.
//!
//! All three kinds ask the same: whether u1 G + u2 P is a certain point.
//!
//! | kind | P | u1 | u2 | x | y |
//! |---|---|---|---|---|---|
//! | ECDSA | the key | message / s | r / s | r modulo n | any |
//! | BIP340 | the key with an even y | s | -challenge | r | even |
//! | tweak | the internal key with an even y | the tweak | 1 | the tweaked key's | as given |
//!
//! The keys of tweaks are not multiplied. So tweaks have words of their own, after all others, and
//! refused checks share these.
//!
//! A lane ends in one of three masks: `refused` (a number out of its range: certainly invalid),
//! `unsure` (a special case, which is not computed), or neither: then the comparison decides
//! (`compare.rs`).

use crate::comb::Comb;
use crate::compare::{Asked, Comparison};
use crate::curve::Curve;
use crate::fault::{Fault, is_planted};
use crate::field::Fe;
use crate::keys::{Key, Keys, on_own_curve};
use crate::multiply::{Halves, Workspace};
use crate::number::{self, N, N_HALF, Number, P, P_MINUS_N};
use crate::positions::{BLOCKS, SIDE_BY_SIDE};
use crate::question::{Check, Kind, Verdict};
use crate::scalar::{self, Scalar};
use crate::word::{LANES_MAX, Mask, Word};
use sha2::{Digest, Sha256};
use std::sync::OnceLock;

/// Memory that is used again.
#[derive(Debug)]
pub(crate) struct Batch<W: Word> {
    /// Bits of lanes.
    refused: Vec<W::Mask>,
    unsure: Vec<W::Mask>,
    keys: Keys<W>,
    comb: Comb<W>,
    /// The numbers of the checks in the caller's order; none of a refused one.
    read: Vec<Option<Numbers>>,
    /// The numbers of their keys.
    key_numbers: Vec<Option<u16>>,
    /// The checks in the order in which they are computed; [`NO_CHECK`] for a lane without one.
    order: Vec<u16>,
    /// What is asked of the results.
    asked: Vec<Asked<W>>,
    /// What becomes u1 and u2: for ECDSA message and r, before they are divided.
    first: Vec<Scalar<W>>,
    second: Vec<Scalar<W>>,
    /// By what they are divided.
    divisor: Vec<Scalar<W>>,
    before: Vec<Scalar<W>>,
    halves: Vec<Halves<W>>,
    /// The numbers of the tables of the keys.
    tables: Vec<W>,
    workspace: Workspace<W>,
    comparison: Comparison<W>,
    /// Special cases that the multiplication of keys met.
    met: Vec<W::Mask>,
}

impl<W: Word> Default for Batch<W> {
    fn default() -> Self {
        Self {
            refused: Vec::new(),
            unsure: Vec::new(),
            keys: Keys::default(),
            comb: Comb::default(),
            read: Vec::new(),
            key_numbers: Vec::new(),
            order: Vec::new(),
            asked: Vec::new(),
            first: Vec::new(),
            second: Vec::new(),
            divisor: Vec::new(),
            before: Vec::new(),
            halves: Vec::new(),
            tables: Vec::new(),
            workspace: Workspace::default(),
            comparison: Comparison::default(),
            met: Vec::new(),
        }
    }
}

/// The numbers of one check.
#[derive(Debug)]
struct Numbers {
    key: Key,
    key_odd: bool,
    kind: Kind,
    wanted: Number,
    result_odd: bool,
    first: Number,
    second: Number,
    divisor: Number,
    unsure: bool,
}

const ONE: Number = [1, 0, 0, 0];

/// A lane without a check.
const NO_CHECK: u16 = u16::MAX;

/// SHA-256 after the tag of BIP340's challenges.
fn tagged() -> Sha256 {
    static TAGGED: OnceLock<Sha256> = OnceLock::new();
    let tagged = TAGGED.get_or_init(|| {
        let tag = Sha256::digest(b"BIP0340/challenge");
        // The doubled tag fills one block of the hash. So the state after it is computed once.
        Sha256::new().chain_update(tag).chain_update(tag)
    });
    tagged.clone()
}

/// Whether a number is in its range; a planted fault says yes.
fn is_below(number: &Number, end: &Number, fault: Fault) -> bool {
    number::is_below(number, end) || is_planted::<u64>(fault)
}

fn is_not_zero(number: &Number, fault: Fault) -> bool {
    *number != [0; 4] || is_planted::<u64>(fault)
}

/// The numbers of a check; none if one of them is out of its range.
fn read(check: &Check) -> Option<Numbers> {
    let [key_x, r, s] = [check.key[1..].try_into().ok()?, &check.r, &check.s].map(number::from_bytes);
    let is_key = is_below(&key_x, &P, Fault::KeyRange);
    let plain = Numbers {
        key: key_x,
        key_odd: false,
        kind: check.kind,
        wanted: r,
        result_odd: false,
        first: s,
        second: ONE,
        divisor: ONE,
        unsure: false,
    };
    match check.kind {
        Kind::Ecdsa => {
            let is_key = is_key && (matches!(check.key[0], 2 | 3) || is_planted::<u64>(Fault::KeyPrefix));
            let is_r = is_not_zero(&r, Fault::RZero) && is_below(&r, &N, Fault::RRange);
            let is_s =
                is_not_zero(&s, Fault::SZero) && (!number::is_below(&N_HALF, &s) || is_planted::<u64>(Fault::SRange));
            (is_key && is_r && is_s).then(|| Numbers {
                key_odd: check.key[0] == 3,
                first: number::from_bytes(&check.message),
                second: r,
                divisor: s,
                // The x coordinate may be r + n as well.
                unsure: number::is_below(&r, &P_MINUS_N) && !is_planted::<u64>(Fault::SmallR),
                ..plain
            })
        }
        // BIP340 and BIP341 allow a zero in `s`, and ask nothing of the first byte of the key.
        Kind::Schnorr => {
            let in_range = is_key && is_below(&r, &P, Fault::RRange) && is_below(&s, &N, Fault::SRange);
            in_range.then(|| Numbers {
                // R = s G - e P, so the factor of P is n - e. For e = 0 that is n, which the
                // arithmetic takes for 0.
                second: number::subtract(&N, &challenge(check)),
                ..plain
            })
        }
        Kind::Tweak => {
            let is_parity = check.message[0] <= 1 || is_planted::<u64>(Fault::ParityRange);
            let in_range = is_key && is_below(&r, &P, Fault::RRange) && is_below(&s, &N, Fault::SRange);
            (in_range && is_parity).then(|| Numbers {
                result_odd: check.message[0] == 1,
                ..plain
            })
        }
    }
}

/// The challenge of a signature of BIP340, modulo n.
fn challenge(check: &Check) -> Number {
    let hash = tagged()
        .chain_update(check.r)
        .chain_update(&check.key[1..])
        .chain_update(check.message)
        .finalize();
    let challenge = number::from_bytes(&hash.into());
    // One subtraction is enough: 2^256 is below 2 n.
    if number::is_below(&challenge, &N) {
        challenge
    } else {
        number::subtract(&challenge, &N)
    }
}

impl<W: Word> Batch<W> {
    /// Verifies checks; `verdicts` has one element for each.
    pub(crate) fn verify(&mut self, checks: &[Check], verdicts: &mut [Verdict]) {
        let curve = Curve::secp256k1();
        self.clear();
        self.read(checks);
        self.comb.choose(&mut self.keys, &mut self.key_numbers, &mut self.order);
        let multiplied = self.put_multiplied_first();
        assert!(self.comb.check_words <= multiplied, "only keys take the comb");
        for first in (0..self.order.len()).step_by(W::LANES) {
            self.take(first);
        }
        W::vectorize(
            #[inline(always)]
            || self.split_scalars(),
        );
        self.workspace.multiply_generator(curve, &self.halves, &mut self.unsure);
        self.multiply_keys(curve, multiplied);
        W::vectorize(
            #[inline(always)]
            || {
                for asked in &self.asked[multiplied..] {
                    let point = on_own_curve(curve.b, &asked.key_x);
                    self.workspace.points.push(point.jacobian());
                }
                self.compare(curve);
            },
        );
        for (index, &check) in self.order.iter().enumerate() {
            if check == NO_CHECK {
                continue;
            }
            let is_set = |masks: &[W::Mask]| masks[index / W::LANES].bits() >> (index % W::LANES) & 1 == 1;
            let check = if is_planted::<W>(Fault::Order) {
                index
            } else {
                check.into()
            };
            // The order of the cases matters. A refused check computed with stand-ins, so what
            // `unsure` and `right` say of its lane is about another check.
            verdicts[check] = match () {
                () if is_set(&self.refused) => Verdict::Invalid,
                () if is_set(&self.unsure) => Verdict::CannotTell,
                () if is_set(&self.comparison.right) => Verdict::Valid,
                () => Verdict::Invalid,
            };
        }
    }

    fn clear(&mut self) {
        self.refused.clear();
        self.unsure.clear();
        self.keys.clear();
        self.read.clear();
        self.key_numbers.clear();
        self.tables.clear();
        self.asked.clear();
        self.first.clear();
        self.second.clear();
        self.divisor.clear();
        self.halves.clear();
    }

    /// Reads the numbers of the checks.
    fn read(&mut self, checks: &[Check]) {
        for check in checks {
            let numbers = read(check);
            let multiplied = numbers.as_ref().filter(|numbers| numbers.kind != Kind::Tweak);
            let key = multiplied.map(|numbers| self.keys.number(&numbers.key));
            self.read.push(numbers);
            self.key_numbers.push(key);
        }
    }

    /// Puts checks whose keys are multiplied into the first words. Returns how many words these
    /// are. Tweaks and refused checks come after them, in words of their own.
    fn put_multiplied_first(&mut self) -> usize {
        let numbers = &self.key_numbers;
        let has_no_key = |check: &u16| numbers[usize::from(*check)].is_none();
        // The order of the others, which the comb has chosen, stays.
        self.order.sort_by_key(has_no_key);
        let multiplied = self.order.partition_point(|check| !has_no_key(check));
        let words = multiplied.div_ceil(W::LANES);
        let empty = words * W::LANES - multiplied;
        self.order
            .splice(multiplied..multiplied, std::iter::repeat_n(NO_CHECK, empty));
        words
    }

    /// Takes the checks of one word, from this index of the order on. Lanes without a check, and
    /// those whose numbers are out of range, are refused, and compute with stand-ins.
    fn take(&mut self, first: usize) {
        let mut numbers = [[ONE; LANES_MAX]; 5];
        let mut tables = [0; LANES_MAX];
        let [mut refused, mut unsure, mut key_odd, mut parity_counts, mut result_odd] = [0; 5];
        for lane in 0..W::LANES {
            let bit = 1 << lane;
            let check = self.order.get(first + lane).map(|&check| usize::from(check));
            let read = check.and_then(|check| self.read.get(check)?.as_ref().zip(self.key_numbers.get(check)));
            let Some((read, key)) = read else {
                refused |= bit;
                continue;
            };
            let set = |bits: &mut u8, yes: bool| *bits |= if yes { bit } else { 0 };
            set(&mut unsure, read.unsure);
            set(&mut key_odd, read.key_odd);
            set(&mut parity_counts, read.kind != Kind::Ecdsa);
            set(&mut result_odd, read.result_odd);
            tables[lane] = key.unwrap_or_default().into();
            let all = [read.key, read.wanted, read.first, read.second, read.divisor];
            for (lanes, number) in numbers.iter_mut().zip(all) {
                lanes[lane] = number;
            }
        }
        self.refused.push(W::Mask::from_bits(refused));
        self.unsure.push(W::Mask::from_bits(unsure));
        let [key, wanted, first, second, divisor] = numbers;
        W::vectorize(
            #[inline(always)]
            || {
                self.tables.push(W::from_lanes(&tables));
                self.asked.push(Asked {
                    key_x: Fe::from_numbers(&key),
                    key_odd: W::Mask::from_bits(key_odd),
                    x: Fe::from_numbers(&wanted),
                    odd: W::Mask::from_bits(result_odd),
                    parity_counts: W::Mask::from_bits(parity_counts),
                });
                self.first.push(Scalar::from_numbers(&first));
                self.second.push(Scalar::from_numbers(&second));
                self.divisor.push(Scalar::from_numbers(&divisor));
            },
        );
    }

    #[inline(always)]
    fn split_scalars(&mut self) {
        // u1 and u2 are the quotients. 1 is divided like any other, so that kinds can be mixed.
        for divisor in &mut self.divisor {
            *divisor = divisor.enter();
        }
        scalar::invert_all(&mut self.divisor, &mut self.before);
        for (word, inverse) in self.divisor.iter().enumerate() {
            let (generator, generator_fits) = self.first[word].mul(inverse).split();
            let (point, point_fits) = self.second[word].mul(inverse).split();
            self.halves.push(Halves { generator, point });
            let unsure = &mut self.unsure[word];
            *unsure = unsure.or(generator_fits.and(point_fits).not());
        }
    }

    /// Multiplies the keys of the first `words` words.
    fn multiply_keys(&mut self, curve: &Curve, words: usize) {
        self.workspace.points.clear();
        if words == 0 {
            return;
        }
        W::vectorize(
            #[inline(always)]
            || {
                self.keys.make_points(curve);
                self.comb.append_points(&mut self.keys.points, &mut self.keys.unsure);
            },
        );
        self.workspace.make_tables(&self.keys.points, &mut self.keys.unsure);
        // The walk takes words in groups. The last group may have words of tweaks, or stand-ins.
        // What is computed for them is dropped.
        let (all, together) = (self.halves.len(), words.next_multiple_of(SIDE_BY_SIDE));
        self.tables.resize(all.max(together), W::splat(0));
        self.halves.resize(all.max(together), self.halves[0]);
        self.met.clear();
        self.met.resize(together, W::Mask::from_bits(0));
        let (tables, halves) = (&self.tables[..together], &self.halves[..together]);
        self.workspace
            .multiply_points(curve, &self.comb, tables, halves, &mut self.met);
        for (unsure, met) in self.unsure[..words].iter_mut().zip(&self.met) {
            *unsure = unsure.or(*met);
        }
        self.workspace.points.truncate(words);
        W::vectorize(
            #[inline(always)]
            || self.look_at_keys(words),
        );
    }

    /// Whether sums of multiples of the keys met special cases.
    #[cfg(test)]
    pub(crate) fn met_special_cases(&self) -> bool {
        self.met.iter().any(|met| met.bits() != 0)
    }

    /// Makes checks unsure whose keys' tables met a special case.
    #[inline(always)]
    fn look_at_keys(&mut self, words: usize) {
        for (word, numbers) in self.tables[..words].iter().enumerate() {
            let on_comb = word < self.comb.check_words && !is_planted::<W>(Fault::BlockUnsure);
            let blocks = if on_comb { BLOCKS } else { 1 };
            for &first in &self.comb.first_tables[..blocks] {
                self.unsure[word] = self.unsure[word].or(self.keys.unsure_from(first, numbers));
            }
        }
    }

    /// Compares the results with what is asked.
    #[inline(always)]
    fn compare(&mut self, curve: &Curve) {
        let Workspace { generator, points, .. } = &self.workspace;
        self.comparison
            .compare(curve.b, &self.asked, generator, points, &mut self.unsure);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn check(kind: Kind, key: [u8; 33], r: Number, s: Number) -> Check {
        Check {
            kind,
            key,
            r: bytes(&r),
            s: bytes(&s),
            message: [1; 32],
        }
    }

    pub(crate) fn bytes(number: &Number) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (bytes, limb) in bytes.chunks_mut(8).zip(number.iter().rev()) {
            bytes.copy_from_slice(&limb.to_be_bytes());
        }
        bytes
    }

    pub(crate) fn key(prefix: u8, x: &Number) -> [u8; 33] {
        let mut key = [prefix; 33];
        key[1..].copy_from_slice(&bytes(x));
        key
    }

    /// Numbers out of their ranges are refused, those at the ends are not.
    pub(crate) fn ranges_are_looked_at() {
        const ZERO: Number = [0; 4];
        let before = |number: &Number| number::subtract(number, &ONE);
        let plus_one = |number: &Number| number::subtract(number, &[u64::MAX; 4]);
        let good = key(2, &[5, 0, 0, 0]);
        let read = |kind, key, r: &Number, s: &Number| read(&check(kind, key, *r, *s)).is_some();
        for kind in [Kind::Ecdsa, Kind::Schnorr, Kind::Tweak] {
            let ecdsa = kind == Kind::Ecdsa;
            assert!(read(kind, good, &ONE, &ONE));
            assert!(read(kind, key(2, &before(&P)), &ONE, &ONE));
            for x in [&P, &plus_one(&P), &[u64::MAX; 4]] {
                assert!(!read(kind, key(2, x), &ONE, &ONE));
            }
            for prefix in 0..=255 {
                assert_eq!(
                    read(kind, key(prefix, &ONE), &ONE, &ONE),
                    !ecdsa || prefix == 2 || prefix == 3
                );
            }
            let (r_end, s_end) = if ecdsa { (&N, &plus_one(&N_HALF)) } else { (&P, &N) };
            assert!(read(kind, good, &before(r_end), &ONE) && !read(kind, good, r_end, &ONE));
            assert!(read(kind, good, &ONE, &before(s_end)) && !read(kind, good, &ONE, s_end));
            assert_eq!(read(kind, good, &ZERO, &ONE), !ecdsa);
            assert_eq!(read(kind, good, &ONE, &ZERO), !ecdsa);
            for byte in 0..=255 {
                let message = [byte; 32];
                let check = Check {
                    message,
                    ..check(kind, good, ONE, ONE)
                };
                assert_eq!(super::read(&check).is_some(), kind != Kind::Tweak || byte <= 1);
            }
        }
        // The smallest r that stands for one x coordinate alone.
        for (r, unsure) in [(before(&P_MINUS_N), true), (P_MINUS_N, false)] {
            let numbers = super::read(&check(Kind::Ecdsa, good, r, ONE)).unwrap();
            assert_eq!(numbers.unsure, unsure);
        }
    }

    /// A special case in a table of any block makes a check unsure.
    pub(crate) fn tables_of_all_blocks_are_looked_at() {
        let mut batch = Batch::<u64>::default();
        let check = check(Kind::Schnorr, key(2, &ONE), ONE, ONE);
        batch.verify(&[check; 4], &mut [Verdict::Valid; 4]);
        assert_eq!((batch.comb.key_words, batch.comb.check_words), (1, 4));
        for table in batch.comb.first_tables {
            batch.keys.unsure.fill(false);
            batch.keys.unsure[table as usize] = true;
            batch.unsure.fill(false);
            batch.look_at_keys(4);
            assert_eq!(batch.unsure, [true; 4]);
        }
    }

    #[test]
    fn blocks() {
        tables_of_all_blocks_are_looked_at();
    }

    #[test]
    fn ranges() {
        ranges_are_looked_at();
    }
}
