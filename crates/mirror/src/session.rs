//! What a mirror does while its connection holds: it takes the schema, sees how far the tables are,
//! and goes on there. After a loss of the connection everything begins here again.

use crate::apply::Applier;
use crate::change::{Change, Counts, RowMaker};
use crate::database::{Connection, Database};
use crate::error::MirrorError;
use crate::heights::check_heights;
use crate::load::Load;
use crate::options::Options;
use crate::schema::Schema;
use crate::sql_error::{Fate, fate, text};
use crate::state::{State, Step};
use crate::table::MirrorTable;
use crate::witness::{Heard, Witness};
use blockmill_chain::Level;
use blockmill_coins::Tip;
use blockmill_datadir::feed::watching::{OwnWatch, follow};
use blockmill_datadir::{Cursor, DataDir, Feed, FeedBlocks, FeedError, PastError, UtxoSet};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// A load that was cut off goes on with its set, if that is at most so many blocks old. To have it
/// back takes the memory of all coins that were spent since.
const BLOCKS_BACK_MAX: u32 = 1_000;

/// A mirror that is asked for.
pub(crate) struct Mirror {
    pub(crate) options: Options,
    pub(crate) database: Database,
    pub(crate) schema: Schema,
    /// Whether a connection was there, so that one that is lost may come back.
    pub(crate) has_connected: AtomicBool,
    /// The block that the tables are at, once the first load is complete.
    pub(crate) tip: Mutex<Option<Tip>>,
}

/// The tables without an option.
const DEFAULT_TABLES: [MirrorTable; 2] = [MirrorTable::Coins, MirrorTable::Blocks];

impl Mirror {
    /// Does everything that there is to do. Returns the block that the tables are at.
    pub(crate) fn run(&self) -> Result<Tip, MirrorError> {
        self.go_on().map_err(|failure| {
            let MirrorError::Postgres(error) = &failure else {
                return failure;
            };
            let (name, text) = (self.schema.name(), text(error));
            match fate(error) {
                Fate::Damage => {
                    let anew = self.schema.anew();
                    MirrorError::Corrupt(format!("the schema {name} is not as a mirror left it: {text}; {anew}"))
                }
                Fate::Encoding => {
                    let (database, data) = (&self.database.target.name, self.options.data.display());
                    MirrorError::Usage(format!(
                        "the encoding of the database {database} lacks a character of {data} or of the schema's name \
                         {name}: {text}; make the database with ENCODING 'UTF8'"
                    ))
                }
                _ => failure,
            }
        })
    }

    fn go_on(&self) -> Result<Tip, MirrorError> {
        self.witness().begins("connecting to the database");
        let mut connection = self.database.connect()?;
        self.has_connected.store(true, Ordering::Relaxed);
        connection.lock(&self.schema)?;
        let mut state = self.state(&mut connection)?;
        let chain_id = DataDir::open_to_read(&self.options.data)?.chain_id().clone();
        let maker = RowMaker::new(&state.tables, state.from, chain_id.network, chain_id.params())?;
        let load = Load {
            database: &self.database,
            schema: &self.schema,
            maker: &maker,
            threads: self.options.threads,
        };
        if state.step == Step::Coins {
            if state.has(MirrorTable::Coins) {
                self.load_coins(&mut connection, &mut state, &load)?;
            }
            state.end_step(&mut connection, &self.schema, Step::Blocks)?;
            self.database.note_move();
        }
        if state.step == Step::Blocks {
            self.load_blocks(&mut connection, &state, &load)?;
            state.end_step(&mut connection, &self.schema, Step::Indexes)?;
            self.database.note_move();
        }
        if state.step == Step::Indexes {
            self.make_indexes(&mut connection, &state)?;
            state.end_step(&mut connection, &self.schema, Step::Follow)?;
            self.database.note_move();
            let Tip { height, hash } = state.tip;
            let fields = json!({"height": height, "block_hash": hash.to_string()});
            let text = format!("the tables are loaded up to height {height}");
            self.info("mirror_loaded", &text, fields);
        }
        check_heights(&mut connection, &self.schema, &state)?;
        self.follow(&mut connection, state, &maker)
    }

    /// The result of a mirror that a signal has ended: the block that the tables are at, if that is
    /// all that it was to come to.
    pub(crate) fn stopped(&self) -> Result<Tip, MirrorError> {
        let tip = *self.tip.lock().unwrap_or_else(PoisonError::into_inner);
        tip.filter(|_| self.options.follows).ok_or(MirrorError::Stopped)
    }

    fn witness(&self) -> &dyn Witness {
        self.database.witness()
    }

    fn info(&self, name: &str, text: &str, fields: Value) {
        self.witness().line(Level::Info, name, text, fields);
    }

    fn is_at(&self, tip: Tip) {
        *self.tip.lock().unwrap_or_else(PoisonError::into_inner) = Some(tip);
    }

    /// The tip of the data directory.
    fn tip(&self) -> Result<Tip, MirrorError> {
        // A later tip of the set may not be durable yet.
        Ok(Feed::tip_of(&self.options.data)?)
    }

    /// How far the tables are. New ones are made.
    fn state(&self, connection: &mut Connection<'_>) -> Result<State, MirrorError> {
        let network = DataDir::open_to_read(&self.options.data)?.chain_id().text();
        let schema = &self.schema;
        let Some(state) = State::read(connection, schema)? else {
            let state = State {
                network,
                tables: self.options.tables.clone().unwrap_or_else(|| DEFAULT_TABLES.to_vec()),
                from: self.options.from.unwrap_or(0),
                step: Step::Coins,
                tip: self.tip()?,
            };
            let source = std::path::absolute(&self.options.data).unwrap_or_else(|_| self.options.data.clone());
            state.create(connection, schema, &source.display().to_string())?;
            return Ok(state);
        };
        let (name, anew) = (schema.name(), schema.anew());
        let differs = |what: &str, there: String, asked: String| {
            let text = format!("the schema {name} has {what} {there}, not {asked}; {anew}");
            Err(MirrorError::Usage(text))
        };
        if state.network != network {
            return differs("the chain of", state.network, network);
        }
        let names = |tables: &[MirrorTable]| {
            let mut names: Vec<&str> = tables.iter().map(|table| table.name()).collect();
            names.sort_unstable();
            names.join(", ")
        };
        if let Some(asked) = self.options.tables.as_deref().map(names)
            && asked != names(&state.tables)
        {
            return differs("the tables", names(&state.tables), asked);
        }
        if let Some(asked) = self.options.from.filter(|from| *from != state.from) {
            return differs("blocks from height", state.from.to_string(), asked.to_string());
        }
        Ok(state)
    }

    /// Loads the coins of the set that the load began with, or of the durable tip.
    fn load_coins(
        &self,
        connection: &mut Connection<'_>,
        state: &mut State,
        load: &Load<'_>,
    ) -> Result<(), MirrorError> {
        self.witness().begins("opening the set");
        let set = match self.set_at(&state.tip)? {
            Some(set) => set,
            None => {
                let tip = self.tip()?;
                let text = "the set that the load began with is gone; it begins anew";
                self.info("mirror_begins_anew", text, json!({"height": tip.height}));
                state.begin_anew(connection, &self.schema, tip)?;
                self.set_at(&tip)?.ok_or_else(|| {
                    let (data, height) = (self.options.data.display(), tip.height);
                    MirrorError::Behind(format!(
                        "{data} no longer has the set at height {height}, that of its last durable commit; run connect, \
                         then the same call again"
                    ))
                })?
            }
        };
        load.coins(connection, &set, &mut |event| self.witness().event(&event))
    }

    /// The set as it was after a block. None if the block left the chain, or is too far down.
    fn set_at(&self, tip: &Tip) -> Result<Option<UtxoSet>, MirrorError> {
        let set = UtxoSet::open(&self.options.data, self.options.threads)?;
        if set.tip() == *tip {
            return Ok(Some(set));
        }
        let is_there = set.blocks()?.hash(tip.height).ok() == Some(tip.hash);
        let is_near = set.tip().height.saturating_sub(tip.height) <= BLOCKS_BACK_MAX;
        if !is_there || !is_near {
            return Ok(None);
        }
        match set.at(tip.height, &self.options.stop, &mut Heard(self.witness())) {
            Ok(set) => Ok(Some(set)),
            Err(PastError::Stopped) => Err(MirrorError::Stopped),
            // A node may have removed the blocks.
            Err(PastError::Block(_) | PastError::BelowSnapshot { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Loads the tables of blocks, up to the block that the coins are at. That may have left the
    /// chain: the feed says so afterwards.
    fn load_blocks(&self, connection: &mut Connection<'_>, state: &State, load: &Load<'_>) -> Result<(), MirrorError> {
        let has_others = state.tables.iter().any(|table| *table != MirrorTable::Coins);
        if !has_others || state.from > state.tip.height {
            return Ok(());
        }
        // Its errors say more where the directory does not have the block.
        self.feed(state.tip)?;
        let chain = DataDir::open_to_read(&self.options.data)?.blocks(&state.tip)?;
        let mut show = |done, of, transactions| self.witness().blocks(done, of, transactions);
        let loaded = load.blocks(connection, &chain, state.from..=state.tip.height, &mut show);
        loaded.map_err(|failure| match failure {
            // A node may have removed it, or a snapshot came in its place.
            MirrorError::Block(error) => MirrorError::Corrupt(format!(
                "{error}; the tables of blocks may begin above it, with --from HEIGHT; {}",
                self.schema.anew()
            )),
            failure => failure,
        })
    }

    fn make_indexes(&self, connection: &mut Connection<'_>, state: &State) -> Result<(), MirrorError> {
        for (name, statement) in self.schema.indexes(&state.tables) {
            self.database.check_stop()?;
            self.witness().begins("making indexes");
            let text = format!("making the index {name}");
            self.info("mirror_index", &text, json!({"index": name}));
            connection.batch_execute(&statement)?;
        }
        for table in &state.tables {
            self.database.check_stop()?;
            connection.batch_execute(&format!("ANALYZE {}", self.schema.relation(table.name())))?;
        }
        Ok(())
    }

    /// Takes in the blocks that came and left since.
    fn follow(&self, connection: &mut Connection<'_>, state: State, maker: &RowMaker) -> Result<Tip, MirrorError> {
        self.is_at(state.tip);
        let mut feed = self.feed(state.tip)?;
        let Tip { hash, height } = feed.cursor();
        if height != state.tip.height {
            let (relation, said, anew) = (self.schema.relation("mirror"), state.tip.height, self.schema.anew());
            return Err(MirrorError::Corrupt(format!(
                "{relation} has height {said} for block {hash}, whose height is {height}: somebody else has changed it; \
                 {anew}"
            )));
        }
        let mut applier = Applier::new(connection, &self.schema, state)?;
        let convert = |blocks: FeedBlocks<'_>| {
            self.database.check_stop()?;
            maker.change(blocks)
        };
        let mut sum = Counts::default();
        let mut catch_up = |feed: &mut Feed| {
            let mut take = |change: Change| {
                self.database.check_stop()?;
                applier.apply(&change)?;
                self.database.note_move();
                self.is_at(change.tip);
                sum.blocks += change.counts.blocks;
                sum.transactions += change.counts.transactions;
                self.witness().blocks(sum.blocks, sum.blocks, sum.transactions);
                Ok(())
            };
            let told = feed.run_batches(self.options.threads, &convert, &mut take);
            let tip = told.map_err(|failure: MirrorError| match failure {
                MirrorError::Feed(error) => self.unknown_cursor(error, applier.state.tip),
                failure => failure,
            })?;
            let fields = json!({"height": tip.height, "block_hash": tip.hash.to_string()});
            self.info(
                "mirror_tip",
                &format!("the tables are at height {}", tip.height),
                fields,
            );
            Ok(())
        };
        if self.options.follows {
            let mut watch = OwnWatch::new(&self.options.data, &self.options.stop);
            let waits = |text: &str| self.witness().line(Level::Warning, "feed_waits", text, json!({}));
            follow::<MirrorError>(&mut feed, &mut watch, &mut catch_up, &mut || true, &waits)?;
        } else {
            catch_up(&mut feed)?;
        }
        Ok(feed.cursor())
    }

    /// The feed of the directory after the block that the tables are at.
    fn feed(&self, tip: Tip) -> Result<Feed, MirrorError> {
        let feed = Feed::open(&self.options.data, Cursor::Block(tip.hash));
        let checked = feed.and_then(|feed| feed.check_cursor().map(|()| feed));
        checked.map_err(|error| self.unknown_cursor(error, tip))
    }

    /// An error of the feed of tables that are at `tip`, with what a user of a mirror can do.
    fn unknown_cursor(&self, error: FeedError, tip: Tip) -> MirrorError {
        let (name, anew) = (self.schema.name(), self.schema.anew());
        let own_height = match &error {
            FeedError::Behind { tip: own_height, .. } => Some(*own_height),
            // Connected from the beginning, or restored: it may still come to that block.
            FeedError::UnknownCursor { .. } => match self.tip() {
                Ok(own) => (own.height < tip.height).then_some(own.height),
                Err(failure) => return failure,
            },
            FeedError::KeptNoLonger { .. } | FeedError::AboveTip { .. } => None,
            _ => return error.into(),
        };
        match own_height {
            Some(own_height) => MirrorError::Behind(format!(
                "the data directory {} is at height {own_height}, and the tables of {name} are at height {}, block {}: \
                 the directory is behind the tables; connect its blocks, or wait until follow has",
                self.options.data.display(),
                tip.height,
                tip.hash
            )),
            None => MirrorError::Usage(format!("the tables of {name} are at another chain: {error}; {anew}")),
        }
    }
}
