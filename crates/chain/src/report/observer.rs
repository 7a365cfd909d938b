//! Who hears what happens while it happens.

use crate::report::events::Event;

/// Hears what happens, on the connecting thread.
///
/// An index may be built of [`Event::Connected`] and [`Event::Disconnected`]. What they say of blocks
/// above the last flush is lost by a kill, and said again by the next run.
/// So an index that is kept should hear of blocks once they are durable: by `DurableObserver` in
/// `blockmill-engine`, which begins at the block that the index has handled last, or in another
/// process by a feed of the data directory (`Feed` in `blockmill-datadir`).
pub trait Observer {
    /// Something has happened.
    fn event(&mut self, event: &Event<'_>);
}

/// Hears nothing.
impl Observer for () {
    fn event(&mut self, _: &Event<'_>) {}
}
