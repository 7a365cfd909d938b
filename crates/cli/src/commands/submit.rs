//! `blockmill submit`.

use crate::arguments::SubmitArguments;
use crate::commands::connect::{options, say_leftovers};
use crate::doing::{self, Doing};
use crate::failure::Failure;
use crate::log;
use crate::output;
use crate::progress::{EngineMeter, note_flush};
use crate::verifier::{Verifier, verifier};
use blockmill_block::BlockHash;
use blockmill_block::hash::sha256d;
use blockmill_blockfiles::lines::{LINE_MAX, Line, decode_line, read_line};
use blockmill_chain::{Event, Observer};
use blockmill_coins::StatsBuilder;
use blockmill_coins::stats::Hashes;
use blockmill_engine::{Engine, Options, Submission};
use serde::Serialize;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

#[derive(Serialize)]
struct Answer {
    hash: Option<String>,
    verdict: &'static str,
    reason: Option<String>,
    tip: String,
    height: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    txouts: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hash_serialized_3: Option<String>,
}

/// Lines read ahead.
const LINES_AHEAD: usize = 2;

/// Time between looks at the stop flag while no line comes.
const STOP_INTERVAL: Duration = Duration::from_millis(100);

/// Reads lines on a thread of its own, so that a stop works while standard input is silent.
fn read_lines() -> Result<Receiver<io::Result<Line>>, Failure> {
    let (sender, receiver) = sync_channel(LINES_AHEAD);
    std::thread::Builder::new().name("read".to_owned()).spawn(move || {
        let mut input = io::stdin().lock();
        while let Some(line) = read_line(&mut input, LINE_MAX).transpose() {
            // The command takes no more lines.
            if sender.send(line).is_err() {
                break;
            }
        }
    })?;
    Ok(receiver)
}

pub(crate) fn run(arguments: &SubmitArguments) -> Result<u8, Failure> {
    let options = options(&arguments.engine)?;
    // A stop takes effect between two lines, so that every answer is whole.
    let stop = options.stop;
    let options = Options {
        stop: Arc::default(),
        signatures: arguments.signatures,
        ..options
    };
    let verifier = verifier(options.signatures);
    let mut engine = arguments.data.engine()?.options(options).open(verifier)?;
    doing::set_flushed(engine.height());
    let mut meter = EngineMeter::new();
    // An earlier run that was killed may have kept blocks without flushing them.
    let report = engine.connect(&[], &mut meter)?;
    for damage in &report.damages {
        meter.event(&Event::Damaged(damage));
    }
    say_leftovers(&report);
    let lines = read_lines()?;
    // In plain text the answers say everything; JSON also has a line for each event.
    let observer: &mut dyn Observer = if log::is_json() { &mut meter } else { &mut Flushes };
    doing::set(Doing::Something("answering lines of standard input"));
    let mut out = output::stdout();
    while !stop.load(Ordering::Relaxed) {
        let line = match lines.recv_timeout(STOP_INTERVAL) {
            Ok(line) => line?,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => break,
        };
        let submission = submit_line(&mut engine, line, observer)?;
        let answer = answer(&engine, submission, arguments.utxo)?;
        if let Err(error) = output::json_line(&mut out, &answer) {
            // What was connected is kept, although nobody hears of it.
            engine.flush()?;
            return Err(error.into());
        }
    }
    engine.flush()?;
    engine.report_flushes(observer);
    engine.close_unused()?;
    Ok(0)
}

/// Hears of flushes alone.
struct Flushes;

impl Observer for Flushes {
    fn event(&mut self, event: &Event<'_>) {
        note_flush(event);
    }
}

fn submit_line(engine: &mut Engine<Verifier>, line: Line, observer: &mut dyn Observer) -> Result<Submission, Failure> {
    let bytes = match decode_line(line) {
        Ok(bytes) => bytes,
        Err(reason) => return Ok(Submission::malformed(None, reason)),
    };
    let hash = bytes.get(..80).map(|header| BlockHash(sha256d(header)));
    let submission = engine.submit(bytes, observer)?;
    Ok(Submission {
        // A block that does not decode has a header all the same.
        hash: submission.hash.or(hash),
        ..submission
    })
}

fn answer(engine: &Engine<Verifier>, submission: Submission, utxo: bool) -> Result<Answer, Failure> {
    let stats = if utxo {
        let builder = StatsBuilder::new(Hashes::Serialized).add_all(engine.coins().coins()?)?;
        Some(builder.finish(&engine.tip()))
    } else {
        None
    };
    Ok(Answer {
        hash: submission.hash.map(|hash| hash.to_string()),
        verdict: submission.verdict.word(),
        reason: submission.reason,
        tip: engine.tip_hash().to_string(),
        height: engine.height(),
        failed: submission.failed.map(|hash| hash.to_string()),
        txouts: stats.as_ref().map(|stats| stats.txouts),
        hash_serialized_3: stats.map(|stats| stats.hash_serialized_3.to_string()),
    })
}
