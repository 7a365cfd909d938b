//! The kind of script that an input spends.

use blockmill_block::transaction::Input;

/// A kind of script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ScriptKind {
    P2pk,
    P2pkh,
    Multisig,
    P2shMultisig,
    P2wpkh,
    P2shP2wpkh,
    P2shP2wsh,
    P2wsh,
    P2trKey,
    P2trScript,
    Other,
}

impl ScriptKind {
    pub(super) const ALL: [Self; 11] = [
        Self::P2pk,
        Self::P2pkh,
        Self::Multisig,
        Self::P2shMultisig,
        Self::P2wpkh,
        Self::P2shP2wpkh,
        Self::P2shP2wsh,
        Self::P2wsh,
        Self::P2trKey,
        Self::P2trScript,
        Self::Other,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::P2pk => "P2PK",
            Self::P2pkh => "P2PKH",
            Self::Multisig => "multisig",
            Self::P2shMultisig => "P2SH multisig",
            Self::P2wpkh => "P2WPKH",
            Self::P2shP2wpkh => "P2SH-P2WPKH",
            Self::P2shP2wsh => "P2SH-P2WSH",
            Self::P2wsh => "P2WSH",
            Self::P2trKey => "P2TR key",
            Self::P2trScript => "P2TR script",
            Self::Other => "other",
        }
    }

    /// The kind of an input that spends an output with this locking script.
    pub(super) fn of(input: &Input<'_>, script_pubkey: &[u8]) -> Self {
        match script_pubkey {
            [0x76, 0xa9, 20, .., 0x88, 0xac] if script_pubkey.len() == 25 => Self::P2pkh,
            [33, .., 0xac] if script_pubkey.len() == 35 => Self::P2pk,
            [65, .., 0xac] if script_pubkey.len() == 67 => Self::P2pk,
            [0xa9, 20, .., 0x87] if script_pubkey.len() == 23 => match last_push(input.script_sig()) {
                Some([0, 20, rest @ ..]) if rest.len() == 20 => Self::P2shP2wpkh,
                Some([0, 32, rest @ ..]) if rest.len() == 32 => Self::P2shP2wsh,
                Some([.., 0xae]) => Self::P2shMultisig,
                _ => Self::Other,
            },
            [0, 20, ..] if script_pubkey.len() == 22 => Self::P2wpkh,
            [0, 32, ..] if script_pubkey.len() == 34 => Self::P2wsh,
            [0x51, 32, ..] if script_pubkey.len() == 34 => {
                let witness = input.witness();
                let has_annex = witness.len() > 1 && witness.last().is_some_and(|last| last.first() == Some(&0x50));
                if witness.len() - usize::from(has_annex) > 1 {
                    Self::P2trScript
                } else {
                    Self::P2trKey
                }
            }
            [.., 0xae] => Self::Multisig,
            _ => Self::Other,
        }
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
