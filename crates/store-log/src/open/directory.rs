//! The directory of a store, and the files in it.

use crate::format::location::SEGMENTS_MAX;
use crate::format::page::{PAGE_BYTES, Page, PageKind};
use crate::format::segment::{Identity, Segment, UNFINISHED, file_failed, page_damaged, segment_number, segment_path};
use blockmill_blockfiles::disk::{Disk, DiskFile, Open};
use blockmill_blockfiles::open_regular;
use blockmill_coins::StoreError;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

/// How often a store that is written meanwhile is opened to read.
const ATTEMPTS: u32 = 5;

/// The numbers of all segments in a directory, sorted.
fn segment_numbers(directory: &Path) -> Result<Vec<u32>, StoreError> {
    let failed = |error: io::Error| file_failed(directory, &error);
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        numbers.extend(name.to_str().and_then(segment_number));
    }
    // Directories have no order.
    numbers.sort_unstable();
    Ok(numbers)
}

/// Whether a store exists in a directory.
///
/// # Errors
/// [`StoreError::Backend`] if the directory cannot be read, or is none.
pub fn is_there(directory: &Path) -> Result<bool, StoreError> {
    match std::fs::symlink_metadata(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        // A symbolic link is found, too, wherever it leads.
        found => found.map_err(|error| file_failed(directory, &error))?,
    };
    let other = |what| StoreError::Backend(format!("{}: {what}", directory.display()));
    let metadata = std::fs::metadata(directory).map_err(|error| match error.kind() {
        ErrorKind::NotFound => other("a symbolic link to a folder that does not exist"),
        _ => file_failed(directory, &error),
    })?;
    if !metadata.is_dir() {
        return Err(other("not a folder"));
    }
    Ok(!segment_numbers(directory)?.is_empty())
}

/// Opens a file of a store to read it. To open a pipe would wait for its writer.
fn open_file(path: &Path) -> Result<File, StoreError> {
    open_regular(path).map_err(|error| StoreError::Backend(error.to_string()))
}

/// The network of the store in a directory, on signet with its challenge.
///
/// # Errors
/// As [`LogStore::open`](crate::LogStore::open).
pub fn network(directory: &Path) -> Result<String, StoreError> {
    // All segments have it, and the first is as good as any.
    let Some(&number) = segment_numbers(directory)?.first() else {
        return Err(StoreError::Backend(format!("{}: no store", directory.display())));
    };
    let path = segment_path(directory, number);
    let file = open_file(&path)?;
    Ok(open_segment(&path, number, Box::new(file))?.1.network)
}

/// Removes a store, and its directory, or the symbolic link to the directory.
///
/// # Errors
/// [`StoreError::Backend`]; a part of the store may be gone then.
pub fn remove(disk: &dyn Disk, directory: &Path) -> Result<(), StoreError> {
    let failed = |error: io::Error| file_failed(directory, &error);
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        disk.remove(&entry.map_err(failed)?.path()).map_err(failed)?;
    }
    // No file may come back in a folder that is made again.
    disk.sync_directory(directory).map_err(failed)?;
    match std::fs::remove_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotADirectory => disk.remove(directory),
        removed => removed,
    }
    .map_err(failed)?;
    disk.sync_name(directory).map_err(failed)
}

/// Removes files that never got their names: a checkpoint, or a segment, in whose midst a process
/// was killed.
pub(crate) fn remove_unfinished(disk: &dyn Disk, directory: &Path) -> Result<(), StoreError> {
    let failed = |error: io::Error| file_failed(directory, &error);
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == UNFINISHED) {
            // It may come back after a power cut, and is removed again then.
            disk.remove(&path).map_err(failed)?;
        }
    }
    Ok(())
}

/// Opens a segment and reads its first page.
fn open_segment(path: &Path, number: u32, file: Box<dyn DiskFile>) -> Result<(Segment, Identity), StoreError> {
    let segment = Segment {
        number,
        path: path.to_owned(),
        file,
    };
    let mut page: Box<Page> = Box::new([0; PAGE_BYTES]);
    let head = segment.read_page(0, &mut page)?;
    if head.kind != PageKind::Segment {
        return Err(page_damaged(path, 0, "is not the first of a segment"));
    }
    let identity = Identity::read(&page, path)?;
    Ok((segment, identity))
}

/// Opens all segments of a directory.
pub(crate) fn open_segments(
    directory: &Path,
    disk: Option<&dyn Disk>,
) -> Result<(Vec<Arc<Segment>>, Identity), StoreError> {
    let (mut segments, mut identity) = (Vec::new(), None);
    let numbers = segment_numbers(directory)?;
    if numbers.len() > SEGMENTS_MAX {
        return Err(StoreError::Backend(format!("more than {SEGMENTS_MAX} segments")));
    }
    for number in numbers {
        let path = segment_path(directory, number);
        let file: Box<dyn DiskFile> = match disk {
            Some(disk) => disk
                .open(&path, Open::Keep)
                .map_err(|error| file_failed(&path, &error))?,
            None => Box::new(open_file(&path)?),
        };
        let (segment, found) = open_segment(&path, number, file)?;
        if identity.get_or_insert_with(|| found.clone()) != &found {
            return Err(page_damaged(&path, 0, "is of another store"));
        }
        segments.push(Arc::new(segment));
    }
    match identity {
        Some(identity) => Ok((segments, identity)),
        None => Err(StoreError::Backend(format!("{}: no store", directory.display()))),
    }
}

pub(crate) fn check_network(identity: &Identity, network: Option<&str>) -> Result<(), StoreError> {
    match network {
        Some(wanted) if wanted != identity.network => Err(StoreError::Network {
            found: identity.network.clone(),
            wanted: wanted.to_owned(),
        }),
        _ => Ok(()),
    }
}

/// Opens something of a store that another process may write meanwhile.
pub(crate) fn find_to_read<T>(
    directory: &Path,
    network: Option<&str>,
    mut open: impl FnMut(Vec<Arc<Segment>>, Identity) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let mut attempt = 1;
    loop {
        let opened = open_segments(directory, None).and_then(|(segments, identity)| {
            check_network(&identity, network)?;
            open(segments, identity)
        });
        match opened {
            // A writer may have written or removed a file while it was read.
            Err(StoreError::Corrupt(_) | StoreError::Backend(_)) if attempt < ATTEMPTS => attempt += 1,
            opened => return opened,
        }
    }
}
