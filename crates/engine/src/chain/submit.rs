//! Blocks one by one, each with a verdict (Core's `ProcessNewBlock`).

use crate::chain::import::clock;
use crate::chain::index::{BlockId, HeaderRefusal};
use crate::error::EngineError;
use crate::pipeline::connect::Engine;
use crate::report::Observer;
use blockmill_block::{Block, BlockHash};
use blockmill_blockfiles::BlockFileWriter;
use blockmill_rules::{Reject, RejectKind, ScriptVerifier};

/// What became of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is in the active chain.
    Connected,
    /// It is kept, in a chain with no more work than the active one.
    Side,
    /// Its parent is unknown; it is not kept.
    Orphan,
    /// It was known already.
    Duplicate,
    /// It, or a block before it, breaks a rule.
    Invalid,
    /// It does not decode.
    Malformed,
}

impl Verdict {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Connected => "connected",
            Self::Side => "side",
            Self::Orphan => "orphan",
            Self::Duplicate => "duplicate",
            Self::Invalid => "invalid",
            Self::Malformed => "malformed",
        }
    }
}

/// The answer to a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    /// Hash of the block, if its header could be read.
    pub hash: Option<BlockHash>,
    /// What became of it.
    pub verdict: Verdict,
    /// Core's word, where the block is not accepted.
    pub reason: Option<String>,
    /// The ancestor that broke the rule, where it was not the block itself.
    pub failed: Option<BlockHash>,
}

impl Submission {
    fn new(hash: BlockHash, verdict: Verdict) -> Self {
        Self {
            hash: Some(hash),
            verdict,
            reason: None,
            failed: None,
        }
    }

    fn invalid(hash: BlockHash, reject: &Reject) -> Self {
        Self {
            reason: Some(reject.reason.clone().into_owned()),
            ..Self::new(hash, Verdict::Invalid)
        }
    }

    /// The answer to what is no block.
    pub fn malformed(hash: Option<BlockHash>, reason: String) -> Self {
        Self {
            hash,
            verdict: Verdict::Malformed,
            reason: Some(reason),
            failed: None,
        }
    }
}

impl<V: ScriptVerifier + 'static> Engine<V> {
    /// Judges a block, keeps it if it may be of use, and makes the best chain the active one.
    ///
    /// # Errors
    /// Any [`EngineError`]. An invalid block is no error.
    pub fn submit(&mut self, bytes: Vec<u8>, observer: &mut dyn Observer) -> Result<Submission, EngineError> {
        let (rejected, unreadable) = (self.rejected.len(), self.unreadable.len());
        let submission = self.judge_and_connect(bytes, observer);
        // The answer and the events have said them. No later report does.
        self.rejected.truncate(rejected);
        self.unreadable.truncate(unreadable);
        submission
    }

    fn judge_and_connect(&mut self, bytes: Vec<u8>, observer: &mut dyn Observer) -> Result<Submission, EngineError> {
        let block = match Block::decode(bytes) {
            Ok(block) => block,
            Err(error) => return Ok(Submission::malformed(None, error.to_string())),
        };
        let hash = block.hash();
        // A block that fails by itself leaves no trace: what was sent may not be what belongs to
        // its header.
        if let Err(reject) = self.loader.judge_alone(&block) {
            return Ok(Submission::invalid(hash, &reject));
        }
        let id = match self.index.accept_header(block.header(), hash, clock()) {
            Ok(id) => id,
            Err(HeaderRefusal::MissingParent) => {
                return Ok(Submission {
                    reason: Some("prev-blk-not-found".to_owned()),
                    ..Submission::new(hash, Verdict::Orphan)
                });
            }
            Err(HeaderRefusal::Invalid(reject)) => return Ok(Submission::invalid(hash, &reject)),
        };
        if id == self.index.genesis() || self.index.entry(id).has_content() || self.is_active(id) {
            // It may have been known since the engine was opened, and not be connected yet.
            self.activate_best_chain(observer)?;
            return Ok(Submission::new(hash, Verdict::Duplicate));
        }
        if let Err(reject) = self.loader.judge(&self.load_request(id), &block) {
            if reject.kind != RejectKind::Mutated {
                self.index.mark_failed(id);
            }
            return Ok(Submission::invalid(hash, &reject));
        }
        self.keep(id, &block)?;
        self.adopt_orphans(hash, observer);
        let rejected_before = self.rejected.len();
        self.activate_best_chain(observer)?;
        self.flush_if_due()?;
        self.tell_flushes(observer);
        Ok(self.answer(id, hash, rejected_before))
    }

    fn is_active(&self, id: BlockId) -> bool {
        self.active.get(self.index.entry(id).height as usize) == Some(&id)
    }

    /// Writes the block to the data directory, after the last whole record.
    fn keep(&mut self, id: BlockId, block: &Block) -> Result<(), EngineError> {
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => none.insert(BlockFileWriter::resume(
                std::sync::Arc::clone(self.directory.disk()),
                &self.directory.file("blocks"),
                self.index.params().magic(),
                &self.loader.files(),
            )?),
        };
        let position = writer.append(block.bytes(), &mut self.loader.files_mut())?;
        self.index.receive(id, position);
        Ok(())
    }

    fn answer(&self, id: BlockId, hash: BlockHash, rejected_before: usize) -> Submission {
        if self.is_active(id) {
            return Submission::new(hash, Verdict::Connected);
        }
        // The first block on the way to this one that was rejected just now.
        let culprit = self.rejected[rejected_before..]
            .iter()
            .find(|rejected| self.is_ancestor(&rejected.hash, id));
        match culprit {
            Some(rejected) => Submission {
                failed: (rejected.hash != hash).then_some(rejected.hash),
                ..Submission::invalid(hash, &rejected.reject)
            },
            None => Submission::new(hash, Verdict::Side),
        }
    }

    fn is_ancestor(&self, hash: &BlockHash, id: BlockId) -> bool {
        self.index
            .find(hash)
            .is_some_and(|ancestor| self.index.ancestor(id, self.index.entry(ancestor).height) == Some(ancestor))
    }
}
