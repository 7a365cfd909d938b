//! The test vectors of BIP340 with messages of 32 bytes: its numbers 0 to 14.

use crate::common::known::key;
use crate::common::{self, Rng, backends, hex, reference, sum_is_special, valid};
use secp256k1::Secp256k1;
use secp256k1_lanes::{Check, Kind, Verdict, Verifier};

struct Vector {
    key: &'static str,
    message: &'static str,
    r: &'static str,
    s: &'static str,
    holds: bool,
}

const KEY: &str = "DFF1D77F2A671C5F36183726DB2341BE58FEAE1DA2DECED843240F7B502BA659";
const MESSAGE: &str = "243F6A8885A308D313198A2E03707344A4093822299F31D0082EFA98EC4E6C89";
const R: &str = "6CFF5C3BA86C69EA4B7376F31A9BCB4F74C1976089B2D9963DA2E5543E177769";
const S: &str = "69E89B4C5564D00349106B8497785DD7D1D713A8AE82B32FA79D5F7FC407D39B";

/// A vector with the key and the message of most vectors, that does not hold.
const fn broken(r: &'static str, s: &'static str) -> Vector {
    Vector {
        key: KEY,
        message: MESSAGE,
        r,
        s,
        holds: false,
    }
}

const VECTORS: [Vector; 15] = [
    Vector {
        key: "F9308A019258C31049344F85F89D5229B531C845836F99B08601F113BCE036F9",
        message: "0000000000000000000000000000000000000000000000000000000000000000",
        r: "E907831F80848D1069A5371B402410364BDF1C5F8307B0084C55F1CE2DCA8215",
        s: "25F66A4A85EA8B71E482A74F382D2CE5EBEEE8FDB2172F477DF4900D310536C0",
        holds: true,
    },
    Vector {
        key: KEY,
        message: MESSAGE,
        r: "6896BD60EEAE296DB48A229FF71DFE071BDE413E6D43F917DC8DCF8C78DE3341",
        s: "8906D11AC976ABCCB20B091292BFF4EA897EFCB639EA871CFA95F6DE339E4B0A",
        holds: true,
    },
    Vector {
        key: "DD308AFEC5777E13121FA72B9CC1B7CC0139715309B086C960E18FD969774EB8",
        message: "7E2D58D8B3BCDF1ABADEC7829054F90DDA9805AAB56C77333024B9D0A508B75C",
        r: "5831AAEED7B44BB74E5EAB94BA9D4294C49BCF2A60728D8B4C200F50DD313C1B",
        s: "AB745879A5AD954A72C45A91C3A51D3C7ADEA98D82F8481E0E1E03674A6F3FB7",
        holds: true,
    },
    // Fails if the message is reduced modulo p or n.
    Vector {
        key: "25D1DFF95105F5253C4022F628A996AD3A0D95FBF21D468A1B33F8C160D8F517",
        message: "FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF",
        r: "7EB0509757E246F19449885651611CB965ECC1A187DD51B64FDA1EDC9637D5EC",
        s: "97582B9CB13DB3933705B32BA982AF5AF25FD78881EBB32771FC5922EFC66EA3",
        holds: true,
    },
    Vector {
        key: "D69C3509BB99E412E68B0FE8544E72837DFA30746D8BE2AA65975F29D22DC7B9",
        message: "4DF3C3F68FCC83B27E9D42C90431A72499F17875C81A599B566C9889B9696703",
        r: "00000000000000000000003B78CE563F89A0ED9414F5AA28AD0D96D6795F9C63",
        s: "76AFB1548AF603B3EB45C9F8207DEE1060CB71C04E80F593060B07D28308D7F4",
        holds: true,
    },
    // The key is no point.
    Vector {
        key: "EEFDEA4CDB677750A420FEE807EACF21EB9898AE79B9768766E4FAA04A2D4A34",
        message: MESSAGE,
        r: R,
        s: S,
        holds: false,
    },
    // The result has an odd y.
    broken(
        "FFF97BD5755EEEA420453A14355235D382F6472F8568A18B2F057A1460297556",
        "3CC27944640AC607CD107AE10923D9EF7A73C643E166BE5EBEAFA34B1AC553E2",
    ),
    // The message is negated.
    broken(
        "1FA62E331EDBC21C394792D2AB1100A7B432B013DF3F6FF4F99FCB33E0E1515F",
        "28890B3EDB6E7189B630448B515CE4F8622A954CFE545735AAEA5134FCCDB2BD",
    ),
    // s is negated.
    broken(R, "961764B3AA9B2FFCB6EF947B6887A226E8D7C93E00C5ED0C1834FF0D0C2E6DA6"),
    // The result is infinity; r is 0, and 1.
    broken(
        "0000000000000000000000000000000000000000000000000000000000000000",
        "123DDA8328AF9C23A94C1FEECFD123BA4FB73476F0D594DCB65C6425BD186051",
    ),
    broken(
        "0000000000000000000000000000000000000000000000000000000000000001",
        "7615FBAF5AE28864013C099742DEADB4DBA87F11AC6754F93780D5A1837CF197",
    ),
    // r is the x coordinate of no point.
    broken("4A298DACAE57395A15D0795DDBFD1DCB564DA82B0F269BC70A74F8220429BA1D", S),
    // r is p.
    broken("FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEFFFFFC2F", S),
    // s is n.
    broken(R, "FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141"),
    // The key is p + 1.
    Vector {
        key: "FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEFFFFFC30",
        message: MESSAGE,
        r: R,
        s: S,
        holds: false,
    },
];

fn check(vector: &Vector, prefix: u8) -> Check {
    Check {
        kind: Kind::Schnorr,
        key: key(prefix, &hex(vector.key)),
        r: hex(vector.r),
        s: hex(vector.s),
        message: hex(vector.message),
    }
}

fn assert_right(verdict: Verdict, check: &Check, holds: bool) {
    match verdict {
        Verdict::CannotTell => assert!(sum_is_special(check), "{check:?}"),
        verdict => assert_eq!(verdict == Verdict::Valid, holds, "{check:?}"),
    }
}

/// The prefix of the key means nothing.
const PREFIXES: [u8; 4] = [2, 3, 0, 0xff];

#[test]
fn each_alone() {
    let secp = Secp256k1::verification_only();
    for backend in backends() {
        let mut verifier = Verifier::with_backend(backend);
        let mut verdicts = Vec::new();
        let mut unsure = 0;
        for vector in &VECTORS {
            for prefix in PREFIXES {
                let check = check(vector, prefix);
                verifier.verify(&[check], &mut verdicts);
                let [verdict] = verdicts[..] else {
                    panic!("{} verdicts", verdicts.len())
                };
                assert_eq!(reference(&secp, &check), vector.holds);
                assert_right(verdict, &check, vector.holds);
                unsure += usize::from(verdict == Verdict::CannotTell);
            }
        }
        // Two vectors have a result at infinity.
        assert!(unsure <= 2 * PREFIXES.len(), "{unsure}");
    }
}

#[test]
fn all_in_one_batch_with_others() {
    for backend in backends() {
        let mut verifier = Verifier::with_backend(backend);
        let mut dice = Rng(21);
        for prefix in PREFIXES {
            // Vectors alone, and between valid checks of all kinds.
            for others in [0, 1, 8, 12] {
                let mut batch = Vec::new();
                for vector in &VECTORS {
                    batch.push((check(vector, prefix), vector.holds));
                    for _ in 0..others {
                        let kind = common::kind(&mut dice);
                        batch.push((valid(kind, &mut dice), true));
                    }
                }
                let checks: Vec<Check> = batch.iter().map(|(check, _)| *check).collect();
                let mut verdicts = Vec::new();
                verifier.verify(&checks, &mut verdicts);
                assert_eq!(verdicts.len(), batch.len());
                for ((check, holds), verdict) in batch.iter().zip(&verdicts) {
                    assert_right(*verdict, check, *holds);
                }
            }
        }
    }
}
