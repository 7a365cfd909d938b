//! The kind of script that an input spends.

use blockmill_block::transaction::Input;

pub(super) const P2TR_SCRIPT: &str = "P2TR script";

/// The kinds with rows of their own, in their order.
pub(super) const KINDS: [&str; 4] = ["P2WPKH", "P2PKH", "P2SH multisig", P2TR_SCRIPT];

/// The kind of an input that spends an output with this locking script. None: it has no row.
pub(super) fn kind_of(input: &Input<'_>, script_pubkey: &[u8]) -> Option<&'static str> {
    let witness = input.witness();
    match script_pubkey {
        [0, 20, ..] if script_pubkey.len() == 22 => Some("P2WPKH"),
        [0x76, 0xa9, 20, .., 0x88, 0xac] if script_pubkey.len() == 25 => Some("P2PKH"),
        // The script that is hashed is pushed last, so its last opcode is the last byte.
        [0xa9, 20, .., 0x87] if script_pubkey.len() == 23 => {
            (witness.is_empty() && input.script_sig().ends_with(&[0xae])).then_some("P2SH multisig")
        }
        [0x51, 32, ..] if script_pubkey.len() == 34 => {
            let has_annex = witness.len() > 1 && witness.last().is_some_and(|last| last.first() == Some(&0x50));
            (witness.len() - usize::from(has_annex) > 1).then_some(P2TR_SCRIPT)
        }
        _ => None,
    }
}
