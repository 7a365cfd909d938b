//! Random scripts, with a random oracle instead of the curve.
//!
//! If all answers of a run are right, it is the ordinary run: result, error and stack. If a
//! recording run passes whose "valid" answers are right, whatever its "invalid" answers are, the
//! ordinary run passes with the same stack.

use super::cases;
use super::random::Random;
use crate::ffi::eval::{Evaluated, eval};
use crate::ffi::{Answer, Answers};
use crate::guesses::Guesses;
use crate::recorder::{Known, NULLFAIL, Recorder, reserve};
use bitcoin::key::Secp256k1;
use secp256k1_lanes::{Check, Verdict};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Answers that look random, and are always the same for the same check.
#[derive(Clone, Copy)]
struct Oracle {
    salt: u64,
    percent_valid: u64,
}

impl Oracle {
    fn is_valid(self, check: &Check) -> bool {
        let mut hasher = DefaultHasher::new();
        (self.salt, check).hash(&mut hasher);
        hasher.finish() % 100 < self.percent_valid
    }
}

impl Answers for Oracle {
    fn answer(&mut self, check: &Check) -> Answer {
        if self.is_valid(check) {
            Answer::Valid
        } else {
            Answer::Invalid
        }
    }

    fn expected(&self, _needed: u8, _keys: u8) -> u16 {
        0
    }
}

/// A recorder with guesses of its own: bits that look random say which checks it takes for invalid.
struct Guessing<'a> {
    recorder: Recorder<'a>,
    guess: Oracle,
    /// What is guessed of multisig scripts.
    expected: u16,
}

impl Answers for Guessing<'_> {
    fn answer(&mut self, check: &Check) -> Answer {
        if self.guess.is_valid(check) {
            self.recorder.answer(check)
        } else {
            Answer::Invalid
        }
    }

    fn expected(&self, _needed: u8, _keys: u8) -> u16 {
        self.expected
    }
}

const BASE: i32 = 0;
const TAPSCRIPT: i32 = 3;

const NOT: u8 = 0x91;
const IF: u8 = 0x63;
const NOTIF: u8 = 0x64;
const ELSE: u8 = 0x67;
const ENDIF: u8 = 0x68;
const VERIFY: u8 = 0x69;
const CHECKSIG: u8 = 0xac;
const CHECKSIGVERIFY: u8 = 0xad;
const CHECKMULTISIG: u8 = 0xae;
const CHECKMULTISIGVERIFY: u8 = 0xaf;
const CHECKSIGADD: u8 = 0xba;
const CODESEPARATOR: u8 = 0xab;
/// DROP, DUP, SWAP, 2DUP, TOALTSTACK, FROMALTSTACK, BOOLAND, BOOLOR, EQUAL, SIZE, IFDUP, DEPTH,
/// 1ADD, ROT.
const OTHERS: [u8; 14] = [
    0x75, 0x76, 0x7c, 0x6e, 0x6b, 0x6c, 0x9a, 0x9b, 0x87, 0x82, 0x73, 0x74, 0x8b, 0x7b,
];

/// What random scripts push.
struct Vocabulary {
    ecdsa_keys: Vec<Vec<u8>>,
    ecdsa_signatures: Vec<Vec<u8>>,
    schnorr_keys: Vec<Vec<u8>>,
    schnorr_signatures: Vec<Vec<u8>>,
}

impl Vocabulary {
    fn new(random: &mut Random) -> Self {
        let secp = Secp256k1::new();
        let mut ecdsa_keys: Vec<Vec<u8>> = Vec::new();
        for number in 1..5 {
            let key = super::samples::secret(number).public_key(&secp);
            ecdsa_keys.push(key.serialize().to_vec());
            let mut long = key.serialize_uncompressed().to_vec();
            ecdsa_keys.push(long.clone());
            // Hybrid, with one of the two parities wrong.
            long[0] = 6 + random.below(2) as u8;
            ecdsa_keys.push(long);
        }
        ecdsa_keys.push(vec![4; 65]);
        ecdsa_keys.push(Vec::new());
        ecdsa_keys.push(vec![2; 32]);
        let hash_types = [1, 2, 3, 0x81, 0x82, 0x83, 0, 0x44];
        let mut ecdsa_signatures = Vec::new();
        for number in 1..7 {
            let hash_type = *random.of(&hash_types);
            ecdsa_signatures.push(vec![0x30, 6, 2, 1, number, 2, 1, number + 9, hash_type]);
        }
        // Zero, padded, too long, and no signatures.
        ecdsa_signatures.push(vec![0x30, 6, 2, 1, 0, 2, 1, 5, 1]);
        ecdsa_signatures.push(vec![0x30, 7, 2, 2, 0, 5, 2, 1, 5, 1]);
        ecdsa_signatures.push([&[0x30, 39, 2, 34][..], &[7; 34], &[2, 1, 5, 1]].concat());
        ecdsa_signatures.push(vec![0x30, 1, 1]);
        ecdsa_signatures.push(vec![1]);
        let mut schnorr_keys: Vec<Vec<u8>> = (0..4).map(|_| random.bytes::<32>().to_vec()).collect();
        schnorr_keys.extend([Vec::new(), vec![2; 33]]);
        let mut schnorr_signatures: Vec<Vec<u8>> = (0..4).map(|_| random.bytes::<64>().to_vec()).collect();
        for hash_type in [1, 0x83, 0, 4] {
            schnorr_signatures.push([&random.bytes::<64>()[..], &[hash_type]].concat());
        }
        schnorr_signatures.push(vec![1; 63]);
        Self {
            ecdsa_keys,
            ecdsa_signatures,
            schnorr_keys,
            schnorr_signatures,
        }
    }
}

/// A random script.
struct Writer<'a> {
    vocabulary: &'a Vocabulary,
    tapscript: bool,
    /// No empty signatures, and more keys than signatures: second runs pass.
    plain: bool,
    script: Vec<u8>,
    open: usize,
}

impl Writer<'_> {
    fn push(&mut self, element: &[u8]) {
        self.script.push(element.len() as u8);
        self.script.extend(element);
    }

    fn number(&mut self, number: usize) {
        self.script.push(if number == 0 { 0 } else { 0x50 + number as u8 });
    }

    fn signature(&mut self, random: &mut Random) {
        let vocabulary = self.vocabulary;
        let signatures = if self.tapscript {
            &vocabulary.schnorr_signatures
        } else {
            &vocabulary.ecdsa_signatures
        };
        // Most are well formed: those come first.
        let known = if random.one_in(8) { signatures.len() } else { 4 };
        match random.below(6) {
            0 if !self.plain => self.push(&[]),
            _ => self.push(&signatures[random.below(known)]),
        }
    }

    fn key(&mut self, random: &mut Random) {
        let vocabulary = self.vocabulary;
        let keys = if self.tapscript {
            &vocabulary.schnorr_keys
        } else {
            &vocabulary.ecdsa_keys
        };
        let known = if random.one_in(8) { keys.len() } else { 4 };
        self.push(&keys[random.below(known)]);
    }

    fn multisig(&mut self, random: &mut Random) {
        let (keys, signatures, dummy) = if self.plain {
            let keys = 2 + random.below(3);
            (keys, 1 + random.below(keys - 1), 0)
        } else {
            let keys = random.below(5);
            (keys, random.below(keys + 1), usize::from(random.one_in(9)))
        };
        self.number(dummy);
        for _ in 0..signatures {
            self.signature(random);
        }
        if !self.tapscript && random.one_in(2) {
            // At the end of a script, the code that is signed is a multisig script then.
            self.script.push(CODESEPARATOR);
        }
        self.number(signatures);
        for _ in 0..keys {
            self.key(random);
        }
        self.number(keys);
        self.script.push(if random.one_in(4) {
            CHECKMULTISIGVERIFY
        } else {
            CHECKMULTISIG
        });
    }

    fn add(&mut self, random: &mut Random) {
        self.signature(random);
        self.number(random.below(3));
        self.key(random);
        self.script.push(CHECKSIGADD);
    }

    fn step(&mut self, random: &mut Random) {
        let kinds = if self.plain { 7 } else { 16 };
        match random.below(kinds) {
            0..=3 => {
                self.signature(random);
                self.key(random);
                self.script
                    .push(if random.one_in(4) { CHECKSIGVERIFY } else { CHECKSIG });
            }
            4..=6 if self.tapscript && !random.one_in(12) => self.add(random),
            4..=6 => self.multisig(random),
            7 => self.script.push(NOT),
            8 | 9 => {
                self.script.push(if random.one_in(2) { IF } else { NOTIF });
                self.open += 1;
            }
            10 if self.open > 0 => self.script.push(ELSE),
            11 if self.open > 0 => {
                self.script.push(ENDIF);
                self.open -= 1;
            }
            12 => self.script.push(CODESEPARATOR),
            13 if random.one_in(3) => self.script.push(VERIFY),
            14 => self.number(random.below(3)),
            _ => self.script.push(*random.of(&OTHERS)),
        }
    }
}

fn script(vocabulary: &Vocabulary, tapscript: bool, random: &mut Random) -> Vec<u8> {
    let mut writer = Writer {
        vocabulary,
        tapscript,
        plain: random.one_in(3),
        script: Vec::new(),
        open: 0,
    };
    for _ in 0..1 + random.below(if writer.plain { 4 } else { 12 }) {
        writer.step(random);
    }
    let open = writer.open;
    writer.script.extend(vec![ENDIF; open]);
    writer.script
}

#[derive(Debug, Default)]
struct Tally {
    /// All answers of a run that knew nothing and guessed nothing were right.
    right: u64,
    /// Of these, with any recorded at all.
    right_with_records: u64,
    /// Such a run came to something else than the ordinary one.
    misled: u64,
    /// A first run with guesses passed, and its "valid" answers were right.
    passed: u64,
    /// Of these, a guess about a multisig script had other checks recorded.
    guessed: u64,
    /// The second run passed, and its new answers were right.
    passed_again: u64,
    /// Of these, with an answer that was "invalid" and wrong.
    understated: u64,
    /// Without NULLFAIL, a second run would have passed where the ordinary one does not.
    saved_by_nullfail: u64,
}

/// One script, run in all ways.
struct Case<'a> {
    script: &'a [u8],
    version: i32,
    flags: u32,
    weight: i64,
    oracle: Oracle,
}

impl Case<'_> {
    fn run<A: Answers>(&self, more_flags: u32, answers: &mut A) -> Evaluated {
        eval(self.script, self.version, self.flags | more_flags, self.weight, answers)
    }

    fn record(&self, more_flags: u32, known: Known<'_>) -> (Evaluated, Vec<Check>) {
        let mut records = Vec::new();
        let mut recorder = Recorder::second(known, &mut records, reserve);
        let evaluated = self.run(more_flags, &mut recorder);
        (evaluated, records)
    }

    /// A first run, with guesses.
    fn guess(&self, guess: Oracle, expected: u16) -> (Evaluated, Vec<Check>) {
        let mut records = Vec::new();
        let nothing = Guesses::new();
        let mut guessing = Guessing {
            recorder: Recorder::first(&nothing, &mut records, reserve),
            guess,
            expected,
        };
        let evaluated = self.run(NULLFAIL, &mut guessing);
        (evaluated, records)
    }

    fn all_valid(&self, records: &[Check]) -> bool {
        records.iter().all(|check| self.oracle.is_valid(check))
    }

    /// Whatever is guessed, a first run that passes with right answers is right.
    fn check_guesses(&self, ordinary: &Evaluated, random: &mut Random, tally: &mut Tally) -> Option<Vec<Check>> {
        let guess = Oracle {
            salt: random.next(),
            percent_valid: *random.of(&[50, 90, 100, 100]),
        };
        let (plain, all) = self.guess(guess, 0);
        let (first, records) = self.guess(guess, random.below(32) as u16);
        for (first, records) in [(&plain, &all), (&first, &records)] {
            if first.passed && self.all_valid(records) {
                assert_eq!(first, ordinary, "{}", self.words());
                tally.passed += 1;
                tally.guessed += u64::from(*records != all);
            }
        }
        first.passed.then_some(records)
    }

    fn words(&self) -> String {
        format!("{:02x?} version {} flags {:x}", self.script, self.version, self.flags)
    }

    fn check(&self, random: &mut Random, tally: &mut Tally) {
        let ordinary = self.run(0, &mut self.oracle.clone());
        let (first, records) = self.record(0, Known::NONE);
        assert!(!first.stopped && !ordinary.stopped, "{}", self.words());
        if self.all_valid(&records) {
            assert_eq!(first, ordinary, "{}", self.words());
            tally.right += 1;
            tally.right_with_records += u64::from(!records.is_empty());
        } else {
            tally.misled += u64::from(first != ordinary);
        }
        // The second run may follow a first one with guesses, or one without.
        let guessed = self.check_guesses(&ordinary, random, tally);
        let records = guessed.filter(|_| random.one_in(2)).unwrap_or(records);
        if self.all_valid(&records) {
            return;
        }
        let mut lied = false;
        let understate = random.one_in(2);
        let verdicts: Vec<Verdict> = records
            .iter()
            .map(|check| match self.oracle.is_valid(check) {
                true if understate && random.one_in(3) => {
                    lied = true;
                    Verdict::Invalid
                }
                true => Verdict::Valid,
                false => Verdict::Invalid,
            })
            .collect();
        // The same check twice has one verdict.
        let verdict = |check: &Check| verdicts[records.iter().position(|other| other == check).unwrap()];
        let verdicts: Vec<Verdict> = records.iter().map(verdict).collect();
        let known = Known {
            checks: &records,
            verdicts: &verdicts,
        };
        let (again, more) = self.record(NULLFAIL, known);
        if again.passed && self.all_valid(&more) {
            assert_eq!(again, ordinary, "{}", self.words());
            tally.passed_again += 1;
            tally.understated += u64::from(lied);
        }
        let (without, more) = self.record(0, known);
        tally.saved_by_nullfail += u64::from(without.passed && self.all_valid(&more) && without != ordinary);
    }
}

#[test]
fn right_answers_make_the_ordinary_run() {
    let mut random = Random(2024);
    let random = &mut random;
    let vocabulary = Vocabulary::new(random);
    let mut tally = Tally::default();
    let count = cases(200_000);
    for _ in 0..count {
        let version = *random.of(&[BASE, 1, TAPSCRIPT]);
        let script = script(&vocabulary, version == TAPSCRIPT, random);
        let case = Case {
            script: &script,
            version,
            flags: *random.of(&[0, 1, 1 | 4, 1 | 4 | 16 | 512 | 1024 | 2048 | 1 << 17]),
            weight: if random.one_in(5) {
                random.below(250) as i64
            } else {
                100_000
            },
            oracle: Oracle {
                salt: random.next(),
                percent_valid: *random.of(&[0, 50, 80, 95, 100]),
            },
        };
        case.check(random, &mut tally);
    }
    eprintln!("{tally:?}");
    assert!(tally.right_with_records > count / 20, "{tally:?}");
    assert!(tally.misled > count / 50, "{tally:?}");
    assert!(tally.passed > count / 10, "{tally:?}");
    if count < 10_000 {
        eprintln!("short: so few cases may have none of the rare kinds");
    } else {
        let rare = [
            (tally.guessed, 1000),
            (tally.passed_again, 500),
            (tally.understated, 5000),
            (tally.saved_by_nullfail, 5000),
        ];
        assert!(rare.iter().all(|&(found, of)| found > count / of), "{tally:?}");
    }
}
