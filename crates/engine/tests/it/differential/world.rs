//! Both engines, Core, and the chain as the tests know it.

use super::core_node::{CoreAnswer, CoreLog, CoreNode};
use super::given_side::GivenSide;
use super::tree::{BOOTSTRAP, Tree, coinbase_block};
use crate::common::rejections::Rejections;
use crate::common::{Settings, internals};
use blockmill_block::Network;
use blockmill_chaingen::bitcoin;
use blockmill_chaingen::bitcoin::consensus::deserialize;
use blockmill_coins::stats::Hashes;
use blockmill_coins::{StatsBuilder, UtxoStats};
use blockmill_engine::internals::Without;
use blockmill_engine::{Engine, Options, Signatures, Submission, Verdict};
use blockmill_kernel::KernelVerifier;
use blockmill_rules::{ScriptVerifier, SignatureCounts};
use blockmill_script::CoreVerifier;

pub(crate) struct World {
    engine: Engine<KernelVerifier>,
    rejections: Rejections,
    /// The same, with signatures verified in lanes.
    in_lanes: Engine<CoreVerifier>,
    rejections_in_lanes: Rejections,
    /// Validation with given coins.
    given: GivenSide,
    core: CoreNode,
    pub(crate) tree: Tree,
    /// The outcome of each block, for the message about a difference.
    history: Vec<String>,
    _directory: tempfile::TempDir,
}

impl World {
    pub(crate) fn new(log: &CoreLog, threads: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let options = |signatures| Options {
            threads,
            signatures,
            ..Options::default()
        };
        let path = |name: &str| directory.path().join(name);
        // One engine resolves each block by itself, the other one windows of several.
        let without_shards = Without {
            shards: true,
            ..Without::default()
        };
        let engine = Engine::builder(path("data"))
            .network(Network::Regtest)
            .options(options(Signatures::OneByOne))
            .internals(Settings::without(Options::default(), without_shards).internals)
            .open(KernelVerifier);
        let in_lanes = Engine::builder(path("lanes"))
            .network(Network::Regtest)
            .options(options(Signatures::Lanes))
            .internals(internals())
            .open(CoreVerifier::new(blockmill_script::Signatures::Lanes));
        let mut world = Self {
            engine: engine.unwrap(),
            rejections: Rejections::default(),
            in_lanes: in_lanes.unwrap(),
            rejections_in_lanes: Rejections::default(),
            given: GivenSide::new(),
            core: CoreNode::new(log),
            tree: Tree::new(),
            history: Vec::new(),
            _directory: directory,
        };
        for height in 1..=BOOTSTRAP {
            let bytes = coinbase_block(&world.tree.nodes[world.tree.tip], height).build_bytes();
            assert_eq!(world.judge(&bytes).as_deref(), Ok("connected"));
        }
        world
    }

    /// Sends a block to all sides. Returns the outcome (Core's reason, or this engine's verdict),
    /// or what differs.
    pub(crate) fn judge(&mut self, bytes: &[u8]) -> Result<String, String> {
        let core = self.core.judge(bytes);
        let ours = self.engine.submit(bytes.to_vec(), &mut self.rejections).unwrap();
        let in_lanes = self
            .in_lanes
            .submit(bytes.to_vec(), &mut self.rejections_in_lanes)
            .unwrap();
        let lanes_tip = self.in_lanes.tip_hash();
        if in_lanes != ours || lanes_tip != self.engine.tip_hash() {
            return Err(format!("{ours:?}, but in lanes {in_lanes:?}, tip {lanes_tip}"));
        }
        self.given.compare(bytes, &ours)?;
        let reason = ours.reason.as_deref().map(|reason| match reason.find('(') {
            Some(end) => reason[..end].to_owned(),
            None => reason.to_owned(),
        });
        let malformed = ours.verdict == Verdict::Malformed;
        let duplicate = ours.verdict == Verdict::Duplicate;
        let rejected = matches!(ours.verdict, Verdict::Invalid | Verdict::Orphan);
        let blamed = ours.failed.or(ours.hash).map(|hash| hash.to_string());
        let core_reason = core.reason_for(blamed, ours.failed.is_none());
        let same = malformed != core.decodes
            && duplicate == core.duplicate
            && rejected == core_reason.is_some()
            && (!rejected || reason.as_deref() == core_reason)
            && self.engine.tip_hash().to_string() == core.tip;
        self.history.push(describe(bytes, &ours, &core));
        if !same {
            let last = self.history.len().saturating_sub(20);
            let history = self.history[last..].join("\n");
            return Err(format!("tip {}\n{history}", self.engine.tip_hash()));
        }
        let tip = self.engine.tip_hash().to_string();
        self.tree.note(bytes, ours.verdict, ours.failed.is_some(), &tip);
        Ok(if rejected {
            reason.unwrap_or_default()
        } else {
            ours.verdict.word().to_owned()
        })
    }

    pub(crate) fn compare_sets(&self) {
        assert_eq!(figures(&self.in_lanes), figures(&self.engine));
    }

    /// Compares the sets and the rejected blocks of both engines. Returns how signatures were
    /// verified in lanes.
    pub(crate) fn finish(mut self) -> SignatureCounts {
        self.compare_sets();
        // Most blocks are on a valid parent. A short run is mostly the valid blocks of the start.
        let (judged, all) = (self.given.judged, self.history.len() as u64);
        let enough = (judged[0] + judged[1]) * 2 > all && judged[1] * 10 > all;
        assert!(enough || all < 1_000, "{judged:?} of {all}");
        self.in_lanes.connect(&[], &mut self.rejections_in_lanes).unwrap();
        self.engine.connect(&[], &mut self.rejections).unwrap();
        assert_eq!(self.rejections_in_lanes.reasons(), self.rejections.reasons());
        self.in_lanes.totals().signatures
    }
}

/// Tip, figures and hash of the UTXO set.
fn figures<V: ScriptVerifier + 'static>(engine: &Engine<V>) -> UtxoStats {
    StatsBuilder::new(Hashes::Serialized)
        .add_all(engine.coins().coins().unwrap())
        .unwrap()
        .finish(&engine.tip())
}

/// A line about a block: its hash, its parent, and what both sides said.
fn describe(bytes: &[u8], ours: &Submission, core: &CoreAnswer) -> String {
    let parent = deserialize::<bitcoin::Block>(bytes).map(|block| block.header.prev_blockhash);
    format!(
        "{:?} on {:?}: {} {:?}, failed {:?}; Core {:?}, tip {}",
        ours.hash,
        parent.ok(),
        ours.verdict.word(),
        ours.reason,
        ours.failed,
        core.reasons,
        core.tip
    )
}
