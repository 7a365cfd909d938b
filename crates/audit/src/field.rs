//! Arithmetic modulo the prime 2^255 - 19.
//!
//! Values are kept below 2^256 and not always below the prime: 2^256 is 38 modulo the prime.

/// What 2^256 is modulo the prime.
const FOLD: u64 = 38;

/// The prime, lowest limb first.
const PRIME: [u64; 4] = [0xffff_ffff_ffff_ffed, u64::MAX, u64::MAX, 0x7fff_ffff_ffff_ffff];

/// A number modulo the prime: limbs of 64 bits, the lowest first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Element(pub(crate) [u64; 4]);

/// A sum of products that is not reduced yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wide([u64; 8]);

impl Element {
    pub(crate) const ZERO: Self = Self([0; 4]);

    pub(crate) const ONE: Self = Self([1, 0, 0, 0]);

    /// The number with these bytes in little endian, modulo the prime.
    pub(crate) fn from_bytes(bytes: &[u8; 32]) -> Self {
        let (limbs, _) = bytes.as_chunks::<8>();
        Self(std::array::from_fn(|limb| u64::from_le_bytes(limbs[limb])))
    }

    /// Its bytes, below the prime.
    pub(crate) fn to_bytes(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        let (limbs, _) = bytes.as_chunks_mut::<8>();
        for (bytes, limb) in limbs.iter_mut().zip(self.canonical().0) {
            *bytes = limb.to_le_bytes();
        }
        bytes
    }

    /// The same number below the prime.
    pub(crate) fn canonical(self) -> Self {
        let mut value = self;
        // 2^256 is twice the prime and 38.
        for _ in 0..2 {
            let (less, borrow) = subtract(value.0, PRIME);
            if !borrow {
                value = Self(less);
            }
        }
        value
    }

    #[inline]
    pub(crate) fn multiply(self, other: Self) -> Self {
        let mut product = Wide::from(Self::ZERO);
        product.add_product(self, other);
        product.reduce()
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
        let [a, b, c, d] = element.0;
        Self([a, b, c, d, 0, 0, 0, 0])
    }
}

impl Wide {
    /// Adds a product. The sum MUST stay below 2^512.
    #[inline]
    pub(crate) fn add_product(&mut self, a: Element, b: Element) {
        for i in 0..4 {
            let mut carry = 0;
            for j in 0..4 {
                (self.0[i + j], carry) = a.0[i].carrying_mul_add(b.0[j], self.0[i + j], carry);
            }
            for limb in &mut self.0[i + 4..] {
                let (sum, over) = limb.overflowing_add(carry);
                *limb = sum;
                carry = u64::from(over);
            }
        }
    }

    #[inline]
    pub(crate) fn reduce(self) -> Element {
        let [a, b, c, d, e, f, g, h] = self.0;
        let mut low = [a, b, c, d];
        let mut carry = 0;
        for (limb, high) in low.iter_mut().zip([e, f, g, h]) {
            (*limb, carry) = high.carrying_mul_add(FOLD, *limb, carry);
        }
        // What is above is at most 38, twice folded: after the second time nothing is above.
        for _ in 0..2 {
            carry *= FOLD;
            for limb in &mut low {
                let (sum, over) = limb.overflowing_add(carry);
                *limb = sum;
                carry = u64::from(over);
            }
        }
        Element(low)
    }
}

/// The difference, and whether it is below zero.
fn subtract(a: [u64; 4], b: [u64; 4]) -> ([u64; 4], bool) {
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

    fn big(element: Element) -> U256 {
        U256::from_le_bytes(element.to_bytes())
    }

    fn prime() -> U256 {
        (U256::ONE << 255) - 19u128
    }

    /// The product by doubling and adding.
    fn product(a: U256, b: U256) -> U256 {
        let (a, b) = (a % prime(), b % prime());
        (0..256).rev().fold(U256::ZERO, |sum, bit| {
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
        [limb(), limb(), limb(), limb()].prop_map(Element)
    }

    fn raw(element: Element) -> U256 {
        let mut bytes = [0; 32];
        for (limb, bytes) in element.0.iter().zip(bytes.as_chunks_mut::<8>().0) {
            *bytes = limb.to_le_bytes();
        }
        U256::from_le_bytes(bytes)
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
            // Factors like those of coins: a word of 248 bits, and a power below the prime.
            let mut sum = Wide::from(start);
            let mut expected = raw(start) % prime();
            for (word, power) in terms {
                let (mut word, power) = (word, power.canonical());
                word.0[3] >>= 8;
                sum.add_product(word, power);
                expected = (expected + product(raw(word), raw(power))) % prime();
            }
            prop_assert_eq!(big(sum.reduce()), expected);
        }
    }

    #[test]
    fn the_ends_of_the_range() {
        let top = Element([u64::MAX; 4]);
        assert_eq!(big(top), U256::from(37u8));
        assert_eq!(big(top.multiply(top)), U256::from(37u32 * 37));
        assert_eq!(Element(PRIME), Element::ZERO);
        assert_eq!(Element(PRIME).to_bytes(), [0; 32]);
        // The largest sum that is ever reduced.
        let mut wide = Wide([u64::MAX; 8]);
        assert_eq!(big(wide.reduce()), (U256::from(37u32) * 38 + 37) % prime());
        wide = Wide::from(Element::ONE);
        assert_eq!(big(wide.reduce()), U256::ONE);
    }
}
