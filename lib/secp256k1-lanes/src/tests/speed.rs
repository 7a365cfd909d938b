//! How fast AVX-IFMA would be, measured with its twin: `cargo test --release -- --ignored --nocapture twin`.

use crate::avx_ifma::twin::{self, Twin};
use crate::batch::Batch;
use crate::check::{Check, Kind, Verdict};
use secp256k1::ecdsa::Signature;
use secp256k1::{Message, PublicKey, Secp256k1, SecretKey};
use std::time::Instant;

#[test]
#[ignore = "measures"]
fn twin_of_avx_ifma() {
    if !twin::is_available() {
        eprintln!("skipped: no IFMA here");
        return;
    }
    let secp = Secp256k1::new();
    let signed: Vec<(PublicKey, Signature, Message)> = (1..=256_u32)
        .map(|number| {
            let mut secret = [1; 32];
            secret[..4].copy_from_slice(&number.to_be_bytes());
            let message = Message::from_digest(secret);
            let secret = SecretKey::from_slice(&secret).unwrap();
            (secret.public_key(&secp), secp.sign_ecdsa(&message, &secret), message)
        })
        .collect();
    let checks: Vec<Check> = signed
        .iter()
        .map(|(key, signature, message)| {
            let signature = signature.serialize_compact();
            Check {
                kind: Kind::Ecdsa,
                key: key.serialize(),
                r: signature[..32].try_into().unwrap(),
                s: signature[32..].try_into().unwrap(),
                message: *message.as_ref(),
            }
        })
        .collect();
    let mut batch = Batch::<Twin>::default();
    let mut verdicts = [Verdict::Invalid; 256];
    let [mut ours, mut theirs] = [f64::MAX; 2];
    for _ in 0..60 {
        let start = Instant::now();
        batch.verify(&checks, &mut verdicts);
        ours = ours.min(start.elapsed().as_secs_f64());
        assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Valid));
        let start = Instant::now();
        for (key, signature, message) in &signed {
            // Keys and signatures are read again, as the lanes do.
            let key = PublicKey::from_slice(&key.serialize()).unwrap();
            let signature = Signature::from_compact(&signature.serialize_compact()).unwrap();
            assert!(secp.verify_ecdsa(message, &signature, &key).is_ok());
        }
        theirs = theirs.min(start.elapsed().as_secs_f64());
    }
    eprintln!(
        "twin of AVX-IFMA: {:.2} us, libsecp256k1 {:.2} us, ratio {:.2}",
        ours * 1e6 / 256.0,
        theirs * 1e6 / 256.0,
        theirs / ours
    );
}
