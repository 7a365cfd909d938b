//! Unlocks the inputs of a transaction: signatures, redeem scripts and witnesses for each kind of
//! address.

use bitcoin::hashes::Hash;
use bitcoin::script::{Builder, PushBytesBuf};
use bitcoin::secp256k1::Message;
use bitcoin::sighash::{EcdsaSighashType, Prevouts, SighashCache, TapSighashType};
use bitcoin::taproot::{LeafVersion, TapLeafHash};
use bitcoin::{ScriptBuf, Transaction, TxOut, Witness};

use crate::address::{Address, Kind};
use crate::wallet::{Key, Wallet, open_script};

/// What an input spends, as its signature needs it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spent {
    /// The address of the coin.
    pub(crate) address: Address,
    /// Whether the signature uses ANYONECANPAY.
    pub(crate) anyone_can_pay: bool,
}

/// Writes script sigs and witnesses into `tx`, whose inputs spend `outputs`. `spent` and `outputs`
/// have one element per input.
///
/// Signatures are deterministic: RFC 6979 for ECDSA, no auxiliary randomness for Schnorr.
pub(crate) fn sign(wallet: &Wallet, tx: &mut Transaction, spent: &[Spent], outputs: &[TxOut]) {
    let mut signer = Signer {
        wallet,
        cache: SighashCache::new(&*tx),
        outputs,
    };
    let unlocked: Vec<_> = spent
        .iter()
        .enumerate()
        .map(|(index, &spent)| signer.unlock(index, spent))
        .collect();
    for (input, (script_sig, witness)) in tx.input.iter_mut().zip(unlocked) {
        input.script_sig = script_sig;
        input.witness = witness;
    }
}

struct Signer<'a> {
    wallet: &'a Wallet,
    cache: SighashCache<&'a Transaction>,
    outputs: &'a [TxOut],
}

/// The transaction has every input that is signed. No sighash type in use needs an output of the
/// same index.
const IN_RANGE: &str = "the input is in the transaction";

impl Signer<'_> {
    fn unlock(&mut self, index: usize, spent: Spent) -> (ScriptBuf, Witness) {
        let wallet = self.wallet;
        let address = spent.address;
        let public = |further| wallet.key(address, further).public.to_bytes();
        match address.kind {
            Kind::P2pk | Kind::P2pkUncompressed => (script_sig([self.legacy(index, spent, 0)]), Witness::new()),
            Kind::P2pkh => (
                script_sig([self.legacy(index, spent, 0), public(0).to_vec()]),
                Witness::new(),
            ),
            Kind::P2shMultisig => {
                let signatures = signers(address).map(|signer| self.legacy(index, spent, signer));
                let redeem = wallet.key(address, 0).multisig.to_bytes();
                let [first, second] = signatures;
                (script_sig([Vec::new(), first, second, redeem]), Witness::new())
            }
            Kind::P2shP2wpkh => {
                let redeem = ScriptBuf::new_p2wpkh(&wallet.key(address, 0).public.wpubkey_hash());
                let witness = Witness::from_slice(&[self.segwit_key(index, spent), public(0).to_vec()]);
                (script_sig([redeem.into_bytes()]), witness)
            }
            Kind::P2wpkh => {
                let witness = [self.segwit_key(index, spent), public(0).to_vec()];
                (ScriptBuf::new(), Witness::from_slice(&witness))
            }
            Kind::P2wshMultisig => {
                let [first, second] = signers(address).map(|signer| self.segwit_script(index, spent, signer));
                let script = wallet.key(address, 0).multisig.to_bytes();
                (
                    ScriptBuf::new(),
                    Witness::from_slice(&[Vec::new(), first, second, script]),
                )
            }
            Kind::P2trKey => (ScriptBuf::new(), Witness::from_slice(&[self.taproot(index, spent)])),
            Kind::P2trScript => {
                let signature = self.taproot(index, spent);
                let key = wallet.key(address, 0);
                let witness = [&signature[..], key.leaf.as_bytes(), &key.control_block];
                (ScriptBuf::new(), Witness::from_slice(&witness))
            }
            Kind::True | Kind::Anchor | Kind::ShortDrop | Kind::LongDrop => (ScriptBuf::new(), Witness::new()),
            Kind::P2shTrue => (script_sig([open_script(address.number).into_bytes()]), Witness::new()),
            Kind::P2wshTrue => (
                ScriptBuf::new(),
                Witness::from_slice(&[open_script(address.number).as_bytes()]),
            ),
        }
    }

    /// A signature over the sighash from before segwit, by the key `further` keys after the
    /// address's own.
    fn legacy(&self, index: usize, spent: Spent, further: usize) -> Vec<u8> {
        let key = self.wallet.key(spent.address, further);
        let script = match spent.address.kind {
            Kind::P2shMultisig => &self.wallet.key(spent.address, 0).multisig,
            _ => &self.outputs[index].script_pubkey,
        };
        let sighash_type = ecdsa_sighash_type(spent);
        let sighash = self
            .cache
            .legacy_signature_hash(index, script, sighash_type.to_u32())
            .expect(IN_RANGE);
        self.ecdsa(key, sighash.to_byte_array(), sighash_type)
    }

    /// A signature over the BIP143 sighash of P2WPKH, bare or in P2SH.
    fn segwit_key(&mut self, index: usize, spent: Spent) -> Vec<u8> {
        let key = self.wallet.key(spent.address, 0);
        let program = ScriptBuf::new_p2wpkh(&key.public.wpubkey_hash());
        let sighash_type = ecdsa_sighash_type(spent);
        let value = self.outputs[index].value;
        let sighash = self
            .cache
            .p2wpkh_signature_hash(index, &program, value, sighash_type)
            .expect(IN_RANGE);
        self.ecdsa(key, sighash.to_byte_array(), sighash_type)
    }

    /// A signature over the BIP143 sighash of P2WSH, by the key `further` keys after the address's
    /// own.
    fn segwit_script(&mut self, index: usize, spent: Spent, further: usize) -> Vec<u8> {
        let script = &self.wallet.key(spent.address, 0).multisig;
        let sighash_type = ecdsa_sighash_type(spent);
        let value = self.outputs[index].value;
        let sighash = self
            .cache
            .p2wsh_signature_hash(index, script, value, sighash_type)
            .expect(IN_RANGE);
        self.ecdsa(
            self.wallet.key(spent.address, further),
            sighash.to_byte_array(),
            sighash_type,
        )
    }

    /// A Schnorr signature for the key path or for the leaf of the address.
    fn taproot(&mut self, index: usize, spent: Spent) -> Vec<u8> {
        let key = self.wallet.key(spent.address, 0);
        let sighash_type = if spent.anyone_can_pay {
            TapSighashType::AllPlusAnyoneCanPay
        } else {
            TapSighashType::Default
        };
        let prevouts = Prevouts::All(self.outputs);
        let (sighash, keypair) = if spent.address.kind == Kind::P2trKey {
            (
                self.cache
                    .taproot_key_spend_signature_hash(index, &prevouts, sighash_type),
                &key.tweaked,
            )
        } else {
            let leaf = TapLeafHash::from_script(&key.leaf, LeafVersion::TapScript);
            let sighash = self
                .cache
                .taproot_script_spend_signature_hash(index, &prevouts, leaf, sighash_type);
            (sighash, &key.keypair)
        };
        let message = Message::from_digest(sighash.expect(IN_RANGE).to_byte_array());
        let signature = self.wallet.secp.sign_schnorr_no_aux_rand(&message, keypair);
        bitcoin::taproot::Signature {
            signature,
            sighash_type,
        }
        .to_vec()
    }

    fn ecdsa(&self, key: &Key, sighash: [u8; 32], sighash_type: EcdsaSighashType) -> Vec<u8> {
        let signature = self.wallet.secp.sign_ecdsa(&Message::from_digest(sighash), &key.secret);
        bitcoin::ecdsa::Signature {
            signature,
            sighash_type,
        }
        .to_vec()
    }
}

/// Which two of the three keys of a multisig address sign. Each of the three pairs is in use.
fn signers(address: Address) -> [usize; 2] {
    [[0, 1], [0, 2], [1, 2]][usize::from(address.number % 3)]
}

fn ecdsa_sighash_type(spent: Spent) -> EcdsaSighashType {
    if spent.anyone_can_pay {
        EcdsaSighashType::AllPlusAnyoneCanPay
    } else {
        EcdsaSighashType::All
    }
}

/// A script that pushes each element.
fn script_sig<const N: usize>(elements: [Vec<u8>; N]) -> ScriptBuf {
    elements
        .into_iter()
        .fold(Builder::new(), |script, element| {
            script.push_slice(PushBytesBuf::try_from(element).expect("elements are short"))
        })
        .into_script()
}
