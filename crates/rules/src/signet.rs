//! The signature of a signet block (BIP 325, Core's signet.cpp).
//!
//! The coinbase's witness commitment carries a solution: script and witness of a made-up
//! transaction. That transaction spends a made-up output with the network's challenge as script.
//! The signature covers the header (without bits and nonce) of the block without the solution.

use crate::flags::ScriptFlags;
use crate::params::Params;
use crate::reject::Reject;
use crate::rule::Verdict;
use crate::script::{OP_RETURN, elements, push_data};
use crate::verifier::{ScriptVerifier, SpentOutput};
use blockmill_block::hash::sha256d;
use blockmill_block::merkle;
use blockmill_block::reader::{DecodeError, Reader, write_compact_size};
use blockmill_block::{Block, Transaction};

/// First bytes of the push that carries the solution.
const SOLUTION_HEADER: [u8; 4] = [0xec, 0xc7, 0xda, 0xa2];

/// Flags under which a solution runs.
const SOLUTION_FLAGS: ScriptFlags = ScriptFlags::P2SH
    .with(ScriptFlags::WITNESS)
    .with(ScriptFlags::DERSIG)
    .with(ScriptFlags::NULLDUMMY);

/// On signet every block except the first MUST satisfy the network's challenge.
///
/// # Errors
/// `bad-signet-blksig`.
pub fn check_solution<B: AsRef<[u8]>>(block: &Block<B>, params: &Params, verifier: &impl ScriptVerifier) -> Verdict {
    let Some(challenge) = &params.signet_challenge else {
        return Ok(());
    };
    if block.header() == &params.genesis {
        return Ok(());
    }
    let spending = spending_transaction(block, challenge);
    let spent = SpentOutput {
        value: 0,
        script_pubkey: challenge,
    };
    let accepted = spending.is_some_and(|transaction| {
        verifier
            .prepare(&transaction, &[spent])
            .and_then(|prepared| verifier.verify(&prepared, 0, SOLUTION_FLAGS))
            .is_ok()
    });
    if accepted {
        Ok(())
    } else {
        Err(Reject::consensus("bad-signet-blksig"))
    }
}

/// The made-up transaction with the solution, serialized. `None` if the block has no room for a
/// solution, or a malformed one.
fn spending_transaction<B: AsRef<[u8]>>(block: &Block<B>, challenge: &[u8]) -> Option<Vec<u8>> {
    if block.transaction_count() == 0 {
        return None;
    }
    let coinbase = block.transaction(0);
    let index = merkle::witness_commitment_index(&coinbase)?;
    let (script, solution) = take_solution(coinbase.output(index).script_pubkey());
    let (script_sig, witness) = match &solution {
        Some(solution) => read_solution(solution).ok()?,
        // Without a solution the script is empty, and the witness has no items.
        None => (&[][..], &[0][..]),
    };
    let unsigned_root = merkle_root_with(block, &coinbase_with(&coinbase, index, &script));
    let header = block.header();
    let mut signed = header.version.to_le_bytes().to_vec();
    signed.extend(header.prev_block_hash.0);
    signed.extend(unsigned_root);
    signed.extend(header.time.to_le_bytes());
    // OP_0, then one push (BIP 325).
    let mut to_spend_script = vec![0];
    push_data(&mut to_spend_script, &signed);
    let to_spend = made_up(&[0; 32], u32::MAX, &to_spend_script, challenge, None);
    Some(made_up(&sha256d(&to_spend), 0, script_sig, &[OP_RETURN], Some(witness)))
}

/// The script of the commitment without the solution, and the solution, if the script has one.
/// Other data is pushed again as in Core, up to a broken push. A script without a solution is
/// returned unchanged.
fn take_solution(script: &[u8]) -> (Vec<u8>, Option<Vec<u8>>) {
    let mut replacement = Vec::new();
    let mut solution = None;
    for element in elements(script).map_while(Result::ok) {
        if element.data.is_empty() {
            replacement.push(element.opcode);
            continue;
        }
        let mut data = element.data;
        if solution.is_none() && data.len() > SOLUTION_HEADER.len() && data.starts_with(&SOLUTION_HEADER) {
            let (header, rest) = data.split_at(SOLUTION_HEADER.len());
            solution = Some(rest.to_vec());
            data = header;
        }
        push_data(&mut replacement, data);
    }
    if solution.is_none() {
        replacement = script.to_vec();
    }
    (replacement, solution)
}

/// Script and serialized witness of a solution.
fn read_solution(solution: &[u8]) -> Result<(&[u8], &[u8]), DecodeError> {
    let mut reader = Reader::new(solution);
    let script_sig = reader.sized_bytes()?;
    // Taken as it is serialized. The loop below only checks its form.
    let witness = &solution[reader.offset()..];
    for _ in 0..reader.compact_size()? {
        reader.sized_bytes()?;
    }
    reader.finish()?;
    Ok((script_sig, witness))
}

/// The coinbase without witness, with another script for the output at `index`.
fn coinbase_with(coinbase: &Transaction<'_>, index: usize, script: &[u8]) -> Vec<u8> {
    let mut bytes = coinbase.version().to_le_bytes().to_vec();
    write_compact_size(coinbase.input_count() as u64, &mut bytes);
    for input in coinbase.inputs() {
        let outpoint = input.previous_output();
        bytes.extend(outpoint.txid.0);
        bytes.extend(outpoint.vout.to_le_bytes());
        write_sized(&mut bytes, input.script_sig());
        bytes.extend(input.sequence().to_le_bytes());
    }
    write_compact_size(coinbase.output_count() as u64, &mut bytes);
    for (position, output) in coinbase.outputs().enumerate() {
        bytes.extend(output.value().to_le_bytes());
        write_sized(
            &mut bytes,
            if position == index {
                script
            } else {
                output.script_pubkey()
            },
        );
    }
    bytes.extend(coinbase.lock_time().to_le_bytes());
    bytes
}

/// Merkle root of a block with another coinbase.
fn merkle_root_with<B: AsRef<[u8]>>(block: &Block<B>, coinbase: &[u8]) -> [u8; 32] {
    let mut leaves: Vec<_> = block.transactions().map(|transaction| transaction.txid().0).collect();
    leaves[0] = sha256d(coinbase);
    merkle::root(&mut leaves).hash
}

fn write_sized(bytes: &mut Vec<u8>, data: &[u8]) {
    write_compact_size(data.len() as u64, bytes);
    bytes.extend_from_slice(data);
}

/// A transaction of version 0 with one input of sequence 0 and one output of value 0. A witness
/// without items is left out, as in any serialization.
fn made_up(txid: &[u8; 32], vout: u32, script_sig: &[u8], script_pubkey: &[u8], witness: Option<&[u8]>) -> Vec<u8> {
    let witness = witness.filter(|witness| witness.first() != Some(&0));
    let mut bytes = vec![0; 4];
    if witness.is_some() {
        // Marker and flag of a serialization with witnesses.
        bytes.extend([0, 1]);
    }
    bytes.push(1);
    bytes.extend(txid);
    bytes.extend(vout.to_le_bytes());
    write_sized(&mut bytes, script_sig);
    bytes.extend([0; 4]);
    bytes.push(1);
    bytes.extend([0; 8]);
    write_sized(&mut bytes, script_pubkey);
    bytes.extend(witness.unwrap_or_default());
    bytes.extend([0; 4]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_solution_is_cut_out() {
        let commitment = [&[OP_RETURN, 0x24, 0xaa, 0x21, 0xa9, 0xed][..], &[7; 32]].concat();
        assert_eq!(take_solution(&commitment), (commitment.clone(), None));
        let mut signed = commitment.clone();
        push_data(&mut signed, &[&SOLUTION_HEADER[..], &[1, 2, 3]].concat());
        let mut cut = commitment.clone();
        push_data(&mut cut, &SOLUTION_HEADER);
        assert_eq!(take_solution(&signed), (cut, Some(vec![1, 2, 3])));
        // The header alone is not a solution.
        let mut empty = commitment.clone();
        push_data(&mut empty, &SOLUTION_HEADER);
        assert_eq!(take_solution(&empty), (empty.clone(), None));
    }

    #[test]
    fn solutions_must_be_whole() {
        assert_eq!(read_solution(&[1, 0x51, 1, 1, 9]), Ok((&[0x51][..], &[1, 1, 9][..])));
        assert!(read_solution(&[1, 0x51, 1, 1]).is_err());
        assert!(read_solution(&[1, 0x51, 0, 0]).is_err());
        assert!(read_solution(&[]).is_err());
    }

    #[test]
    fn made_up_transactions_decode() {
        for witness in [None, Some(&[0][..]), Some(&[1, 1, 9][..])] {
            let bytes = made_up(&[3; 32], 0, &[0x51], &[OP_RETURN], witness);
            let transaction = blockmill_block::transaction::OwnedTransaction::decode(bytes).unwrap();
            assert_eq!(transaction.view().has_witness(), witness == Some(&[1, 1, 9][..]));
        }
    }
}
