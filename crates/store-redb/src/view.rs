//! A file that is only read: writes to it stay in memory.
//!
//! redb writes to a file when it opens one that was not closed, and when it closes one. A reader of
//! a store uses this view instead: the file stays unchanged, and need not be writable. The writes
//! are few: a header, and the state of the allocator.

use blockmill_blockfiles::disk::DiskFile;
use redb::StorageBackend;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of a page, the unit of changes.
const PAGE_BYTES: usize = 4096;

#[derive(Debug)]
pub(super) struct View {
    file: Box<dyn DiskFile>,
    changes: Mutex<Changes>,
}

#[derive(Debug)]
struct Changes {
    length: u64,
    /// The file counts up to this offset. After it are zeros.
    file_bytes: u64,
    /// Pages that were written, by number.
    pages: BTreeMap<u64, Box<[u8; PAGE_BYTES]>>,
}

impl View {
    pub(super) fn new(file: Box<dyn DiskFile>) -> io::Result<Self> {
        let length = file.length()?;
        let changes = Changes {
            length,
            file_bytes: length,
            pages: BTreeMap::new(),
        };
        Ok(Self {
            file,
            changes: Mutex::new(changes),
        })
    }

    fn changes(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the file from an offset on, and zeros where the file does not count.
    fn read_file(&self, file_bytes: u64, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let available = file_bytes.saturating_sub(offset).min(out.len() as u64) as usize;
        let (head, rest) = out.split_at_mut(available);
        rest.fill(0);
        self.file.read_exact_at(head, offset)
    }
}

/// Splits a range of bytes by pages: the page's number, the offset in the page, and the length.
fn pages(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    let mut position = offset;
    let end = offset + length as u64;
    std::iter::from_fn(move || {
        let (number, offset_in_page) = (position / PAGE_BYTES as u64, (position % PAGE_BYTES as u64) as usize);
        let count = (end - position).min((PAGE_BYTES - offset_in_page) as u64) as usize;
        position += count as u64;
        (count > 0).then_some((number, offset_in_page, count))
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
        let file_bytes = changes.file_bytes;
        let mut written: Vec<(usize, Vec<u8>)> = Vec::new();
        let mut position = 0;
        for (number, offset_in_page, count) in pages(offset, out.len()) {
            if let Some(page) = changes.pages.get(&number) {
                written.push((position, page[offset_in_page..offset_in_page + count].to_vec()));
            }
            position += count;
        }
        // Other threads may read meanwhile.
        drop(changes);
        self.read_file(file_bytes, offset, out)?;
        for (position, bytes) in written {
            out[position..position + bytes.len()].copy_from_slice(&bytes);
        }
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut changes = self.changes();
        changes.length = length;
        changes.file_bytes = changes.file_bytes.min(length);
        let last = length / PAGE_BYTES as u64;
        let removed = changes.pages.split_off(&last);
        if let Some(mut page) = removed
            .into_iter()
            .find(|&(number, _)| number == last)
            .map(|(_, page)| page)
        {
            page[(length % PAGE_BYTES as u64) as usize..].fill(0);
            changes.pages.insert(last, page);
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
        for (number, offset_in_page, count) in pages(offset, data.len()) {
            let (bytes, rest) = data.split_at(count);
            data = rest;
            if !changes.pages.contains_key(&number) {
                let mut page = Box::new([0; PAGE_BYTES]);
                self.read_file(changes.file_bytes, number * PAGE_BYTES as u64, &mut page[..])?;
                changes.pages.insert(number, page);
            }
            if let Some(page) = changes.pages.get_mut(&number) {
                page[offset_in_page..offset_in_page + count].copy_from_slice(bytes);
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
        const END: usize = 4 * PAGE_BYTES;
        prop_oneof![
            (0..END, proptest::collection::vec(any::<u8>(), 0..6000))
                .prop_map(|(position, bytes)| Call::Write(position, bytes)),
            (0..END).prop_map(Call::SetLength),
            (0..END, 0..3 * PAGE_BYTES).prop_map(|(position, length)| Call::Read(position, length)),
        ]
    }

    proptest! {
        /// The view does what a file does, and the file stays unchanged.
        #[test]
        fn it_is_as_a_file_would_be(length in 0usize..3 * PAGE_BYTES, calls in proptest::collection::vec(call(), 0..30)) {
            let mut model: Vec<u8> = (0..length).map(|position| position as u8 | 1).collect();
            let mut file = tempfile::tempfile().unwrap();
            io::Write::write_all(&mut file, &model).unwrap();
            let view = View::new(Box::new(file.try_clone().unwrap())).unwrap();
            let before = model.clone();
            for call in calls {
                match call {
                    Call::Write(position, bytes) => {
                        let fits = position + bytes.len() <= model.len();
                        prop_assert_eq!(view.write(position as u64, &bytes).is_ok(), fits);
                        if fits {
                            model[position..position + bytes.len()].copy_from_slice(&bytes);
                        }
                    }
                    Call::SetLength(length) => {
                        view.set_len(length as u64).unwrap();
                        model.resize(length, 0);
                    }
                    Call::Read(position, length) => {
                        let mut bytes = vec![7; length];
                        let fits = position + length <= model.len();
                        prop_assert_eq!(view.read(position as u64, &mut bytes).is_ok(), fits);
                        if fits {
                            prop_assert_eq!(&bytes[..], &model[position..position + length]);
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
