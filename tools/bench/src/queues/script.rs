//! The script checks of mainnet block 413567.

use crate::Failure;
use blockmill_block::{Block, BlockUndo, Network};
use blockmill_kernel::{KernelTransaction, KernelVerifier};
use blockmill_rules::flags::block_script_flags;
use blockmill_rules::{Params, ScriptFlags, ScriptVerifier, SpentOutput};
use std::path::Path;

/// Path of the block from the project's root. Its undo data is in the same folder.
pub(super) const BLOCK: &str = "../shared/data/blocks/mainnet_413567.raw";
const UNDO: &str = "../shared/data/blocks/mainnet_413567.undo";
const HEIGHT: u32 = 413_567;

/// The script checks of a block, with prepared transactions.
pub(super) struct ScriptChecks {
    prepared: Vec<KernelTransaction>,
    /// Transaction and input of each check.
    positions: Vec<(u32, u32)>,
    flags: ScriptFlags,
}

impl ScriptChecks {
    /// The checks of the block, if its file is there. `root` is the project's root.
    pub(super) fn load(root: &Path) -> Result<Option<Self>, Failure> {
        let (Ok(block), Ok(undo)) = (std::fs::read(root.join(BLOCK)), std::fs::read(root.join(UNDO))) else {
            return Ok(None);
        };
        let block = Block::decode(block)?;
        let undo = BlockUndo::decode(&undo)?;
        let params = Params::new(Network::Bitcoin, None);
        let mut checks = Self {
            prepared: Vec::new(),
            positions: Vec::new(),
            flags: block_script_flags(&params, HEIGHT, &block.hash()),
        };
        for (index, transaction) in block.transactions().enumerate().skip(1) {
            let spent: Vec<_> = undo
                .transaction(index - 1)
                .iter()
                .map(|coin| SpentOutput {
                    value: coin.value,
                    script_pubkey: coin.script_pubkey,
                })
                .collect();
            checks.prepared.push(KernelVerifier.prepare(transaction.raw(), &spent)?);
            let inputs = 0..spent.len() as u32;
            checks.positions.extend(inputs.map(|input| (index as u32 - 1, input)));
        }
        Ok(Some(checks))
    }

    /// Number of checks.
    pub(super) fn count(&self) -> u32 {
        self.positions.len() as u32
    }

    /// Runs a check. Returns whether the scripts pass.
    pub(super) fn check(&self, index: u32) -> bool {
        let (transaction, input) = self.positions[index as usize];
        let prepared = &self.prepared[transaction as usize];
        KernelVerifier.verify(prepared, input as usize, self.flags).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_has_the_stated_number_of_checks() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let Some(checks) = ScriptChecks::load(&root).unwrap() else {
            eprintln!("skipped: {BLOCK} is missing");
            return;
        };
        assert_eq!(checks.count(), 4_886);
        assert!((0..20).all(|index| checks.check(index)));
        assert!(ScriptChecks::load(Path::new("nowhere")).unwrap().is_none());
    }
}
