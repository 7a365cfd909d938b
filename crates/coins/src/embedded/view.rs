//! A file that is only read: what is written to it is kept in memory.
//!
//! redb writes to a file when it opens one that was not closed, and when it closes one. Who only looks at a store does so through this: the file
//! stays as it is, and need not be writable. What is written is little: a header, and the state of the allocator.

use blockmill_blockfiles::disk::DiskFile;
use redb::StorageBackend;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of the pieces that are kept.
const PIECE: usize = 4096;

#[derive(Debug)]
pub(super) struct View {
    file: Box<dyn DiskFile>,
    changes: Mutex<Changes>,
}

#[derive(Debug)]
struct Changes {
    length: u64,
    /// Bytes of the file that still count; behind them are zeros.
    from_file: u64,
    /// Pieces that were written to, by their number.
    pieces: BTreeMap<u64, Box<[u8; PIECE]>>,
}

impl View {
    pub(super) fn new(file: Box<dyn DiskFile>) -> io::Result<Self> {
        let length = file.length()?;
        let changes = Changes {
            length,
            from_file: length,
            pieces: BTreeMap::new(),
        };
        Ok(Self {
            file,
            changes: Mutex::new(changes),
        })
    }

    fn changes(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what the file has from a place on, and zeros where it has nothing that counts.
    fn read_file(&self, from_file: u64, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let there = from_file.saturating_sub(offset).min(out.len() as u64) as usize;
        let (there, behind) = out.split_at_mut(there);
        behind.fill(0);
        self.file.read_exact_at(there, offset)
    }
}

/// Splits the bytes from a place on into those of each piece: its number, the place in it, and how many.
fn pieces(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    let mut at = offset;
    let end = offset + length as u64;
    std::iter::from_fn(move || {
        let (number, inside) = (at / PIECE as u64, (at % PIECE as u64) as usize);
        let count = (end - at).min((PIECE - inside) as u64) as usize;
        at += count as u64;
        (count > 0).then_some((number, inside, count))
    })
}

impl StorageBackend for View {
    fn len(&self) -> io::Result<u64> {
        Ok(self.changes().length)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let changes = self.changes();
        if offset
            .checked_add(out.len() as u64)
            .is_none_or(|end| end > changes.length)
        {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let from_file = changes.from_file;
        let mut written: Vec<(usize, Vec<u8>)> = Vec::new();
        let mut at = 0;
        for (number, inside, count) in pieces(offset, out.len()) {
            if let Some(piece) = changes.pieces.get(&number) {
                written.push((at, piece[inside..inside + count].to_vec()));
            }
            at += count;
        }
        // Others may read meanwhile.
        drop(changes);
        self.read_file(from_file, offset, out)?;
        for (at, bytes) in written {
            out[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut changes = self.changes();
        changes.length = length;
        changes.from_file = changes.from_file.min(length);
        let last = length / PIECE as u64;
        let behind = changes.pieces.split_off(&last);
        if let Some(mut piece) = behind
            .into_iter()
            .find(|&(number, _)| number == last)
            .map(|(_, piece)| piece)
        {
            piece[(length % PIECE as u64) as usize..].fill(0);
            changes.pieces.insert(last, piece);
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut changes = self.changes();
        if offset
            .checked_add(data.len() as u64)
            .is_none_or(|end| end > changes.length)
        {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut data = data;
        for (number, inside, count) in pieces(offset, data.len()) {
            let (bytes, rest) = data.split_at(count);
            data = rest;
            if !changes.pieces.contains_key(&number) {
                let mut piece = Box::new([0; PIECE]);
                self.read_file(changes.from_file, number * PIECE as u64, &mut piece[..])?;
                changes.pieces.insert(number, piece);
            }
            if let Some(piece) = changes.pieces.get_mut(&number) {
                piece[inside..inside + count].copy_from_slice(bytes);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    enum Call {
        Write(usize, Vec<u8>),
        SetLength(usize),
        Read(usize, usize),
    }

    fn call() -> impl Strategy<Value = Call> {
        const END: usize = 4 * PIECE;
        prop_oneof![
            (0..END, proptest::collection::vec(any::<u8>(), 0..6000)).prop_map(|(at, bytes)| Call::Write(at, bytes)),
            (0..END).prop_map(Call::SetLength),
            (0..END, 0..3 * PIECE).prop_map(|(at, length)| Call::Read(at, length)),
        ]
    }

    proptest! {
        /// It does what a file does, and leaves the file alone.
        #[test]
        fn it_is_as_a_file_would_be(length in 0usize..3 * PIECE, calls in proptest::collection::vec(call(), 0..30)) {
            let mut model: Vec<u8> = (0..length).map(|at| at as u8 | 1).collect();
            let mut file = tempfile::tempfile().unwrap();
            io::Write::write_all(&mut file, &model).unwrap();
            let view = View::new(Box::new(file.try_clone().unwrap())).unwrap();
            let before = model.clone();
            for call in calls {
                match call {
                    Call::Write(at, bytes) => {
                        let fits = at + bytes.len() <= model.len();
                        prop_assert_eq!(view.write(at as u64, &bytes).is_ok(), fits);
                        if fits {
                            model[at..at + bytes.len()].copy_from_slice(&bytes);
                        }
                    }
                    Call::SetLength(length) => {
                        view.set_len(length as u64).unwrap();
                        model.resize(length, 0);
                    }
                    Call::Read(at, length) => {
                        let mut bytes = vec![7; length];
                        let fits = at + length <= model.len();
                        prop_assert_eq!(view.read(at as u64, &mut bytes).is_ok(), fits);
                        if fits {
                            prop_assert_eq!(&bytes[..], &model[at..at + length]);
                        }
                    }
                }
            }
            prop_assert_eq!(view.len().unwrap(), model.len() as u64);
            let mut there = vec![0; before.len()];
            DiskFile::read_exact_at(&file, &mut there, 0).unwrap();
            prop_assert_eq!(there, before);
            prop_assert!(view.read(u64::MAX, &mut [0; 2]).is_err());
        }
    }
}
