//! Unlocks the inputs of a transaction: signatures, redeem scripts and witnesses for each kind of
//! address.

use bitcoin::hashes::Hash;
use bitcoin::script::{Builder, PushBytesBuf};
use bitcoin::secp256k1::Message;
use bitcoin::sighash::{EcdsaSighashType, Prevouts, SighashCache, TapSighashType};
use bitcoin::taproot::{LeafVersion, TapLeafHash};
use bitcoin::{ScriptBuf, Transaction, TxOut, Witness};

use crate::address::{Address, Kind};
use crate::tx_plan::PlannedInput;
use crate::wallet::{Wallet, open_script};

/// Writes script sigs and witnesses into `tx`, whose inputs spend `outputs`. `inputs` and `outputs`
/// have one element per input.
///
/// Signatures are deterministic: RFC 6979 for ECDSA, no auxiliary randomness for Schnorr.
pub(crate) fn sign(wallet: &Wallet, tx: &mut Transaction, inputs: &[PlannedInput], outputs: &[TxOut]) {
    let mut signer = Signer {
        wallet,
        cache: SighashCache::new(&*tx),
        outputs,
    };
    let unlocked: Vec<_> = (0..)
        .zip(inputs)
        .map(|(index, input)| signer.unlock(index, input))
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
    fn unlock(&mut self, index: usize, input: &PlannedInput) -> (ScriptBuf, Witness) {
        let (address, wallet) = (input.address, self.wallet);
        let public = || wallet.key(address, 0).public.to_bytes().to_vec();
        let mut ecdsa = |further| self.ecdsa(index, input, further);
        // CHECKMULTISIG takes one element more than it needs.
        let mut multisig = || {
            let [first, second] = signers(address).map(&mut ecdsa);
            vec![Vec::new(), first, second, wallet.key(address, 0).multisig.to_bytes()]
        };
        let none = Vec::new;
        let (pushed, witness): (Vec<Vec<u8>>, Vec<Vec<u8>>) = match address.kind {
            Kind::P2pk | Kind::P2pkUncompressed => (vec![ecdsa(0)], none()),
            Kind::P2pkh => (vec![ecdsa(0), public()], none()),
            Kind::P2shMultisig => (multisig(), none()),
            Kind::P2shP2wpkh => (vec![wallet.program(address).into_bytes()], vec![ecdsa(0), public()]),
            Kind::P2wpkh => (none(), vec![ecdsa(0), public()]),
            Kind::P2wshMultisig => (none(), multisig()),
            Kind::P2trKey => (none(), vec![self.taproot(index, input)]),
            Kind::P2trScript => {
                let key = wallet.key(address, 0);
                let (leaf, control_block) = (key.leaf.to_bytes(), key.control_block.clone());
                (none(), vec![self.taproot(index, input), leaf, control_block])
            }
            Kind::True | Kind::Anchor | Kind::ShortDrop | Kind::LongDrop => (none(), none()),
            Kind::P2shTrue => (vec![open_script(address.number).into_bytes()], none()),
            Kind::P2wshTrue => (none(), vec![open_script(address.number).into_bytes()]),
        };
        let script_sig = pushed.into_iter().fold(Builder::new(), |script, element| {
            // An empty element is pushed as OP_0.
            script.push_slice(PushBytesBuf::try_from(element).expect("elements are short"))
        });
        (script_sig.into_script(), Witness::from_slice(&witness))
    }

    /// An ECDSA signature by the key `further` keys after the address's own: over the BIP143
    /// sighash for witnesses, else over the one from before segwit.
    fn ecdsa(&mut self, index: usize, input: &PlannedInput, further: usize) -> Vec<u8> {
        let (address, spent) = (input.address, &self.outputs[index]);
        let sighash_type = match input.anyone_can_pay {
            true => EcdsaSighashType::AllPlusAnyoneCanPay,
            false => EcdsaSighashType::All,
        };
        let legacy = |script| self.cache.legacy_signature_hash(index, script, sighash_type.to_u32());
        let multisig = &self.wallet.key(address, 0).multisig;
        let sighash = match address.kind {
            Kind::P2wpkh | Kind::P2shP2wpkh => {
                let program = self.wallet.program(address);
                let sighash = self
                    .cache
                    .p2wpkh_signature_hash(index, &program, spent.value, sighash_type);
                sighash.expect(IN_RANGE).to_byte_array()
            }
            Kind::P2wshMultisig => {
                let sighash = self
                    .cache
                    .p2wsh_signature_hash(index, multisig, spent.value, sighash_type);
                sighash.expect(IN_RANGE).to_byte_array()
            }
            Kind::P2shMultisig => legacy(multisig).expect(IN_RANGE).to_byte_array(),
            // These kinds sign the locking script itself.
            _ => legacy(&spent.script_pubkey).expect(IN_RANGE).to_byte_array(),
        };
        let secret = &self.wallet.key(address, further).secret;
        let signature = self.wallet.secp.sign_ecdsa(&Message::from_digest(sighash), secret);
        bitcoin::ecdsa::Signature {
            signature,
            sighash_type,
        }
        .to_vec()
    }

    /// A Schnorr signature for the key path or for the leaf of the address.
    fn taproot(&mut self, index: usize, input: &PlannedInput) -> Vec<u8> {
        let key = self.wallet.key(input.address, 0);
        let sighash_type = if input.anyone_can_pay {
            TapSighashType::AllPlusAnyoneCanPay
        } else {
            TapSighashType::Default
        };
        let prevouts = Prevouts::All(self.outputs);
        let (sighash, keypair) = if input.address.kind == Kind::P2trKey {
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
            // The leaf has the key as it is; the tweak is for the path without a script.
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
}

/// Which two of the three keys of a multisig address sign. Each of the three pairs is in use.
fn signers(address: Address) -> [usize; 2] {
    [[0, 1], [0, 2], [1, 2]][usize::from(address.number % 3)]
}
