//! An observer that hears of blocks once they are durable.

use blockmill_chain::report::events::{BlockChange, Event, Observer};
use blockmill_chain::spending_block::SpendingBlock;
use blockmill_coins::Tip;
use blockmill_datadir::{Cursor, Feed, FeedError, FeedEvent};
use std::path::Path;

/// Passes on to an observer, from a block on that it has handled last, which blocks have come and
/// left: once each, when a flush has made them durable. After a kill the observer hears first which
/// of its blocks left the chain, each with the coins that it spent, and then what came.
///
/// The blocks are read once more, on the connecting thread. What else happens is passed on at once.
///
/// ```
/// use blockmill_block::Network;
/// use blockmill_engine::datadir::Cursor;
/// use blockmill_engine::{DurableObserver, Engine, Event, Observer};
/// use blockmill_kernel::KernelVerifier;
/// # use blockmill_chaingen::{ChainSpec, Profile, write_chain};
/// # let directory = tempfile::tempdir()?;
/// # let (blocks, data) = (directory.path().join("blocks"), directory.path().join("data"));
/// # write_chain(&blocks, &ChainSpec::new(Profile::Utxo, 110, 1), &mut |_| ())?;
///
/// /// Counts inputs. One that is kept has the hash of its last block beside its number.
/// #[derive(Default)]
/// struct Inputs(usize);
///
/// impl Observer for Inputs {
///     fn event(&mut self, event: &Event<'_>) {
///         match event {
///             Event::Connected(change) => self.0 += change.undo.coins().len(),
///             Event::Disconnected(change) => self.0 -= change.undo.coins().len(),
///             _ => {}
///         }
///     }
/// }
///
/// let mut engine = Engine::builder(&data).network(Network::Regtest).open(KernelVerifier)?;
/// let mut inputs = Inputs::default();
/// let mut observer = DurableObserver::new(&data, Cursor::Height(0), &mut inputs)?;
/// let report = engine.connect(&[blocks], &mut observer)?;
/// assert_eq!(observer.finish()?.hash, report.tip);
/// assert_eq!(inputs.0 as u64, report.totals.inputs);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct DurableObserver<'o> {
    feed: Feed,
    observer: &'o mut dyn Observer,
}

impl<'o> DurableObserver<'o> {
    /// Tells `observer` what the data directory at `data` has to tell after `cursor`, the block
    /// that it has handled last.
    ///
    /// # Errors
    /// [`FeedError`].
    pub fn new(data: &Path, cursor: Cursor, observer: &'o mut dyn Observer) -> Result<Self, FeedError> {
        let feed = Feed::open(data, cursor)?;
        let mut durable = Self { feed, observer };
        durable.tell()?;
        Ok(durable)
    }

    /// The block that the observer was told of last.
    pub fn cursor(&self) -> Tip {
        self.feed.cursor()
    }

    /// Tells the observer what is left. Returns the tip.
    ///
    /// # Errors
    /// [`FeedError`], also one that the last flushes met: then the observer is at
    /// [`cursor`](Self::cursor), and may go on from there later.
    pub fn finish(mut self) -> Result<Tip, FeedError> {
        self.tell()?;
        Ok(self.cursor())
    }

    /// Tells the observer what is durable and was not told.
    fn tell(&mut self) -> Result<(), FeedError> {
        if !self.feed.poll()? {
            return Ok(());
        }
        for event in &mut self.feed {
            match event {
                Ok(FeedEvent::Connected(block)) => self.observer.event(&Event::Connected(&change(&block))),
                Ok(FeedEvent::Disconnected(block)) => self.observer.event(&Event::Disconnected(&change(&block))),
                Ok(FeedEvent::Tip(_)) => {}
                // The engine is still to connect the blocks up to the observer's.
                Err(FeedError::Behind { .. }) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn change(block: &SpendingBlock) -> BlockChange<'_> {
    BlockChange {
        height: block.height,
        block: &block.block,
        undo: &block.undo,
    }
}

impl Observer for DurableObserver<'_> {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            // They are told of when they are durable.
            Event::Connected(_) | Event::Disconnected(_) => return,
            // What cannot be read now is told after a later flush, or at the end.
            Event::Flushed(_) => drop(self.tell()),
            _ => {}
        }
        self.observer.event(event);
    }
}
