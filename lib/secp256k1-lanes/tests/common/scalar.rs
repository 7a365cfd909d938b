//! Arithmetic modulo n, the order of the group. It shares no code with the crate under test.

use secp256k1::SecretKey;
use std::cmp::Ordering;
use std::ops::{Add, Mul, Neg, Sub};

/// A number of 256 bits, lowest limb first.
type Limbs = [u64; 4];

pub(crate) const N: Limbs = [
    0xBFD2_5E8C_D036_4141,
    0xBAAE_DCE6_AF48_A03B,
    0xFFFF_FFFF_FFFF_FFFE,
    u64::MAX,
];

/// 2^256 - n.
const FOLD: Limbs = [0x402D_A173_2FC9_BEBF, 0x4551_2319_50B7_5FC4, 1, 0];

/// A number below n.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Scalar(Limbs);

fn compare(a: &Limbs, b: &Limbs) -> Ordering {
    a.iter().rev().cmp(b.iter().rev())
}

/// The sum modulo 2^256, and the carry.
fn add(a: &Limbs, b: &Limbs) -> (Limbs, bool) {
    let mut sum = [0; 4];
    let mut carry = 0;
    for i in 0..4 {
        let wide = u128::from(a[i]) + u128::from(b[i]) + carry;
        sum[i] = wide as u64;
        carry = wide >> 64;
    }
    (sum, carry == 1)
}

/// The difference modulo 2^256.
fn subtract(a: &Limbs, b: &Limbs) -> Limbs {
    add(&add(a, &b.map(|limb| !limb)).0, &[1, 0, 0, 0]).0
}

/// `low + high * FOLD`, as 512 bits.
fn fold(wide: &[u64; 8]) -> [u64; 8] {
    let mut sum = [wide[0], wide[1], wide[2], wide[3], 0, 0, 0, 0];
    for i in 0..4 {
        let mut carry = 0;
        for j in 0..3 {
            let next = u128::from(wide[4 + i]) * u128::from(FOLD[j]) + u128::from(sum[i + j]) + carry;
            sum[i + j] = next as u64;
            carry = next >> 64;
        }
        let mut index = i + 3;
        while carry != 0 {
            let next = u128::from(sum[index]) + carry;
            sum[index] = next as u64;
            carry = next >> 64;
            index += 1;
        }
    }
    sum
}

impl Scalar {
    pub(crate) const ZERO: Self = Self([0; 4]);
    pub(crate) const ONE: Self = Self([1, 0, 0, 0]);
    /// The scalar that maps (x, y) to (beta x, y).
    pub(crate) const LAMBDA: Self = Self([
        0xDF02_967C_1B23_BD72,
        0x122E_22EA_2081_6678,
        0xA526_1C02_8812_645A,
        0x5363_AD4C_C05C_30E0,
    ]);

    /// The number modulo n.
    pub(crate) fn new(limbs: Limbs) -> Self {
        if compare(&limbs, &N).is_lt() {
            Self(limbs)
        } else {
            Self(subtract(&limbs, &N))
        }
    }

    /// The number in big endian, modulo n.
    pub(crate) fn from_bytes(bytes: &[u8; 32]) -> Self {
        let mut limbs = [0; 4];
        for (limb, bytes) in limbs.iter_mut().rev().zip(bytes.chunks_exact(8)) {
            *limb = u64::from_be_bytes(bytes.try_into().unwrap());
        }
        Self::new(limbs)
    }

    pub(crate) fn bytes(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (limb, bytes) in self.0.iter().rev().zip(bytes.chunks_exact_mut(8)) {
            bytes.copy_from_slice(&limb.to_be_bytes());
        }
        bytes
    }

    pub(crate) fn small(value: i64) -> Self {
        let magnitude = Self([value.unsigned_abs(), 0, 0, 0]);
        if value < 0 { -magnitude } else { magnitude }
    }

    pub(crate) fn is_zero(self) -> bool {
        self == Self::ZERO
    }

    /// Whether the number is above n / 2.
    pub(crate) fn is_high(self) -> bool {
        compare(&self.0, &(-self).0).is_gt()
    }

    /// The number or its negative, whichever is low.
    pub(crate) fn low(self) -> Self {
        if self.is_high() { -self } else { self }
    }

    /// 1 / `self`. The inverse of 0 is 0.
    pub(crate) fn invert(self) -> Self {
        // By Fermat's little theorem: self^(n - 2).
        let exponent = subtract(&N, &[2, 0, 0, 0]);
        let mut power = Self::ONE;
        for bit in (0..256).rev() {
            power = power * power;
            if exponent[bit / 64] >> (bit % 64) & 1 == 1 {
                power = power * self;
            }
        }
        power
    }

    /// Not for 0.
    pub(crate) fn secret(self) -> SecretKey {
        SecretKey::from_slice(&self.bytes()).unwrap()
    }
}

impl Add for Scalar {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        let (sum, carry) = add(&self.0, &other.0);
        // Both are below n, so one subtraction is enough.
        if carry {
            Self(subtract(&sum, &N))
        } else {
            Self::new(sum)
        }
    }
}

impl Neg for Scalar {
    type Output = Self;
    fn neg(self) -> Self {
        if self.is_zero() {
            self
        } else {
            Self(subtract(&N, &self.0))
        }
    }
}

impl Sub for Scalar {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl Mul for Scalar {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        let mut wide = [0; 8];
        for i in 0..4 {
            let mut carry = 0;
            for j in 0..4 {
                let next = u128::from(self.0[i]) * u128::from(other.0[j]) + u128::from(wide[i + j]) + carry;
                wide[i + j] = next as u64;
                carry = next >> 64;
            }
            wide[i + 4] = carry as u64;
        }
        // 2^256 is FOLD modulo n. The part above 256 bits has 256 bits, then 130, then 4, then
        // none.
        while wide[4..] != [0; 4] {
            wide = fold(&wide);
        }
        Self::new([wide[0], wide[1], wide[2], wide[3]])
    }
}
