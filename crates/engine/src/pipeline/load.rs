//! Getting at a block's content: read, decode, and all rules that need no coins. Any thread may do
//! it.

use crate::chain::index::BlockId;
use crate::pipeline::connect::Engine;
use crate::pipeline::upcoming::UpcomingTxids;
use crate::report::events::Event;
use crate::report::trace::Trace;
use crate::report::{Observer, Stage, Unreadable};
use blockmill_block::{Block, BlockHash};
use blockmill_blockfiles::{BlockFiles, Position};
use blockmill_rules::block::{BlockContext, BlockFacts, BlockOptions, check_block, check_block_context};
use blockmill_rules::{Params, Reject, RejectKind, ScriptVerifier};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

/// What lies where a block should be.
pub(crate) enum Body {
    /// A block that keeps all rules that need no coins.
    Sound(Arc<Block>, BlockFacts),
    /// A block that breaks one, and where it lies.
    Rejected(Reject, Option<Position>),
    /// Something that is not this block.
    Unreadable(Unreadable),
}

impl Body {
    /// Inputs of the block, if it is sound.
    pub(crate) fn input_count(&self) -> usize {
        match self {
            Self::Sound(block, _) => block.input_count(),
            Self::Rejected(..) | Self::Unreadable(_) => 0,
        }
    }

    /// Memory in bytes of the block, if it is sound.
    pub(crate) fn memory(&self) -> usize {
        match self {
            Self::Sound(block, facts) => block.memory() + facts.legacy_sigops.capacity() * size_of::<u64>(),
            Self::Rejected(..) | Self::Unreadable(_) => 0,
        }
    }
}

/// The full check of a block by itself.
const ALL: BlockOptions = BlockOptions { proof_of_work: true };

/// Which block, and what of the header index its rules need.
#[derive(Debug, Clone)]
pub(crate) struct LoadRequest {
    pub(crate) id: BlockId,
    hash: BlockHash,
    pub(crate) height: u32,
    positions: Vec<Position>,
    parent_median_time_past: u32,
}

/// A body, and when it was read and decoded.
pub(crate) struct Loaded {
    pub(crate) body: Body,
    /// How long its stages took.
    pub(crate) stages: Vec<(Stage, Duration)>,
}

/// What reads and decodes blocks.
pub(crate) struct BlockLoader<V> {
    files: RwLock<BlockFiles>,
    params: Params,
    verifier: Arc<V>,
    pub(crate) trace: Trace,
    /// What blocks ahead make.
    pub(crate) made: Arc<UpcomingTxids>,
    /// The file that knows of blocks whose content is nowhere.
    headers_path: PathBuf,
}

impl<V: ScriptVerifier> BlockLoader<V> {
    pub(crate) fn new(params: Params, verifier: Arc<V>, headers_path: PathBuf, trace: Trace) -> Self {
        Self {
            files: RwLock::new(BlockFiles::new()),
            params,
            verifier,
            trace,
            made: Arc::new(UpcomingTxids::default()),
            headers_path,
        }
    }

    /// The block files. A thread that panics leaves them as they were.
    pub(crate) fn files(&self) -> RwLockReadGuard<'_, BlockFiles> {
        self.files.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn files_mut(&self) -> RwLockWriteGuard<'_, BlockFiles> {
        self.files.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads a block from the first place where its content is the header's, and judges it by all
    /// rules that need no coins.
    pub(crate) fn load(&self, task: &LoadRequest) -> Loaded {
        let mut stages = Vec::with_capacity(2);
        let mut first_problem = None;
        for &position in &task.positions {
            let body = self.load_at(task, position, &mut stages);
            match body {
                Body::Sound(ref block, _) => {
                    for transaction in block.transactions() {
                        self.made.note(&transaction.txid(), task.height);
                    }
                    return Loaded { body, stages };
                }
                Body::Rejected(ref reject, _) if reject.kind != RejectKind::Mutated => return Loaded { body, stages },
                // Another copy may be better.
                problem => first_problem = first_problem.or(Some(problem)),
            }
        }
        let body = first_problem.unwrap_or_else(|| {
            Body::Unreadable(Unreadable {
                hash: task.hash,
                height: task.height,
                path: self.headers_path.clone(),
                offset: 0,
                detail: "its content is in none of the block files".to_owned(),
            })
        });
        Loaded { body, stages }
    }

    fn load_at(&self, task: &LoadRequest, position: Position, stages: &mut Vec<(Stage, Duration)>) -> Body {
        let unreadable = |detail: String, path| {
            Body::Unreadable(Unreadable {
                hash: task.hash,
                height: task.height,
                path,
                offset: position.offset,
                detail,
            })
        };
        let reading = Instant::now();
        let bytes = self.files().read(&position);
        let path = || self.files().path(position.file).to_owned();
        let decoding = Instant::now();
        self.trace.add(Stage::Read, task.height, reading, decoding);
        stages.push((Stage::Read, decoding - reading));
        let body = match bytes.map(Block::decode) {
            Err(error) => unreadable(error.to_string(), path()),
            Ok(Err(error)) => unreadable(format!("the block does not decode: {error}"), path()),
            Ok(Ok(block)) if block.hash() != task.hash => unreadable("another block lies here now".to_owned(), path()),
            Ok(Ok(block)) => match self.judge(task, &block) {
                Ok(facts) => Body::Sound(Arc::new(block), facts),
                // On signet the block's signature is judged before its merkle root: what does not
                // fit the header says nothing about the header, whatever else is wrong with it.
                Err(reject) if block.merkle_root().hash != block.header().merkle_root.0 => Body::Rejected(
                    Reject {
                        kind: RejectKind::Mutated,
                        ..reject
                    },
                    Some(position),
                ),
                Err(reject) => Body::Rejected(reject, Some(position)),
            },
        };
        let end = Instant::now();
        self.trace.add(Stage::Decode, task.height, decoding, end);
        stages.push((Stage::Decode, end - decoding));
        body
    }

    /// Judges a block by all rules that need no coins.
    pub(crate) fn judge(&self, task: &LoadRequest, block: &Block) -> Result<BlockFacts, Reject> {
        let facts = self.judge_alone(block)?;
        if task.height > 0 {
            let place = BlockContext {
                params: &self.params,
                height: task.height,
                parent_median_time_past: task.parent_median_time_past,
            };
            check_block_context(block, &place)?;
        }
        Ok(facts)
    }

    /// Judges a block by the rules that need nothing else.
    pub(crate) fn judge_alone(&self, block: &Block) -> Result<BlockFacts, Reject> {
        check_block(block, &self.params, &*self.verifier, ALL)
    }
}

impl<V: ScriptVerifier + 'static> Engine<V> {
    /// What is needed to load a block.
    pub(crate) fn load_request(&self, id: BlockId) -> LoadRequest {
        let entry = self.index.entry(id);
        let parent = entry.parent.map_or(entry, |parent| self.index.entry(parent));
        LoadRequest {
            id,
            hash: entry.hash,
            height: entry.height,
            positions: self.index.positions(id).collect(),
            parent_median_time_past: parent.median_time_past,
        }
    }

    /// Loads a block on this thread.
    pub(crate) fn load_body(&mut self, id: BlockId) -> Body {
        let task = self.load_request(id);
        let loaded = self.loader.load(&task);
        self.record_load_times(&loaded.stages);
        loaded.body
    }

    /// Counts the times of a block that was loaded.
    pub(crate) fn record_load_times(&mut self, stages: &[(Stage, Duration)]) {
        for &(stage, time) in stages {
            self.totals.stages.add(stage, time, Duration::ZERO);
        }
    }

    /// Looks at the first block where it lies in the files: it is never connected, so nothing else
    /// would.
    pub(crate) fn check_genesis(&mut self, observer: &mut dyn Observer) {
        let genesis = self.index.genesis();
        if !self.index.entry(genesis).has_content() {
            return;
        }
        match self.load_body(genesis) {
            Body::Sound(..) => {}
            Body::Rejected(reject, position) => {
                let rejected = self.rejected_block(self.index.entry(genesis).hash, 0, reject, position);
                observer.event(&Event::Rejected(&rejected));
                self.rejected.push(rejected);
            }
            Body::Unreadable(unreadable) => {
                observer.event(&Event::Unreadable(&unreadable));
                self.unreadable.push(unreadable);
            }
        }
    }
}
