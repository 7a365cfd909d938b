//! The inverse of a number, by divisions by two (Bernstein and Yang, "Fast constant-time gcd
//! computation and modular inversion", 2019), though not in constant time.
//!
//! Two numbers `f` and `g` begin as the modulus and the number. A step takes the low bits of both,
//! and makes of them a matrix of 62 halvings; then it is applied to the whole numbers. `d` and `e`
//! go along: `f` is always `d` times the number, and `g` is `e` times the number, modulo the
//! modulus. When `g` is zero, `f` is one or minus one.

use super::number::{LIMBS as LIMBS_64, Number, PRIME_DIFFERENCE};

/// Halvings of a step, and bits of a limb.
const BITS: u32 = 62;
const MASK: u64 = (1 << BITS) - 1;

/// Limbs of a number.
const LIMBS: usize = 50;

/// The modulus is this times two to the bits of all limbs below the last one, minus the difference.
const LAST: i64 = 1 << (3072 - BITS * (LIMBS as u32 - 1));

/// The lowest limb of the modulus, and the others but the last are zero.
const LOWEST: i64 = -PRIME_DIFFERENCE.cast_signed();

/// The inverse of the difference, modulo two to the bits of a limb.
const INVERSE: u64 = {
    // Newton: every round doubles the bits that are right, of which there are three.
    let mut inverse = PRIME_DIFFERENCE;
    let mut round = 0;
    while round < 5 {
        let product = PRIME_DIFFERENCE.wrapping_mul(inverse);
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(product));
        round += 1;
    }
    inverse
};

/// A number: all limbs but the last are from zero up to two to their bits, and the last has the
/// sign.
type Signed = [i64; LIMBS];

/// What 62 halvings make of two numbers, times two to the 62.
#[derive(Clone, Copy)]
struct Matrix {
    /// What the first number gets of the first, and of the second; then the second number.
    first: [i64; 2],
    second: [i64; 2],
}

/// The matrix of the low bits of an odd number and another one. `delta` is from step to step.
fn halvings(delta: &mut i64, mut f: u64, mut g: u64) -> Matrix {
    let mut matrix = Matrix {
        first: [1, 0],
        second: [0, 1],
    };
    let mut left = BITS;
    loop {
        let zeros = g.trailing_zeros().min(left);
        g >>= zeros;
        matrix.first = matrix.first.map(|factor| factor << zeros);
        *delta += i64::from(zeros);
        left -= zeros;
        if left == 0 {
            return matrix;
        }
        // Both are odd.
        if *delta > 0 {
            *delta = -*delta;
            (f, g) = (g, f.wrapping_neg());
            matrix = Matrix {
                first: matrix.second,
                second: matrix.first.map(|factor| -factor),
            };
        }
        g = g.wrapping_add(f);
        for (second, first) in matrix.second.iter_mut().zip(matrix.first) {
            *second += first;
        }
    }
}

/// A row of a matrix times two limbs. The factors of a row are together at most two to the 62.
#[inline(always)]
fn combine(row: [i64; 2], first: i64, second: i64) -> i128 {
    i128::from(row[0]) * i128::from(first) + i128::from(row[1]) * i128::from(second)
}

/// Applies a matrix to two numbers, and adds multiples of the modulus. What is shifted out is zero.
fn apply(matrix: &Matrix, first: &mut Signed, second: &mut Signed, multiples: [i64; 2]) {
    let mut carries = [matrix.first, matrix.second].map(|row| combine(row, first[0], second[0]));
    for (carry, multiple) in carries.iter_mut().zip(multiples) {
        *carry = (*carry + i128::from(LOWEST) * i128::from(multiple)) >> BITS;
    }
    for index in 1..LIMBS {
        let limbs = (first[index], second[index]);
        carries[0] += combine(matrix.first, limbs.0, limbs.1);
        carries[1] += combine(matrix.second, limbs.0, limbs.1);
        if index == LIMBS - 1 {
            carries[0] += i128::from(LAST) * i128::from(multiples[0]);
            carries[1] += i128::from(LAST) * i128::from(multiples[1]);
        }
        first[index - 1] = (carries[0] as u64 & MASK).cast_signed();
        second[index - 1] = (carries[1] as u64 & MASK).cast_signed();
        carries = carries.map(|carry| carry >> BITS);
    }
    (first[LIMBS - 1], second[LIMBS - 1]) = (carries[0] as i64, carries[1] as i64);
}

/// The multiples of the modulus with which what a matrix makes of two numbers ends in 62 zeros. If
/// both numbers are above minus two times the modulus and below it, so are the two that come.
fn multiples(matrix: &Matrix, first: &Signed, second: &Signed) -> [i64; 2] {
    let signs = [first[LIMBS - 1] >> 63, second[LIMBS - 1] >> 63];
    [matrix.first, matrix.second].map(|row| {
        // One for each that is negative: then both are between minus the modulus and it.
        let raised = (row[0] & signs[0]) + (row[1] & signs[1]);
        let low = combine(row, first[0], second[0]) as u64;
        let more = raised.cast_unsigned().wrapping_sub(low.wrapping_mul(INVERSE)) & MASK;
        raised - more.cast_signed()
    })
}

/// The limbs of a number below the modulus.
fn signed(number: &Number) -> Signed {
    let mut limbs = [0; LIMBS];
    for (index, limb) in (0..).zip(&mut limbs) {
        let (from, shift) = (index * BITS as usize / 64, index as u32 * BITS % 64);
        let bits = |limb: usize| u128::from(*number.limbs.get(limb).unwrap_or(&0));
        let wide = bits(from) | bits(from + 1) << 64;
        *limb = ((wide >> shift) as u64 & MASK).cast_signed();
    }
    limbs
}

/// A number above minus two times the modulus, or minus that.
fn unsigned(mut limbs: Signed, is_negated: bool) -> Number {
    if is_negated {
        limbs = limbs.map(|limb| -limb);
    }
    // Twice the modulus makes it positive.
    limbs[0] += 2 * LOWEST;
    limbs[LIMBS - 1] += 2 * LAST;
    let mut number = [0; LIMBS_64];
    let (mut carry, mut wide, mut bits, mut next) = (0, 0u128, 0, number.iter_mut());
    for limb in limbs {
        carry += limb;
        wide |= u128::from(carry.cast_unsigned() & MASK) << bits;
        carry >>= BITS;
        bits += BITS;
        if bits >= 64
            && let Some(next) = next.next()
        {
            *next = wide as u64;
            wide >>= 64;
            bits -= 64;
        }
    }
    Number::with_carry(number, wide as u64)
}

/// The number whose product with this one is one; zero for zero.
pub(super) fn inverse(number: &Number) -> Number {
    let (mut f, mut g) = ([0; LIMBS], signed(&number.canonical()));
    // It has a negative limb here. The first step makes all but the last positive.
    (f[0], f[LIMBS - 1]) = (LOWEST, LAST);
    let (mut d, mut e) = ([0; LIMBS], [0; LIMBS]);
    e[0] = 1;
    let mut delta = 1;
    while g != [0; LIMBS] {
        let matrix = halvings(&mut delta, f[0].cast_unsigned(), g[0].cast_unsigned());
        apply(&matrix, &mut f, &mut g, [0; 2]);
        let multiples = multiples(&matrix, &d, &e);
        apply(&matrix, &mut d, &mut e, multiples);
    }
    unsigned(d, f[LIMBS - 1] < 0)
}

#[cfg(test)]
mod tests {
    use super::super::number::BYTES;
    use super::super::number::tests::{number, product};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_at_the_modulus() {
        let zero = [0; BYTES];
        let mut number = Number {
            limbs: [u64::MAX; LIMBS_64],
        };
        number.limbs[0] -= PRIME_DIFFERENCE - 1;
        // The modulus, which is zero.
        assert_eq!(inverse(&number).to_bytes(), zero);
        // Minus one.
        number.limbs[0] -= 1;
        assert_eq!(inverse(&number), number);
        assert_eq!(inverse(&Number::ONE).to_bytes(), Number::ONE.to_bytes());
        let none = Number { limbs: [0; LIMBS_64] };
        assert_eq!(inverse(&none).to_bytes(), zero);
    }

    proptest! {
        #[test]
        fn a_number_times_its_inverse_is_one(number in number()) {
            prop_assume!(number.to_bytes() != [0; BYTES]);
            prop_assert_eq!(product(&number, &inverse(&number)), Number::ONE.to_bytes());
        }
    }
}
