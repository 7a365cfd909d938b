//! Taking back blocks of the active chain.

use crate::error::EngineError;
use crate::pipeline::connect::Engine;
use crate::pipeline::load::Body;
use crate::pipeline::resolve::undo_fits;
use crate::report::Observer;
use crate::report::events::Event;
use blockmill_rules::ScriptVerifier;

impl<V: ScriptVerifier + 'static> Engine<V> {
    /// Disconnects the tip, with its undo data.
    pub(crate) fn disconnect_tip(&mut self, observer: &mut dyn Observer) -> Result<(), EngineError> {
        let id = self.tip_id();
        let entry = self.index.entry(id).clone();
        let missing = |detail: String| EngineError::BlockMissing {
            hash: entry.hash,
            height: entry.height,
            detail,
        };
        let position = entry
            .undo()
            .ok_or_else(|| missing("it has no undo data, since it came with a snapshot".to_owned()))?;
        let block = match self.load_body(id) {
            Body::Sound(block, _) => block,
            Body::Rejected(reject, _) => return Err(missing(reject.to_string())),
            Body::Unreadable(unreadable) => return Err(missing(unreadable.detail)),
        };
        let undo = self.log.read(&self.index.header(id), &position)?;
        if !undo_fits(&block, &undo) {
            return Err(missing("its undo data is another block's".to_owned()));
        }
        let clean = self.disconnect(&block, &undo)?;
        let overwritten = self
            .index
            .params()
            .bip30_overwritten
            .contains(&(entry.height, entry.hash));
        if !clean && !overwritten {
            self.broken = true;
            return Err(missing("the UTXO set does not have its outputs".to_owned()));
        }
        self.active.pop();
        self.signature_ranges.cut(entry.height);
        self.changed = true;
        self.totals.disconnected += 1;
        observer.event(&Event::Disconnected {
            hash: entry.hash,
            height: entry.height,
        });
        Ok(())
    }
}
