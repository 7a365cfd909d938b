//! The input is a coin, read in the form of the store, in the form of undo data, and as parts.
//!
//! Checked: a coin that decodes is written in both forms, and reads back the same. Amounts outside
//! of the valid range are exempt: they may wrap, as in Core. A coin made of parts reads back the
//! same too. Memory stays below a fixed multiple of the input.

#![no_main]

use blockmill_block::coin::is_unspendable;
use blockmill_block::compress::{compress_amount, decompress_amount};
use blockmill_block::reader::{DecodeError, Reader};
use blockmill_block::{Coin, CoinList, CoinRef, OutPoint, Txid};
use blockmill_fuzz::input::Input;
use blockmill_fuzz::memory::peak_of;
use blockmill_rules::{MAX_MONEY, money_range};
use libfuzzer_sys::fuzz_target;
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

type Decode = fn(&mut Reader<'_>) -> Result<Coin, DecodeError>;

type Encode = fn(&Coin, &mut Vec<u8>);

const FORMS: [(Decode, Encode); 2] = [
    (Coin::read_compressed, Coin::write_compressed),
    (read_undo, |coin, into| CoinRef::from(coin).write_undo(into)),
];

fn read_undo(reader: &mut Reader<'_>) -> Result<Coin, DecodeError> {
    let mut list = CoinList::default();
    list.read_undo(reader)?;
    assert_eq!(list.len(), 1);
    Ok(list.coins().at(0).to_coin())
}

/// Peak of allocated bytes for a byte of a coin: a public key of 33 bytes becomes a script of 67.
const PEAK_PER_BYTE: usize = 2;
const PEAK_BASE: usize = 256;

/// The coin, and the number of bytes read.
fn decode(decode: Decode, bytes: &[u8]) -> Option<(Coin, usize)> {
    let mut reader = Reader::new(bytes);
    let (coin, peak) = peak_of(|| decode(&mut reader));
    assert!(
        peak <= PEAK_PER_BYTE * bytes.len() + PEAK_BASE,
        "{peak} bytes for {}",
        bytes.len()
    );
    Some((coin.ok()?, reader.offset()))
}

fn check_both_forms(coin: &Coin) {
    for (read, write) in FORMS {
        let mut written = Vec::new();
        write(coin, &mut written);
        assert_eq!(decode(read, &written), Some((coin.clone(), written.len())));
    }
    let mut preimage = Vec::new();
    let outpoint = OutPoint {
        txid: Txid([5; 32]),
        vout: 7,
    };
    coin.write_hash_preimage(&outpoint, &mut preimage);
    assert!(preimage.ends_with(&coin.script_pubkey));
}

fuzz_target!(|data: &[u8]| {
    for (read, _) in FORMS {
        if let Some((coin, length)) = decode(read, data) {
            assert!(length <= data.len() && coin.height < 1 << 31);
            if money_range(coin.value) {
                check_both_forms(&coin);
            }
        }
    }
    let mut input = Input::new(data);
    let code = input.u32();
    let value = input.i64();
    let amount = value.cast_unsigned();
    // No number panics.
    let _ = (compress_amount(amount), decompress_amount(amount));
    let coin = Coin {
        value: value.rem_euclid(MAX_MONEY + 1),
        height: code >> 1,
        is_coinbase: code & 1 == 1,
        script_pubkey: input.rest().into(),
    };
    if !is_unspendable(&coin.script_pubkey) {
        check_both_forms(&coin);
    }
});
