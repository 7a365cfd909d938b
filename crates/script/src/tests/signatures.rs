//! Signatures alone, without scripts.

use super::lanes::{Lie, verifier_with};
use crate::{Check, CoreVerifier, Kind, Signatures};
use bitcoin::secp256k1::{Keypair, Message, Secp256k1};

/// Signatures of both kinds; every third one is wrong.
fn checks(count: u8) -> (Vec<Check>, Vec<bool>) {
    let secp = Secp256k1::new();
    let check = |number: u8| {
        let pair = Keypair::from_seckey_slice(&secp, &[number + 1; 32]).unwrap();
        let message = Message::from_digest([number; 32]);
        let ecdsa = number.is_multiple_of(2);
        let signature = match ecdsa {
            true => secp.sign_ecdsa(&message, &pair.secret_key()).serialize_compact(),
            false => *secp.sign_schnorr_no_aux_rand(&message, &pair).as_ref(),
        };
        let mut key = pair.public_key().serialize();
        if !ecdsa {
            key[1..].copy_from_slice(&pair.x_only_public_key().0.serialize());
        }
        let holds = !number.is_multiple_of(3);
        let check = Check {
            kind: if ecdsa { Kind::Ecdsa } else { Kind::Schnorr },
            key,
            r: signature[..32].try_into().unwrap(),
            s: signature[32..].try_into().unwrap(),
            message: [number + u8::from(!holds); 32],
        };
        (check, holds)
    };
    (0..count).map(check).unzip()
}

#[test]
fn hold_or_not_whatever_the_way() {
    let (all, holds) = checks(200);
    for verifier in [
        CoreVerifier::new(Signatures::OneByOne),
        CoreVerifier::new(Signatures::Lanes),
        verifier_with(Lie::Never),
        verifier_with(Lie::CannotTell),
    ] {
        for count in [0, 1, 31, 200] {
            let found = verifier.verify_signatures(&all[..count]).unwrap();
            assert_eq!(found, holds[..count]);
        }
    }
}

/// A contradiction ends everything.
#[test]
fn lanes_that_lie() {
    let (all, _) = checks(200);
    let verifier = verifier_with(Lie::Valid);
    let found = (0..1_000).find_map(|_| verifier.verify_signatures(&all).err());
    assert!(found.is_some());
    assert!(verifier.verify_signatures(&all[..1]).is_err());
}
