//! Core's compressed forms of amounts and scripts (compressor.h).

use crate::reader::{DecodeError, Reader, write_varint};
use secp256k1_lanes::{decompress, is_point};

/// Longest script that can be run, in bytes. No output with a longer locking script can be spent.
pub const SCRIPT_SIZE_MAX: usize = 10_000;

const OP_DUP: u8 = 0x76;
const OP_HASH160: u8 = 0xa9;
const OP_EQUAL: u8 = 0x87;
const OP_EQUALVERIFY: u8 = 0x88;
const OP_CHECKSIG: u8 = 0xac;
const OP_RETURN: u8 = 0x6a;

/// Number of script forms with a code of their own: key hash, script hash, and the four of public
/// keys.
const SPECIAL_SCRIPTS: u64 = 6;

/// Compresses an amount: trailing decimal zeros become an exponent.
pub fn compress_amount(amount: u64) -> u64 {
    if amount == 0 {
        return 0;
    }
    let mut mantissa = amount;
    let mut exponent = 0;
    while mantissa.is_multiple_of(10) && exponent < 9 {
        mantissa /= 10;
        exponent += 1;
    }
    // Nine zeros or more: the tenth would be a digit of the mantissa.
    if exponent == 9 {
        return 1 + (mantissa - 1) * 10 + 9;
    }
    // The last digit is not zero, so it is stored as one of nine. Amounts above all money may wrap,
    // as in Core.
    let digit = mantissa % 10;
    (mantissa / 10)
        .wrapping_mul(9)
        .wrapping_add(digit - 1)
        .wrapping_mul(10)
        .wrapping_add(exponent + 1)
}

/// The inverse of [`compress_amount`]. Numbers that [`compress_amount`] never returns may wrap, as
/// in Core.
pub fn decompress_amount(compressed: u64) -> u64 {
    let Some(rest) = compressed.checked_sub(1) else {
        return 0;
    };
    let exponent = (rest % 10) as u32;
    let rest = rest / 10;
    let mantissa = if exponent < 9 {
        let digit = rest % 9 + 1;
        (rest / 9).wrapping_mul(10).wrapping_add(digit)
    } else {
        rest + 1
    };
    // The exponent is at most 9, so the power fits.
    mantissa.wrapping_mul(10u64.pow(exponent))
}

/// Appends an output: amount, then script, both compressed. The amount must not be negative.
pub fn write_output(value: i64, script: &[u8], into: &mut Vec<u8>) {
    write_varint(compress_amount(value.cast_unsigned()), into);
    write_script(script, into);
}

/// Reads what [`write_output`] wrote: amount in satoshi (not checked for its range) and script.
///
/// # Errors
/// Any [`DecodeError`].
pub fn read_output(reader: &mut Reader<'_>) -> Result<(i64, Box<[u8]>), DecodeError> {
    let mut script = Vec::new();
    let value = read_output_into(reader, &mut script)?;
    Ok((value, script.into_boxed_slice()))
}

/// As [`read_output`]. Appends the script.
pub(crate) fn read_output_into(reader: &mut Reader<'_>, script: &mut Vec<u8>) -> Result<i64, DecodeError> {
    let value = decompress_amount(reader.varint(u64::MAX)?).cast_signed();
    read_script(reader, script)?;
    Ok(value)
}

/// Goes past what [`write_output`] wrote, which is not checked.
///
/// # Errors
/// Any [`DecodeError`].
pub fn skip_output(reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    reader.varint(u64::MAX)?;
    let length = match reader.varint(u64::from(u32::MAX))? {
        0 | 1 => 20,
        2..SPECIAL_SCRIPTS => 32,
        code => (code - SPECIAL_SCRIPTS) as usize,
    };
    reader.take(length)?;
    Ok(())
}

/// Whether the 64 bytes are both coordinates of a point of the curve.
fn is_full_key(key: &[u8]) -> bool {
    key.split_first_chunk()
        .is_some_and(|(x, y)| y.as_array().is_some_and(|y| is_point(x, y)))
}

/// Appends a compressed script.
fn write_script(script: &[u8], into: &mut Vec<u8>) {
    match script {
        [OP_DUP, OP_HASH160, 20, hash @ .., OP_EQUALVERIFY, OP_CHECKSIG] if hash.len() == 20 => {
            into.push(0);
            into.extend_from_slice(hash);
        }
        [OP_HASH160, 20, hash @ .., OP_EQUAL] if hash.len() == 20 => {
            into.push(1);
            into.extend_from_slice(hash);
        }
        [33, parity @ (2 | 3), x @ .., OP_CHECKSIG] if x.len() == 32 => {
            into.push(*parity);
            into.extend_from_slice(x);
        }
        [65, 4, key @ .., OP_CHECKSIG] if is_full_key(key) => {
            // The parity of y and the curve give y back.
            into.push(4 | key[63] & 1);
            into.extend_from_slice(&key[..32]);
        }
        _ => {
            write_varint(script.len() as u64 + SPECIAL_SCRIPTS, into);
            into.extend_from_slice(script);
        }
    }
}

/// Reads a compressed script, and appends it.
fn read_script(reader: &mut Reader<'_>, script: &mut Vec<u8>) -> Result<(), DecodeError> {
    let offset = reader.offset();
    let mut append = |parts: [&[u8]; 3]| {
        script.reserve(parts.iter().map(|part| part.len()).sum());
        parts.iter().for_each(|part| script.extend_from_slice(part));
    };
    match reader.varint(u64::from(u32::MAX))? {
        0 => append([
            &[OP_DUP, OP_HASH160, 20],
            reader.take(20)?,
            &[OP_EQUALVERIFY, OP_CHECKSIG],
        ]),
        1 => append([&[OP_HASH160, 20], reader.take(20)?, &[OP_EQUAL]]),
        code @ (2 | 3) => append([&[33, code as u8], reader.take(32)?, &[OP_CHECKSIG]]),
        code @ (4 | 5) => {
            // The first byte becomes that of a compressed key, 2 or 3; the others are overwritten.
            let mut key = [code as u8 - 2; 33];
            key[1..].copy_from_slice(reader.take(32)?);
            // Core stores x alone. An x without a point was never written by a node.
            let y = decompress(&key).ok_or(DecodeError::InvalidPoint { offset })?;
            append([&[65, 4], &[&key[1..], &y].concat(), &[OP_CHECKSIG]]);
        }
        code => {
            let length = (code - SPECIAL_SCRIPTS) as usize;
            let plain = reader.take(length)?;
            // A longer one is never spendable. Core replaces it by a short script.
            let is_kept = length <= SCRIPT_SIZE_MAX;
            append([if is_kept { plain } else { &[OP_RETURN] }, &[], &[]]);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hex;
    use proptest::prelude::*;

    #[test]
    fn amounts_of_core() {
        // compress_tests.cpp
        const COIN: u64 = 100_000_000;
        for (amount, compressed) in [
            (0, 0x0),
            (1, 0x1),
            (COIN / 100, 0x7),
            (COIN, 0x9),
            (50 * COIN, 0x32),
            (21_000_000 * COIN, 0x1406f40),
        ] {
            assert_eq!(compress_amount(amount), compressed);
            assert_eq!(decompress_amount(compressed), amount);
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Vec<u8>, DecodeError> {
        let mut script = Vec::new();
        read_script(reader, &mut script).map(|()| script)
    }

    fn script_round_trip(script: &str, compressed_length: usize) {
        let script = hex::decode(script).unwrap();
        let mut written = Vec::new();
        write_script(&script, &mut written);
        assert_eq!(written.len(), compressed_length, "{}", hex::encode(&script));
        let mut reader = Reader::new(&written);
        assert_eq!(read(&mut reader).unwrap(), script);
        assert!(reader.finish().is_ok());
    }

    #[test]
    fn script_forms() {
        let x = "79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798";
        let y = "483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8";
        let hash = "816115944e077fe7c803cfa57f29b36bf87c1d35";
        script_round_trip(&format!("76a914{hash}88ac"), 21);
        script_round_trip(&format!("a914{hash}87"), 21);
        script_round_trip(&format!("2102{x}ac"), 33);
        script_round_trip(&format!("2103{x}ac"), 33);
        script_round_trip(&format!("4104{x}{y}ac"), 33);
        // Not on the curve: kept as it is.
        script_round_trip(&format!("4104{x}{x}ac"), 68);
        // The hybrid form of the key, and one byte off in each of the others.
        script_round_trip(&format!("4106{x}{y}ac"), 68);
        script_round_trip(&format!("76a914{hash}88ad"), 26);
        script_round_trip(&format!("a914{hash}88"), 24);
        script_round_trip(&format!("2104{x}ac"), 36);
        script_round_trip("", 1);
    }

    #[test]
    fn an_odd_key_comes_back_odd() {
        // Twice the generator has an odd y.
        let x = "c6047f9441ed7d6d3045406e95c07cd85c778e4b8cef3ca7abac09b95c709ee5";
        let odd = "1ae168fea63dc339a3c58419466ceaeef7f632653266d0e1236431a950cfe52a";
        let even = "e51e970159c23cc65c3a7be6b99315110809cd9acd992f1edc9bce55af301705";
        for y in [odd, even] {
            script_round_trip(&format!("4104{x}{y}ac"), 33);
        }
    }

    #[test]
    fn bad_points_and_long_scripts() {
        // An x without a point of the curve.
        let mut bytes = vec![4];
        bytes.extend([0; 31]);
        bytes.push(5);
        assert_eq!(
            read(&mut Reader::new(&bytes)),
            Err(DecodeError::InvalidPoint { offset: 0 })
        );
        let mut written = Vec::new();
        write_script(&vec![1; SCRIPT_SIZE_MAX + 1], &mut written);
        assert_eq!(read(&mut Reader::new(&written)).unwrap(), [OP_RETURN]);
    }

    proptest! {
        #[test]
        fn amounts_round_trip(amount in 0..=2_100_000_000_000_000u64) {
            prop_assert_eq!(decompress_amount(compress_amount(amount)), amount);
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = read_output(&mut Reader::new(&bytes));
        }
    }
}
