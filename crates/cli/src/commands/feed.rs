//! `blockmill feed`.

use crate::arguments::follow::FeedArguments;
use crate::commands::threads;
use crate::failure::Failure;
use crate::feed::listen::Server;
use crate::feed::{Trouble, tell};
use crate::output;
use crate::signals;
use blockmill_block::Network;
use blockmill_blockfiles::{Watch, Woken};
use blockmill_datadir::{DataDir, Feed};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) fn run(arguments: &FeedArguments) -> Result<u8, Failure> {
    let stop = signals::stop_flag()?;
    let network = DataDir::open_to_read(&arguments.data)?.chain_id().network;
    // Before the first look, so that no block is missed.
    let watch = Watch::new(std::slice::from_ref(&arguments.data));
    let mut feed = Feed::open(&arguments.data, arguments.from)?;
    if let Some(endpoint) = &arguments.listen {
        drop(watch);
        let server = Server {
            data: &arguments.data,
            network,
            feed: &feed,
            stop: &stop,
        };
        server.serve(endpoint)?;
        return Ok(0);
    }
    if !arguments.follow {
        write(&mut feed, network, arguments, &stop)?;
        return Ok(0);
    }
    follow(&mut feed, network, arguments, watch, &stop)?;
    Ok(0)
}

/// Writes everything that there is.
fn write(feed: &mut Feed, network: Network, arguments: &FeedArguments, stop: &AtomicBool) -> Result<(), Failure> {
    let mut out = output::stdout();
    tell(feed, network, threads(arguments.par), &mut |line| {
        if stop.load(Ordering::Relaxed) {
            return Err(Failure::Stopped("standard output".into()));
        }
        Ok(out.write_all(&line)?)
    })?;
    Ok(out.flush()?)
}

/// Writes what there is, and then what comes, until a signal.
fn follow(
    feed: &mut Feed,
    network: Network,
    arguments: &FeedArguments,
    mut watch: Watch,
    stop: &AtomicBool,
) -> Result<(), Failure> {
    let mut trouble = Trouble::default();
    let mut has_news = true;
    loop {
        if has_news {
            match write(feed, network, arguments, stop) {
                Ok(()) => trouble.end(),
                // It is what ends a feed.
                Err(Failure::Stopped(_)) => return Ok(()),
                Err(failure) => trouble.note(failure)?,
            }
        }
        let woken = watch.wait(stop);
        if woken == Woken::Stopped || !output::look_for_reader() {
            return Ok(());
        }
        match feed.look() {
            Ok(found) => has_news = found,
            Err(error) => trouble.note(error.into())?,
        }
        if has_news {
            watch.note_change(woken);
        }
    }
}
