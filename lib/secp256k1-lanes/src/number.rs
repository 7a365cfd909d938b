//! Plain numbers of 256 bits, four times 64, the lowest first.

/// A number of 256 bits.
pub(crate) type Number = [u64; 4];

/// p, the modulus of coordinates.
pub(crate) const P: Number = [0xFFFF_FFFE_FFFF_FC2F, u64::MAX, u64::MAX, u64::MAX];

/// n, the order of the group.
pub(crate) const N: Number = [
    0xBFD2_5E8C_D036_4141,
    0xBAAE_DCE6_AF48_A03B,
    0xFFFF_FFFF_FFFF_FFFE,
    u64::MAX,
];

/// The largest s of an ECDSA signature: half of n, rounded down.
pub(crate) const N_HALF: Number = [
    0xDFE9_2F46_681B_20A0,
    0x5D57_6E73_57A4_501D,
    u64::MAX,
    0x7FFF_FFFF_FFFF_FFFF,
];

/// p - n. An r below it may stand for two x coordinates.
pub(crate) const P_MINUS_N: Number = subtract(&P, &N);

/// The number with these bytes in big endian.
#[inline]
pub(crate) fn from_bytes(bytes: &[u8; 32]) -> Number {
    let mut number = [0; 4];
    for (limb, bytes) in number.iter_mut().rev().zip(bytes.chunks_exact(8)) {
        *limb = u64::from_be_bytes(bytes.try_into().unwrap_or_default());
    }
    number
}

/// The bytes of a number in big endian.
pub(crate) fn to_bytes(number: &Number) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (bytes, limb) in bytes.chunks_exact_mut(8).zip(number.iter().rev()) {
        bytes.copy_from_slice(&limb.to_be_bytes());
    }
    bytes
}

/// Whether `a < b`.
#[inline]
pub(crate) const fn is_below(a: &Number, b: &Number) -> bool {
    let mut k = 4;
    while k > 0 {
        k -= 1;
        if a[k] != b[k] {
            return a[k] < b[k];
        }
    }
    false
}

/// `a - b`, modulo 2^256.
pub(crate) const fn subtract(a: &Number, b: &Number) -> Number {
    let mut difference = [0; 4];
    let mut borrow = false;
    let mut k = 0;
    while k < 4 {
        let (limb, below) = a[k].overflowing_sub(b[k]);
        let (limb, below_too) = limb.overflowing_sub(borrow as u64);
        difference[k] = limb;
        borrow = below | below_too;
        k += 1;
    }
    difference
}

/// 2^`exponent` modulo n.
pub(crate) const fn power_of_two_modulo_n(exponent: u32) -> Number {
    let mut power = [1, 0, 0, 0];
    let mut done = 0;
    while done < exponent {
        let carry = power[3] >> 63 == 1;
        power = [
            power[0] << 1,
            power[1] << 1 | power[0] >> 63,
            power[2] << 1 | power[1] >> 63,
            power[3] << 1 | power[2] >> 63,
        ];
        if carry || !is_below(&power, &N) {
            power = subtract(&power, &N);
        }
        done += 1;
    }
    power
}

/// The five limbs of 52 bits of a number.
pub(crate) const fn limbs(number: &Number) -> [u64; 5] {
    const MASK: u64 = crate::word::LIMB_MASK;
    let [a, b, c, d] = *number;
    [
        a & MASK,
        (a >> 52 | b << 12) & MASK,
        (b >> 40 | c << 24) & MASK,
        (c >> 28 | d << 36) & MASK,
        d >> 16,
    ]
}
