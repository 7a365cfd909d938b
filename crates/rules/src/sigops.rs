//! Counting signature operations, and their cost in a block.

use crate::WITNESS_SCALE_FACTOR;
use crate::flags::ScriptFlags;
use crate::script::{OP_1, OP_16, elements, is_p2sh, last_push, witness_program};
use blockmill_block::{Coins, Input, Transaction, Witness};

const OP_CHECKSIG: u8 = 0xac;
const OP_CHECKSIGVERIFY: u8 = 0xad;
const OP_CHECKMULTISIG: u8 = 0xae;
const OP_CHECKMULTISIGVERIFY: u8 = 0xaf;

/// Operations of a CHECKMULTISIG whose number of keys is not read from the script.
const MULTISIG_KEYS_MAX: u64 = 20;

/// Signature operations in a script, up to a broken push. With `accurate`, a CHECKMULTISIG right
/// after OP_1 to OP_16 counts as that number; any other counts as twenty (Core's
/// `CScript::GetSigOpCount`).
pub fn count(script: &[u8], accurate: bool) -> u64 {
    let mut operations = 0;
    // Before the first opcode there is no small number.
    let mut previous = u8::MAX;
    for element in elements(script).map_while(Result::ok) {
        operations += match element.opcode {
            OP_CHECKSIG | OP_CHECKSIGVERIFY => 1,
            OP_CHECKMULTISIG | OP_CHECKMULTISIGVERIFY if accurate && (OP_1..=OP_16).contains(&previous) => {
                u64::from(previous - OP_1) + 1
            }
            OP_CHECKMULTISIG | OP_CHECKMULTISIGVERIFY => MULTISIG_KEYS_MAX,
            _ => 0,
        };
        // A push of a number other than OP_1 to OP_16 does not count as one.
        previous = element.opcode;
    }
    operations
}

/// Signature operations in the input and output scripts of a transaction, counted as before BIP 16
/// (Core's `GetLegacySigOpCount`).
pub fn legacy_count(transaction: &Transaction<'_>) -> u64 {
    let inputs: u64 = transaction.inputs().map(|input| count(input.script_sig(), false)).sum();
    let outputs: u64 = transaction
        .outputs()
        .map(|output| count(output.script_pubkey(), false))
        .sum();
    inputs + outputs
}

/// Signature operations of a witness program.
fn witness_program_count(version: u8, program: &[u8], witness: &Witness<'_>) -> u64 {
    match (version, program.len()) {
        (0, 20) => 1,
        (0, 32) => witness.last().map_or(0, |script| count(script, true)),
        _ => 0,
    }
}

/// Cost of an input's scripts that legacy counting leaves out: the redeem script of P2SH, and the
/// witness (Core's `GetP2SHSigOpCount` and `CountWitnessSigOps`).
fn input_cost(input: &Input<'_>, script_pubkey: &[u8], flags: ScriptFlags) -> u64 {
    let mut cost = 0;
    let redeem_script = if is_p2sh(script_pubkey) {
        last_push(input.script_sig())
    } else {
        None
    };
    if flags.contains(ScriptFlags::P2SH)
        && let Some(script) = redeem_script
    {
        cost += count(script, true) * WITNESS_SCALE_FACTOR as u64;
    }
    if flags.contains(ScriptFlags::WITNESS) {
        // A witness program may be the locking script, or nested in P2SH.
        let program = witness_program(script_pubkey).or_else(|| redeem_script.and_then(witness_program));
        if let Some((version, program)) = program {
            cost += witness_program_count(version, program, &input.witness());
        }
    }
    cost
}

/// Cost of a transaction's signature operations. `coins` are the coins that it spends, one per
/// input; a coinbase has none. `legacy` is its [`legacy_count`] (Core's `GetTransactionSigOpCost`).
pub fn transaction_cost(transaction: &Transaction<'_>, coins: Coins<'_>, legacy: u64, flags: ScriptFlags) -> u64 {
    let inputs: u64 = transaction
        .inputs()
        .zip(coins.iter())
        .map(|(input, coin)| input_cost(&input, coin.script_pubkey, flags))
        .sum();
    // Operations in witnesses have no factor: that is their discount.
    legacy * WITNESS_SCALE_FACTOR as u64 + inputs
}

#[cfg(test)]
mod tests {
    use super::*;
    use blockmill_block::transaction::OwnedTransaction;
    use blockmill_block::{CoinList, CoinRef};

    #[test]
    fn counting() {
        assert_eq!(count(&[OP_CHECKSIG, OP_CHECKSIGVERIFY], false), 2);
        assert_eq!(count(&[0x53, OP_CHECKMULTISIG], false), 20);
        assert_eq!(count(&[0x53, OP_CHECKMULTISIG], true), 3);
        assert_eq!(count(&[0x60, OP_CHECKMULTISIGVERIFY], true), 16);
        assert_eq!(count(&[0x00, OP_CHECKMULTISIG], true), 20);
        assert_eq!(count(&[OP_CHECKMULTISIG], true), 20);
        // Data does not count, and nothing counts after a broken push.
        assert_eq!(count(&[1, OP_CHECKSIG, OP_CHECKSIG], false), 1);
        assert_eq!(count(&[OP_CHECKSIG, 2, OP_CHECKSIG], false), 1);
        // Only the element right before a multisig counts as its number.
        assert_eq!(count(&[0x53, 0x75, OP_CHECKMULTISIG], true), 20);
    }

    /// A transaction with one input of this script and witness, and one empty output.
    fn spending(script_sig: &[u8], witness: &[&[u8]]) -> OwnedTransaction {
        let mut bytes = vec![2, 0, 0, 0];
        if !witness.is_empty() {
            bytes.extend([0, 1]);
        }
        bytes.push(1);
        bytes.extend([7; 36]);
        bytes.push(script_sig.len() as u8);
        bytes.extend(script_sig);
        bytes.extend([0xff; 4]);
        bytes.extend([1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        if !witness.is_empty() {
            bytes.push(witness.len() as u8);
            for item in witness {
                bytes.push(item.len() as u8);
                bytes.extend(*item);
            }
        }
        bytes.extend([0; 4]);
        OwnedTransaction::decode(bytes).unwrap()
    }

    fn check(script_sig: &[u8], witness: &[&[u8]], script_pubkey: &[u8], flags: ScriptFlags, cost: u64) {
        let transaction = spending(script_sig, witness);
        let mut coins = CoinList::default();
        coins.push(CoinRef {
            value: 1,
            height: 1,
            is_coinbase: false,
            script_pubkey,
        });
        let legacy = legacy_count(&transaction.view());
        assert_eq!(
            transaction_cost(&transaction.view(), coins.coins(), legacy, flags),
            cost
        );
    }

    fn p2sh() -> Vec<u8> {
        [&[0xa9, 20][..], &[5; 20], &[0x87]].concat()
    }

    #[test]
    fn cost_by_form() {
        let all = ScriptFlags::P2SH | ScriptFlags::WITNESS;
        let multisig = [0x53, OP_CHECKMULTISIG];
        let push_multisig = [2, 0x53, OP_CHECKMULTISIG];
        check(&push_multisig, &[], &p2sh(), all, 12);
        check(&push_multisig, &[], &p2sh(), ScriptFlags::NONE, 0);
        // A script that does more than push has no redeem script.
        check(&[2, 0x53, OP_CHECKMULTISIG, 0x75], &[], &p2sh(), all, 0);
        check(&[OP_CHECKSIG], &[], &[0x51], all, 4);
        let key_hash = [&[0, 20][..], &[5; 20]].concat();
        let script_hash = [&[0, 32][..], &[5; 32]].concat();
        let taproot = [&[0x51, 32][..], &[5; 32]].concat();
        check(&[], &[&[1]], &key_hash, all, 1);
        check(&[], &[&[1]], &key_hash, ScriptFlags::P2SH, 0);
        check(&[], &[&[1], &multisig], &script_hash, all, 3);
        check(&[], &[], &script_hash, all, 0);
        check(&[], &[&multisig], &taproot, all, 0);
        let nested = [&[22][..], &key_hash].concat();
        check(&nested, &[&[1]], &p2sh(), all, 1);
    }
}
