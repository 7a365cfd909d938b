//! Signs some messages, breaks one signature, and verifies all in one batch:
//! `cargo run --release -p secp256k1-lanes --example verify`.

#![allow(clippy::print_stdout, reason = "the verdicts are the output")]

use secp256k1::{Keypair, Message, Secp256k1, SecretKey};
use secp256k1_lanes::{Check, Kind, Verdict, Verifier};

/// The two numbers of a signature.
fn numbers(signature: &[u8; 64]) -> ([u8; 32], [u8; 32]) {
    let number = |first: usize| std::array::from_fn(|index| signature[first + index]);
    (number(0), number(32))
}

fn main() -> Result<(), secp256k1::Error> {
    let secp = Secp256k1::new();
    let mut checks = Vec::new();
    for number in 1..=4 {
        let secret = SecretKey::from_slice(&[number; 32])?;
        let message = [number ^ 0xff; 32];
        let digest = Message::from_digest(message);

        let (r, s) = numbers(&secp.sign_ecdsa(&digest, &secret).serialize_compact());
        checks.push(Check {
            kind: Kind::Ecdsa,
            key: secret.public_key(&secp).serialize(),
            r,
            s,
            message,
        });

        let pair = Keypair::from_secret_key(&secp, &secret);
        let (r, s) = numbers(&secp.sign_schnorr_no_aux_rand(&digest, &pair).serialize());
        checks.push(Check {
            kind: Kind::Schnorr,
            // BIP340 has no parity: any first byte will do.
            key: pair.public_key().serialize(),
            r,
            s,
            message,
        });
    }
    // Another message than the one that was signed.
    checks[5].message[0] ^= 1;

    let mut verifier = Verifier::new();
    let mut verdicts = Vec::new();
    verifier.verify(&checks, &mut verdicts);
    println!("{:?}", verifier.backend());
    for (check, verdict) in checks.iter().zip(&verdicts) {
        match verdict {
            Verdict::Valid => println!("{:?}: valid", check.kind),
            Verdict::Invalid => println!("{:?}: invalid", check.kind),
            // The lanes leave special cases to others.
            Verdict::CannotTell => println!("{:?}: ask libsecp256k1", check.kind),
        }
    }
    Ok(())
}
