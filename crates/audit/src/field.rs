//! Arithmetic modulo the prime 2^191 - 19.
//!
//! Values are kept below 2^192 and not always below the prime: 2^192 is 38 modulo the prime.

/// Limbs of a number, of 64 bits each.
const LIMBS: usize = 3;

/// What 2^192 is modulo the prime.
const FOLD: u64 = 38;

/// The prime, lowest limb first.
const PRIME: [u64; LIMBS] = [0xffff_ffff_ffff_ffed, u64::MAX, 0x7fff_ffff_ffff_ffff];

/// A number modulo the prime, the lowest limb first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Element(pub(crate) [u64; LIMBS]);

/// A sum of products that is not reduced yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wide([u64; 2 * LIMBS]);

impl Element {
    /// Bytes of a number.
    pub(crate) const LENGTH: usize = 8 * LIMBS;

    pub(crate) const ZERO: Self = Self([0; LIMBS]);

    pub(crate) const ONE: Self = Self([1, 0, 0]);

    /// The number with these bytes in little endian, modulo the prime.
    #[inline]
    pub(crate) fn from_bytes(bytes: &[u8; Self::LENGTH]) -> Self {
        let (limbs, _) = bytes.as_chunks::<8>();
        Self(std::array::from_fn(|limb| u64::from_le_bytes(limbs[limb])))
    }

    /// Its bytes, below the prime.
    pub(crate) fn to_bytes(self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        let (limbs, _) = bytes.as_chunks_mut::<8>();
        for (bytes, limb) in limbs.iter_mut().zip(self.canonical().0) {
            *bytes = limb.to_le_bytes();
        }
        bytes
    }

    /// The same number below the prime.
    pub(crate) fn canonical(self) -> Self {
        let mut value = self;
        // 2^192 is twice the prime and 38.
        for _ in 0..2 {
            let (less, borrow) = subtract(value.0, PRIME);
            if !borrow {
                value = Self(less);
            }
        }
        value
    }

    /// The sum. It MUST be below 2^192.
    #[inline]
    pub(crate) fn plus(self, other: Self) -> Self {
        let ([a0, a1, a2], [b0, b1, b2]) = (self.0, other.0);
        let (a0, carry) = a0.overflowing_add(b0);
        let (a1, carry) = a1.carrying_add(b1, carry);
        Self([a0, a1, a2.wrapping_add(b2).wrapping_add(carry as u64)])
    }

    #[inline]
    pub(crate) fn multiply(self, other: Self) -> Self {
        product(self, other).reduce()
    }
}

impl PartialEq for Element {
    fn eq(&self, other: &Self) -> bool {
        self.canonical().0 == other.canonical().0
    }
}

impl Eq for Element {}

impl From<Element> for Wide {
    #[inline]
    fn from(element: Element) -> Self {
        let [a, b, c] = element.0;
        Self([a, b, c, 0, 0, 0])
    }
}

/// `a * b + c + d`, which is below 2^128, in two limbs.
#[inline(always)]
const fn multiply_add(a: u64, b: u64, c: u64, d: u64) -> (u64, u64) {
    let sum = a as u128 * b as u128 + c as u128 + d as u128;
    (sum as u64, (sum >> 64) as u64)
}

/// Row by row, as on paper. Written out, it compiles to half the instructions of loops.
#[inline(always)]
const fn product(a: Element, b: Element) -> Wide {
    let ([a0, a1, a2], [b0, b1, b2]) = (a.0, b.0);
    let (p0, carry) = multiply_add(a0, b0, 0, 0);
    let (p1, carry) = multiply_add(a0, b1, carry, 0);
    let (p2, p3) = multiply_add(a0, b2, carry, 0);
    let (p1, carry) = multiply_add(a1, b0, p1, 0);
    let (p2, carry) = multiply_add(a1, b1, p2, carry);
    let (p3, p4) = multiply_add(a1, b2, p3, carry);
    let (p2, carry) = multiply_add(a2, b0, p2, 0);
    let (p3, carry) = multiply_add(a2, b1, p3, carry);
    let (p4, p5) = multiply_add(a2, b2, p4, carry);
    Wide([p0, p1, p2, p3, p4, p5])
}

impl Wide {
    /// Adds a product. The sum MUST stay below 2^384.
    #[inline]
    pub(crate) fn add_product(&mut self, a: Element, b: Element) {
        let mut carry = false;
        for (sum, limb) in self.0.iter_mut().zip(product(a, b).0) {
            (*sum, carry) = sum.carrying_add(limb, carry);
        }
    }

    #[inline]
    pub(crate) fn reduce(self) -> Element {
        let [a, b, c, d, e, f] = self.0;
        let (a, carry) = multiply_add(d, FOLD, a, 0);
        let (b, carry) = multiply_add(e, FOLD, b, carry);
        let (c, carry) = multiply_add(f, FOLD, c, carry);
        // What is above is at most 38; folded twice, nothing is above.
        let (a, carry) = multiply_add(carry, FOLD, a, 0);
        let (b, over) = b.overflowing_add(carry);
        let (c, over) = c.overflowing_add(over as u64);
        Element([a.wrapping_add(FOLD * over as u64), b, c])
    }
}

/// The difference, and whether it is below zero.
fn subtract(a: [u64; LIMBS], b: [u64; LIMBS]) -> ([u64; LIMBS], bool) {
    let mut borrow = false;
    let difference = std::array::from_fn(|limb| {
        let (once, first) = a[limb].overflowing_sub(b[limb]);
        let (twice, second) = once.overflowing_sub(u64::from(borrow));
        borrow = first || second;
        twice
    });
    (difference, borrow)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ethnum::U256;
    use proptest::prelude::*;

    fn number(bytes: &[u8]) -> U256 {
        let mut padded = [0; 32];
        padded[..bytes.len()].copy_from_slice(bytes);
        U256::from_le_bytes(padded)
    }

    fn big(element: Element) -> U256 {
        number(&element.to_bytes())
    }

    fn prime() -> U256 {
        (U256::ONE << 191) - 19u128
    }

    /// The product by doubling and adding.
    fn product(a: U256, b: U256) -> U256 {
        let (a, b) = (a % prime(), b % prime());
        (0..192).rev().fold(U256::ZERO, |sum, bit| {
            let double = (sum + sum) % prime();
            if (b >> bit) & 1u128 == 1u128 {
                (double + a) % prime()
            } else {
                double
            }
        })
    }

    /// Limbs at the ends of their range, and any others.
    fn limb() -> impl Strategy<Value = u64> {
        prop_oneof![
            Just(0),
            Just(1),
            Just(u64::MAX),
            Just(u64::MAX - 18),
            Just(1 << 63),
            any::<u64>()
        ]
    }

    fn element() -> impl Strategy<Value = Element> {
        [limb(), limb(), limb()].prop_map(Element)
    }

    fn raw(element: Element) -> U256 {
        number(&element.0.map(u64::to_le_bytes).concat())
    }

    proptest! {
        #[test]
        fn products_are_those_of_big_numbers(a in element(), b in element()) {
            prop_assert_eq!(big(a.multiply(b)), product(raw(a), raw(b)));
            prop_assert_eq!(big(a), raw(a) % prime());
            prop_assert_eq!(a, Element(a.canonical().0));
        }

        #[test]
        fn sums_of_products_are_reduced_once(start in element(), terms in prop::collection::vec((element(), element()), 0..3)) {
            // Factors like those of coins: powers below the prime, and a word of 184 bits.
            let mut sum = Wide::from(start);
            let mut expected = raw(start) % prime();
            for (a, b) in terms {
                let mut word = b;
                word.0[2] >>= 8;
                let (a, b) = (a.canonical(), b.canonical().plus(word));
                sum.add_product(a, b);
                expected = (expected + product(raw(a), raw(b))) % prime();
            }
            prop_assert_eq!(big(sum.reduce()), expected);
        }
    }

    #[test]
    fn the_ends_of_the_range() {
        let top = Element([u64::MAX; LIMBS]);
        assert_eq!(big(top), U256::from(37u8));
        assert_eq!(big(top.multiply(top)), U256::from(37u32 * 37));
        assert_eq!(Element(PRIME), Element::ZERO);
        assert_eq!(Element(PRIME).to_bytes(), [0; Element::LENGTH]);
        // The largest sum that is ever reduced.
        let mut wide = Wide([u64::MAX; 2 * LIMBS]);
        assert_eq!(big(wide.reduce()), (U256::from(37u32) * 38 + 37) % prime());
        wide = Wide::from(Element::ONE);
        assert_eq!(big(wide.reduce()), U256::ONE);
    }
}
