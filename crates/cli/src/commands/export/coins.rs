//! `blockmill export coins`.

use crate::arguments::export::ExportCoinsArguments;
use crate::arguments::or_standard_input;
use crate::commands::{cores, open_set_at};
use crate::export::flat::{Encoder, Form, Piece, Writer};
use crate::export::metadata::{Metadata, Origin};
use crate::export::table::say_written;
use crate::export::target::Target;
use crate::failure::Failure;
use crate::output;
use crate::progress::{EngineMeter, share};
use crate::signals;
use blockmill_block::{BlockHash, Coin, Magic, Network, OutPoint};
use blockmill_blockfiles::Input;
use blockmill_coins::{SnapshotError, SnapshotReader};
use blockmill_datadir::{Batch, UtxoSet, for_each_batch_of};
use blockmill_tables::batch;
use blockmill_tables::coin_row;
use serde_json::json;
use std::collections::HashSet;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Where coins come from.
enum Source {
    Set(Box<UtxoSet>),
    /// It is read once: it may be a stream.
    Snapshot {
        path: PathBuf,
        head: Vec<u8>,
        /// After the head.
        input: Input,
        magic: Magic,
        network: Network,
    },
}

impl Source {
    fn open(
        arguments: &ExportCoinsArguments,
        stop: &Arc<AtomicBool>,
        meter: &mut EngineMeter,
    ) -> Result<Self, Failure> {
        let path = match (&arguments.snapshot, &arguments.data) {
            (Some(snapshot), _) => or_standard_input(snapshot).to_owned(),
            (None, Some(data)) => {
                let set = open_set_at(data, arguments.at.earlier(), stop, meter)?;
                return Ok(Self::Set(Box::new(set)));
            }
            (None, None) => return Err(Failure::Usage("--data or --snapshot is needed".to_owned())),
        };
        let input = Input::open(&path, Arc::clone(stop))?;
        let mut head = Vec::new();
        // The head tells the network, which decides what the addresses are, and the last block.
        let read = (&input).take(SNAPSHOT_BASE_AT + 32).read_to_end(&mut head);
        read.map_err(|error| snapshot_failure(&path, error.into()))?;
        let magic = Magic(part(&head, SNAPSHOT_MAGIC_AT));
        let network = Network::ALL.into_iter().find(|network| network.magic() == magic);
        Ok(Self::Snapshot {
            path,
            head,
            input,
            magic,
            // A signet with a challenge of its own has a magic of its own.
            network: network.unwrap_or(Network::Signet),
        })
    }

    fn network(&self) -> Network {
        match self {
            Self::Set(set) => set.directory().chain_id().network,
            Self::Snapshot { network, .. } => *network,
        }
    }

    /// What the table says of the set; `source` is what was given.
    fn metadata(&self, source: &Path) -> Metadata {
        let origin = Origin {
            network: self.network(),
            source: output::path_text(source).into_owned(),
        };
        match self {
            Self::Set(set) => origin.of_set(Some(set.tip().height), set.tip().hash),
            Self::Snapshot { head, .. } => origin.of_set(None, BlockHash(part(head, SNAPSHOT_BASE_AT))),
        }
    }

    /// The times of all blocks, by height; of none where there are no blocks.
    fn times(&self) -> Result<Vec<u32>, Failure> {
        match self {
            Self::Set(set) => Ok(set.directory().block_times(&set.tip())?),
            Self::Snapshot { .. } => Ok(Vec::new()),
        }
    }

    /// Gives all coins to `convert`, on all cores, and what comes of it to `take`, in order.
    fn for_each_batch<T: Send>(
        &self,
        convert: &(dyn Fn(Batch) -> Result<T, Failure> + Sync),
        take: &mut dyn FnMut(T) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        match self {
            Self::Set(set) => set.for_each_batch(convert, take),
            Self::Snapshot {
                path,
                head,
                input,
                magic,
                ..
            } => {
                let failed = |error| snapshot_failure(path, error);
                // The head was read off the input, and comes before the rest of it.
                let input = head.chain(BufReader::with_capacity(1 << 20, input));
                let reader = SnapshotReader::new(input, *magic).map_err(failed)?;
                for_each_batch_of(reader.chunks(u32::MAX), cores(), failed, convert, take)
            }
        }
    }
}

/// Offset in bytes of the network's magic in a snapshot, after its own magic and version.
const SNAPSHOT_MAGIC_AT: u64 = 7;

/// Offset in bytes of the hash of the base block, after the magic.
const SNAPSHOT_BASE_AT: u64 = SNAPSHOT_MAGIC_AT + 4;

/// A part of a snapshot's head. What is too short is refused by its reader, which says why.
fn part<const BYTES: usize>(head: &[u8], at: u64) -> [u8; BYTES] {
    let part = head.get(at as usize..).and_then(<[u8]>::first_chunk);
    part.copied().unwrap_or([0; BYTES])
}

fn snapshot_failure(path: &Path, error: SnapshotError) -> Failure {
    match error {
        SnapshotError::Io(error) if Input::is_stop(&error) => Failure::Stopped(path.to_owned()),
        SnapshotError::Io(error) => Failure::file(path)(error),
        error => Failure::Corrupt(format!("{}: {error}", path.display())),
    }
}

/// The coins that are exported.
struct Coins<'a> {
    source: Source,
    /// The times of blocks, by height. A snapshot does not have them.
    times: Vec<u32>,
    /// The scripts of the coins that are wanted; none for all.
    wanted: Option<HashSet<Vec<u8>>>,
    out: &'a Path,
    stop: Arc<AtomicBool>,
}

/// What a batch became, and what it says of the progress.
struct Converted {
    piece: Option<Piece>,
    read: u64,
    rows: u64,
    share: f64,
}

impl Coins<'_> {
    /// Gives the rows of all coins to `convert`, many at a time, on several threads, and the pieces
    /// to `take`, in order. Returns the number of rows.
    fn run(
        &self,
        meter: &mut EngineMeter,
        convert: &(dyn Fn(batch::Batch) -> Result<Piece, Failure> + Sync),
        take: &mut dyn FnMut(Piece) -> Result<(), Failure>,
    ) -> Result<u64, Failure> {
        let network = self.source.network();
        let is_wanted = |(_, coin): &(OutPoint, Coin)| match &self.wanted {
            Some(scripts) => scripts.contains(&*coin.script_pubkey),
            None => true,
        };
        let convert = |mut batch: Batch| {
            let (read, share) = (batch.len() as u64, share(&batch));
            batch.retain(is_wanted);
            let rows = batch.len() as u64;
            let piece = match rows {
                // Where few coins are wanted, most batches have none.
                0 => None,
                _ => Some(convert(coin_row::rows(batch, &self.times, network))?),
            };
            Ok(Converted {
                piece,
                read,
                rows,
                share,
            })
        };
        let (mut read, mut rows) = (0, 0);
        self.source.for_each_batch(&convert, &mut |converted| {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Failure::Stopped(self.out.to_owned()));
            }
            read += converted.read;
            rows += converted.rows;
            meter.coins(read, converted.share);
            converted.piece.map_or(Ok(()), &mut *take)
        })?;
        Ok(rows)
    }
}

/// The scripts of the coins that are wanted; none for all.
#[cfg(feature = "descriptors")]
fn wanted(arguments: &ExportCoinsArguments, network: Network) -> Result<Option<HashSet<Vec<u8>>>, Failure> {
    let wanted = &arguments.wanted;
    let mut scripts = HashSet::new();
    for (text, position) in wanted.texts.iter().zip(1u32..) {
        let targets = blockmill_descriptors::targets(text, wanted.range.indices(), network)
            .map_err(|error| Failure::Usage(format!("--where {position}: {error}")))?;
        scripts.extend(targets.into_iter().map(|target| target.script_pubkey));
    }
    Ok((!wanted.texts.is_empty()).then_some(scripts))
}

#[cfg(not(feature = "descriptors"))]
fn wanted(_: &ExportCoinsArguments, _: Network) -> Result<Option<HashSet<Vec<u8>>>, Failure> {
    Ok(None)
}

pub(crate) fn run(arguments: &ExportCoinsArguments) -> Result<u8, Failure> {
    if arguments.at.height.is_some() && arguments.snapshot.is_some() {
        return Err(Failure::Usage("--at needs --data: a snapshot has no blocks".to_owned()));
    }
    let out = &arguments.out;
    let form = Form::of_file(out, &arguments.form)?;
    let stop = signals::stop_flag_of_output()?;
    let mut meter = EngineMeter::new();
    let source = Source::open(arguments, &stop, &mut meter)?;
    let coins = Coins {
        wanted: wanted(arguments, source.network())?,
        times: source.times()?,
        source,
        out,
        stop,
    };
    let encoder = Encoder::new(&coin_row::TABLE, form)?;
    let source = arguments.snapshot.as_ref().or(arguments.data.as_ref());
    let metadata = source.map(|source| coins.source.metadata(source)).unwrap_or_default();
    let target = Target::open(out, arguments.force)?;
    let mut writer = Writer::open(&coin_row::TABLE, form, target, &metadata)?;
    let rows = coins.run(&mut meter, &|rows| encoder.encode(rows), &mut |piece| writer.add(piece))?;
    let bytes = writer.end()?.complete()?;
    drop(meter);
    let what = output::counted(rows, "coin");
    say_written(&what, json!({"coins": rows}), bytes, out)?;
    Ok(0)
}
