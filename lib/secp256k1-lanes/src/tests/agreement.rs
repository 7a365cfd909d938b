//! All lane types agree, bit by bit, on every operation: what is proven over intervals for one of
//! them holds for all.

use super::Rng;
use crate::columns::{HalfProducts, OfHalves};
use crate::model::{WithSign, WithoutSign};
use crate::word::{FOLD_260, LANES_MAX, LIMB_BITS, LIMB_MASK, Mask, Row, Word};

/// Operands of one round: numbers with a value for each lane.
type Operands = [[u64; LANES_MAX]; 24];

/// A number that may be at an edge of what a product, a rounding or a comparison tells apart.
fn operand(dice: &mut Rng) -> u64 {
    let bit = 1_u64 << dice.below(64);
    match dice.below(10) {
        0 => dice.below(4),
        1 => bit,
        2 => bit.wrapping_sub(1 + dice.below(3)),
        3 => bit.wrapping_add(dice.below(3)),
        4 => (dice.below(64) | 1) << dice.below(58),
        5 => LIMB_MASK - dice.below(4),
        6 => dice.next(),
        _ => dice.next() & LIMB_MASK,
    }
}

/// What every operation makes of the operands.
fn results<W: Word, H: HalfProducts<W>>(operands: &Operands) -> Vec<[u64; LANES_MAX]> {
    let words = operands.each_ref().map(W::from_lanes);
    let [a, b, c] = [words[0], words[1], words[2]];
    let mut results = vec![a, W::splat(operands[0][0] & 1), a.add(b), a.sub(b), a.and(b), a.or(b)];
    results.extend([
        a.and(W::splat(LIMB_MASK)).shift_left::<12>(),
        a.shift_left_wrapping::<1>(),
        a.shift_left_wrapping::<12>(),
        a.shift_left_wrapping::<52>(),
        a.shift_right::<1>(),
        a.shift_right::<LIMB_BITS>(),
        a.shift_right_signed::<1>(),
        a.shift_right_signed::<12>(),
        a.shift_right_signed::<26>(),
        a.shift_right_signed::<LIMB_BITS>(),
    ]);
    results.extend((0..64).map(|bits| a.shift_left_by(bits)));
    results.extend((0..64).map(|bits| a.shift_right_by(bits)));
    results.extend([
        c.add_product_low(a, b),
        c.add_product_high(a, b),
        c.add_product_low(a, a),
        c.add_product_high(a, a),
    ]);
    let number = |first: usize| [0, 1, 2, 3, 4].map(|k| words[first + k]);
    let mut columns = std::array::from_fn(|k| words[14 + k]);
    H::add_product(&mut columns, &number(0), &number(5));
    results.extend(columns);
    results.extend(H::product(&number(0), &number(5)));
    results.extend(H::square(&number(0)));
    let mut columns = std::array::from_fn(|k| words[14 + k]);
    H::add_multiple(&mut columns, &number(0), FOLD_260);
    results.extend(columns);
    results.extend(H::add_top([b, c], a.shift_right::<22>()));
    // Masks.
    let bits = |mask: W::Mask| W::select(mask, b, c);
    let zero = a.shift_right_by(60).is_zero();
    let below = a.shift_right::<1>().is_below(b.shift_right::<1>());
    assert_eq!(
        W::Mask::from_bits(zero.bits()).xor(zero).bits() & (u8::MAX >> (LANES_MAX - W::LANES)),
        0
    );
    results.extend([bits(zero), bits(below), bits(zero.and(below)), bits(zero.or(below))]);
    results.extend([bits(zero.xor(below)), bits(zero.not()), bits(a.sub(a).is_zero())]);
    let from_bits = (0..LANES_MAX).map(|lane| zero.bits() >> lane & 1);
    let mut lanes: [u64; LANES_MAX] = [0; LANES_MAX];
    for (lane, bit) in lanes.iter_mut().zip(from_bits) {
        *lane = bit.into();
    }
    results.push(W::from_lanes(&lanes));
    // Rows: all lanes from one table.
    let table: Vec<Row> = (0..8)
        .map(|row| Row(std::array::from_fn(|k| row * 8 + k as u64)))
        .collect();
    results.extend(W::load_rows(&table, a.and(W::splat(7))));
    results.into_iter().map(W::to_lanes).collect()
}

type Products<W> = <<W as Word>::Columns as OfHalves<W>>::Products;

fn agrees<W: Word<Columns: OfHalves<W>>>() {
    let mut dice = Rng(31);
    for _ in 0..20_000 {
        let operands: Operands = std::array::from_fn(|_| std::array::from_fn(|_| operand(&mut dice)));
        let found = results::<W, Products<W>>(&operands);
        for lane in 0..W::LANES {
            // The lane becomes the first one; what is splat is that of all.
            let mut alone = operands;
            for numbers in &mut alone {
                numbers[0] = numbers[lane];
            }
            let expected = if Products::<W>::SIGNED {
                results::<u64, WithSign>(&alone)
            } else {
                results::<u64, WithoutSign>(&alone)
            };
            for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
                if index != 1 {
                    assert_eq!(found[lane], expected[0], "result {index}, lane {lane}: {alone:x?}");
                }
            }
        }
        assert!(
            found
                .iter()
                .all(|lanes| lanes[W::LANES..].iter().all(|&lane| lane == 0))
        );
        assert!(found[1][..W::LANES].iter().all(|&lane| lane == operands[0][0] & 1));
    }
}

/// Products about which a rounding could err: at the half of 2^52, at its multiples, and at all
/// small distances from them.
fn products_agree<W: Word>() {
    let near = |bits: u32| {
        let power = 1_u64 << bits;
        [
            power,
            power - 1,
            power + 1,
            3 * power,
            3 * power - 1,
            5 * power,
            7 * power + 1,
        ]
        .map(|limb| limb & LIMB_MASK)
    };
    let limbs: Vec<u64> = (0..=52).flat_map(near).chain([0, LIMB_MASK, LIMB_MASK - 1]).collect();
    for &a in &limbs {
        for b in limbs.chunks(W::LANES) {
            let mut lanes = [0; LANES_MAX];
            lanes[..b.len()].copy_from_slice(b);
            let (word, zero) = (W::from_lanes(&lanes), W::splat(0));
            let low = zero.add_product_low(W::splat(a), word).to_lanes();
            let high = zero.add_product_high(W::splat(a), word).to_lanes();
            for (lane, &b) in b.iter().enumerate() {
                let product = u128::from(a) * u128::from(b);
                assert_eq!(low[lane], product as u64 & LIMB_MASK, "{a:x} times {b:x}");
                assert_eq!(high[lane], (product >> LIMB_BITS) as u64, "{a:x} times {b:x}");
            }
        }
    }
}

fn rows_become_columns<W: Word>() {
    let table: Vec<Row> = (0..64)
        .map(|row| Row(std::array::from_fn(|column| row * 100 + column as u64)))
        .collect();
    let index = [3, 0, 1, 7, 7, 2, 5, 6];
    let rows: Vec<usize> = (0..W::LANES).map(|lane| index[lane] as usize + 8 * lane).collect();
    let numbers = std::array::from_fn(|lane| index[lane] + 8 * lane as u64);
    let words = W::load_rows(&table, W::from_lanes(&numbers));
    for (column, word) in words.iter().enumerate() {
        let lanes = word.to_lanes();
        for (lane, row) in rows.iter().enumerate() {
            assert_eq!(lanes[lane], (row * 100 + column) as u64);
        }
    }
    let mut back = vec![Row::ZERO; 64];
    W::store_rows(&mut back, 5, 7, words);
    for (index, row) in back.iter().enumerate() {
        let lane = (index % 7 == 5).then_some(index / 7).filter(|lane| *lane < W::LANES);
        assert_eq!(*row, lane.map_or(Row::ZERO, |lane| table[rows[lane]]));
    }
}

#[test]
fn lane_types_agree() {
    let _ = on_lane_types!(|W| agrees::<W>());
}

#[test]
fn edges_of_products() {
    let _ = on_lane_types!(|W| products_agree::<W>());
}

#[test]
fn rows() {
    let _ = on_lane_types!(|W| rows_become_columns::<W>());
}
