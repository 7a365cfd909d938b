//! All that clients are told, as it was at one moment.

use crate::doing::{self, remaining_seconds};
use crate::http::directory::Sizes;
use crate::http::figures::{Figures, State};
use crate::http::process::Process;
use crate::http::rates::Latest;
use crate::output;
use crate::warnings::{self, Warning};
use blockmill_engine::report::{FIGURES, Figure, Totals, Value};
use std::time::SystemTime;

/// Figures that a command without an engine has, too: those of its progress.
const OF_PROGRESS: [&str; 4] = ["blocks", "transactions", "inputs", "bytes"];

/// Figures of one moment.
pub(super) struct Snapshot {
    pub(super) time: SystemTime,
    pub(super) figures: Figures,
    pub(super) state: State,
    /// What the command does, in words.
    pub(super) doing: String,
    /// The share of it that is done, from 0 to 1.
    pub(super) share: Option<f64>,
    pub(super) remaining_seconds: Option<f64>,
    pub(super) latest: Latest,
    pub(super) sizes: Sizes,
    pub(super) process: Option<Process>,
    pub(super) cpu_seconds: f64,
    /// The newest last.
    pub(super) warnings: Vec<Warning>,
    pub(super) warnings_total: u64,
}

impl Snapshot {
    pub(super) fn new(figures: Figures, is_stopping: bool, latest: Latest, sizes: Sizes) -> Self {
        let state = match figures.state {
            _ if is_stopping => State::Stopping,
            state => state,
        };
        let doing = doing::now();
        let progress = figures.progress.as_ref();
        let of_blocks = match state {
            State::Connecting | State::Verifying | State::Stopping => progress,
            _ => None,
        };
        let is_still = matches!(state, State::AtTheTip | State::WaitingForLock);
        let (warnings, warnings_total) = warnings::last();
        Self {
            time: SystemTime::now(),
            state,
            share: progress
                .filter(|_| is_still || of_blocks.is_some())
                .map(|progress| progress.share)
                .or(doing.share),
            // As on standard error, where it is blocks that remain.
            remaining_seconds: match of_blocks {
                _ if is_still => None,
                Some(progress) => Some(remaining_seconds(progress)),
                None => doing.remaining_seconds,
            },
            doing: doing.text,
            latest,
            sizes,
            process: Process::read(),
            cpu_seconds: output::cpu_seconds(),
            warnings,
            warnings_total,
            figures,
        }
    }

    /// The rows of the engine's table that this command has, and their values.
    pub(super) fn of_engine(&self) -> impl Iterator<Item = (&'static Figure, Value)> {
        let totals = self.figures.totals;
        let of_progress = self.figures.progress.as_ref().map(|progress| Totals {
            blocks: progress.blocks,
            transactions: progress.transactions,
            inputs: progress.inputs,
            bytes: progress.bytes,
            ..Totals::default()
        });
        let all = totals.or(of_progress).unwrap_or_default();
        let is_there = move |figure: &Figure| totals.is_some() || OF_PROGRESS.contains(&figure.key);
        FIGURES
            .iter()
            .filter(move |figure| is_there(figure))
            .map(move |figure| (figure, figure.value(&all)))
    }
}
