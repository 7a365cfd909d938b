//! Getting at a block's content.

use crate::connect::Engine;
use crate::error::EngineError;
use crate::index::BlockId;
use crate::report::{Observer, Stage, Unreadable};
use blockmill_block::Block;
use blockmill_block::files::Position;
use blockmill_rules::block::{BlockFacts, BlockOptions, BlockPlace, check_block, check_block_context};
use blockmill_rules::{Reject, RejectKind, ScriptVerifier};
use std::time::Instant;

/// What lies where a block should be.
pub(crate) enum Body {
    /// A block that keeps all rules that need no coins.
    Sound(Box<Block>, BlockFacts),
    /// A block that breaks one, and where it lies.
    Rejected(Reject, Option<Position>),
    /// Something that is not this block.
    Unreadable(Unreadable),
}

/// The full check of a block by itself.
const ALL: BlockOptions = BlockOptions { proof_of_work: true };

impl<V: ScriptVerifier + 'static> Engine<V> {
    /// Reads a block from the first place where its content is the header's, and judges it by all rules that need no
    /// coins.
    pub(crate) fn load_body(&mut self, id: BlockId) -> Result<Body, EngineError> {
        let mut first_problem = None;
        for position in self.index.entry(id).positions.clone() {
            let body = self.load_body_at(id, position)?;
            match body {
                Body::Sound(..) => return Ok(body),
                Body::Rejected(ref reject, _) if reject.kind != RejectKind::Mutated => return Ok(body),
                // Another copy may be better.
                problem => first_problem = first_problem.or(Some(problem)),
            }
        }
        let entry = self.index.entry(id);
        Ok(first_problem.unwrap_or_else(|| {
            Body::Unreadable(Unreadable {
                hash: entry.hash,
                height: entry.height,
                path: self.directory.file("headers.dat"),
                offset: 0,
                detail: "its content is in none of the block files".to_owned(),
            })
        }))
    }

    /// Looks at the first block where it lies in the files: it is never connected, so nothing else would.
    pub(crate) fn check_genesis(&mut self, observer: &mut dyn Observer) -> Result<(), EngineError> {
        let genesis = self.index.genesis();
        if self.index.entry(genesis).positions.is_empty() {
            return Ok(());
        }
        match self.load_body(genesis)? {
            Body::Sound(..) => {}
            Body::Rejected(reject, position) => {
                let rejected = self.rejected_block(self.index.entry(genesis).hash, 0, reject, position);
                observer.message(&rejected.to_string());
                self.rejected.push(rejected);
            }
            Body::Unreadable(unreadable) => {
                observer.message(&unreadable.to_string());
                self.unreadable.push(unreadable);
            }
        }
        Ok(())
    }

    fn load_body_at(&mut self, id: BlockId, position: Position) -> Result<Body, EngineError> {
        let entry = self.index.entry(id);
        let (hash, height) = (entry.hash, entry.height);
        let unreadable = |detail: String, path| {
            Body::Unreadable(Unreadable {
                hash,
                height,
                path,
                offset: position.offset,
                detail,
            })
        };
        let reading = Instant::now();
        let bytes = self.files.read(&position);
        self.stage_done(Stage::Read, height, reading);
        let path = self.files.path(position.file).to_owned();
        let decoding = Instant::now();
        let body = match bytes.map(Block::decode) {
            Err(error) => unreadable(error.to_string(), path),
            Ok(Err(error)) => unreadable(format!("the block does not decode: {error}"), path),
            Ok(Ok(block)) if block.hash() != hash => unreadable("another block lies here now".to_owned(), path),
            Ok(Ok(block)) => match self.judge_body(id, &block) {
                Ok(facts) => Body::Sound(Box::new(block), facts),
                // On signet the block's signature is judged before its merkle root: what does not fit the header says
                // nothing about the header, whatever else is wrong with it.
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
        self.stage_done(Stage::Decode, height, decoding);
        Ok(body)
    }

    /// Judges a block by all rules that need no coins.
    pub(crate) fn judge_body(&self, id: BlockId, block: &Block) -> Result<BlockFacts, Reject> {
        let facts = check_block(block, self.index.params(), &*self.verifier, ALL)?;
        if id != self.index.genesis() {
            check_block_context(block, &self.place_of(id))?;
        }
        Ok(facts)
    }

    fn place_of(&self, id: BlockId) -> BlockPlace<'_> {
        let entry = self.index.entry(id);
        let parent = entry.parent.map_or(entry, |parent| self.index.entry(parent));
        BlockPlace {
            params: self.index.params(),
            height: entry.height,
            parent_median_time_past: parent.median_time_past,
        }
    }

    /// Judges a block by the rules that need nothing else.
    pub(crate) fn judge_alone(&self, block: &Block) -> Result<BlockFacts, Reject> {
        check_block(block, self.index.params(), &*self.verifier, ALL)
    }
}
