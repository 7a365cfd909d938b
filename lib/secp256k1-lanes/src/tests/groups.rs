//! Groups so small that everything in them can be tried: every key, and every sum of multiples of
//! it and of the generator.
//!
//! The curves y^2 = x^3 + b over the same field have six orders; some have small prime factors, and
//! so small subgroups with the same endomorphism. Here special cases are met all the time, which on
//! secp256k1 nobody meets by chance. A result must be right, or unsure.

use super::Rng;
use crate::comb::Comb;
use crate::compare::{Asked, Comparison};
use crate::curve::{BETA, Curve, GENERATOR_ENTRIES};
use crate::field::Fe;
use crate::keys::{on_own_curve, right_side};
use crate::multiply::{Halves, Workspace};
use crate::number::Number;
use crate::point::Affine;
use crate::positions::{GENERATOR_POSITIONS, GENERATOR_WIDTH, SIDE_BY_SIDE};
use crate::scalar::{HALF_BITS, Half};
use crate::word::{Mask, Row, Word};

/// A subgroup of prime order.
struct Group {
    b: u64,
    order: u64,
    /// What multiplies a point whose x is multiplied by beta.
    lambda: u64,
    /// The multiples of a generator, from 1 times to `order` - 1 times.
    points: Vec<[Number; 2]>,
}

fn number(hex: &str) -> Number {
    let hex = format!("{hex:0>64}");
    let limb = |k: usize| u64::from_str_radix(&hex[64 - 16 * (k + 1)..64 - 16 * k], 16).unwrap();
    [limb(0), limb(1), limb(2), limb(3)]
}

impl Group {
    fn new(b: u64, order: u64, lambda: u64, x: &str, y: &str) -> Self {
        let first = [number(x), number(y)];
        let affine = |[x, y]: [Number; 2]| Affine {
            x: Fe::<u64>::broadcast(&x),
            y: Fe::broadcast(&y),
        };
        let inverse = |number: Fe<u64>| {
            let mut one = [number];
            crate::point::invert_all(&mut one, &mut Vec::new(), &mut |_, _| panic!("a special case"));
            one[0]
        };
        let mut points = vec![first];
        let generator = affine(first);
        let mut last = generator.double(&inverse(generator.y.twice()));
        while points.len() as u64 + 1 < order {
            points.push([last.x.number(0), last.y.number(0)]);
            if points.len() as u64 + 1 < order {
                last = last.add(&generator, &inverse(generator.x.sub(&last.x)));
            }
        }
        // The last multiple is the first one's negative, and lambda turns x by beta.
        assert_eq!(points[order as usize - 2][0], first[0]);
        assert_ne!(points[order as usize - 2][1], first[1]);
        let turned = generator.x.mul(&Fe::broadcast(&BETA)).number(0);
        assert_eq!(points[lambda as usize - 1], [turned, first[1]]);
        let right = generator.x.square().mul(&generator.x).add(&Fe::small(b));
        assert!(generator.y.square().sub(&right).is_zero());
        Self {
            b,
            order,
            lambda,
            points,
        }
    }

    /// The multiple of the generator; none if that is infinity.
    fn multiple(&self, times: u64) -> Option<&[Number; 2]> {
        self.points.get((times % self.order).checked_sub(1)? as usize)
    }

    fn curve(&self) -> Curve {
        let rows = |turn: u64| {
            (0..GENERATOR_ENTRIES as u64).map(move |entry| {
                // The table has no entry for infinity. Digits that would look it up are not used.
                let [[a, b, c, d], [e, f, g, h]] = *self.multiple((2 * entry + 1) * turn).unwrap_or(&[[0; 4]; 2]);
                Row([a, b, c, d, e, f, g, h])
            })
        };
        Curve {
            b: self.b,
            beta: BETA,
            generator: (0..GENERATOR_POSITIONS)
                .map(|position| (0..position * GENERATOR_WIDTH).fold(1, |power, _| power * 2 % self.order))
                .flat_map(|power| rows(power).chain(rows(power * self.lambda)))
                .collect(),
        }
    }

    /// Digits of two odd halves that make the scalar; any of those there are.
    fn split(&self, scalar: u64, dice: &mut Rng, for_generator: bool) -> [u128; 2] {
        let q = u128::from(self.order);
        // The residue of 2 K - (2^130 - 1), without numbers above 2^128: 2^130 is 4 times 2^128.
        let residue = |digits: u128| (2 * (digits % q) + 4 * q + 1 - (u128::MAX % q + 1) * 4 % q) % q;
        let random = |dice: &mut Rng| {
            // Up to 2^128, a quarter of the range, from the middle of it on either side or from
            // anywhere in its lower half.
            u128::from(dice.next()) << 64 | u128::from(dice.next())
        };
        loop {
            let second = random(dice);
            let wanted = (u128::from(scalar) + q * q - u128::from(self.lambda) * residue(second)) % q;
            let mut first = random(dice) >> 1;
            while residue(first) != wanted {
                first += 1;
            }
            let looked_up = |digits: u128| {
                (0..HALF_BITS / 10).any(|position| {
                    let shifted = if 10 * position < 128 {
                        digits >> (10 * position)
                    } else {
                        0
                    };
                    let digit = (shifted & 1023) as i64 * 2 - 1023;
                    digit.unsigned_abs().is_multiple_of(self.order)
                })
            };
            if !for_generator || !(looked_up(first) || looked_up(second)) {
                return [first, second];
            }
        }
    }

    /// Computes u1 G and u2 P for many (u1, u2, d), where P is d G, and compares their sum with
    /// right and wrong claims. Returns how many results were certain, of those without the comb and
    /// those on it.
    fn check<W: Word>(&self, cases: &[[u64; 3]], dice: &mut Rng) -> [usize; 2] {
        let curve = self.curve();
        let mut workspace = Workspace::<W>::default();
        let mut certain = [0; 2];
        for group in cases.chunks(SIDE_BY_SIDE * W::LANES * 8) {
            let words = group.len().div_ceil(W::LANES).next_multiple_of(SIDE_BY_SIDE);
            let mut points = Vec::new();
            let mut halves = Vec::new();
            for word in 0..words {
                let case = |lane: usize| group[(word * W::LANES + lane) % group.len()];
                let mut keys = [[0; 4]; 8];
                let mut digits = [[0_u128; 8]; 4];
                for lane in 0..W::LANES {
                    let [u1, u2, d] = case(lane);
                    keys[lane] = self.multiple(d).unwrap()[0];
                    [digits[0][lane], digits[1][lane]] = self.split(u1, dice, true);
                    [digits[2][lane], digits[3][lane]] = self.split(u2, dice, false);
                }
                points.push(on_own_curve(self.b, &Fe::from_numbers(&keys)));
                halves.push(Halves {
                    generator: [Half::from_numbers(&digits[0]), Half::from_numbers(&digits[1])],
                    point: [Half::from_numbers(&digits[2]), Half::from_numbers(&digits[3])],
                });
            }
            // A table for each lane.
            let numbers = |word: usize| std::array::from_fn(|lane| (word * W::LANES + lane) as u64);
            let tables: Vec<W> = (0..words).map(|word| W::from_lanes(&numbers(word))).collect();
            for (on_comb, certain) in [0, words].into_iter().zip(&mut certain) {
                let mut comb = Comb::default();
                (comb.key_words, comb.check_words) = (on_comb, on_comb);
                let mut of_tables = vec![W::Mask::from_bits(0); words];
                W::vectorize(|| comb.append_points(&mut points, &mut of_tables));
                workspace.make_tables(&points, &mut of_tables);
                let mut unsure = vec![W::Mask::from_bits(0); words];
                // The tables of all blocks.
                for of_tables in of_tables.chunks(words) {
                    for (unsure, of_tables) in unsure.iter_mut().zip(of_tables) {
                        *unsure = unsure.or(*of_tables);
                    }
                }
                workspace.multiply_generator(&curve, &halves, &mut unsure);
                workspace.multiply_points(&curve, &comb, &tables, &halves, &mut unsure);
                self.look_at_multiples(group, &workspace, &unsure);
                *certain += self.compare(group, &workspace, &unsure, dice);
            }
        }
        certain
    }

    /// Multiples that are certain must be right.
    fn look_at_multiples<W: Word>(&self, group: &[[u64; 3]], workspace: &Workspace<W>, unsure: &[W::Mask]) {
        for (number, [u1, u2, d]) in group.iter().enumerate() {
            let (word, lane) = (number / W::LANES, number % W::LANES);
            let is_set = |mask: W::Mask| mask.bits() >> lane & 1 == 1;
            let (a, point) = (&workspace.generator[word], &workspace.points[word]);
            let z = point.z.clear();
            if is_set(z.is_zero().or(unsure[word])) {
                continue;
            }
            let multiple = |times: u64| {
                let [x, y] = self.multiple(times).unwrap_or_else(|| panic!("{u1}, {u2}, {d}"));
                [Fe::broadcast(x), Fe::broadcast(y)]
            };
            let [x, y] = multiple(*u1);
            assert!(is_set(x.sub(&a.x).is_zero()) && is_set(y.sub(&a.y).is_zero()), "{u1} G");
            // On the curve of the key: (X, Y) is (c X, c y Y).
            let ([x, y], [key_x, key_y]) = (multiple(u2 * d), multiple(*d));
            let square: Fe<W> = right_side(self.b, &key_x);
            let zz = z.square();
            let right_x = square.mul(&x).mul(&zz).sub(&point.x).is_zero();
            let y = square.mul(&key_y).mul(&y);
            let right_y = y.mul(&zz.mul(&z)).sub(&point.y).is_zero();
            assert!(is_set(right_x) && is_set(right_y), "{u2} * {d} G");
        }
    }

    /// Compares with claims: each says that the result is a multiple of the generator, and which
    /// parity has the y of the key. How many verdicts are certain. Those must be right.
    fn compare<W: Word>(
        &self,
        group: &[[u64; 3]],
        workspace: &Workspace<W>,
        unsure: &[W::Mask],
        dice: &mut Rng,
    ) -> usize {
        let number = |word: usize, lane: usize| (word * W::LANES + lane) % group.len();
        let odd = |point: &[Number; 2]| point[1][0] & 1 == 1;
        let mut most = 0;
        for round in 0..4 {
            // Of each check: the key, the claimed result, whether its parity counts.
            let claims: Vec<_> = group
                .iter()
                .map(|&[u1, u2, d]| {
                    let key = if round > 0 && dice.below(2) == 0 {
                        self.order - d
                    } else {
                        d
                    };
                    let result = u1 + u2 * key;
                    let other = [self.order * result - result, 1 + dice.below(self.order - 1)];
                    let claimed = if round < 2 {
                        result
                    } else {
                        other[dice.below(2) as usize]
                    };
                    let claimed = if claimed % self.order == 0 { 1 } else { claimed };
                    (key, result, claimed, round > 0 && dice.below(2) == 0)
                })
                .collect();
            let asked: Vec<Asked<W>> = (0..unsure.len())
                .map(|word| {
                    let claim = |lane: usize| claims[number(word, lane)];
                    let points = |of: fn(&(u64, u64, u64, bool)) -> u64| {
                        std::array::from_fn::<_, 8, _>(|lane| *self.multiple(of(&claim(lane))).unwrap())
                    };
                    let (keys, results) = (points(|claim| claim.0), points(|claim| claim.2));
                    let x = |points: &[[Number; 2]; 8]| Fe::from_numbers(&points.map(|point| point[0]));
                    let mask = |bit: &dyn Fn(usize) -> bool| {
                        W::Mask::from_bits((0..W::LANES).fold(0, |bits, lane| bits | u8::from(bit(lane)) << lane))
                    };
                    Asked {
                        key_x: x(&keys),
                        key_odd: mask(&|lane| odd(&keys[lane])),
                        x: x(&results),
                        odd: mask(&|lane| odd(&results[lane])),
                        parity_counts: mask(&|lane| claim(lane).3),
                    }
                })
                .collect();
            let mut comparison = Comparison::default();
            let mut unsure = unsure.to_vec();
            let (generator, points) = (&workspace.generator, &workspace.points);
            W::vectorize(|| comparison.compare(self.b, &asked, generator, points, &mut unsure));
            let mut certain = 0;
            for (number, (key, result, claimed, parity_counts)) in claims.iter().enumerate() {
                let (word, lane) = (number / W::LANES, number % W::LANES);
                let is_set = |mask: W::Mask| mask.bits() >> lane & 1 == 1;
                if is_set(unsure[word]) {
                    continue;
                }
                let equal = result % self.order == claimed % self.order;
                let opposite = (result + claimed).is_multiple_of(self.order);
                let holds = equal || opposite && !parity_counts;
                assert_eq!(
                    is_set(comparison.right[word]),
                    holds,
                    "{key} {result} {claimed} {parity_counts}"
                );
                certain += 1;
            }
            most = most.max(certain);
        }
        most
    }
}

/// Of how many results how many were certain, for each vector type, and for plain integers, of
/// which only a part of the cases is asked where there are vectors. Each has two pairs, of results
/// without the comb and of those on it.
fn check(group: &Group, cases: &[[u64; 3]], dice: &mut Rng) -> Vec<[usize; 2]> {
    let mut found = Vec::new();
    let mut add = |certain: [usize; 2], of: usize| found.extend(certain.map(|certain| [certain, of]));
    let any = on_vector_types!(|W| add(group.check::<W>(cases, dice), cases.len()));
    let part = if any { cases.len() / PLAIN_ONE_IN } else { cases.len() };
    add(group.check::<u64>(&cases[..part], dice), part);
    found
}

/// Vectors do the same work for eight cases at once.
const PLAIN_ONE_IN: usize = 8;

/// All sums for all keys, or one of so many.
fn all_cases(order: u64, one_of: u64, dice: &mut Rng) -> Vec<[u64; 3]> {
    let each = (0..order).flat_map(|u1| (0..order).map(move |u2| (u1, u2)));
    each.flat_map(|(u1, u2)| (1..order).map(move |d| [u1, u2, d]))
        .filter(|_| one_of == 1 || dice.below(one_of) == 0)
        .collect()
}

/// The group of order 13: each key's table meets infinity (13 P is one of its entries), so nothing
/// is certain.
#[test]
fn thirteen() {
    let group = Group::new(
        2,
        13,
        9,
        "d7661dfac809808a9cec495f82babb21cf7e4f68796916010a2741f7501f94de",
        "ab34e4942373ed8cf787bb15bc0b9fc1f15065bc091001aa6c607f91c8520383",
    );
    let mut dice = Rng(21);
    let cases = all_cases(13, 1, &mut dice);
    assert_eq!(cases.len(), 2028);
    assert_eq!(group.check::<u64>(&cases, &mut dice), [0, 0]);
    assert!(
        check(&group, &cases, &mut dice)
            .iter()
            .all(|&[certain, _]| certain == 0)
    );
}

/// The group of order 199: all 7,840,000 sums with `BLOCKMILL_TEST_GROUPS=all`, else a part of
/// them.
#[test]
fn hundred_and_ninety_nine() {
    let group = Group::new(
        4,
        199,
        92,
        "45f2a300c118e400f18686cb8f96e72fd158235538a92f2d91a59027444a09cb",
        "84eb9641f7868e7f48acc06f84f380895d34537e778861b1ba419ad16801f62f",
    );
    let all = std::env::var("BLOCKMILL_TEST_GROUPS").is_ok_and(|value| value == "all");
    if !all {
        eprintln!("short: one sum in 150; BLOCKMILL_TEST_GROUPS=all tests all");
    }
    let mut dice = Rng(22);
    let cases = all_cases(199, if all { 1 } else { 150 }, &mut dice);
    for [certain, of] in check(&group, &cases, &mut dice) {
        eprintln!("order 199: {certain} of {of} results were certain");
        // About a hundred special cases can happen, each to one of a hundred.
        assert!(certain > of / 8 && certain < of * 3 / 4, "{certain} of {of}");
    }
}

/// Larger groups, in which most results are certain: every key, with random sums.
#[test]
fn thousands() {
    let groups = [
        Group::new(
            2,
            3319,
            1791,
            "2ac83e0cf2178ae2a2aa48d6aa93f358d79c034029611e108e53e169af957c52",
            "a0362ddcf9bc5e7003d86a0f50a1fff3496f8d9a88041e036760acde232d250a",
        ),
        Group::new(
            6,
            10903,
            10424,
            "6de4e181cd9e7a050040dda84cf89edabc16a5ec20852ae7d91a470a671a06a4",
            "9c3f55643e20dc0be6f82e7f85ee1925152eeb2858017a38e569df62cc890615",
        ),
        Group::new(
            4,
            18979,
            600,
            "4008035f83f983a8338d3c1b42e8cc39c0736c0bed2c063996ed78dbcd1ede4",
            "30686e0ac0536dcc86dba096678202cc560cc8e99fffc1826da81c3d347a89ae",
        ),
    ];
    let mut dice = Rng(23);
    for group in &groups {
        let order = group.order;
        let cases: Vec<_> = (1..order).map(|d| [dice.below(order), dice.below(order), d]).collect();
        for [certain, of] in check(group, &cases, &mut dice) {
            assert!(certain > of * 4 / 5 && certain < of, "{certain} of {of}");
        }
    }
}
