//! `blockmill feed`.

use crate::arguments::follow::FeedArguments;
use crate::commands::threads;
use crate::failure::Failure;
use crate::feed::listen::Server;
use crate::feed::{follow, tell};
use crate::output;
use crate::signals;
use blockmill_block::Network;
use blockmill_datadir::{DataDir, Feed};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) fn run(arguments: &FeedArguments) -> Result<u8, Failure> {
    let stop = signals::stop_flag()?;
    let data = &arguments.data;
    let network = DataDir::open_to_read(data)?.chain_id().network;
    let mut feed = Feed::open(data, arguments.from)?;
    let mut write = |feed: &mut Feed| write(feed, network, arguments, &stop);
    if let Some(endpoint) = &arguments.listen {
        let (feed, stop) = (&feed, &*stop);
        let server = Server {
            data,
            network,
            feed,
            stop,
        };
        server.serve(endpoint)?;
    } else if arguments.follow {
        follow(&mut feed, data, &stop, &mut write, &mut output::look_for_reader)?;
    } else {
        write(&mut feed)?;
    }
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
