//! Outpoints and coins.

use crate::compress;
pub use crate::compress::SCRIPT_SIZE_MAX;
use crate::hash::Txid;
use crate::reader::{DecodeError, Reader, write_compact_size, write_varint};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

const OP_RETURN: u8 = 0x6a;

/// An outpoint names an output: its transaction, and its index among that transaction's outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OutPoint {
    /// Id of the transaction.
    pub txid: Txid,
    /// Index among the transaction's outputs, from 0.
    pub vout: u32,
}

impl OutPoint {
    /// Length in bytes.
    pub const LENGTH: usize = 36;

    /// The outpoint that a coinbase spends.
    pub const NULL: Self = Self {
        txid: Txid::ZERO,
        vout: u32::MAX,
    };

    /// From the wire form: the id, then the index in little endian.
    pub fn from_bytes(bytes: &[u8; Self::LENGTH]) -> Self {
        let mut txid = [0; 32];
        txid.copy_from_slice(&bytes[..32]);
        Self {
            txid: Txid(txid),
            vout: u32::from_le_bytes([bytes[32], bytes[33], bytes[34], bytes[35]]),
        }
    }

    /// Whether this is the outpoint that a coinbase spends.
    pub fn is_null(&self) -> bool {
        *self == Self::NULL
    }
}

impl fmt::Display for OutPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.txid, self.vout)
    }
}

/// Why a text is no outpoint.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is no outpoint: expected TXID:VOUT, the id in hex as it is printed")]
pub struct NoOutPoint(String);

impl FromStr for OutPoint {
    type Err = NoOutPoint;

    fn from_str(text: &str) -> Result<Self, NoOutPoint> {
        let read = || {
            let (txid, vout) = text.split_once(':')?;
            // `parse` would take a plus sign.
            let is_number = vout.bytes().all(|byte| byte.is_ascii_digit());
            let vout = is_number.then(|| vout.parse().ok())??;
            Some(Self {
                txid: txid.parse().ok()?,
                vout,
            })
        };
        read().ok_or_else(|| NoOutPoint(text.to_owned()))
    }
}

/// Whether no output with this script can be spent (Core's `IsUnspendable`). The UTXO set has none
/// of them.
pub fn is_unspendable(script_pubkey: &[u8]) -> bool {
    script_pubkey.first() == Some(&OP_RETURN) || script_pubkey.len() > SCRIPT_SIZE_MAX
}

/// An unspent output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coin {
    /// Amount in satoshi.
    pub value: i64,
    /// Height of the block that created it, below 2^31.
    pub height: u32,
    /// Whether a coinbase created it.
    pub is_coinbase: bool,
    /// Locking script.
    pub script_pubkey: Box<[u8]>,
}

/// A coin that borrows its script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoinRef<'a> {
    /// Amount in satoshi.
    pub value: i64,
    /// Height of the block that created it, below 2^31.
    pub height: u32,
    /// Whether a coinbase created it.
    pub is_coinbase: bool,
    /// Locking script.
    pub script_pubkey: &'a [u8],
}

impl CoinRef<'_> {
    /// Twice the height plus the coinbase flag.
    pub(crate) fn code(&self) -> u32 {
        self.height << 1 | u32::from(self.is_coinbase)
    }

    /// Appends the form of Core's database, as [`Coin::write_compressed`] does.
    pub fn write_compressed(&self, into: &mut Vec<u8>) {
        write_varint(u64::from(self.code()), into);
        compress::write_output(self.value, self.script_pubkey, into);
    }

    /// Appends the form of Core's undo data: the form of the database, with a zero byte after the
    /// first number if the height is above 0.
    pub fn write_undo(&self, into: &mut Vec<u8>) {
        write_varint(u64::from(self.code()), into);
        // Core writes a version of the transaction here that it does not use any more.
        if self.height > 0 {
            into.push(0);
        }
        compress::write_output(self.value, self.script_pubkey, into);
    }

    /// Appends what MuHash covers, as [`Coin::write_hash_preimage`] does.
    pub fn write_hash_preimage(&self, outpoint: &OutPoint, into: &mut Vec<u8>) {
        into.extend_from_slice(&outpoint.txid.0);
        into.extend_from_slice(&outpoint.vout.to_le_bytes());
        into.extend_from_slice(&self.code().to_le_bytes());
        into.extend_from_slice(&self.value.to_le_bytes());
        write_compact_size(self.script_pubkey.len() as u64, into);
        into.extend_from_slice(self.script_pubkey);
    }

    /// The coin with a script of its own.
    pub fn to_coin(&self) -> Coin {
        Coin {
            value: self.value,
            height: self.height,
            is_coinbase: self.is_coinbase,
            script_pubkey: self.script_pubkey.into(),
        }
    }
}

impl<'a> From<&'a Coin> for CoinRef<'a> {
    fn from(coin: &'a Coin) -> Self {
        Self {
            value: coin.value,
            height: coin.height,
            is_coinbase: coin.is_coinbase,
            script_pubkey: &coin.script_pubkey,
        }
    }
}

impl Coin {
    /// Appends the form of Core's database: VARINT of twice the height plus the coinbase flag, then
    /// amount and script compressed. The amount must not be negative.
    pub fn write_compressed(&self, into: &mut Vec<u8>) {
        CoinRef::from(self).write_compressed(into);
    }

    /// Reads what [`Coin::write_compressed`] wrote.
    ///
    /// # Errors
    /// Any [`DecodeError`].
    pub fn read_compressed(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let code = reader.varint(u64::from(u32::MAX))? as u32;
        Self::read_output(code, reader)
    }

    /// Goes past what [`Coin::write_compressed`] wrote, which is not checked.
    ///
    /// # Errors
    /// Any [`DecodeError`].
    pub fn skip_compressed(reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        reader.varint(u64::from(u32::MAX))?;
        compress::skip_output(reader)
    }

    fn read_output(code: u32, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (value, script_pubkey) = compress::read_output(reader)?;
        Ok(Self {
            value,
            height: code >> 1,
            is_coinbase: code & 1 == 1,
            script_pubkey,
        })
    }

    /// Appends the bytes of a coin that `hash_serialized_3` and MuHash cover: outpoint, twice the
    /// height plus the coinbase flag in four bytes, amount, script (Core's `TxOutSer`).
    pub fn write_hash_preimage(&self, outpoint: &OutPoint, into: &mut Vec<u8>) {
        CoinRef::from(self).write_hash_preimage(outpoint, into);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn unspendable_scripts() {
        assert!(is_unspendable(&[0x6a]));
        assert!(!is_unspendable(&[]));
        assert!(!is_unspendable(&[0x51, 0x6a]));
        assert!(!is_unspendable(&vec![0; SCRIPT_SIZE_MAX]));
        assert!(is_unspendable(&vec![0; SCRIPT_SIZE_MAX + 1]));
    }

    #[test]
    fn an_outpoint_as_text() {
        let text = "0e3e2357e806b6cdb1f70b54c3a3a17b6714ee1f0e68bebb44a74b1efd512098:7";
        let outpoint: OutPoint = text.parse().unwrap();
        assert_eq!((outpoint.vout, outpoint.txid.0[0]), (7, 0x98));
        assert_eq!(outpoint.to_string(), text);
        let (txid, _) = text.split_once(':').unwrap();
        for wrong in [
            "",
            ":",
            txid,
            ":7",
            &text[1..],
            &format!("{txid}:"),
            &format!("{txid}:+7"),
            &format!("{txid}:4294967296"),
            &format!("{txid}:7:7"),
            &format!(" {text}"),
        ] {
            let error = wrong.parse::<OutPoint>().unwrap_err();
            assert!(
                error.to_string().starts_with(&format!("{wrong:?} is no outpoint")),
                "{error}"
            );
        }
    }

    #[test]
    fn core_database_form() {
        // The first of Core's examples in coins_tests.cpp (ccoins_serialization).
        let bytes = crate::hex::decode("97f23c835800816115944e077fe7c803cfa57f29b36bf87c1d35").unwrap();
        let mut reader = Reader::new(&bytes);
        let coin = Coin::read_compressed(&mut reader).unwrap();
        assert!(reader.finish().is_ok());
        assert!(!coin.is_coinbase);
        assert_eq!(coin.height, 203_998);
        assert_eq!(coin.value, 60_000_000_000);
        assert_eq!(
            crate::hex::encode(&coin.script_pubkey),
            "76a914816115944e077fe7c803cfa57f29b36bf87c1d3588ac"
        );
        let mut written = Vec::new();
        coin.write_compressed(&mut written);
        assert_eq!(written, bytes);
    }

    proptest! {
        #[test]
        fn both_forms_round_trip(
            value in 0..=2_100_000_000_000_000i64,
            height in 0..1u32 << 31,
            is_coinbase: bool,
            script in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let coin = Coin { value, height, is_coinbase, script_pubkey: script.into() };
            let mut written = Vec::new();
            coin.write_compressed(&mut written);
            prop_assert_eq!(&Coin::read_compressed(&mut Reader::new(&written)).unwrap(), &coin);
            let mut reader = Reader::new(&written);
            Coin::skip_compressed(&mut reader).unwrap();
            prop_assert!(reader.finish().is_ok());
            prop_assert!(Coin::skip_compressed(&mut Reader::new(&written[..written.len() - 1])).is_err());
        }
    }
}
