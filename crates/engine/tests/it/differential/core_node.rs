//! Bitcoin Core's side: a ChainstateManager that gets block by block, with the reasons that it
//! writes to its log, and one that searches block files.

use bitcoinkernel::{
    Block, ChainType, ChainstateManager, ChainstateManagerBuilder, Context, ContextBuilder, Log, Logger,
    ProcessBlockResult,
};
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

/// A reason that Core gave, up to its first comma or parenthesis, and its block. It is `None`
/// for the block just sent.
pub(crate) type CoreReason = (Option<String>, String);

/// The reasons that Core gives in its log.
#[derive(Clone)]
pub(crate) struct CoreLog {
    reasons: Arc<Mutex<Vec<CoreReason>>>,
    _logger: Rc<Logger>,
}

struct Sink(Arc<Mutex<Vec<CoreReason>>>);

/// The reason in a line of Core's log, if it is one of the two that name one.
fn parse(line: &str) -> Option<CoreReason> {
    let word = |text: &str| {
        let end = text.find([',', '(', ')', '\n']).unwrap_or(text.len());
        text[..end].trim().to_owned()
    };
    if let Some((_, rest)) = line.split_once("AcceptBlock FAILED (") {
        return Some((None, word(rest)));
    }
    let (_, rest) = line.split_once("ConnectTip: ConnectBlock ")?;
    let (hash, reason) = rest.split_once(" failed, ")?;
    Some((Some(hash.to_owned()), word(reason)))
}

impl Log for Sink {
    fn log(&self, message: &str) {
        self.0.lock().unwrap().extend(parse(message));
    }
}

impl CoreLog {
    pub(crate) fn connect() -> Self {
        let reasons = Arc::new(Mutex::new(Vec::new()));
        let logger = Logger::new(Sink(Arc::clone(&reasons))).unwrap();
        Self {
            reasons,
            _logger: Rc::new(logger),
        }
    }
}

/// What Core said of a block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CoreAnswer {
    pub(crate) decodes: bool,
    pub(crate) duplicate: bool,
    pub(crate) reasons: Vec<CoreReason>,
    pub(crate) tip: String,
}

/// A node on `directory`, once it has searched the block files in its folder `blocks`, if it is to
/// `reindex` them.
fn import(directory: &Path, reindex: bool) -> (ChainstateManager, Context) {
    let context = ContextBuilder::new().chain_type(ChainType::Regtest).build().unwrap();
    let path = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    // With a worker Core runs the scripts of a block last, as this engine does.
    let manager = ChainstateManagerBuilder::new(&context, &path("data"), &path("blocks"))
        .unwrap()
        .worker_threads(1)
        .block_tree_db_in_memory(true)
        .chainstate_db_in_memory(true)
        .wipe_db(reindex, reindex)
        .unwrap()
        .build()
        .unwrap();
    manager.import_blocks().unwrap();
    (manager, context)
}

/// A node that has searched block files.
pub(crate) struct CoreImport {
    manager: ChainstateManager,
    _context: Context,
}

impl CoreImport {
    /// Searches `blocks/blk*.dat` in a directory.
    pub(crate) fn of(directory: &Path) -> Self {
        let (manager, _context) = import(directory, true);
        Self { manager, _context }
    }

    /// Hash of the tip.
    pub(crate) fn tip(&self) -> String {
        self.manager.active_chain().tip().block_hash().to_string()
    }
}

pub(crate) struct CoreNode {
    manager: ChainstateManager,
    log: CoreLog,
    _context: Context,
    _directory: tempfile::TempDir,
}

impl CoreAnswer {
    /// The reason for this block, which may be the one just sent.
    pub(crate) fn reason_for(&self, hash: Option<String>, just_sent: bool) -> Option<&str> {
        let meant = |reason: &&CoreReason| reason.0 == hash || (just_sent && reason.0.is_none());
        self.reasons.iter().find(meant).map(|reason| reason.1.as_str())
    }
}

impl CoreNode {
    pub(crate) fn new(log: &CoreLog) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (manager, context) = import(directory.path(), false);
        Self {
            manager,
            log: log.clone(),
            _context: context,
            _directory: directory,
        }
    }

    pub(crate) fn judge(&self, bytes: &[u8]) -> CoreAnswer {
        self.log.reasons.lock().unwrap().clear();
        let (decodes, duplicate) = match Block::new(bytes) {
            Ok(block) => {
                let result = self.manager.process_block(&block);
                (true, matches!(result, ProcessBlockResult::Duplicate))
            }
            Err(_) => (false, false),
        };
        CoreAnswer {
            decodes,
            duplicate,
            reasons: self.log.reasons.lock().unwrap().clone(),
            tip: self.manager.active_chain().tip().block_hash().to_string(),
        }
    }
}
