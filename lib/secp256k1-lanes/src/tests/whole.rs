//! Whole batches on the vector types, the twin of AVX-IFMA among them, which no public backend
//! runs.
//!
//! How fast AVX-IFMA would be: `cargo test --release -p secp256k1-lanes -- --ignored --nocapture
//! twin`.

use crate::batch::Batch;
use crate::check::Backend;
use crate::question::{Check, Kind, Verdict};
use secp256k1::ecdsa::Signature;
use secp256k1::{All, Message, PublicKey, Secp256k1, SecretKey};

type Signed = (PublicKey, Signature, Message);

fn signed(secp: &Secp256k1<All>) -> Vec<Signed> {
    let sign = |number: u32| {
        let mut secret = [1; 32];
        secret[..4].copy_from_slice(&number.to_be_bytes());
        let message = Message::from_digest(secret);
        let secret = SecretKey::from_slice(&secret).unwrap();
        (secret.public_key(secp), secp.sign_ecdsa(&message, &secret), message)
    };
    (1..=256).map(sign).collect()
}

fn check((key, signature, message): &Signed) -> Check {
    let signature = signature.serialize_compact();
    Check {
        kind: Kind::Ecdsa,
        key: key.serialize(),
        r: signature[..32].try_into().unwrap(),
        s: signature[32..].try_into().unwrap(),
        message: *message.as_ref(),
    }
}

/// A run that is to try one backend must not try another. Hashes alone have `sha`.
#[test]
fn a_backend_that_is_named_is_taken() {
    match std::env::var("BLOCKMILL_BACKEND").as_deref() {
        Ok("sha") | Err(_) => assert_eq!(Backend::named(), None),
        Ok(name) => assert_eq!(Backend::detect().name(), name),
    }
}

/// Every third check has a bit changed, of its message, its r or its key.
#[test]
fn verdicts_of_all_vector_types() {
    let mut checks: Vec<Check> = signed(&Secp256k1::new()).iter().map(check).collect();
    for (index, check) in checks.iter_mut().enumerate().step_by(3) {
        let changed = [&mut check.message[..], &mut check.r, &mut check.key[1..]];
        let bytes = &mut *changed.into_iter().nth(index % 9 / 3).unwrap();
        bytes[index % 32] ^= 1 << (index % 8);
    }
    let mut expected = vec![Verdict::CannotTell; checks.len()];
    Batch::<u64>::default().verify(&checks, &mut expected);
    for (index, verdict) in expected.iter().enumerate() {
        let holds = if index % 3 == 0 {
            Verdict::Invalid
        } else {
            Verdict::Valid
        };
        assert_eq!(*verdict, holds, "{index}");
    }
    on_vector_types!(|W| for count in [256, 255, 48, 17, 16, 8, 5, 1] {
        let mut verdicts = vec![Verdict::CannotTell; count];
        Batch::<W>::default().verify(&checks[..count], &mut verdicts);
        assert_eq!(verdicts, expected[..count]);
    });
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "measures"]
fn twin_of_avx_ifma() {
    use crate::avx_ifma::twin::{self, Twin};
    use std::time::Instant;
    if !twin::is_available() {
        eprintln!("skipped: this machine has no AVX-512 IFMA");
        return;
    }
    let secp = Secp256k1::new();
    let signed = signed(&secp);
    let checks: Vec<Check> = signed.iter().map(check).collect();
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
