//! The events of a feed in one of its formats.

#[cfg(feature = "tables")]
use crate::arrow_stream::{ArrowStream, END};
use crate::failure::Failure;
#[cfg(feature = "tables")]
use crate::feed::arrow;
use blockmill_block::Network;
use blockmill_coins::Tip;
use blockmill_datadir::feed::request::FeedFormat;
use blockmill_datadir::{FeedBlock, FeedBlocks};
use blockmill_tables::event::Event;
use blockmill_tables::transaction_row::memory_of_row;

/// Memory in bytes of the events that are in a batch together, about. A larger block is alone.
const BATCH_BYTES: usize = 24 << 20;

enum Format {
    Jsonl,
    #[cfg(feature = "tables")]
    Arrow(Box<ArrowStream>),
}

/// Turns events into bytes. Several threads may use it at once.
pub(crate) struct Encoder {
    format: Format,
    network: Network,
}

fn memory_of(block: &FeedBlock) -> usize {
    let rows = block.block.transactions().map(|spending| memory_of_row(&spending));
    rows.sum()
}

impl Encoder {
    /// # Errors
    /// That this build of the command does not have the format.
    pub(crate) fn new(format: FeedFormat, network: Network) -> Result<Self, Failure> {
        let format = match format {
            FeedFormat::Jsonl => Format::Jsonl,
            #[cfg(feature = "tables")]
            FeedFormat::Arrow => Format::Arrow(Box::new(arrow::stream()?)),
            #[cfg(not(feature = "tables"))]
            FeedFormat::Arrow => {
                let left_out = crate::build_info::left_out().unwrap_or_default();
                return Err(Failure::Usage(format!(
                    "the format arrow needs the feature `tables`: {left_out}"
                )));
            }
        };
        Ok(Self { format, network })
    }

    /// What a feed begins with.
    pub(crate) fn head(&self) -> Result<Vec<u8>, Failure> {
        match &self.format {
            Format::Jsonl => Ok(Vec::new()),
            #[cfg(feature = "tables")]
            Format::Arrow(stream) => Ok(stream.head()?),
        }
    }

    /// The events of some blocks.
    pub(crate) fn blocks(&self, blocks: FeedBlocks<'_>) -> Result<Vec<u8>, Failure> {
        let mut bytes = Vec::new();
        let (mut events, mut memory) = (Vec::new(), 0);
        for block in blocks {
            let block = block?;
            let event = Event::of_block(&block, self.network);
            if matches!(self.format, Format::Jsonl) {
                event.write_line(&mut bytes)?;
                continue;
            }
            memory += memory_of(&block);
            events.push(event);
            if memory > BATCH_BYTES {
                self.write(&events, &mut bytes)?;
                events.clear();
                memory = 0;
            }
        }
        if !events.is_empty() {
            self.write(&events, &mut bytes)?;
        }
        Ok(bytes)
    }

    /// The event after the last block that there is.
    pub(crate) fn tip(&self, tip: &Tip) -> Result<Vec<u8>, Failure> {
        self.one(Event::of_tip(tip))
    }

    /// The event that says why there is nothing more.
    pub(crate) fn error(&self, why: String) -> Result<Vec<u8>, Failure> {
        self.one(Event::of_error(why))
    }

    /// What a feed ends with that was not cut off.
    pub(crate) fn end(&self) -> &'static [u8] {
        match &self.format {
            Format::Jsonl => &[],
            #[cfg(feature = "tables")]
            Format::Arrow(_) => &END,
        }
    }

    fn one(&self, event: Event) -> Result<Vec<u8>, Failure> {
        let mut bytes = Vec::new();
        self.write(&[event], &mut bytes)?;
        Ok(bytes)
    }

    fn write(&self, events: &[Event], bytes: &mut Vec<u8>) -> Result<(), Failure> {
        match &self.format {
            Format::Jsonl => events.iter().try_for_each(|event| event.write_line(bytes))?,
            #[cfg(feature = "tables")]
            Format::Arrow(stream) => arrow::write_events(stream, events, bytes)?,
        }
        Ok(())
    }
}
