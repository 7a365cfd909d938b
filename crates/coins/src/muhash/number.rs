//! Numbers modulo 2^3072 - 1,103,717.
//!
//! A product of two is made of nine products of a quarter of the length (Karatsuba and Ofman,
//! 1962), each in the way of a school: a loop of that length is one that the compiler unrolls.

pub(super) const LIMBS: usize = 48;
pub(super) const BYTES: usize = LIMBS * 8;

/// The modulus is 2^3072 minus this number.
pub(super) const PRIME_DIFFERENCE: u64 = 1_103_717;

/// The lowest limb of the modulus. All others are ones.
const LOWEST: u64 = PRIME_DIFFERENCE.wrapping_neg();

/// A number. It is below 2^3072, so it exceeds the modulus at most once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Number {
    /// Least significant limb first.
    pub(super) limbs: [u64; LIMBS],
}

/// Limb, factor times other, and carry. The largest sum is 2^128 - 1, so it fits.
#[inline(always)]
fn multiply_add(limb: u64, factor: u64, other: u64, carry: &mut u64) -> u64 {
    let sum = u128::from(factor) * u128::from(other) + u128::from(limb) + u128::from(*carry);
    *carry = (sum >> 64) as u64;
    sum as u64
}

/// Adds limbs to those at the beginning of a number. Returns the carry.
#[inline(always)]
fn add(into: &mut [u64], limbs: &[u64]) -> bool {
    let mut carry = false;
    for (limb, &other) in into.iter_mut().zip(limbs) {
        (*limb, carry) = limb.carrying_add(other, carry);
    }
    carry
}

/// Subtracts limbs from those at the beginning of a number. Returns the borrow.
#[inline(always)]
fn subtract(from: &mut [u64], limbs: &[u64]) -> bool {
    let mut borrow = false;
    for (limb, &other) in from.iter_mut().zip(limbs) {
        (*limb, borrow) = limb.borrowing_sub(other, borrow);
    }
    borrow
}

/// Adds a small number to one, which has room for it.
#[inline(always)]
fn add_small(into: &mut [u64], small: u64) {
    let mut carry = small;
    for limb in into {
        let is_over;
        (*limb, is_over) = limb.overflowing_add(carry);
        if !is_over {
            return;
        }
        carry = 1;
    }
}

/// The distance of two halves, and whether the first is the smaller one.
#[inline(always)]
fn distance<const HALF: usize>(first: &[u64; HALF], second: &[u64; HALF]) -> ([u64; HALF], bool) {
    let mut difference = *first;
    let is_below = subtract(&mut difference, second);
    if is_below {
        difference = *second;
        subtract(&mut difference, first);
    }
    (difference, is_below)
}

/// The two halves of a number.
#[inline(always)]
fn halves<const HALF: usize>(limbs: &[u64]) -> (&[u64; HALF], &[u64; HALF]) {
    match (limbs.first_chunk(), limbs.last_chunk()) {
        (Some(low), Some(high)) => (low, high),
        _ => unreachable!("a number has two halves"),
    }
}

#[inline(never)]
fn multiply_12(left: &[u64; 12], right: &[u64; 12]) -> [u64; 24] {
    let mut product = [0; 24];
    for (index, &factor) in left.iter().enumerate() {
        let mut carry = 0;
        for (limb, &other) in product[index..].iter_mut().zip(right) {
            *limb = multiply_add(*limb, factor, other, &mut carry);
        }
        // No earlier row has reached this limb.
        product[index + 12] = carry;
    }
    product
}

/// A product of three products of halves.
macro_rules! karatsuba {
    ($name:ident, $of_halves:ident, $half:literal, $length:literal, $twice:literal) => {
        fn $name(left: &[u64; $length], right: &[u64; $length]) -> [u64; $twice] {
            let (left_low, left_high) = halves::<$half>(left);
            let (right_low, right_high) = halves::<$half>(right);
            let (low, high) = ($of_halves(left_low, right_low), $of_halves(left_high, right_high));
            let (left, left_is_below) = distance(left_low, left_high);
            let (right, right_is_below) = distance(right_low, right_high);
            // The sum of the mixed products is low plus high minus the product of the differences.
            let mut middle = low;
            let mut carry = u64::from(add(&mut middle, &high));
            let differences = $of_halves(&left, &right);
            if left_is_below == right_is_below {
                carry -= u64::from(subtract(&mut middle, &differences));
            } else {
                carry += u64::from(add(&mut middle, &differences));
            }
            let mut product = [0; $twice];
            product[..$length].copy_from_slice(&low);
            product[$length..].copy_from_slice(&high);
            carry += u64::from(add(&mut product[$half..], &middle));
            add_small(&mut product[$half + $length..], carry);
            product
        }
    };
}

karatsuba!(multiply_24, multiply_12, 12, 24, 48);
karatsuba!(multiply_48, multiply_24, 24, 48, 96);

impl Number {
    pub(super) const ONE: Self = {
        let mut limbs = [0; LIMBS];
        limbs[0] = 1;
        Self { limbs }
    };

    pub(super) fn from_bytes(bytes: &[u8; BYTES]) -> Self {
        let mut limbs = [0; LIMBS];
        for (limb, bytes) in limbs.iter_mut().zip(bytes.as_chunks().0) {
            *limb = u64::from_le_bytes(*bytes);
        }
        Self { limbs }
    }

    /// The same number, below the modulus.
    pub(super) fn canonical(&self) -> Self {
        let mut limbs = self.limbs;
        if limbs[0] >= LOWEST && limbs[1..].iter().all(|&limb| limb == u64::MAX) {
            // Subtracting the modulus is adding the difference, without the carry.
            limbs[0] = limbs[0].wrapping_add(PRIME_DIFFERENCE);
            limbs[1..].fill(0);
        }
        Self { limbs }
    }

    /// Of the number below the modulus.
    pub(super) fn to_bytes(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        for (bytes, limb) in bytes.chunks_exact_mut(8).zip(self.canonical().limbs) {
            bytes.copy_from_slice(&limb.to_le_bytes());
        }
        bytes
    }

    /// What is left of twice as many limbs: 2^3072 is equal to the difference.
    fn reduce(product: &[u64; 2 * LIMBS]) -> Self {
        let (low, high) = halves::<LIMBS>(product);
        let mut limbs = [0; LIMBS];
        let mut carry = 0;
        for ((limb, &low), &high) in limbs.iter_mut().zip(low).zip(high) {
            *limb = multiply_add(low, high, PRIME_DIFFERENCE, &mut carry);
        }
        Self::with_carry(limbs, carry)
    }

    /// A number with what is above 2^3072.
    pub(super) fn with_carry(mut limbs: [u64; LIMBS], mut carry: u64) -> Self {
        while carry != 0 {
            let mut again = [0; LIMBS];
            let product = u128::from(carry) * u128::from(PRIME_DIFFERENCE);
            [again[0], again[1]] = [product as u64, (product >> 64) as u64];
            carry = add(&mut limbs, &again).into();
        }
        Self { limbs }
    }

    pub(super) fn multiply(&mut self, other: &Self) {
        *self = Self::reduce(&multiply_48(&self.limbs, &other.limbs));
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The product in the way of a school, bit by bit of one factor.
    fn slow_product(left: &Number, right: &Number) -> [u8; BYTES] {
        let mut sum = [0u64; LIMBS];
        let add_to = |sum: &mut [u64; LIMBS], limbs: &[u64]| {
            if add(sum, limbs) && add(sum, &with_zeros(PRIME_DIFFERENCE)) {
                add_small(sum, PRIME_DIFFERENCE);
            }
        };
        for bit in (0..LIMBS * 64).rev() {
            let twice = sum;
            add_to(&mut sum, &twice);
            if left.limbs[bit / 64] >> (bit % 64) & 1 == 1 {
                add_to(&mut sum, &right.limbs);
            }
        }
        Number { limbs: sum }.to_bytes()
    }

    fn with_zeros(lowest: u64) -> [u64; LIMBS] {
        let mut limbs = [0; LIMBS];
        limbs[0] = lowest;
        limbs
    }

    /// Limbs at the ends of their range make carries.
    pub(in crate::muhash) fn number() -> impl Strategy<Value = Number> {
        let limb = prop_oneof![Just(0), Just(u64::MAX), Just(1), Just(LOWEST), any::<u64>()];
        proptest::collection::vec(limb, LIMBS).prop_map(|limbs| Number {
            limbs: limbs.try_into().unwrap(),
        })
    }

    pub(in crate::muhash) fn product(left: &Number, right: &Number) -> [u8; BYTES] {
        let mut product = left.clone();
        product.multiply(right);
        product.to_bytes()
    }

    #[test]
    fn products_at_the_modulus() {
        let most = [u64::MAX; LIMBS];
        let mut modulus = most;
        modulus[0] = LOWEST;
        let mut below = modulus;
        below[0] -= 1;
        let [most, modulus, below] = [most, modulus, below].map(|limbs| Number { limbs });
        let zero = Number { limbs: [0; LIMBS] };
        let small = Number {
            limbs: with_zeros(PRIME_DIFFERENCE - 1),
        };
        // 2^3072 - 1 is the difference minus one.
        assert_eq!(most.to_bytes(), small.to_bytes());
        assert_eq!(product(&most, &most), product(&small, &small));
        assert_eq!(modulus.to_bytes(), zero.to_bytes());
        assert_eq!(product(&modulus, &most), zero.to_bytes());
        // Minus one, squared.
        assert_eq!(product(&below, &below), Number::ONE.to_bytes());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn products_are_those_of_a_school(left in number(), right in number()) {
            prop_assert_eq!(product(&left, &right), slow_product(&left, &right));
        }
    }
}
