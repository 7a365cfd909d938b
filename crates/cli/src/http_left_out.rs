//! The page of a build without it: there is no value of these types.

use crate::failure::Failure;
use blockmill_chain::Event;
use blockmill_datadir::Status;
use blockmill_engine::report::LiveTotals;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

#[derive(Clone)]
pub(crate) enum Live {}

impl Live {
    pub(crate) fn waits_for_lock(&self) {
        match *self {}
    }

    pub(crate) fn opened(&self, _: &'static str, _: u32, _: LiveTotals) {
        match *self {}
    }

    pub(crate) fn network(&self, _: &'static str) {
        match *self {}
    }

    pub(crate) fn event(&self, _: &Event<'_>) {
        match *self {}
    }
}

pub(crate) struct Command<'a> {
    pub(crate) name: &'static str,
    pub(crate) threads: usize,
    pub(crate) cache_bytes_max: Option<u64>,
    pub(crate) data: Option<(&'a Path, Option<Status>)>,
    pub(crate) stop: &'a Arc<AtomicBool>,
}

pub(crate) enum Server {}

impl Server {
    /// Nothing names an address in such a build.
    pub(crate) fn start(_: SocketAddr, command: &Command<'_>) -> Result<Self, Failure> {
        let Command {
            name,
            threads,
            cache_bytes_max,
            data,
            stop,
        } = command;
        let _ = (name, threads, cache_bytes_max, data, stop);
        Err(Failure::Usage("this build leaves out the page".to_owned()))
    }

    pub(crate) fn live(&self) -> Live {
        match *self {}
    }
}
