//! The kind of script that an input spends.

use blockmill_block::transaction::Input;

pub(super) const P2TR_SCRIPT: &str = "P2TR script";
const OTHER: &str = "other";

/// All kinds, in the order of their rows.
pub(super) const KINDS: [&str; 11] = [
    "P2PK",
    "P2PKH",
    "multisig",
    "P2SH multisig",
    "P2WPKH",
    "P2SH-P2WPKH",
    "P2SH-P2WSH",
    "P2WSH",
    "P2TR key",
    P2TR_SCRIPT,
    OTHER,
];

/// The kind of an input that spends an output with this locking script.
pub(super) fn kind_of(input: &Input<'_>, script_pubkey: &[u8]) -> &'static str {
    match script_pubkey {
        [0x76, 0xa9, 20, .., 0x88, 0xac] if script_pubkey.len() == 25 => "P2PKH",
        [33, .., 0xac] if script_pubkey.len() == 35 => "P2PK",
        [65, .., 0xac] if script_pubkey.len() == 67 => "P2PK",
        [0xa9, 20, .., 0x87] if script_pubkey.len() == 23 => match last_push(input.script_sig()) {
            Some([0, 20, rest @ ..]) if rest.len() == 20 => "P2SH-P2WPKH",
            Some([0, 32, rest @ ..]) if rest.len() == 32 => "P2SH-P2WSH",
            Some([.., 0xae]) => "P2SH multisig",
            _ => OTHER,
        },
        [0, 20, ..] if script_pubkey.len() == 22 => "P2WPKH",
        [0, 32, ..] if script_pubkey.len() == 34 => "P2WSH",
        [0x51, 32, ..] if script_pubkey.len() == 34 => {
            let witness = input.witness();
            let has_annex = witness.len() > 1 && witness.last().is_some_and(|last| last.first() == Some(&0x50));
            if witness.len() - usize::from(has_annex) > 1 {
                P2TR_SCRIPT
            } else {
                "P2TR key"
            }
        }
        [.., 0xae] => "multisig",
        _ => OTHER,
    }
}

/// The data of the last push of a script that has only pushes; None for another script.
fn last_push(mut script: &[u8]) -> Option<&[u8]> {
    let mut last = None;
    while let Some((&opcode, rest)) = script.split_first() {
        let (length, rest) = match opcode {
            0..=75 => (usize::from(opcode), rest),
            76 => rest.split_first().map(|(&length, rest)| (usize::from(length), rest))?,
            77 => {
                let (length, rest) = rest.split_first_chunk()?;
                (usize::from(u16::from_le_bytes(*length)), rest)
            }
            0x4f..=0x60 => (0, rest),
            _ => return None,
        };
        let (push, rest) = rest.split_at_checked(length)?;
        (last, script) = (Some(push), rest);
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_push_is_found() {
        assert_eq!(last_push(&[0, 2, 7, 8]), Some(&[7, 8][..]));
        assert_eq!(last_push(&[76, 1, 9]), Some(&[9][..]));
        assert_eq!(last_push(&[1, 5, 77, 3, 0, 1, 2, 3]), Some(&[1, 2, 3][..]));
        assert_eq!(last_push(&[0x51]), Some(&[][..]));
        for script in [&[][..], &[5, 1], &[76], &[77, 1], &[1, 1, 0xac]] {
            assert_eq!(last_push(script), None, "{script:?}");
        }
    }
}
