//! The layout of an entry in memory.
//!
//! | bytes | content |
//! |---|---|
//! | 0..36 | key (see [`key`](crate::key)): its bytes sort as outpoints do |
//! | 36 | form in the low half, flags in the high half |
//! | 37..41 | twice the height plus the coinbase flag |
//! | 41..48 | amount |
//! | 48.. | script, without the bytes that its form implies |
//!
//! A spent entry ends after the form. A coin whose height or amount does not fit takes the wide
//! form: after the form come all of its fields in full. No coin of a valid block needs it.

use crate::key::{KEY_LENGTH, OutpointKey, outpoint_from_key, outpoint_key};
use blockmill_block::{Coin, CoinList, CoinRef, OutPoint, copy_short};

/// Four flags of an entry. The map stores them; its user gives them a meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EntryFlags(u8);

impl EntryFlags {
    /// No flag.
    pub const NONE: Self = Self(0);
    /// All four flags.
    pub const ALL: Self = Self(0b1111);

    /// The flag with this number.
    ///
    /// # Panics
    /// If the number is 4 or more.
    pub const fn bit(number: u8) -> Self {
        assert!(number < 4, "there are four flags");
        Self(1 << number)
    }

    /// Whether all flags of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The flags of both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The flags that are set here and not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// An entry in the memory of the map: a coin, or the marker of a spent outpoint.
#[derive(Debug, Clone, Copy)]
pub struct EntryRef<'a> {
    /// The record, and perhaps further bytes without meaning.
    record: &'a [u8],
}

const FORM_AT: usize = KEY_LENGTH;
const CODE_AT: usize = FORM_AT + 1;
const AMOUNT_AT: usize = CODE_AT + 4;
const AMOUNT_BYTES: usize = 7;
const SCRIPT_AT: usize = AMOUNT_AT + AMOUNT_BYTES;

/// Bytes of the fields of the wide form: amount, height, coinbase flag, length of the script.
const WIDE_BYTES: usize = 8 + 4 + 1 + 4;

/// Bytes of the length field of a script without a template.
const LENGTH_BYTES: usize = 2;

const SPENT: u8 = 0;
const WIDE: u8 = 1;
const PLAIN: u8 = 2;

/// A form of script: the bytes before and after its payload.
struct ScriptTemplate {
    form: u8,
    prefix: &'static [u8],
    payload: usize,
    suffix: &'static [u8],
}

/// The usual locking scripts.
const TEMPLATES: [ScriptTemplate; 6] = [
    // Pay to public key hash.
    template(3, &[0x76, 0xa9, 20], 20, &[0x88, 0xac]),
    // Pay to script hash.
    template(4, &[0xa9, 20], 20, &[0x87]),
    // Pay to witness public key hash.
    template(5, &[0, 20], 20, &[]),
    // Pay to witness script hash.
    template(6, &[0, 32], 32, &[]),
    // Pay to taproot.
    template(7, &[0x51, 32], 32, &[]),
    // Pay to a compressed public key.
    template(8, &[33], 33, &[0xac]),
];

/// Length of the longest script of these.
const TEMPLATE_LENGTH_MAX: usize = 35;

const fn template(form: u8, prefix: &'static [u8], payload: usize, suffix: &'static [u8]) -> ScriptTemplate {
    ScriptTemplate {
        form,
        prefix,
        payload,
        suffix,
    }
}

impl ScriptTemplate {
    fn length(&self) -> usize {
        self.prefix.len() + self.payload + self.suffix.len()
    }

    /// The payload of a script of this form.
    #[inline]
    fn payload<'a>(&self, script: &'a [u8]) -> Option<&'a [u8]> {
        if script.len() != self.length() {
            return None;
        }
        script.strip_prefix(self.prefix)?.strip_suffix(self.suffix)
    }
}

/// The shape of a record.
enum RecordShape<'a> {
    Spent,
    Wide(CoinRef<'a>),
    Plain(CoinRef<'a>),
    ScriptTemplate(CoinRef<'a>, u8, &'a [u8]),
}

/// A record to be written.
pub(crate) struct NewRecord<'a> {
    shape: RecordShape<'a>,
    length: usize,
}

impl<'a> NewRecord<'a> {
    /// The record of a coin, or of a spent marker.
    #[inline]
    pub(crate) fn new(coin: Option<CoinRef<'a>>) -> Self {
        let Some(coin) = coin else {
            return Self {
                shape: RecordShape::Spent,
                length: CODE_AT,
            };
        };
        let script = coin.script_pubkey;
        // The usual form has 7 bytes for the amount, 31 bits for the height, 2 bytes for the
        // length.
        if coin.value < 0 || coin.value >> (8 * AMOUNT_BYTES) != 0 || coin.height >> 31 != 0 || script.len() > 0xffff {
            return Self {
                length: CODE_AT + WIDE_BYTES + script.len(),
                shape: RecordShape::Wide(coin),
            };
        }
        for template in &TEMPLATES {
            if let Some(payload) = template.payload(script) {
                return Self {
                    shape: RecordShape::ScriptTemplate(coin, template.form, payload),
                    length: SCRIPT_AT + payload.len(),
                };
            }
        }
        Self {
            shape: RecordShape::Plain(coin),
            length: SCRIPT_AT + LENGTH_BYTES + script.len(),
        }
    }

    /// Length of the record in bytes.
    #[inline]
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Writes the record at the start of `record`, which must be long enough.
    #[inline]
    pub(crate) fn write(&self, outpoint: &OutPoint, flags: EntryFlags, record: &mut [u8]) {
        record[..KEY_LENGTH].copy_from_slice(&outpoint_key(outpoint));
        record[FORM_AT] = flags.0 << 4
            | match &self.shape {
                RecordShape::Spent => SPENT,
                RecordShape::Wide(_) => WIDE,
                RecordShape::Plain(_) => PLAIN,
                RecordShape::ScriptTemplate(_, form, _) => *form,
            };
        match &self.shape {
            RecordShape::Spent => {}
            RecordShape::Wide(coin) => {
                let mut rest = &mut record[CODE_AT..self.length];
                put(&mut rest, &coin.value.to_le_bytes());
                put(&mut rest, &coin.height.to_le_bytes());
                put(&mut rest, &[u8::from(coin.is_coinbase)]);
                // No block and no store has a script of 4 GiB.
                put(&mut rest, &(coin.script_pubkey.len() as u32).to_le_bytes());
                put(&mut rest, coin.script_pubkey);
            }
            RecordShape::Plain(coin) => {
                write_numbers(coin, record);
                let mut rest = &mut record[SCRIPT_AT..self.length];
                put(&mut rest, &(coin.script_pubkey.len() as u16).to_le_bytes());
                put(&mut rest, coin.script_pubkey);
            }
            RecordShape::ScriptTemplate(coin, _, payload) => {
                write_numbers(coin, record);
                copy_short(payload, &mut record[SCRIPT_AT..self.length]);
            }
        }
    }
}

fn put(rest: &mut &mut [u8], bytes: &[u8]) {
    let (head, tail) = std::mem::take(rest).split_at_mut(bytes.len());
    copy_short(bytes, head);
    *rest = tail;
}

#[inline]
fn write_numbers(coin: &CoinRef<'_>, record: &mut [u8]) {
    let code = coin.height << 1 | u32::from(coin.is_coinbase);
    record[CODE_AT..AMOUNT_AT].copy_from_slice(&code.to_le_bytes());
    record[AMOUNT_AT..SCRIPT_AT].copy_from_slice(&coin.value.to_le_bytes()[..AMOUNT_BYTES]);
}

/// Sets the flags of a record.
#[inline]
pub(crate) fn set_flags(record: &mut [u8], flags: EntryFlags) {
    record[FORM_AT] = record[FORM_AT] & 0xf | flags.0 << 4;
}

/// The key of a record.
#[inline]
pub(crate) fn key_of(record: &[u8]) -> &OutpointKey {
    match record.first_chunk() {
        Some(key) => key,
        None => unreachable!("a record begins with its key"),
    }
}

/// Whether a record has this key.
#[inline]
pub(crate) fn has_key(record: &[u8], key: &OutpointKey) -> bool {
    // Word by word: a call that compares 36 bytes takes longer than the comparison.
    let (words, rest) = key_of(record).as_chunks::<8>();
    let (key_words, key_rest) = key.as_chunks::<8>();
    let different = |one: &[u8; 8], other: &[u8; 8]| u64::from_ne_bytes(*one) ^ u64::from_ne_bytes(*other);
    let word_bits = words
        .iter()
        .zip(key_words)
        .fold(0, |bits, (one, other)| bits | different(one, other));
    word_bits == 0 && rest == key_rest
}

fn array<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[offset..offset + N]);
    array
}

/// The numeric fields of a coin.
struct Numbers {
    value: i64,
    height: u32,
    is_coinbase: bool,
}

impl<'a> EntryRef<'a> {
    /// The entry at the start of these bytes.
    #[inline]
    pub(crate) fn new(record: &'a [u8]) -> Self {
        Self { record }
    }

    pub(crate) fn key(&self) -> &'a OutpointKey {
        key_of(self.record)
    }

    /// The outpoint.
    #[inline]
    pub fn outpoint(&self) -> OutPoint {
        outpoint_from_key(self.key())
    }

    /// The flags.
    #[inline]
    pub fn flags(&self) -> EntryFlags {
        EntryFlags(self.record[FORM_AT] >> 4)
    }

    /// Whether this is the marker of a spent outpoint.
    #[inline]
    pub fn is_spent(&self) -> bool {
        self.record[FORM_AT] & 0xf == SPENT
    }

    /// Amount in satoshi; 0 for a spent outpoint.
    #[inline]
    pub fn value(&self) -> i64 {
        self.numbers().map_or(0, |numbers| numbers.value)
    }

    /// Height of the block that created the coin; 0 for a spent outpoint.
    #[inline]
    pub fn height(&self) -> u32 {
        self.numbers().map_or(0, |numbers| numbers.height)
    }

    /// The coin; none for a spent outpoint.
    #[inline]
    pub fn coin(&self) -> Option<Coin> {
        let numbers = self.numbers()?;
        let [prefix, payload, suffix] = self.script();
        let mut script = Vec::with_capacity(prefix.len() + payload.len() + suffix.len());
        script.extend_from_slice(prefix);
        script.extend_from_slice(payload);
        script.extend_from_slice(suffix);
        Some(Coin {
            value: numbers.value,
            height: numbers.height,
            is_coinbase: numbers.is_coinbase,
            script_pubkey: script.into_boxed_slice(),
        })
    }

    /// Appends the coin to a list. Returns false for a spent outpoint.
    #[inline]
    pub fn append_to(&self, list: &mut CoinList) -> bool {
        let Some(numbers) = self.numbers() else {
            return false;
        };
        let [prefix, payload, suffix] = self.script();
        let coin = CoinRef {
            value: numbers.value,
            height: numbers.height,
            is_coinbase: numbers.is_coinbase,
            script_pubkey: payload,
        };
        list.push_parts(coin, [prefix, suffix]);
        true
    }

    /// Calls `visit` with the coin; with none for a spent outpoint. Takes no memory from the
    /// allocator.
    pub fn with_coin<R>(&self, visit: impl FnOnce(Option<CoinRef<'_>>) -> R) -> R {
        let Some(numbers) = self.numbers() else {
            return visit(None);
        };
        let [prefix, payload, suffix] = self.script();
        let mut joined = [0; TEMPLATE_LENGTH_MAX];
        let script_pubkey = if prefix.is_empty() && suffix.is_empty() {
            payload
        } else {
            let mut rest = &mut joined[..];
            for part in [prefix, payload, suffix] {
                put(&mut rest, part);
            }
            let unused = rest.len();
            &joined[..TEMPLATE_LENGTH_MAX - unused]
        };
        visit(Some(CoinRef {
            value: numbers.value,
            height: numbers.height,
            is_coinbase: numbers.is_coinbase,
            script_pubkey,
        }))
    }

    /// Length of the record in bytes.
    #[inline]
    pub fn length(&self) -> usize {
        match self.record[FORM_AT] & 0xf {
            SPENT => CODE_AT,
            WIDE => CODE_AT + WIDE_BYTES + self.wide_script_length(),
            PLAIN => SCRIPT_AT + LENGTH_BYTES + self.plain_script_length(),
            form => SCRIPT_AT + template_of(form).payload,
        }
    }

    fn wide_script_length(&self) -> usize {
        u32::from_le_bytes(array(self.record, CODE_AT + WIDE_BYTES - 4)) as usize
    }

    fn plain_script_length(&self) -> usize {
        usize::from(u16::from_le_bytes(array(self.record, SCRIPT_AT)))
    }

    /// The numeric fields of a coin. The form of the script plays no part: its branch cannot be
    /// predicted.
    #[inline]
    fn numbers(&self) -> Option<Numbers> {
        let record = self.record;
        match record[FORM_AT] & 0xf {
            SPENT => None,
            WIDE => Some(Numbers {
                value: i64::from_le_bytes(array(record, CODE_AT)),
                height: u32::from_le_bytes(array(record, CODE_AT + 8)),
                is_coinbase: record[CODE_AT + 12] != 0,
            }),
            _ => {
                let code = u32::from_le_bytes(array(record, CODE_AT));
                let mut amount = [0; 8];
                amount[..AMOUNT_BYTES].copy_from_slice(&record[AMOUNT_AT..SCRIPT_AT]);
                Some(Numbers {
                    value: i64::from_le_bytes(amount),
                    height: code >> 1,
                    is_coinbase: code & 1 == 1,
                })
            }
        }
    }

    /// The script of a coin in three parts.
    fn script(&self) -> [&'a [u8]; 3] {
        let record = self.record;
        match record[FORM_AT] & 0xf {
            SPENT => [&[], &[], &[]],
            WIDE => {
                let start = CODE_AT + WIDE_BYTES;
                [&[], &record[start..start + self.wide_script_length()], &[]]
            }
            PLAIN => {
                let start = SCRIPT_AT + LENGTH_BYTES;
                [&[], &record[start..start + self.plain_script_length()], &[]]
            }
            form => {
                let template = template_of(form);
                let payload = &record[SCRIPT_AT..SCRIPT_AT + template.payload];
                [template.prefix, payload, template.suffix]
            }
        }
    }
}

fn template_of(form: u8) -> &'static ScriptTemplate {
    &TEMPLATES[usize::from(form - TEMPLATES[0].form)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use blockmill_block::Txid;
    use proptest::prelude::*;

    fn check(coin: Option<&Coin>, flags: EntryFlags, longest: usize) {
        let outpoint = OutPoint {
            txid: Txid([9; 32]),
            vout: 70_000,
        };
        let new = NewRecord::new(coin.map(CoinRef::from));
        let mut record = vec![0xee; new.length() + 5];
        new.write(&outpoint, flags, &mut record);
        assert_eq!(record[new.length()..], [0xee; 5]);
        let entry = EntryRef::new(&record);
        assert_eq!(entry.coin().as_ref(), coin);
        let borrowed = entry.with_coin(|coin| coin.map(|coin| coin.to_coin()));
        assert_eq!(borrowed.as_ref(), coin);
        let mut list = CoinList::default();
        assert_eq!(entry.append_to(&mut list), coin.is_some());
        let expected = coin.map(|coin| CoinRef {
            // The heights of lists, as those of coins, are below 2^31.
            height: coin.height & (u32::MAX >> 1),
            ..CoinRef::from(coin)
        });
        assert_eq!(list.coins().get(0), expected);
        assert_eq!((entry.outpoint(), entry.flags()), (outpoint, flags));
        assert_eq!((entry.is_spent(), entry.length()), (coin.is_none(), new.length()));
        assert_eq!(entry.height(), coin.map_or(0, |coin| coin.height));
        assert_eq!(entry.value(), coin.map_or(0, |coin| coin.value));
        assert!(new.length() <= longest, "{} bytes", new.length());
        let other = EntryFlags::ALL.without(flags);
        set_flags(&mut record, other);
        let entry = EntryRef::new(&record);
        assert_eq!((entry.coin().as_ref(), entry.flags()), (coin, other));
    }

    fn coin(script: &[u8]) -> Coin {
        Coin {
            value: 2_100_000_000_000_000,
            height: 900_000,
            is_coinbase: true,
            script_pubkey: script.into(),
        }
    }

    #[test]
    fn usual_scripts_are_short() {
        check(None, EntryFlags::bit(1), 40);
        let hash = [0xab; 20];
        let longer = [0xab; 32];
        for (script, longest) in [
            ([&[0x76, 0xa9, 20], &hash[..], &[0x88, 0xac]].concat(), 72),
            ([&[0xa9, 20], &hash[..], &[0x87]].concat(), 72),
            ([&[0, 20], &hash[..]].concat(), 72),
            ([&[0, 32], &longer[..]].concat(), 80),
            ([&[0x51, 32], &longer[..]].concat(), 80),
            ([&[33, 2], &longer[..], &[0xac]].concat(), 88),
        ] {
            check(Some(&coin(&script)), EntryFlags::bit(3), longest);
            // A script that differs in one byte has no template.
            let mut other = script.clone();
            other[0] ^= 1;
            check(Some(&coin(&other)), EntryFlags::NONE, longest + 8);
        }
    }

    #[test]
    fn extremes_are_kept_too() {
        for value in [i64::MIN, -1, 0, (1 << 56) - 1, 1 << 56, i64::MAX] {
            for height in [0, u32::MAX >> 1, u32::MAX] {
                for length in [0, 25, 10_000, 0xffff, 0x1_0000] {
                    let coin = Coin {
                        value,
                        height,
                        ..coin(&vec![0; length])
                    };
                    check(Some(&coin), EntryFlags::ALL, length + 60);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn any_coin_comes_back(
            value: i64,
            height: u32,
            is_coinbase: bool,
            script in proptest::collection::vec(any::<u8>(), 0..100),
            mark in 0u8..4,
        ) {
            let coin = Coin { value, height, is_coinbase, script_pubkey: script.into() };
            check(Some(&coin), EntryFlags::bit(mark), 160);
        }
    }
}
