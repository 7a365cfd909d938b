//! Which backend is the fastest on this machine: measured, not looked up.
//!
//! The first full batch of a process makes all backends hash the same messages in turns, and the
//! fastest one is taken from then on. It costs about a millisecond, once, and up to 12 where
//! another than the first one is the fastest.

use crate::backend::{Backend, MEASURED, OnBackend};
use crate::message::Message;
use blockmill_fastest::Contender;
use std::hint::black_box;

/// Messages, or pairs of nodes, from which backends are measured.
pub(crate) const FULL: usize = 128;

/// Turns of each backend.
pub(crate) const TURNS: usize = 7;

/// Messages and pairs of a turn. Blocks of Bitcoin, too, have about as many of both.
const TURN: usize = 64;

/// Bytes of the shortest message of a turn, and how much longer each is than the one before it:
/// most transactions are of such lengths.
const LENGTH_MIN: usize = 190;
const LENGTH_STEP: usize = 4;

/// Measures for the process, if there is something to choose.
pub(crate) fn measure_once() {
    if Backend::named().is_none() && Backend::available().nth(1).is_some() {
        MEASURED.measure_once(TURNS, contenders);
    }
}

/// Every backend of this machine.
pub(crate) fn contenders<'w>() -> Vec<Contender<'w, Backend>> {
    Backend::available().map(contender).collect()
}

fn contender<'w>(backend: Backend) -> Contender<'w, Backend> {
    let on = OnBackend::new(backend);
    let bytes = [0x5a; LENGTH_MIN + TURN * LENGTH_STEP];
    let mut nodes = Vec::new();
    Contender::new(backend, 2 * TURN as u32, move |_turn| {
        let messages = (0..TURN).map(|number| Message::new(&bytes[..LENGTH_MIN + number * LENGTH_STEP]));
        on.double(&mut messages.enumerate(), &mut |_, digest| {
            black_box(digest);
        });
        nodes.clear();
        nodes.resize(2 * TURN, [0x5a; 32]);
        on.halve(&mut nodes);
        black_box(&nodes);
    })
}
