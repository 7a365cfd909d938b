//! The inverse of one number modulo p or n, by the divisions of Bernstein and Yang ("Fast
//! constant-time gcd computation and modular inversion", 2019), in the variable time that public
//! numbers allow.
//!
//! The pair (f, g) begins as (modulus, number) and ends as (1 or -1, 0). 62 steps at a time are
//! computed on the low words alone, as a matrix, which is then applied to the whole numbers, and
//! modulo the modulus to (d, e), which begins as (0, 1). At all times d and e, times the number,
//! are f and g modulo the modulus. So d is the inverse at the end, up to the sign of f.

const LIMB_MASK: u64 = (1 << 62) - 1;

/// A number with a sign, in limbs of 62 bits; only the highest is negative.
type Signed = [i64; 5];

/// An odd modulus above 2^255.
#[derive(Debug)]
pub(crate) struct Modulus {
    limbs: Signed,
    /// Its inverse modulo 2^62.
    inverse: u64,
}

const fn to_signed(number: &[u64; 4]) -> Signed {
    let [a, b, c, d] = *number;
    [
        (a & LIMB_MASK) as i64,
        ((a >> 62 | b << 2) & LIMB_MASK) as i64,
        ((b >> 60 | c << 4) & LIMB_MASK) as i64,
        ((c >> 58 | d << 6) & LIMB_MASK) as i64,
        (d >> 56) as i64,
    ]
}

fn from_signed(number: &Signed) -> [u64; 4] {
    let [a, b, c, d, e] = number.map(i64::cast_unsigned);
    [a | b << 62, b >> 2 | c << 60, c >> 4 | d << 58, d >> 6 | e << 56]
}

impl Modulus {
    pub(crate) const fn new(modulus: &[u64; 4]) -> Self {
        // Each step doubles the bits that are right; of an odd number's inverse three are right to
        // begin with.
        let mut inverse = modulus[0];
        let mut round = 0;
        while round < 5 {
            inverse = inverse.wrapping_mul(2_u64.wrapping_sub(modulus[0].wrapping_mul(inverse)));
            round += 1;
        }
        Self {
            limbs: to_signed(modulus),
            inverse: inverse & LIMB_MASK,
        }
    }

    /// The inverse of a number below the modulus; that of 0 is 0.
    pub(crate) fn invert(&self, number: &[u64; 4]) -> [u64; 4] {
        let (mut d, mut e) = ([0; 5], [1, 0, 0, 0, 0]);
        let (mut f, mut g) = (self.limbs, to_signed(number));
        let mut eta = -1;
        // It ends for every number below the modulus: 12 rounds of 62 steps suffice for 256 bits.
        while g != [0; 5] {
            let matrix;
            (eta, matrix) = steps(eta, f[0].cast_unsigned(), g[0].cast_unsigned());
            self.apply_modulo(&mut d, &mut e, &matrix);
            apply(&mut f, &mut g, &matrix);
        }
        self.normalize(d, f[4] < 0)
    }

    /// Applies a matrix over 2^62, modulo the modulus. `d` and `e` stay between minus twice and
    /// once the modulus.
    fn apply_modulo(&self, d: &mut Signed, e: &mut Signed, matrix: &Matrix) {
        let Matrix { u, v, q, r } = *matrix;
        // Multiples of the modulus that make up for negative numbers, and then those that clear the
        // low 62 bits.
        let (d_sign, e_sign) = (d[4] >> 63, e[4] >> 63);
        let mut d_times = (u & d_sign) + (v & e_sign);
        let mut e_times = (q & d_sign) + (r & e_sign);
        let product = |a: i64, b: i64| i128::from(a) * i128::from(b);
        let mut d_carry = product(u, d[0]) + product(v, e[0]);
        // Both fit 128 bits: the entries of a row of the matrix come to 2^62 at most.
        let mut e_carry = product(q, d[0]) + product(r, e[0]);
        let clearing = |carry: i128, times: i64| {
            let low = self
                .inverse
                .wrapping_mul(carry as u64)
                .wrapping_add(times.cast_unsigned());
            times.wrapping_sub((low & LIMB_MASK).cast_signed())
        };
        d_times = clearing(d_carry, d_times);
        e_times = clearing(e_carry, e_times);
        // The low 62 bits are 0 now, so the division by 2^62 is exact.
        d_carry = (d_carry + product(self.limbs[0], d_times)) >> 62;
        e_carry = (e_carry + product(self.limbs[0], e_times)) >> 62;
        for k in 1..5 {
            d_carry += product(u, d[k]) + product(v, e[k]) + product(self.limbs[k], d_times);
            e_carry += product(q, d[k]) + product(r, e[k]) + product(self.limbs[k], e_times);
            d[k - 1] = (d_carry as u64 & LIMB_MASK).cast_signed();
            e[k - 1] = (e_carry as u64 & LIMB_MASK).cast_signed();
            d_carry >>= 62;
            e_carry >>= 62;
        }
        d[4] = d_carry as i64;
        e[4] = e_carry as i64;
    }

    /// A number between minus twice and once the modulus, perhaps negated, to one from 0.
    fn normalize(&self, mut number: Signed, negate: bool) -> [u64; 4] {
        if number[4] < 0 {
            self.add_to(&mut number);
        }
        if negate {
            number = number.map(|limb| -limb);
            propagate(&mut number);
        }
        while number[4] < 0 {
            self.add_to(&mut number);
        }
        from_signed(&number)
    }

    fn add_to(&self, number: &mut Signed) {
        for (limb, modulus) in number.iter_mut().zip(self.limbs) {
            *limb += modulus;
        }
        propagate(number);
    }
}

fn propagate(number: &mut Signed) {
    for k in 0..4 {
        number[k + 1] += number[k] >> 62;
        number[k] &= LIMB_MASK.cast_signed();
    }
}

/// 2^62 times what 62 steps do to a pair.
#[derive(Debug, Clone, Copy)]
struct Matrix {
    u: i64,
    v: i64,
    q: i64,
    r: i64,
}

/// 62 steps on the low bits of f and g. `eta` is minus the difference of their lengths, as
/// Bernstein and Yang count it.
fn steps(mut eta: i64, f: u64, g: u64) -> (i64, Matrix) {
    let (mut u, mut v, mut q, mut r) = (1_u64, 0_u64, 0_u64, 1_u64);
    let (mut f, mut g) = (f, g);
    let mut left = 62;
    loop {
        // An even g is halved; no more than the steps that are left.
        let zeros = (g | u64::MAX << left).trailing_zeros();
        g >>= zeros;
        u <<= zeros;
        v <<= zeros;
        eta -= i64::from(zeros);
        left -= zeros;
        if left == 0 {
            break;
        }
        // Both are odd: a multiple of f clears low bits of g, of as many steps as do not swap, and
        // of 6 at most.
        if eta < 0 {
            eta = -eta;
            (f, g) = (g, f.wrapping_neg());
            (u, q) = (q, u.wrapping_neg());
            (v, r) = (r, v.wrapping_neg());
        }
        let bits = (eta + 1).min(left.into()).min(6) as u32;
        // f (2 - f^2) is the inverse of f modulo 64.
        let inverse = f.wrapping_mul(2_u64.wrapping_sub(f.wrapping_mul(f)));
        let times = inverse.wrapping_mul(g).wrapping_neg() & ((1 << bits) - 1);
        g = g.wrapping_add(f.wrapping_mul(times));
        q = q.wrapping_add(u.wrapping_mul(times));
        r = r.wrapping_add(v.wrapping_mul(times));
    }
    let [u, v, q, r] = [u, v, q, r].map(u64::cast_signed);
    (eta, Matrix { u, v, q, r })
}

/// Applies a matrix over 2^62, which divides exactly.
fn apply(f: &mut Signed, g: &mut Signed, matrix: &Matrix) {
    let Matrix { u, v, q, r } = *matrix;
    let product = |a: i64, b: i64| i128::from(a) * i128::from(b);
    // The steps were chosen for these low limbs: what is shifted out is 0.
    let mut f_carry = (product(u, f[0]) + product(v, g[0])) >> 62;
    let mut g_carry = (product(q, f[0]) + product(r, g[0])) >> 62;
    for k in 1..5 {
        f_carry += product(u, f[k]) + product(v, g[k]);
        g_carry += product(q, f[k]) + product(r, g[k]);
        f[k - 1] = (f_carry as u64 & LIMB_MASK).cast_signed();
        g[k - 1] = (g_carry as u64 & LIMB_MASK).cast_signed();
        f_carry >>= 62;
        g_carry >>= 62;
    }
    f[4] = f_carry as i64;
    g[4] = g_carry as i64;
}
