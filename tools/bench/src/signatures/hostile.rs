//! Inputs that cost a deferring verifier more than an ordinary one.
//!
//! All of them pass. A script with a wrong signature has `NOT` after the check, or drops its
//! answer.

use super::forge::{Forge, Signed, push};
use super::work::{Transaction, Way, Work};
use super::{HOSTILE, Plan, counted, ours};
use blockmill_chaingen::bitcoin::secp256k1::SecretKey;
use blockmill_harness::{Clock, Contender, Failure, Progress, Row, Turns};

const ONE: u8 = 0x51;
const IF: u8 = 0x63;
const ENDIF: u8 = 0x68;
const VERIFY: u8 = 0x69;
const DROP_TWO: u8 = 0x6d;
const DUPLICATE_TWO: u8 = 0x6e;
const DROP: u8 = 0x75;
const NOT: u8 = 0x91;
const CODESEPARATOR: u8 = 0xab;
const CHECKSIG: u8 = 0xac;
const CHECKMULTISIG: u8 = 0xae;

/// Checks in a script, within the limit of 201 opcodes.
const CHECKS: usize = 64;

/// A way to make hostile transactions: a name, the number of different ones, and passes of a full
/// run over them. An ordinary run of all passes takes half a second or more. A verifier wastes some
/// time before it adapts. That time is bounded over the verifier's life.
type Scenario = (&'static str, usize, usize, fn(&mut Forge) -> Transaction);

const SCENARIOS: [Scenario; 13] = [
    ("64 checks after a wrong one, 1 MB", 2, 250, |forge| {
        separators(forge, 1, 980_000)
    }),
    ("64 checks after a wrong one, 95 kB", 10, 320, |forge| {
        separators(forge, 1, 87_000)
    }),
    ("64 checks after a wrong one, 13 inputs", 10, 80, |forge| {
        separators(forge, 13, 0)
    }),
    ("66 wrong signatures in a row", 4, 5, wrong_in_a_row),
    ("r = 1, all", 2, 7, |forge| poison(forge, 1, Forge::small_r, false)),
    ("r = 1, one in 16", 2, 7, |forge| {
        poison(forge, 16, Forge::small_r, false)
    }),
    ("sum at infinity, all", 2, 7, |forge| {
        poison(forge, 1, Forge::infinity, true)
    }),
    ("sum at infinity, one in 16", 2, 7, |forge| {
        poison(forge, 16, Forge::infinity, true)
    }),
    ("66 checks in each bare script", 1, 10, many_records),
    ("1 of 3 keys, the last one tried", 3, 20, |forge| {
        one_of_three(forge, |_| 0)
    }),
    ("1 of 3 keys, each in its turn", 3, 6, |forge| {
        one_of_three(forge, |input| input % 3)
    }),
    ("legacy inputs, 230 kB", 3, 9, |forge| large(forge, 210_000, true)),
    ("wrong signatures, 95 kB", 3, 17, |forge| large(forge, 75_000, false)),
];

/// The rows of all scenarios.
pub(super) fn rows(plan: Plan, progress: Progress<'_>) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for (name, transactions, passes, make) in SCENARIOS {
        // Each scenario has the same keys, whatever ran before it.
        let mut forge = Forge::new();
        let work = Work {
            transactions: (0..transactions).map(|_| make(&mut forge)).collect(),
            passes: (passes * plan.hostile_tenths / 10).max(1),
        };
        let row = |way: &str| Row::new(HOSTILE).with("what", name).with("who", way);
        // A verifier adapts to the cost of deferring, so each run has a new one.
        let ordinary = || work.time(&ours(), Way::Ordinary, name);
        let deferring = || {
            let verifier = ours();
            counted(&verifier, || work.time(&verifier, Way::Deferring, name))
        };
        let contenders = vec![
            Contender::new("ordinary", row("ordinary"), ordinary),
            Contender::new("deferred", row("deferred"), deferring).beside_ours("ordinary"),
        ];
        let turns = Turns::new(plan.runs).by(Clock::Cpu);
        rows.extend(turns.take(&format!("hostile, {name}"), contenders, progress)?);
    }
    Ok(rows)
}

/// An ordinary run ends at the first signature, which is wrong. A run that assumes it valid needs
/// one more hash for each of the others: each has another code separator before it.
fn separators(forge: &mut Forge, inputs: usize, padding: usize) -> Transaction {
    let each = [CODESEPARATOR, CHECKSIG, DROP].repeat(CHECKS);
    let lock = [&[CHECKSIG, IF], &each[..], &[ENDIF, ONE]].concat();
    forge.spend(vec![lock; inputs], padding, &mut |forge, _, _| {
        wrong_ones(forge, 1 + CHECKS)
    })
}

/// Every signature must be wrong. A run that assumes the first valid ends there, and so finds only
/// one wrong signature.
fn wrong_in_a_row(forge: &mut Forge) -> Transaction {
    const WRONG: usize = 66;
    const INPUTS: usize = 12;
    let lock = [[CHECKSIG, NOT, VERIFY].repeat(WRONG), vec![ONE]].concat();
    forge.spend(vec![lock; INPUTS], 0, &mut |forge, _, _| wrong_ones(forge, WRONG))
}

fn wrong_ones(forge: &mut Forge, count: usize) -> Vec<u8> {
    (0..count).flat_map(|_| forge.wrong().pushed()).collect()
}

/// One signature in `every` is of a kind that lanes may fail to tell. Lanes that share an
/// inversion with it fail too. `inverted` if these signatures are invalid.
fn poison(forge: &mut Forge, every: usize, sign: fn(&mut Forge, [u8; 32]) -> Signed, inverted: bool) -> Transaction {
    const INPUTS: usize = 640;
    let is_poison = |input: usize| input.is_multiple_of(every);
    let lock = |input| {
        if inverted && is_poison(input) {
            vec![CHECKSIG, NOT]
        } else {
            vec![CHECKSIG]
        }
    };
    forge.spend((0..INPUTS).map(lock).collect(), 0, &mut |forge, input, hash| {
        let signed = if is_poison(input) {
            sign(forge, hash())
        } else {
            forge.valid(hash())
        };
        signed.pushed()
    })
}

/// Many deferred checks from few bytes. The signatures of every second input are wrong.
fn many_records(forge: &mut Forge) -> Transaction {
    const RECORDS: usize = 66;
    const INPUTS: usize = 160;
    let each = [DUPLICATE_TWO, CHECKSIG, DROP].repeat(RECORDS);
    let lock = [each, vec![DROP_TWO, ONE]].concat();
    forge.spend(vec![lock; INPUTS], 0, &mut |forge, input, hash| {
        let signed = if input % 2 == 0 {
            forge.valid(hash())
        } else {
            forge.wrong()
        };
        signed.pushed()
    })
}

/// `CHECKMULTISIG` tries the keys from the last to the first. A first run guesses the signer from
/// earlier signers.
fn one_of_three(forge: &mut Forge, signer: fn(usize) -> usize) -> Transaction {
    const INPUTS: usize = 300;
    const THREE: u8 = 0x53;
    let secrets: Vec<_> = (0..INPUTS)
        .map(|_| [forge.secret(), forge.secret(), forge.secret()])
        .collect();
    let lock = |secrets: &[SecretKey; 3]| {
        let keys: Vec<u8> = secrets.iter().flat_map(|secret| push(&forge.key(secret))).collect();
        [&[ONE], &keys[..], &[THREE, CHECKMULTISIG]].concat()
    };
    let locks = secrets.iter().map(lock).collect();
    forge.spend(locks, 0, &mut |forge, input, hash| {
        let signed = forge.sign(&secrets[input][signer(input)], hash());
        [vec![0], push(&signed.signature)].concat()
    })
}

/// Legacy inputs of a large transaction. Each input hashes the whole transaction, and a second run
/// hashes it again.
fn large(forge: &mut Forge, padding: usize, valid: bool) -> Transaction {
    const INPUTS: usize = 130;
    let lock = if valid { vec![CHECKSIG] } else { vec![CHECKSIG, NOT] };
    forge.spend(vec![lock; INPUTS], padding, &mut |forge, _, hash| {
        let signed = if valid { forge.valid(hash()) } else { forge.wrong() };
        signed.pushed()
    })
}
