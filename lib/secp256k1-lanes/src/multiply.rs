//! Multiples u1 G of the generator, and u2 P of many points P, at once.
//!
//! Both scalars come as two odd halves (`scalar.rs`). Their digits select entries of tables of odd
//! multiples: 26 digits of 5 bits of each half of u2, from a table of the point's own, and 13
//! digits of 10 bits of each half of u1, from tables of the generator, one for each position.
//!
//! 1. *Tables*: 1 P, 3 P ... 31 P, and lambda times the same, by affine sums.
//! 2. *Sums*: the entries of both halves at a position are one point, by an affine sum. All sums of
//!    [`SHARING`] words share their inversions.
//! 3. *The generator*: all its sums are added up affinely. That is u1 G, without a doubling.
//! 4. *Walk*: from the highest position of u2 down, five doublings and one addition a position, in
//!    Jacobian coordinates.
//!
//! On the comb (`src/comb.rs`) each block of positions has tables of its own. The sums of the
//! blocks are added up, and the walk has the positions of one block.
//!
//! The two multiples are not added: P is on a curve of its own (`src/compare.rs`). Nothing here
//! reads the b of a curve.
//!
//! Special cases of affine sums are put into `unsure`. Those of the walk leave a Z of 0.

use crate::comb::{Comb, TABLES};
use crate::curve::{Curve, GENERATOR_ENTRIES};
use crate::fault::{Fault, is_planted};
use crate::field::Fe;
use crate::point::{Affine, Jacobian, SideBySide, Signed, invert_all};
use crate::positions::{BLOCK_POSITIONS, GENERATOR_POSITIONS, GENERATOR_WIDTH, POSITIONS, SIDE_BY_SIDE, WIDTH};
use crate::scalar::Half;
use crate::word::{BATCH, Mask, Row, Word, side_by_side};
use std::ops::Range;

/// Entries of a table of a point: odd multiples below 2^[`WIDTH`].
const ENTRY_BITS: u32 = WIDTH as u32 - 1;
const ENTRIES: usize = 1 << ENTRY_BITS;

/// Rows of the tables of one word: a table a lane.
const fn rows<W: Word>() -> usize {
    W::LANES * ENTRIES
}

/// Words whose sums share inversions: more would leave the caches, fewer would invert more often.
const SHARING: usize = 8;

/// The halves of the scalars of one word.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Halves<W> {
    pub(crate) generator: [Half<W>; 2],
    pub(crate) point: [Half<W>; 2],
}

/// Memory that is used again.
#[derive(Debug)]
pub(crate) struct Workspace<W> {
    multiples: Vec<[Affine<W>; ENTRIES]>,
    even: Vec<Affine<W>>,
    rows: Vec<Row>,
    pairs: Vec<(Signed<W>, Signed<W>)>,
    sums: Vec<Affine<W>>,
    denominators: Vec<Fe<W>>,
    before: Vec<Fe<W>>,
    /// The results: u1 G of each word, and u2 P. After those come keys that are not multiplied.
    pub(crate) generator: Vec<Affine<W>>,
    pub(crate) points: Vec<Jacobian<W>>,
}

impl<W> Default for Workspace<W> {
    fn default() -> Self {
        Self {
            multiples: Vec::new(),
            even: Vec::new(),
            rows: Vec::new(),
            pairs: Vec::new(),
            sums: Vec::new(),
            denominators: Vec::new(),
            before: Vec::new(),
            generator: Vec::new(),
            points: Vec::new(),
        }
    }
}

impl<W: Word> Workspace<W> {
    /// Makes the tables of `points`, which are numbered lane by lane and word by word; there are at
    /// most [`TABLES`]. A lane of `unsure` is set where a special case was met.
    pub(crate) fn make_tables(&mut self, points: &[Affine<W>], unsure: &mut [W::Mask]) {
        assert_eq!(points.len(), unsure.len());
        assert!(points.len() * W::LANES <= TABLES, "too many tables");
        W::vectorize(
            #[inline(always)]
            || self.make_multiples(points, unsure),
        );
        W::vectorize(
            #[inline(always)]
            || self.make_rows(),
        );
    }

    /// Computes u1 G, into [`generator`](Self::generator). A lane of `unsure` is set where a
    /// special case was met; where it is not, the result is right.
    pub(crate) fn multiply_generator(&mut self, curve: &Curve, halves: &[Halves<W>], unsure: &mut [W::Mask]) {
        assert_eq!(halves.len(), unsure.len());
        self.generator.clear();
        for (halves, unsure) in halves.chunks(SHARING).zip(unsure.chunks_mut(SHARING)) {
            W::vectorize(
                #[inline(always)]
                || self.look_up_generator(curve, halves, unsure),
            );
        }
        W::vectorize(
            #[inline(always)]
            || self.add_positions(unsure),
        );
    }

    /// Computes u2 P, into [`points`](Self::points): for each lane P is the point whose table has
    /// this number. The first words take the comb. A lane of `unsure` is set where a special case
    /// was met; where it is not, and Z is not 0, the result is right.
    pub(crate) fn multiply_points(
        &mut self,
        curve: &Curve,
        comb: &Comb<W>,
        tables: &[W],
        halves: &[Halves<W>],
        unsure: &mut [W::Mask],
    ) {
        // The walk takes whole groups.
        assert!(halves.len().is_multiple_of(SIDE_BY_SIDE), "words come in groups");
        assert!(comb.check_words.is_multiple_of(SIDE_BY_SIDE), "groups take one way");
        assert_eq!((halves.len(), halves.len()), (tables.len(), unsure.len()));
        self.sums.clear();
        self.sums.reserve(halves.len() * POSITIONS);
        let (on_comb, others) = (0..comb.check_words, comb.check_words..halves.len());
        for (words, first_tables) in [(on_comb, &comb.first_tables[..]), (others, &[0][..])] {
            // A few words at a time, so that their pairs and inverses stay in the cache.
            for first in words.clone().step_by(SHARING) {
                let words = first..words.end.min(first + SHARING);
                let (tables, halves, unsure) = (&tables[words.clone()], &halves[words.clone()], &mut unsure[words]);
                W::vectorize(
                    #[inline(always)]
                    || self.look_up(curve, first_tables, tables, halves),
                );
                W::vectorize(
                    #[inline(always)]
                    || self.add_up(unsure),
                );
                if first_tables.len() > 1 {
                    W::vectorize(
                        #[inline(always)]
                        || {
                            let first = self.sums.len() - unsure.len() * POSITIONS;
                            let (denominators, before) = (&mut self.denominators, &mut self.before);
                            let lengths = [POSITIONS, BLOCK_POSITIONS];
                            add_blocks(&mut self.sums[first..], lengths, denominators, before, unsure);
                        },
                    );
                }
            }
        }
        self.points.clear();
        W::vectorize(
            #[inline(always)]
            || self.walk(comb.check_words),
        );
    }

    /// Inverts all denominators; there are `each` of them for a word.
    #[inline(always)]
    fn invert(&mut self, each: usize, unsure: &mut [W::Mask]) {
        invert(&mut self.denominators, &mut self.before, each, unsure);
    }

    /// 1 P, 3 P ... 31 P.
    #[inline(always)]
    fn make_multiples(&mut self, points: &[Affine<W>], unsure: &mut [W::Mask]) {
        let words = 0..points.len();
        // Entry 0 is right already. The others are overwritten below, before anybody reads them.
        self.multiples.clear();
        self.multiples.extend(points.iter().map(|point| [*point; ENTRIES]));
        // Each step below collects the denominators of all words first, so that one inversion
        // serves them all: an inversion costs as much as about a hundred products.
        // 2 P
        self.denominators.clear();
        for point in points {
            self.denominators.push(point.y.twice());
        }
        self.invert(1, unsure);
        self.even.clear();
        for (point, inverse) in points.iter().zip(&self.denominators) {
            self.even.push(point.double(inverse));
        }
        // 3 P
        for word in words.clone() {
            self.denominators[word] = self.even[word].x.sub(&points[word].x);
        }
        self.invert(1, unsure);
        for word in words.clone() {
            self.multiples[word][1] = points[word].add(&self.even[word], &self.denominators[word]);
        }
        // 6 P
        for word in words.clone() {
            self.denominators[word] = self.multiples[word][1].y.twice();
        }
        self.invert(1, unsure);
        for word in words.clone() {
            self.even[word] = self.multiples[word][1].double(&self.denominators[word]);
        }
        // 6 P + P, 6 P - P; 12 P
        self.denominators.clear();
        for word in words.clone() {
            self.denominators.push(points[word].x.sub(&self.even[word].x));
            self.denominators.push(self.even[word].y.twice());
        }
        self.invert(2, unsure);
        for word in words.clone() {
            let (multiples, even) = (&mut self.multiples[word], &mut self.even[word]);
            let inverses = &self.denominators[2 * word..];
            // A sum and a difference have the same denominator, so odd multiples come in pairs
            // around an even one.
            (multiples[3], multiples[2]) = even.sum_and_difference(&multiples[0], &inverses[0]);
            *even = even.double(&inverses[1]);
        }
        // 12 P + P, 12 P - P; 12 P + 3 P, 12 P - 3 P; 24 P
        self.denominators.clear();
        for word in words.clone() {
            let (multiples, even) = (&self.multiples[word], &self.even[word]);
            self.denominators.push(multiples[0].x.sub(&even.x));
            self.denominators.push(multiples[1].x.sub(&even.x));
            self.denominators.push(even.y.twice());
        }
        self.invert(3, unsure);
        for word in words.clone() {
            let (multiples, even) = (&mut self.multiples[word], &mut self.even[word]);
            let inverses = &self.denominators[3 * word..];
            (multiples[6], multiples[5]) = even.sum_and_difference(&multiples[0], &inverses[0]);
            (multiples[7], multiples[4]) = even.sum_and_difference(&multiples[1], &inverses[1]);
            *even = even.double(&inverses[2]);
        }
        // 24 P + P, 24 P - P, and so on to 24 P + 7 P, 24 P - 7 P
        self.denominators.clear();
        for word in words.clone() {
            let (multiples, even) = (&self.multiples[word], &self.even[word]);
            for multiple in &multiples[..4] {
                self.denominators.push(multiple.x.sub(&even.x));
            }
        }
        self.invert(4, unsure);
        for word in words {
            let (multiples, even) = (&mut self.multiples[word], &self.even[word]);
            for (k, inverse) in self.denominators[4 * word..4 * word + 4].iter().enumerate() {
                (multiples[12 + k], multiples[11 - k]) = even.sum_and_difference(&multiples[k], inverse);
            }
        }
    }

    /// The tables in memory: for each word those of all lanes.
    #[inline(always)]
    fn make_rows(&mut self) {
        // As many as a batch can have: so every number of a table is in range.
        self.rows.resize(TABLES * ENTRIES, Row::ZERO);
        for (multiples, rows) in self.multiples.iter().zip(self.rows.chunks_exact_mut(rows::<W>())) {
            for (entry, point) in multiples.iter().enumerate() {
                // Four words of 64 bits instead of five limbs: a row of x and y then fills one
                // cache line.
                let [a, b, c, d] = point.x.normalize().pack();
                let [e, f, g, h] = point.y.normalize().pack();
                W::store_rows(rows, entry, ENTRIES, [a, b, c, d, e, f, g, h]);
            }
        }
    }

    /// The entries of all positions of some words, in pairs that are to be added, and the
    /// denominators of their sums. There are as many blocks of a point's positions as
    /// `first_tables`, which has the number of each block's first table.
    #[inline(always)]
    fn look_up(&mut self, curve: &Curve, first_tables: &[u64], tables: &[W], halves: &[Halves<W>]) {
        self.pairs.clear();
        self.denominators.clear();
        let beta = Fe::broadcast(&curve.beta);
        let block_positions = POSITIONS.div_ceil(first_tables.len());
        for (halves, table) in halves.iter().zip(tables) {
            for position in 0..POSITIONS {
                let block = if is_planted::<W>(Fault::KeyBlock) {
                    0
                } else {
                    position / block_positions
                };
                let table = table.and(W::splat(BATCH as u64 - 1)).add(W::splat(first_tables[block]));
                let first_row = table.and(W::splat(TABLES as u64 - 1)).shift_left::<ENTRY_BITS>();
                let [first, second] = &halves.point;
                let a = entry::<W, WIDTH>(&self.rows, first_row, first.digit(position * WIDTH, WIDTH));
                let mut b = entry::<W, WIDTH>(&self.rows, first_row, second.digit(position * WIDTH, WIDTH));
                // Lambda times it.
                b.x = b.x.mul(&beta);
                // The sum is taken in `add_up`, when all denominators are inverted.
                self.denominators.push(b.x.sub(&a.x));
                self.pairs.push((a, b));
            }
        }
    }

    /// What is added at each position, for the same words.
    #[inline(always)]
    fn add_up(&mut self, unsure: &mut [W::Mask]) {
        self.invert(POSITIONS, unsure);
        for ((a, b), inverse) in self.pairs.iter().zip(&self.denominators) {
            self.sums.push(a.add(b, inverse));
        }
    }

    /// What the positions of the generator's scalar add, for some words.
    #[inline(always)]
    fn look_up_generator(&mut self, curve: &Curve, halves: &[Halves<W>], unsure: &mut [W::Mask]) {
        self.pairs.clear();
        self.denominators.clear();
        let zero = W::splat(0);
        // Position by position, so that one table is read at a time.
        for (position, tables) in curve.generator.chunks_exact(2 * GENERATOR_ENTRIES).enumerate() {
            // The second table has lambda times the entries of the first, so nothing is multiplied
            // here.
            let tables = tables.split_at(GENERATOR_ENTRIES);
            let offset = position * GENERATOR_WIDTH;
            for halves in halves {
                let [first, second] = &halves.generator;
                let a = entry::<W, GENERATOR_WIDTH>(tables.0, zero, first.digit(offset, GENERATOR_WIDTH));
                let b = entry::<W, GENERATOR_WIDTH>(tables.1, zero, second.digit(offset, GENERATOR_WIDTH));
                self.denominators.push(b.x.sub(&a.x));
                self.pairs.push((a, b));
            }
        }
        let words = halves.len();
        invert_all(&mut self.denominators, &mut self.before, &mut |index, zero| {
            let unsure = &mut unsure[index % words];
            *unsure = unsure.or(zero);
        });
        // The positions of one word lie side by side from here on.
        for word in 0..words {
            for position in 0..GENERATOR_POSITIONS {
                let index = position * words + word;
                let (a, b) = &self.pairs[index];
                self.generator.push(a.add(b, &self.denominators[index]));
            }
        }
    }

    /// The sum of what all positions of the generator's scalar add, for all words.
    #[inline(always)]
    fn add_positions(&mut self, unsure: &mut [W::Mask]) {
        let (denominators, before) = (&mut self.denominators, &mut self.before);
        add_blocks(
            &mut self.generator,
            [GENERATOR_POSITIONS, 1],
            denominators,
            before,
            unsure,
        );
        for word in 0..unsure.len() {
            self.generator[word] = self.generator[word * GENERATOR_POSITIONS];
        }
        self.generator.truncate(unsure.len());
    }

    /// From the highest position down; `on_comb` words only from that of a block.
    #[inline(always)]
    fn walk(&mut self, on_comb: usize) {
        let all = self.sums.len() / POSITIONS;
        for (words, positions) in [(0..on_comb, BLOCK_POSITIONS), (on_comb..all, POSITIONS)] {
            // A single lane gains nothing from words side by side, and is compiled faster without.
            if W::LANES == 1 {
                self.walk_together::<1>(words, positions);
            } else {
                // Two groups hide more latency than one.
                let rest = self.walk_together::<{ 2 * SIDE_BY_SIDE }>(words, positions);
                let rest = self.walk_together::<SIDE_BY_SIDE>(rest, positions);
                assert!(rest.is_empty(), "words come in groups");
            }
        }
    }

    /// Takes `N` of the words at a time, and gives back those that are left.
    #[inline(always)]
    fn walk_together<const N: usize>(&mut self, words: Range<usize>, positions: usize) -> Range<usize> {
        let (sums, _) = self.sums[words.start * POSITIONS..words.end * POSITIONS].as_chunks::<POSITIONS>();
        let (groups, rest) = sums.as_chunks::<N>();
        for sums in groups {
            let mut points = SideBySide::new(side_by_side::<_, N>(
                #[inline(always)]
                |word| sums[word][positions - 1].jacobian(),
            ));
            for position in (0..positions - 1).rev() {
                for _ in 0..WIDTH {
                    points.double();
                }
                points.add(side_by_side(
                    #[inline(always)]
                    |word| &sums[word][position],
                ));
            }
            self.points.extend_from_slice(&points.points);
        }
        words.end - rest.len()..words.end
    }
}

/// Inverts denominators; there are `each` of them for a word.
#[inline(always)]
fn invert<W: Word>(denominators: &mut [Fe<W>], before: &mut Vec<Fe<W>>, each: usize, unsure: &mut [W::Mask]) {
    invert_all(denominators, before, &mut |index, zero| {
        let unsure = &mut unsure[index / each];
        *unsure = unsure.or(zero);
    });
}

/// Adds up blocks of points. A word has `row` points, and they are in blocks of `block`, of which
/// the highest may have fewer. Their sum is in the lowest block.
#[inline(always)]
fn add_blocks<W: Word>(
    points: &mut [Affine<W>],
    [row, block]: [usize; 2],
    denominators: &mut Vec<Fe<W>>,
    before: &mut Vec<Fe<W>>,
    unsure: &mut [W::Mask],
) {
    let mut end = row;
    while end > block && !is_planted::<W>(Fault::BlockSum) {
        // The upper half of the blocks is added to the lower one.
        let offset = end.div_ceil(block).div_ceil(2) * block;
        let upper = end - offset;
        denominators.clear();
        for points in points.chunks_exact(row) {
            for k in 0..upper {
                denominators.push(points[offset + k].x.sub(&points[k].x));
            }
        }
        invert(denominators, before, upper, unsure);
        for (points, inverses) in points.chunks_exact_mut(row).zip(denominators.chunks_exact(upper)) {
            for (k, inverse) in inverses.iter().enumerate() {
                points[k] = points[k].add(&points[offset + k], inverse);
            }
        }
        end = offset;
    }
}

/// The entry for a digit from 0 to 2^`BITS` - 1, which stands for the odd number
/// 2 digit + 1 - 2^`BITS`, of the table whose first row is `first`.
#[inline(always)]
fn entry<W: Word, const BITS: usize>(rows: &[Row], first: W, digit: W) -> Signed<W> {
    let half = 1 << (BITS - 1);
    let negative = digit.is_below(W::splat(half));
    let low = digit.and(W::splat(half - 1));
    let index = W::select(negative, W::splat(half - 1).sub(low), low);
    let [a, b, c, d, e, f, g, h] = W::load_rows(rows, first.add(index));
    Signed {
        x: Fe::unpack(&[a, b, c, d]),
        y: Fe::unpack(&[e, f, g, h]).negate_lazy_where(negative),
    }
}
