//! Conversions from and to the types of rust-bitcoin (the crate `bitcoin`, 0.32).
//!
//! `From` where every value has a counterpart: [`BlockHash`], [`Txid`], [`Wtxid`], [`MerkleRoot`],
//! [`OutPoint`], [`Header`], [`Network`], [`Magic`]. `TryFrom` where a value may have none:
//!
//! | from | to | fails |
//! |---|---|---|
//! | `&`[`Coin`], [`Output`] | [`bitcoin::TxOut`] | negative amounts |
//! | [`Transaction`] | [`bitcoin::Transaction`] | bytes that rust-bitcoin refuses |
//! | `&`[`Block`] | [`bitcoin::Block`] | bytes that rust-bitcoin refuses |
//! | `&`[`bitcoin::Transaction`] | [`OwnedTransaction`] | bytes that Core refuses |
//! | `&`[`bitcoin::Block`] | [`Block`] | bytes that Core refuses |
//!
//! An output does not say at which height it was created, so the way back to a coin is a function:
//! [`Coin::from_tx_out`].
//!
//! ```
//! use blockmill_block::{BlockHash, Header};
//!
//! let genesis = bitcoin::constants::genesis_block(bitcoin::Network::Bitcoin);
//! let header = Header::from(genesis.header);
//! assert_eq!(header.hash(), BlockHash::from(genesis.block_hash()));
//! assert_eq!(bitcoin::block::Header::from(header), genesis.header);
//! ```

use crate::transaction::OwnedTransaction;
use crate::{
    Block, BlockHash, Coin, DecodeError, Header, Magic, MerkleRoot, Network, OutPoint, Output, Transaction, Txid, Wtxid,
};
use bitcoin::consensus::encode;
use bitcoin::hashes::Hash;
use thiserror::Error;

/// An amount that does not fit the other type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the amount {satoshi} satoshi is out of range")]
pub struct AmountOutOfRange {
    /// The amount in satoshi.
    pub satoshi: i128,
}

macro_rules! hash_conversions {
    ($($name:ident => $other:ty;)*) => {$(
        impl From<$name> for $other {
            fn from(hash: $name) -> Self {
                Self::from_byte_array(hash.0)
            }
        }

        impl From<$other> for $name {
            fn from(hash: $other) -> Self {
                Self(hash.to_byte_array())
            }
        }
    )*};
}

hash_conversions! {
    BlockHash => bitcoin::BlockHash;
    Txid => bitcoin::Txid;
    Wtxid => bitcoin::Wtxid;
    MerkleRoot => bitcoin::TxMerkleNode;
}

impl From<OutPoint> for bitcoin::OutPoint {
    fn from(outpoint: OutPoint) -> Self {
        Self {
            txid: outpoint.txid.into(),
            vout: outpoint.vout,
        }
    }
}

impl From<bitcoin::OutPoint> for OutPoint {
    fn from(outpoint: bitcoin::OutPoint) -> Self {
        Self {
            txid: outpoint.txid.into(),
            vout: outpoint.vout,
        }
    }
}

impl From<Header> for bitcoin::block::Header {
    fn from(header: Header) -> Self {
        Self {
            version: bitcoin::block::Version::from_consensus(header.version),
            prev_blockhash: header.prev_block_hash.into(),
            merkle_root: header.merkle_root.into(),
            time: header.time,
            bits: bitcoin::CompactTarget::from_consensus(header.bits),
            nonce: header.nonce,
        }
    }
}

impl From<bitcoin::block::Header> for Header {
    fn from(header: bitcoin::block::Header) -> Self {
        Self {
            version: header.version.to_consensus(),
            prev_block_hash: header.prev_blockhash.into(),
            merkle_root: header.merkle_root.into(),
            time: header.time,
            bits: header.bits.to_consensus(),
            nonce: header.nonce,
        }
    }
}

impl From<Network> for bitcoin::Network {
    fn from(network: Network) -> Self {
        match network {
            Network::Bitcoin => Self::Bitcoin,
            Network::Testnet3 => Self::Testnet,
            Network::Testnet4 => Self::Testnet4,
            Network::Signet => Self::Signet,
            Network::Regtest => Self::Regtest,
        }
    }
}

impl From<bitcoin::Network> for Network {
    fn from(network: bitcoin::Network) -> Self {
        match network {
            bitcoin::Network::Bitcoin => Self::Bitcoin,
            bitcoin::Network::Testnet => Self::Testnet3,
            bitcoin::Network::Testnet4 => Self::Testnet4,
            bitcoin::Network::Signet => Self::Signet,
            bitcoin::Network::Regtest => Self::Regtest,
        }
    }
}

impl From<Magic> for bitcoin::p2p::Magic {
    fn from(magic: Magic) -> Self {
        Self::from_bytes(magic.0)
    }
}

impl From<bitcoin::p2p::Magic> for Magic {
    fn from(magic: bitcoin::p2p::Magic) -> Self {
        Self(magic.to_bytes())
    }
}

/// An output of `value` satoshi.
fn tx_out(value: i64, script_pubkey: &[u8]) -> Result<bitcoin::TxOut, AmountOutOfRange> {
    let satoshi = u64::try_from(value).map_err(|_| AmountOutOfRange { satoshi: value.into() })?;
    Ok(bitcoin::TxOut {
        value: bitcoin::Amount::from_sat(satoshi),
        script_pubkey: bitcoin::ScriptBuf::from_bytes(script_pubkey.to_vec()),
    })
}

impl TryFrom<&Coin> for bitcoin::TxOut {
    type Error = AmountOutOfRange;

    fn try_from(coin: &Coin) -> Result<Self, AmountOutOfRange> {
        tx_out(coin.value, &coin.script_pubkey)
    }
}

impl TryFrom<Output<'_>> for bitcoin::TxOut {
    type Error = AmountOutOfRange;

    fn try_from(output: Output<'_>) -> Result<Self, AmountOutOfRange> {
        tx_out(output.value(), output.script_pubkey())
    }
}

impl Coin {
    /// The coin that the block at `height` creates of an output. `is_coinbase`: a coinbase created
    /// it.
    ///
    /// # Errors
    /// [`AmountOutOfRange`] from 2^63 satoshi on.
    pub fn from_tx_out(output: &bitcoin::TxOut, height: u32, is_coinbase: bool) -> Result<Self, AmountOutOfRange> {
        let satoshi = output.value.to_sat();
        Ok(Self {
            value: i64::try_from(satoshi).map_err(|_| AmountOutOfRange {
                satoshi: satoshi.into(),
            })?,
            height,
            is_coinbase,
            script_pubkey: output.script_pubkey.as_bytes().into(),
        })
    }
}

impl TryFrom<Transaction<'_>> for bitcoin::Transaction {
    type Error = encode::Error;

    fn try_from(transaction: Transaction<'_>) -> Result<Self, encode::Error> {
        encode::deserialize(transaction.raw())
    }
}

impl TryFrom<&bitcoin::Transaction> for OwnedTransaction {
    type Error = DecodeError;

    fn try_from(transaction: &bitcoin::Transaction) -> Result<Self, DecodeError> {
        Self::decode(encode::serialize(transaction))
    }
}

impl<B: AsRef<[u8]>> TryFrom<&Block<B>> for bitcoin::Block {
    type Error = encode::Error;

    fn try_from(block: &Block<B>) -> Result<Self, encode::Error> {
        encode::deserialize(block.bytes())
    }
}

impl TryFrom<&bitcoin::Block> for Block {
    type Error = DecodeError;

    fn try_from(block: &bitcoin::Block) -> Result<Self, DecodeError> {
        Self::decode(encode::serialize(block))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bitcoin::constants::genesis_block;
    use proptest::prelude::*;

    #[test]
    fn networks_and_their_magic() {
        for network in Network::ALL {
            let other = bitcoin::Network::from(network);
            assert_eq!(Network::from(other), network);
            assert_eq!(bitcoin::p2p::Magic::from(network.magic()), other.magic());
            assert_eq!(Magic::from(other.magic()), network.magic());
        }
    }

    #[test]
    fn first_blocks_of_all_networks() {
        for network in Network::ALL {
            let theirs = genesis_block(bitcoin::Network::from(network));
            let ours = Block::try_from(&theirs).unwrap();
            assert_eq!(bitcoin::Block::try_from(&ours).unwrap(), theirs);
            assert_eq!(bitcoin::BlockHash::from(ours.hash()), theirs.block_hash());
            assert_eq!(ours.hash().to_string(), theirs.block_hash().to_string());
            assert_eq!(*ours.header(), theirs.header.into());
            let coinbase = &theirs.txdata[0];
            assert_eq!(&bitcoin::Transaction::try_from(ours.transaction(0)).unwrap(), coinbase);
            assert_eq!(ours.transaction(0).txid(), coinbase.compute_txid().into());
            assert_eq!(ours.transaction(0).wtxid(), coinbase.compute_wtxid().into());
            let alone = OwnedTransaction::try_from(coinbase).unwrap();
            assert_eq!(alone.view().raw(), ours.transaction(0).raw());
            let output = bitcoin::TxOut::try_from(ours.transaction(0).output(0)).unwrap();
            assert_eq!(output, coinbase.output[0]);
        }
    }

    #[test]
    fn amounts_at_their_boundaries() {
        let coin = |value| Coin {
            value,
            height: 7,
            is_coinbase: true,
            script_pubkey: [0x51].into(),
        };
        let output = bitcoin::TxOut::try_from(&coin(i64::MAX)).unwrap();
        assert_eq!(Coin::from_tx_out(&output, 7, true), Ok(coin(i64::MAX)));
        assert_eq!(
            bitcoin::TxOut::try_from(&coin(-1)),
            Err(AmountOutOfRange { satoshi: -1 })
        );
        let too_much = bitcoin::TxOut {
            value: bitcoin::Amount::from_sat(1 << 63),
            ..output
        };
        assert_eq!(
            Coin::from_tx_out(&too_much, 7, true),
            Err(AmountOutOfRange { satoshi: 1 << 63 })
        );
    }

    /// Core decodes a transaction without inputs and outputs, rust-bitcoin refuses it.
    #[test]
    fn what_only_one_side_decodes() {
        let mut bytes = vec![0; Header::LENGTH];
        bytes.extend([1, 1, 0, 0, 0, 0, 0, 9, 0, 0, 0]);
        let block = Block::decode(bytes).unwrap();
        assert!(bitcoin::Block::try_from(&block).is_err());
        assert!(bitcoin::Transaction::try_from(block.transaction(0)).is_err());
    }

    proptest! {
        #[test]
        fn headers_and_outpoints_round_trip(bytes: [u8; 32], rest: [u8; 32], words: [u32; 4]) {
            let header = Header {
                version: words[0].cast_signed(),
                prev_block_hash: BlockHash(bytes),
                merkle_root: MerkleRoot(rest),
                time: words[1],
                bits: words[2],
                nonce: words[3],
            };
            let other = bitcoin::block::Header::from(header);
            prop_assert_eq!(Header::from(other), header);
            prop_assert_eq!(encode::serialize(&other), header.to_bytes());
            let outpoint = OutPoint { txid: Txid(bytes), vout: words[0] };
            let other = bitcoin::OutPoint::from(outpoint);
            prop_assert_eq!(OutPoint::from(other), outpoint);
            prop_assert_eq!(other.to_string(), outpoint.to_string());
            prop_assert_eq!(Wtxid::from(bitcoin::Wtxid::from(Wtxid(rest))), Wtxid(rest));
        }
    }
}
