//! Turns planned groups into signed transactions, on all threads. A group is the unit of work. Its
//! members are signed in order, since a member's id may depend on its signatures.

use std::sync::{Mutex, PoisonError};
use std::thread;

use bitcoin::hashes::{Hash, sha256d};
use bitcoin::{
    Amount, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Txid, Witness, Wtxid, absolute, consensus,
    transaction,
};

use crate::sign::sign;
use crate::tx_plan::{Group, Payee, PlannedTransaction, Source};
use crate::wallet::Wallet;

/// A transaction as it stands in its block.
#[derive(Clone, Debug)]
pub(crate) struct SignedTransaction {
    /// The serialization, witnesses included.
    pub(crate) bytes: Vec<u8>,
    pub(crate) txid: Txid,
    pub(crate) wtxid: Wtxid,
}

/// Groups that a thread takes at a time.
const BATCH: usize = 16;

/// Signs the groups; the result has their order. At most one thread per [`BATCH`] groups works.
pub(crate) fn sign_groups(wallet: &Wallet, groups: &[Group], threads: usize) -> Vec<Vec<SignedTransaction>> {
    let threads = threads.min(groups.len().div_ceil(BATCH));
    if threads < 2 {
        return groups.iter().map(|group| sign_group(wallet, group)).collect();
    }
    let mut signed = vec![Vec::new(); groups.len()];
    let batches = Mutex::new(groups.chunks(BATCH).zip(signed.chunks_mut(BATCH)));
    let take = || batches.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        while let Some((groups, slots)) = take() {
            for (group, slot) in groups.iter().zip(slots) {
                *slot = sign_group(wallet, group);
            }
        }
    };
    thread::scope(|scope| {
        // One less: this thread works, too.
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    signed
}

fn sign_group(wallet: &Wallet, group: &Group) -> Vec<SignedTransaction> {
    let mut signed: Vec<SignedTransaction> = Vec::with_capacity(group.len());
    for planned in group {
        // A later member may spend an output of this one, by its id.
        let next = sign_transaction(wallet, planned, &signed);
        signed.push(next);
    }
    signed
}

fn sign_transaction(wallet: &Wallet, planned: &PlannedTransaction, earlier: &[SignedTransaction]) -> SignedTransaction {
    let mut tx = unsigned(wallet, planned, earlier);
    let outputs: Vec<TxOut> = planned
        .inputs
        .iter()
        .map(|input| TxOut {
            value: Amount::from_sat(input.value),
            script_pubkey: wallet.script(input.address).clone(),
        })
        .collect();
    sign(wallet, &mut tx, &planned.inputs, &outputs);
    let bytes = consensus::serialize(&tx);
    // The bytes are there already: hashing them is cheaper than a second serialization.
    let wtxid = Wtxid::from_raw_hash(sha256d::Hash::hash(&bytes));
    let has_witness = tx.input.iter().any(|input| !input.witness.is_empty());
    let txid = if has_witness {
        tx.compute_txid()
    } else {
        Txid::from_raw_hash(wtxid.to_raw_hash())
    };
    SignedTransaction { bytes, txid, wtxid }
}

fn unsigned(wallet: &Wallet, planned: &PlannedTransaction, earlier: &[SignedTransaction]) -> Transaction {
    let input = planned.inputs.iter().map(|input| TxIn {
        previous_output: match input.source {
            Source::Live(coin) => OutPoint {
                txid: coin.txid,
                vout: coin.vout,
            },
            Source::Member { member, vout } => OutPoint {
                txid: earlier[member as usize].txid,
                vout,
            },
        },
        script_sig: ScriptBuf::new(),
        sequence: Sequence::from_consensus(input.sequence),
        witness: Witness::new(),
    });
    let output = planned.outputs.iter().map(|output| TxOut {
        value: Amount::from_sat(output.value),
        script_pubkey: match &output.payee {
            Payee::Address(address) => wallet.script(*address).clone(),
            Payee::Nobody(script) => script.clone(),
        },
    });
    Transaction {
        version: transaction::Version(planned.version),
        lock_time: absolute::LockTime::from_consensus(planned.lock_time),
        input: input.collect(),
        output: output.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::{Address, Kind};
    use crate::chain_spec::Profile;
    use crate::coin_pool::Coin;
    use crate::rng::Rng;
    use crate::tx_plan::{Budget, Split, TxPlan};

    const PLENTY: Budget = Budget {
        weight: 1_000_000,
        sigops: 10_000,
    };

    fn planned(source: Source, address: Address) -> (PlannedTransaction, u64) {
        let mut rng = Rng::new(5, 0);
        let mut tx_plan = TxPlan::new(PLENTY).unwrap();
        for _ in 0..8 {
            assert!(tx_plan.add_input(source, (address, 100_000, 10), &mut rng));
        }
        assert!(tx_plan.add_output(address));
        let (transaction, left) = tx_plan.finish(Split::Uneven, 120, &mut rng);
        (transaction, PLENTY.weight - left.weight)
    }

    fn live(address: Address) -> Source {
        Source::Live(Coin {
            txid: Txid::all_zeros(),
            value: 100_000,
            vout: 0,
            height_code: 20,
            address,
        })
    }

    #[test]
    fn the_estimated_weight_holds_for_each_kind() {
        for profile in [Profile::Mixed, Profile::Utxo] {
            let wallet = Wallet::new(profile, 1);
            for &(kind, _) in Kind::of(profile) {
                let (transaction, estimate) = planned(live(Address { kind, number: 3 }), Address { kind, number: 3 });
                let signed = sign_group(&wallet, &vec![transaction]);
                let tx: Transaction = consensus::deserialize(&signed[0].bytes).unwrap();
                assert_eq!(
                    (tx.compute_txid(), tx.compute_wtxid()),
                    (signed[0].txid, signed[0].wtxid)
                );
                let weight = tx.weight().to_wu();
                // Signatures may be a byte or two shorter; counts and witness marker are reserved
                // generously.
                let slack = 30 + 8 * 2 * 3 * 4;
                assert!(
                    (estimate - slack..=estimate).contains(&weight),
                    "{kind:?}: {weight} of {estimate}"
                );
            }
        }
    }

    #[test]
    fn members_spend_each_other_whatever_their_kind() {
        let wallet = Wallet::new(Profile::Mixed, 1);
        let address = Address {
            kind: Kind::P2pkh,
            number: 1,
        };
        let member = |member| Source::Member { member, vout: 0 };
        let group = vec![
            planned(live(address), address).0,
            planned(member(0), address).0,
            planned(member(1), address).0,
        ];
        let groups = vec![group; 40];
        let signed = sign_groups(&wallet, &groups, 3);
        assert_eq!(signed.len(), 40);
        for group in signed {
            for pair in group.windows(2) {
                let child: Transaction = consensus::deserialize(&pair[1].bytes).unwrap();
                assert!(
                    child
                        .input
                        .iter()
                        .all(|input| input.previous_output.txid == pair[0].txid)
                );
            }
        }
    }
}
