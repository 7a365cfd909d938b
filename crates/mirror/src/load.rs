//! The first load of the tables, by `COPY` on several connections.
//!
//! Each piece is a transaction with a row that says what it was, so a load that is cut off goes on
//! with what is missing. A connection that outlives its mirror holds a lock until it ends, and the
//! next mirror waits for that before it asks what is there.

use crate::change::{RowMaker, TableRows};
use crate::copy::{END, HEAD};
use crate::database::{Connection, Database};
use crate::error::MirrorError;
use crate::schema::Schema;
use crate::state::Step;
use crate::table::MirrorTable;
use blockmill_block::OutPoint;
use blockmill_chain::{ChainBlocks, Event};
use blockmill_coins::store::outpoint_key;
use blockmill_datadir::{Batch, UtxoSet};
use postgres::{Client, Transaction};
use std::io::Write;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of rows that are in a transaction together, about.
const PIECE_BYTES: usize = 2 << 20;

/// Bytes of the blocks whose rows are.
const RUN_BYTES: u64 = 2 << 20;

/// Bytes that go to the server at once.
const WRITE_BYTES: usize = 256 << 10;

/// A part of the work: the keys above one, up to another. Keys sort as their bytes do.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Part {
    after: Vec<u8>,
    upto: Vec<u8>,
}

/// The parts that are done, sorted, none touching another.
#[derive(Debug, Default)]
struct Done(Vec<Part>);

/// Rows for a connection.
struct Piece {
    rows: Vec<TableRows>,
    part: Part,
}

/// Takes a piece.
type Give<'a> = dyn FnMut(Piece) -> Result<(), MirrorError> + 'a;

/// Gives all pieces.
type Work<'a> = dyn FnMut(&mut Give<'_>) -> Result<(), MirrorError> + 'a;

/// What a load needs.
pub(crate) struct Load<'a> {
    pub(crate) database: &'a Database,
    pub(crate) schema: &'a Schema,
    pub(crate) maker: &'a RowMaker,
    /// Threads, and connections.
    pub(crate) threads: usize,
}

impl Done {
    fn read(client: &mut Client, schema: &Schema, step: Step) -> Result<Self, MirrorError> {
        let statement = format!(
            "SELECT after, upto FROM {} WHERE step = $1",
            schema.relation("mirror_loaded")
        );
        let rows = client.query(&statement, &[&step.word()])?;
        let part = |row: postgres::Row| {
            let (after, upto) = (row.try_get(0).ok()?, row.try_get(1).ok()?);
            Some(Part { after, upto })
        };
        let parts: Option<Vec<Part>> = rows.into_iter().map(part).collect();
        let parts = parts.ok_or_else(|| {
            let (relation, anew) = (schema.relation("mirror_loaded"), schema.anew());
            MirrorError::Corrupt(format!("{relation} does not say what is loaded; {anew}"))
        })?;
        Ok(Self::of(parts))
    }

    fn of(mut parts: Vec<Part>) -> Self {
        parts.sort_unstable();
        let mut merged: Vec<Part> = Vec::new();
        for part in parts {
            match merged.last_mut() {
                // A later load may have gone over what an earlier one had done.
                Some(last) if part.after <= last.upto => last.upto = part.upto.max(std::mem::take(&mut last.upto)),
                _ => merged.push(part),
            }
        }
        Self(merged)
    }

    fn has(&self, key: &[u8]) -> bool {
        let next = self.0.partition_point(|part| *part.upto < *key);
        self.0.get(next).is_some_and(|part| *part.after < *key)
    }
}

/// Writes rows into a table.
pub(crate) fn copy_in(transaction: &mut Transaction<'_>, schema: &Schema, rows: &TableRows) -> Result<(), MirrorError> {
    let (table, tuples) = rows;
    let mut writer = transaction.copy_in(&schema.copy(*table))?;
    let mut write = |bytes: &[u8]| writer.write_all(bytes).map_err(of_writer);
    write(HEAD)?;
    tuples.chunks(WRITE_BYTES).try_for_each(&mut write)?;
    write(END)?;
    writer.finish()?;
    Ok(())
}

/// The error of the server inside that of a stream.
fn of_writer(error: std::io::Error) -> MirrorError {
    match error.downcast::<postgres::Error>() {
        Ok(error) => error.into(),
        Err(error) => error.into(),
    }
}

fn height_key(height: u32) -> Vec<u8> {
    // Above nothing is below height 0.
    (u64::from(height) + 1).to_be_bytes().to_vec()
}

impl Load<'_> {
    /// Loads the coins of a set. `show` is told how far that is.
    pub(crate) fn coins(
        &self,
        main: &mut Connection<'_>,
        set: &UtxoSet,
        show: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), MirrorError> {
        let done = Done::read(main, self.schema, Step::Coins)?;
        let times = set.directory().block_times(&set.tip())?;
        let convert = |mut batch: Batch| {
            self.database.check_stop()?;
            let (read, last) = (batch.len() as u64, batch.last().map(|(outpoint, _)| *outpoint));
            if !done.0.is_empty() {
                batch.retain(|(outpoint, _)| !done.has(&outpoint_key(outpoint)));
            }
            Ok((self.maker.coins(batch, &times), last, read))
        };
        self.on_connections(Step::Coins, &mut |give| {
            let (mut tuples, mut after, mut upto, mut read) = (Vec::new(), Vec::new(), Vec::new(), 0);
            let mut give_piece = |tuples: &mut Vec<u8>, after: &mut Vec<u8>, upto: &Vec<u8>| {
                let rows = (MirrorTable::Coins, std::mem::take(tuples));
                let after = std::mem::replace(after, upto.clone());
                give(Piece {
                    rows: vec![rows],
                    part: Part {
                        after,
                        upto: upto.clone(),
                    },
                })
            };
            let mut take = |(more, last, count): (Vec<u8>, Option<OutPoint>, u64)| {
                self.database.check_stop()?;
                read += count;
                if let Some(last) = &last {
                    show(Event::coins_up_to(read, last));
                    upto = outpoint_key(last).to_vec();
                }
                match tuples.is_empty() {
                    true => tuples = more,
                    false => tuples.extend(more),
                }
                match tuples.len() >= PIECE_BYTES {
                    true => give_piece(&mut tuples, &mut after, &upto),
                    false => Ok(()),
                }
            };
            set.for_each_batch::<_, MirrorError>(&convert, &mut take)?;
            match tuples.is_empty() {
                true => Ok(()),
                false => give_piece(&mut tuples, &mut after, &upto),
            }
        })
    }

    /// Loads the blocks of some heights into the other tables. `show` is told how many blocks and
    /// transactions were read, of how many blocks.
    pub(crate) fn blocks(
        &self,
        main: &mut Connection<'_>,
        chain: &ChainBlocks,
        heights: RangeInclusive<u32>,
        show: &mut dyn FnMut(u64, u64, u64),
    ) -> Result<(), MirrorError> {
        let done = Done::read(main, self.schema, Step::Blocks)?;
        let missing = missing(heights, &done);
        let all: u64 = missing.iter().map(|range| range.clone().count() as u64).sum();
        let convert = |heights: RangeInclusive<u32>| {
            self.database.check_stop()?;
            let (first, last) = heights.clone().into_inner();
            let (rows, counts) = self.maker.blocks(chain, heights)?;
            let part = Part {
                after: first.checked_sub(1).map_or_else(Vec::new, height_key),
                upto: height_key(last),
            };
            let memory = rows.iter().map(|(_, tuples)| tuples.len()).sum();
            Ok(((Piece { rows, part }, counts), memory))
        };
        self.on_connections(Step::Blocks, &mut |give| {
            let (mut blocks, mut transactions) = (0, 0);
            let mut take = |(piece, counts): (Piece, super::change::Counts)| {
                blocks += counts.blocks;
                transactions += counts.transactions;
                show(blocks, all, transactions);
                give(piece)
            };
            chain.for_each_run_in::<_, MirrorError>(&missing, RUN_BYTES, self.threads, &convert, &mut take)
        })
    }

    /// Has `work` give pieces, which connections write.
    fn on_connections(&self, step: Step, work: &mut Work<'_>) -> Result<(), MirrorError> {
        let (sender, pieces) = sync_channel(self.threads);
        let pieces = Arc::new(Mutex::new(pieces));
        let has_failed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writer = || {
                let (pieces, has_failed) = (Arc::clone(&pieces), &has_failed);
                scope.spawn(move || {
                    let written = self.write(step, &pieces, has_failed);
                    if written.is_err() {
                        has_failed.store(true, Ordering::Relaxed);
                    }
                    written
                })
            };
            let writers: Vec<_> = (0..self.threads).map(|_| writer()).collect();
            // The channel ends with the last writer.
            drop(pieces);
            let sent = self.send(sender, &has_failed, work);
            let written: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
            for written in written {
                written.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            }
            sent
        })
    }

    fn send(&self, sender: SyncSender<Piece>, has_failed: &AtomicBool, work: &mut Work<'_>) -> Result<(), MirrorError> {
        let given = work(&mut |piece| {
            // The writer that has failed says why.
            let is_taken = !has_failed.load(Ordering::Relaxed) && sender.send(piece).is_ok();
            if is_taken { Ok(()) } else { Err(MirrorError::Stopped) }
        });
        if given.is_err() {
            // What is in the channel is not written.
            has_failed.store(true, Ordering::Relaxed);
        }
        given
    }

    /// Writes pieces until there are no more.
    fn write(&self, step: Step, pieces: &Mutex<Receiver<Piece>>, has_failed: &AtomicBool) -> Result<(), MirrorError> {
        let mut connection = self.database.connect()?;
        connection.lock_as_loader(self.schema)?;
        // What is lost in a crash of the server is lost with the row that says that it was done.
        connection.batch_execute("SET synchronous_commit = off")?;
        let relation = self.schema.relation("mirror_loaded");
        let note = connection.prepare(&format!("INSERT INTO {relation} VALUES ($1, $2, $3)"))?;
        loop {
            let next = pieces.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(Piece { rows, part }) = next else { return Ok(()) };
            if has_failed.load(Ordering::Relaxed) {
                return Ok(());
            }
            self.database.check_stop()?;
            let mut transaction = connection.transaction()?;
            for rows in &rows {
                copy_in(&mut transaction, self.schema, rows)?;
            }
            transaction.execute(&note, &[&step.word(), &part.after, &part.upto])?;
            transaction.commit()?;
            self.database.note_move();
        }
    }
}

/// The heights that are not done.
fn missing(heights: RangeInclusive<u32>, done: &Done) -> Vec<RangeInclusive<u32>> {
    let mut missing: Vec<RangeInclusive<u32>> = Vec::new();
    for height in heights.filter(|&height| !done.has(&height_key(height))) {
        match missing.last_mut() {
            Some(range) if height > 0 && *range.end() == height - 1 => *range = *range.start()..=height,
            _ => missing.push(height..=height),
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(after: u8, upto: u8) -> Part {
        let key = |key: u8| if key == 0 { Vec::new() } else { vec![key] };
        Part {
            after: key(after),
            upto: key(upto),
        }
    }

    #[test]
    fn parts_that_are_done_are_above_one_key_and_up_to_another() {
        let done = Done::of(vec![part(10, 12), part(0, 3), part(3, 5), part(11, 14)]);
        assert_eq!(done.0, [part(0, 5), part(10, 14)]);
        let has: Vec<u8> = (1..20).filter(|&key| done.has(&[key])).collect();
        assert_eq!(has, [1, 2, 3, 4, 5, 11, 12, 13, 14]);
        assert!(!Done::default().has(&[1]));
    }

    /// A load that goes over everything again, with other borders, covers what it went over.
    #[test]
    fn parts_may_lie_in_others() {
        let done = Done::of(vec![part(0, 20), part(4, 6), part(19, 22), part(30, 31)]);
        assert_eq!(done.0, [part(0, 22), part(30, 31)]);
    }

    #[test]
    fn heights_that_are_missing_are_ranges() {
        let heights = |first: u32, last| Part {
            after: first.checked_sub(1).map_or_else(Vec::new, height_key),
            upto: height_key(last),
        };
        let done = Done::of(vec![heights(0, 4), heights(300, 301), heights(7, 7)]);
        assert_eq!(missing(0..=302, &done), [5..=6, 8..=299, 302..=302]);
        assert_eq!(missing(3..=4, &done), []);
        assert_eq!(missing(0..=2, &Done::default()), [0..=2]);
    }
}
