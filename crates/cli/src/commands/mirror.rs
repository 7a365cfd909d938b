//! `blockmill mirror`.

use crate::arguments::mirror::MirrorArguments;
use crate::commands::threads;
use crate::doing::{self, Doing};
use crate::failure::Failure;
use crate::log::Line;
use crate::output;
use crate::progress::EngineMeter;
use crate::signals;
use blockmill_chain::{Event, Level, Observer};
use blockmill_coins::Tip;
use blockmill_mirror::{MirrorTable, Options, Witness};
use serde_json::{Value, json};
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Shows what a mirror does.
struct Shown(Mutex<EngineMeter>);

impl Shown {
    fn meter(&self) -> MutexGuard<'_, EngineMeter> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Witness for Shown {
    fn begins(&self, what: &'static str) {
        doing::set(Doing::Something(what));
    }

    fn event(&self, event: &Event<'_>) {
        self.meter().event(event);
    }

    fn blocks(&self, done: u64, of: u64, transactions: u64) {
        self.meter().blocks(done, of, transactions);
    }

    fn line(&self, level: Level, name: &str, text: &str, fields: Value) {
        self.meter().meter.say(&Line::new(level, name, text, fields));
    }
}

pub(crate) fn run(arguments: &MirrorArguments) -> Result<u8, Failure> {
    let options = Options {
        data: arguments.data.clone(),
        to: arguments.to.clone(),
        schema: arguments.schema.clone(),
        tables: tables(&arguments.tables),
        from: arguments.from,
        follows: arguments.follow,
        threads: threads(arguments.par),
        stop: signals::stop_flag()?,
    };
    let shown: Arc<dyn Witness> = Arc::new(Shown(Mutex::new(EngineMeter::new())));
    let tip = blockmill_mirror::run(options, &shown)?;
    say(arguments, &tip)?;
    Ok(0)
}

/// The tables, each once, in one order.
fn tables(asked: &[MirrorTable]) -> Option<Vec<MirrorTable>> {
    let tables = MirrorTable::ALL.into_iter().filter(|table| asked.contains(table));
    (!asked.is_empty()).then(|| tables.collect())
}

fn say(arguments: &MirrorArguments, tip: &Tip) -> Result<(), Failure> {
    let mut out = output::stdout();
    let schema = &arguments.schema;
    let fields = json!({"schema": schema, "height": tip.height, "block_hash": tip.hash.to_string()});
    match arguments.json {
        true => output::json_line(&mut out, &fields)?,
        false => writeln!(out, "{schema}: height {}, {}", tip.height, tip.hash)?,
    }
    Ok(out.flush()?)
}
