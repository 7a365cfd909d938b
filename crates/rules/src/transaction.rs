//! Rules of a transaction by itself (Core's `CheckTransaction`).

use crate::reject::Reject;
use crate::rule::{Activation, Verdict, rules};
use crate::{MAX_BLOCK_WEIGHT, MAX_MONEY, WITNESS_SCALE_FACTOR, money_range};
use blockmill_block::{OutPoint, Transaction};

/// A check of a transaction.
pub type TransactionCheck = fn(&Transaction<'_>) -> Verdict;

rules! {
    /// The rules of a transaction by itself, in Core's order.
    pub TRANSACTION_RULES: TransactionCheck = [
        has_inputs, "CheckTransaction", Activation::Always;
        has_outputs, "CheckTransaction", Activation::Always;
        size_in_bounds, "CheckTransaction", Activation::Always;
        output_values_in_range, "CheckTransaction, CVE-2010-5139", Activation::Always;
        no_duplicate_inputs, "CheckTransaction, CVE-2018-17144", Activation::Always;
        coinbase_script_length, "CheckTransaction", Activation::Always;
        no_null_inputs, "CheckTransaction", Activation::Always;
    ]
}

/// Runs all rules of a transaction by itself.
///
/// # Errors
/// The first rule that is broken.
pub fn check_transaction(transaction: &Transaction<'_>) -> Verdict {
    TRANSACTION_RULES.iter().try_for_each(|rule| (rule.check)(transaction))
}

/// A transaction MUST have an input.
fn has_inputs(transaction: &Transaction<'_>) -> Verdict {
    if transaction.input_count() == 0 {
        return Err(Reject::consensus("bad-txns-vin-empty"));
    }
    Ok(())
}

/// A transaction MUST have an output.
fn has_outputs(transaction: &Transaction<'_>) -> Verdict {
    if transaction.output_count() == 0 {
        return Err(Reject::consensus("bad-txns-vout-empty"));
    }
    Ok(())
}

/// A transaction without its witness MUST NOT weigh more than a block.
fn size_in_bounds(transaction: &Transaction<'_>) -> Verdict {
    if transaction.base_size() * WITNESS_SCALE_FACTOR > MAX_BLOCK_WEIGHT {
        return Err(Reject::consensus("bad-txns-oversize"));
    }
    Ok(())
}

/// The amount of every output, and every sum of the first outputs, MUST be between zero and all
/// money.
fn output_values_in_range(transaction: &Transaction<'_>) -> Verdict {
    let mut total = 0;
    for output in transaction.outputs() {
        let value = output.value();
        if value < 0 {
            return Err(Reject::consensus("bad-txns-vout-negative"));
        }
        if value > MAX_MONEY {
            return Err(Reject::consensus("bad-txns-vout-toolarge"));
        }
        // Both are at most all money, so the sum does not overflow.
        total += value;
        if !money_range(total) {
            return Err(Reject::consensus("bad-txns-txouttotal-toolarge"));
        }
    }
    Ok(())
}

/// Up to this many inputs are compared pair by pair.
const FEW_INPUTS: usize = 8;

/// A transaction MUST NOT spend the same output twice.
fn no_duplicate_inputs(transaction: &Transaction<'_>) -> Verdict {
    let mut spent: Vec<OutPoint>;
    let duplicate = if transaction.input_count() <= FEW_INPUTS {
        (1..transaction.input_count()).any(|later| {
            let outpoint = transaction.input(later).previous_output();
            (0..later).any(|earlier| transaction.input(earlier).previous_output() == outpoint)
        })
    } else {
        spent = transaction.inputs().map(|input| input.previous_output()).collect();
        spent.sort_unstable();
        spent.windows(2).any(|pair| pair[0] == pair[1])
    };
    if duplicate {
        return Err(Reject::consensus("bad-txns-inputs-duplicate"));
    }
    Ok(())
}

/// The input script of a coinbase MUST have 2 to 100 bytes.
fn coinbase_script_length(transaction: &Transaction<'_>) -> Verdict {
    if transaction.is_coinbase() && !(2..=100).contains(&transaction.input(0).script_sig().len()) {
        return Err(Reject::consensus("bad-cb-length"));
    }
    Ok(())
}

/// A transaction that is not a coinbase MUST NOT spend the null outpoint.
fn no_null_inputs(transaction: &Transaction<'_>) -> Verdict {
    if !transaction.is_coinbase() && transaction.inputs().any(|input| input.previous_output().is_null()) {
        return Err(Reject::consensus("bad-txns-prevout-null"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use blockmill_block::transaction::OwnedTransaction;

    const NULL: [u8; 36] = {
        let mut null = [0; 36];
        null[32] = 0xff;
        null[33] = 0xff;
        null[34] = 0xff;
        null[35] = 0xff;
        null
    };

    fn outpoint(number: u8) -> [u8; 36] {
        [number; 36]
    }

    fn transaction(inputs: &[[u8; 36]], script_length: usize, values: &[i64]) -> OwnedTransaction {
        let mut bytes = vec![1, 0, 0, 0];
        if inputs.is_empty() {
            // Without inputs a transaction decodes only in the extended form, or without outputs.
            assert!(values.is_empty());
            bytes.extend([0, 0, 0, 0, 0, 0]);
            return OwnedTransaction::decode(bytes).unwrap();
        }
        blockmill_block::reader::write_compact_size(inputs.len() as u64, &mut bytes);
        for input in inputs {
            bytes.extend(input);
            blockmill_block::reader::write_compact_size(script_length as u64, &mut bytes);
            bytes.extend(vec![0; script_length]);
            bytes.extend([0xff; 4]);
        }
        bytes.push(values.len() as u8);
        for value in values {
            bytes.extend(value.to_le_bytes());
            bytes.push(0);
        }
        bytes.extend([0; 4]);
        OwnedTransaction::decode(bytes).unwrap()
    }

    fn check(inputs: &[[u8; 36]], script_length: usize, values: &[i64], reason: Option<&str>) {
        let transaction = transaction(inputs, script_length, values);
        let found = check_transaction(&transaction.view()).err();
        assert_eq!(found.as_ref().map(|reject| &*reject.reason), reason);
    }

    #[test]
    fn inputs_and_outputs_must_be_there() {
        check(&[], 0, &[], Some("bad-txns-vin-empty"));
        check(&[outpoint(1)], 0, &[], Some("bad-txns-vout-empty"));
        check(&[outpoint(1)], 0, &[0], None);
    }

    #[test]
    fn values_at_their_boundaries() {
        let one = [outpoint(1)];
        check(&one, 0, &[-1], Some("bad-txns-vout-negative"));
        check(&one, 0, &[i64::MIN], Some("bad-txns-vout-negative"));
        check(&one, 0, &[MAX_MONEY], None);
        check(&one, 0, &[MAX_MONEY + 1], Some("bad-txns-vout-toolarge"));
        check(&one, 0, &[i64::MAX], Some("bad-txns-vout-toolarge"));
        check(&one, 0, &[MAX_MONEY, 0], None);
        check(&one, 0, &[MAX_MONEY, 1], Some("bad-txns-txouttotal-toolarge"));
    }

    #[test]
    fn size_at_its_boundary() {
        // 4 + 1 + (36 + 5 + script + 4) + 1 + 9 + 4 bytes
        let most = MAX_BLOCK_WEIGHT / WITNESS_SCALE_FACTOR - 64;
        check(&[outpoint(1)], most, &[0], None);
        check(&[outpoint(1)], most + 1, &[0], Some("bad-txns-oversize"));
    }

    #[test]
    fn duplicates_among_few_and_many() {
        for count in [2u8, 8, 9, 60] {
            let mut inputs: Vec<_> = (1..=count).map(outpoint).collect();
            check(&inputs, 0, &[0], None);
            inputs[0] = inputs[usize::from(count) - 1];
            check(&inputs, 0, &[0], Some("bad-txns-inputs-duplicate"));
        }
    }

    #[test]
    fn null_inputs_and_coinbases() {
        check(&[NULL], 1, &[0], Some("bad-cb-length"));
        check(&[NULL], 2, &[0], None);
        check(&[NULL], 100, &[0], None);
        check(&[NULL], 101, &[0], Some("bad-cb-length"));
        check(&[outpoint(1), NULL], 2, &[0], Some("bad-txns-prevout-null"));
        // The null id with another index is an ordinary outpoint.
        let mut other = NULL;
        other[35] = 0;
        check(&[outpoint(1), other], 2, &[0], None);
    }
}
