//! Many secp256k1 signatures verified at once, in the lanes of vector registers.

mod batch;
mod check;
mod curve;
mod fault;
mod field;
mod inverse;
mod multiply;
mod number;
mod point;
mod portable;
mod scalar;
mod word;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx_ifma;
#[cfg(target_arch = "x86_64")]
mod four;

pub use check::{BATCH, Backend, Check, Kind, Verdict, Verifier};

#[cfg(test)]
mod tests;
