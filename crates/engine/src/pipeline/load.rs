//! A block is loaded: read, decoded, and validated by all rules that need no coins. Any thread may
//! do it.

use crate::pipeline::fetch::Fetches;
use crate::pipeline::outline::Outline;
use crate::pipeline::upcoming::UpcomingTxids;
use crate::report::stages::Stage;
use crate::report::trace::Trace;
use blockmill_block::{Block, BlockHash};
use blockmill_blockfiles::Position;
use blockmill_chain::copies::decode_copy;
use blockmill_chain::files::SharedFiles;
use blockmill_chain::index::{BlockId, HeaderIndex};
use blockmill_chain::report::findings::Unreadable;
use blockmill_coins::{FlushEpoch, HashKey};
use blockmill_rules::block::{BlockContext, BlockFacts, BlockOptions, check_block, check_block_context};
use blockmill_rules::{Params, Reject, RejectKind, ScriptVerifier};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A block that is wanted, with all that its rules need of the header index.
#[derive(Debug, Clone)]
pub(crate) struct LoadRequest {
    pub(crate) id: BlockId,
    hash: BlockHash,
    pub(crate) height: u32,
    /// Once a sound block is loaded, the first of them is where it lies.
    positions: Vec<Position>,
    parent_median_time_past: u32,
}

impl LoadRequest {
    pub(crate) fn new(index: &HeaderIndex, id: BlockId) -> Self {
        let entry = index.entry(id);
        // Genesis has no parent, and no rule asks for the time of its parent.
        let parent = entry.parent.map_or(entry, |parent| index.entry(parent));
        Self {
            id,
            hash: entry.hash,
            height: entry.height,
            positions: index.positions(id).collect(),
            parent_median_time_past: parent.median_time_past,
        }
    }
}

/// A block that keeps all rules that need no coins.
pub(crate) struct SoundBlock {
    pub(crate) block: Arc<Block>,
    pub(crate) facts: BlockFacts,
    pub(crate) outline: Arc<Outline>,
}

/// What the files have for a request.
pub(crate) enum Content {
    Sound(SoundBlock),
    /// A block that breaks such a rule, and where it lies.
    Rejected(Reject, Option<Position>),
    /// The content is missing, or is another block.
    Unreadable(Unreadable),
}

/// A block that is loaded. The reads of its coins may be under way.
pub(crate) struct PrefetchedBlock {
    pub(crate) request: LoadRequest,
    pub(crate) content: Content,
    /// How long its stages took.
    pub(crate) times: Vec<(Stage, Duration)>,
    /// None before they have begun.
    pub(crate) fetches: Option<Fetches>,
    /// Once they are finished, the epoch at which the store had none of the block's outputs, if
    /// that was seen.
    pub(crate) absent_at: Option<FlushEpoch>,
}

impl PrefetchedBlock {
    /// Inputs of the block, if it is sound.
    pub(crate) fn input_count(&self) -> usize {
        match &self.content {
            Content::Sound(sound) => sound.block.input_count(),
            Content::Rejected(..) | Content::Unreadable(_) => 0,
        }
    }

    /// Coins that the block spends and makes, if it is sound.
    pub(crate) fn events(&self) -> usize {
        match &self.content {
            Content::Sound(sound) => sound.outline.len(),
            Content::Rejected(..) | Content::Unreadable(_) => 0,
        }
    }

    /// Where it lies, if it is sound.
    pub(crate) fn position(&self) -> Option<Position> {
        self.request.positions.first().copied().filter(|_| self.is_sound())
    }

    /// Whether it may be resolved.
    pub(crate) fn is_sound(&self) -> bool {
        matches!(self.content, Content::Sound(_))
    }

    /// The block of a window, all of which are sound.
    ///
    /// # Panics
    /// If it is not.
    pub(crate) fn sound(&self) -> &SoundBlock {
        match &self.content {
            Content::Sound(sound) => sound,
            Content::Rejected(..) | Content::Unreadable(_) => unreachable!("a window has sound blocks"),
        }
    }

    /// Memory in bytes of the block, if it is sound.
    pub(crate) fn memory(&self) -> usize {
        match &self.content {
            Content::Sound(SoundBlock { block, facts, outline }) => {
                block.memory() + facts.legacy_sigops.capacity() * size_of::<u64>() + outline.memory()
            }
            Content::Rejected(..) | Content::Unreadable(_) => 0,
        }
    }
}

/// The full check of a block by itself.
const ALL: BlockOptions = BlockOptions { proof_of_work: true };

/// What reads and decodes blocks.
pub(crate) struct BlockLoader<V> {
    files: SharedFiles,
    params: Params,
    verifier: Arc<V>,
    /// The key of the cache that the blocks will change.
    hash_key: HashKey,
    pub(crate) trace: Trace,
    /// Transactions of the blocks that are loaded.
    pub(crate) upcoming: Arc<UpcomingTxids>,
    /// The file that knows of blocks whose content is nowhere.
    headers_path: PathBuf,
}

impl<V: ScriptVerifier> BlockLoader<V> {
    pub(crate) fn new(
        files: SharedFiles,
        params: Params,
        verifier: Arc<V>,
        hash_key: HashKey,
        headers_path: PathBuf,
        trace: Trace,
    ) -> Self {
        Self {
            files,
            params,
            verifier,
            hash_key,
            trace,
            upcoming: Arc::new(UpcomingTxids::default()),
            headers_path,
        }
    }

    /// Reads a block from the first position where its content is the header's, and validates it by
    /// all rules that need no coins.
    pub(crate) fn load(&self, mut request: LoadRequest) -> PrefetchedBlock {
        let mut times = Vec::with_capacity(2);
        let content = self.find_content(&mut request, &mut times);
        PrefetchedBlock {
            request,
            content,
            times,
            fetches: None,
            absent_at: None,
        }
    }

    fn find_content(&self, request: &mut LoadRequest, times: &mut Vec<(Stage, Duration)>) -> Content {
        let mut first_problem = None;
        for number in 0..request.positions.len() {
            let content = self.load_at(request, request.positions[number], times);
            match &content {
                Content::Sound(sound) => {
                    for transaction in sound.block.transactions() {
                        self.upcoming.note(&transaction.txid(), request.height);
                    }
                    request.positions.drain(..number);
                    return content;
                }
                // The header commits to what breaks the rule, so every good copy breaks it, too.
                Content::Rejected(reject, _) if reject.kind != RejectKind::Mutated => return content,
                // Another copy may be better.
                Content::Rejected(..) | Content::Unreadable(_) => first_problem = first_problem.or(Some(content)),
            }
        }
        first_problem.unwrap_or_else(|| {
            Content::Unreadable(Unreadable {
                hash: request.hash,
                height: Some(request.height),
                path: self.headers_path.clone(),
                offset: 0,
                detail: "its content is in none of the block files".to_owned(),
            })
        })
    }

    fn load_at(&self, request: &LoadRequest, position: Position, times: &mut Vec<(Stage, Duration)>) -> Content {
        let unreadable = |detail: String, path| {
            Content::Unreadable(Unreadable {
                hash: request.hash,
                height: Some(request.height),
                path,
                offset: position.offset,
                detail,
            })
        };
        let reading = Instant::now();
        let bytes = self.files.read().read(&position);
        let path = || self.files.read().path(position.file).to_owned();
        let decoding = Instant::now();
        self.trace.add(Stage::Read, request.height, reading, decoding);
        times.push((Stage::Read, decoding - reading));
        let decoded = bytes.map_err(|error| error.to_string());
        let decoded = decoded.and_then(|bytes| decode_copy(&self.files.read(), position, bytes, &request.hash));
        let content = match decoded {
            Err(detail) => unreadable(detail, path()),
            Ok(block) => match self.validate(request, &block) {
                Ok(facts) => Content::Sound(SoundBlock {
                    outline: Arc::new(Outline::new(&block, &self.hash_key)),
                    block: Arc::new(block),
                    facts,
                }),
                // On signet the block's signature is checked before its merkle root: what does not
                // fit the header says nothing about the header, whatever else is wrong with it.
                Err(reject) if block.merkle_root().hash != block.header().merkle_root.0 => Content::Rejected(
                    Reject {
                        kind: RejectKind::Mutated,
                        ..reject
                    },
                    Some(position),
                ),
                Err(reject) => Content::Rejected(reject, Some(position)),
            },
        };
        let end = Instant::now();
        self.trace.add(Stage::Decode, request.height, decoding, end);
        times.push((Stage::Decode, end - decoding));
        content
    }

    /// Validates a block by all rules that need no coins.
    pub(crate) fn validate(&self, request: &LoadRequest, block: &Block) -> Result<BlockFacts, Reject> {
        let facts = self.validate_alone(block)?;
        // Rules of the context need a parent.
        if request.height > 0 {
            let context = BlockContext {
                params: &self.params,
                height: request.height,
                parent_median_time_past: request.parent_median_time_past,
            };
            check_block_context(block, &context)?;
        }
        Ok(facts)
    }

    /// Validates a block by the rules that need nothing else.
    pub(crate) fn validate_alone(&self, block: &Block) -> Result<BlockFacts, Reject> {
        check_block(block, &self.params, &*self.verifier, ALL)
    }
}
