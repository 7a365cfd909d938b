//! Blocks one by one, each with a verdict (Core's `ProcessNewBlock`).

use crate::engine::{Engine, activate_best_chain};
use crate::pipeline::error::ConnectError;
use crate::pipeline::load::{Content, LoadRequest};
use crate::pipeline::state::{Pipeline, Run};
use crate::report::telemetry::FindingsMark;
use blockmill_block::{Block, BlockHash};
use blockmill_chain::index::{BlockId, HeaderRefusal};
use blockmill_chain::report::events::Observer;
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
    /// Validates a block, keeps it if it may be of use, and makes the best chain the active one.
    ///
    /// # Errors
    /// Any [`ConnectError`]. An invalid block is no error.
    pub fn submit(&mut self, bytes: Vec<u8>, observer: &mut dyn Observer) -> Result<Submission, ConnectError> {
        let (pipeline, mut run) = self.parts(observer);
        let mark = run.reporter.telemetry.mark();
        let submission = validate_and_connect(pipeline, &mut run, bytes, mark);
        // The answer and the events have said them.
        run.reporter.forget_since(mark);
        submission
    }
}

fn validate_and_connect<V: ScriptVerifier + 'static>(
    pipeline: &mut Pipeline<V>,
    run: &mut Run<'_>,
    bytes: Vec<u8>,
    mark: FindingsMark,
) -> Result<Submission, ConnectError> {
    let block = match Block::decode(bytes) {
        Ok(block) => block,
        Err(error) => return Ok(Submission::malformed(None, error.to_string())),
    };
    let hash = block.hash();
    // A block that fails by itself leaves no trace: what was sent may not be what belongs to its
    // header.
    if let Err(reject) = pipeline.loader.validate_alone(&block) {
        return Ok(Submission::invalid(hash, &reject));
    }
    let id = match run.chain.accept_header(block.header(), hash) {
        Ok(id) => id,
        Err(HeaderRefusal::MissingParent) => {
            return Ok(Submission {
                reason: Some("prev-blk-not-found".to_owned()),
                ..Submission::new(hash, Verdict::Orphan)
            });
        }
        Err(HeaderRefusal::Invalid(reject)) => return Ok(Submission::invalid(hash, &reject)),
    };
    if has_right_copy(pipeline, run, id) {
        // It may have been known since the engine was opened, and not be connected yet.
        activate_best_chain(pipeline, run)?;
        return Ok(Submission::new(hash, Verdict::Duplicate));
    }
    // A block that is connected stays so, and has a further copy.
    let was_active = run.chain.is_active(id);
    if run.chain.index().entry(id).has_content() && !was_active {
        // The copy that has come is the first, then.
        run.chain.forget_content(id);
    }
    let index = run.chain.index();
    if let Err(reject) = pipeline.loader.validate(&LoadRequest::new(index, id), &block) {
        // Another copy of a mutated block may be good, so the header keeps its status.
        if reject.kind != RejectKind::Mutated && !was_active {
            run.chain.reject(id, reject.kind);
        }
        return Ok(Submission::invalid(hash, &reject));
    }
    let position = run.data.add_submitted(&block, run.chain.files())?;
    let mut findings = run.chain.receive(id, position, run.reporter.observer);
    run.reporter.telemetry.take_findings(&mut findings);
    activate_best_chain(pipeline, run)?;
    pipeline.flush_if_due(run)?;
    run.reporter.telemetry.report_flushes(run.reporter.observer);
    Ok(match was_active {
        true => Submission::new(hash, Verdict::Duplicate),
        false => answer(run, id, hash, mark),
    })
}

/// Whether a block is known with a copy that can be used, or needs none: the first block is in the
/// code, and no reader asks for those below a snapshot.
fn has_right_copy<V: ScriptVerifier + 'static>(pipeline: &Pipeline<V>, run: &mut Run<'_>, id: BlockId) -> bool {
    let is_active = run.chain.is_active(id);
    let index = run.chain.index();
    if id == index.genesis() || (is_active && index.entry(id).undo().is_none()) {
        return true;
    }
    let telemetry = &mut *run.reporter.telemetry;
    let content = match is_active {
        true => pipeline.load_active(run.chain, id, telemetry),
        false => pipeline.load_now(run.chain, id, telemetry),
    };
    match content {
        Content::Rejected(reject, _) => reject.kind != RejectKind::Mutated,
        Content::Unreadable(_) => false,
        Content::Sound(_) => true,
    }
}

fn answer(run: &Run<'_>, id: BlockId, hash: BlockHash, mark: FindingsMark) -> Submission {
    if run.chain.is_active(id) {
        return Submission::new(hash, Verdict::Connected);
    }
    // The lowest ancestor that this submission has rejected, or the block itself.
    let culprit = run
        .reporter
        .rejected_since(mark)
        .iter()
        .find(|rejected| run.chain.is_ancestor(&rejected.hash, id));
    match culprit {
        Some(rejected) => Submission {
            failed: (rejected.hash != hash).then_some(rejected.hash),
            ..Submission::invalid(hash, &rejected.reject)
        },
        None => Submission::new(hash, Verdict::Side),
    }
}
