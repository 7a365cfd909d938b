//! `blockmill feed`.

use crate::arguments::follow::FeedArguments;
use crate::commands::threads;
use crate::failure::Failure;
use crate::feed::encoder::Encoder;
use crate::feed::listen::Server;
use crate::feed::{follow, tell};
use crate::output;
use crate::signals;
use blockmill_datadir::feed::watching::OwnWatch;
use blockmill_datadir::{DataDir, Feed};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) fn run(arguments: &FeedArguments) -> Result<u8, Failure> {
    let stop = signals::stop_flag_of_output()?;
    let data = &arguments.data;
    let network = DataDir::open_to_read(data)?.chain_id().network;
    let format = arguments.format.0;
    let encoder = Encoder::new(format, network)?;
    let mut feed = Feed::open(data, arguments.from)?;
    if let Some(endpoint) = &arguments.listen {
        let server = Server {
            data,
            network,
            format,
            feed: &feed,
            stop: &stop,
        };
        server.serve(endpoint)?;
        return Ok(0);
    }
    let mut write = |feed: &mut Feed| write(feed, &encoder, arguments, &stop);
    output::stdout().write_all(&encoder.head()?)?;
    if arguments.follow {
        let mut watch = OwnWatch::new(data, &stop);
        follow(&mut feed, &mut watch, &mut write, &mut output::look_for_reader)?;
    } else {
        write(&mut feed)?;
    }
    let mut out = output::stdout();
    out.write_all(encoder.end())?;
    out.flush()?;
    Ok(0)
}

/// Writes everything that there is.
fn write(feed: &mut Feed, encoder: &Encoder, arguments: &FeedArguments, stop: &AtomicBool) -> Result<(), Failure> {
    let mut out = output::stdout();
    tell(feed, encoder, threads(arguments.par), &mut |bytes| {
        if stop.load(Ordering::Relaxed) {
            return Err(Failure::Stopped("standard output".into()));
        }
        Ok(out.write_all(&bytes)?)
    })?;
    Ok(out.flush()?)
}
