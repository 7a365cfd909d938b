//! Many secp256k1 signatures verified at once, in the lanes of vector registers.

mod check;

pub use check::{BATCH, Backend, Check, Kind, Verdict, Verifier};
