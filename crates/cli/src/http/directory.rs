//! The bytes of a data directory, and what is free beside it.

use blockmill_datadir::files::STORE_FOLDER;
use std::path::Path;
use std::time::{Duration, Instant};

/// Time between two looks. A directory may have thousands of files.
const INTERVAL: Duration = Duration::from_secs(5);

/// Folders within folders that are counted. A data directory has fewer.
const DEPTH_MAX: usize = 4;

/// Sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Sizes {
    /// The coin store.
    pub(super) store: Option<u64>,
    /// The data directory, the store included.
    pub(super) directory: Option<u64>,
    /// What an ordinary user may still write to its file system.
    pub(super) free: Option<u64>,
    /// The file system.
    pub(super) disk: Option<u64>,
}

/// The sizes at the last look.
#[derive(Debug, Default)]
pub(super) struct Directory {
    looked: Option<Instant>,
    sizes: Sizes,
}

impl Directory {
    /// The sizes, which may be some seconds old. A directory that is not there yet has none, and is
    /// made on the file system of the folder above.
    pub(super) fn sizes(&mut self, directory: Option<&Path>) -> Sizes {
        let is_due = self.looked.is_none_or(|looked| looked.elapsed() >= INTERVAL);
        if let Some(directory) = directory.filter(|_| is_due) {
            self.looked = Some(Instant::now());
            let folders = directory.ancestors().map(|folder| match folder.as_os_str().is_empty() {
                true => Path::new("."),
                false => folder,
            });
            let file_system = folders.flat_map(rustix::fs::statvfs).next();
            self.sizes = Sizes {
                store: Some(size(&directory.join(STORE_FOLDER), DEPTH_MAX)),
                directory: Some(size(directory, DEPTH_MAX)),
                free: file_system.as_ref().map(|of| of.f_bavail.saturating_mul(of.f_frsize)),
                disk: file_system.as_ref().map(|of| of.f_blocks.saturating_mul(of.f_frsize)),
            };
        }
        self.sizes
    }
}

/// Bytes of a file, or of all files in a folder. Links are not followed.
fn size(path: &Path, depth: usize) -> u64 {
    let Ok(metadata) = path.symlink_metadata() else {
        return 0;
    };
    if !metadata.is_dir() || depth == 0 {
        return metadata.len();
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| size(&entry.path(), depth - 1)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_count() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join(STORE_FOLDER);
        std::fs::create_dir(&store).unwrap();
        std::fs::write(store.join("1"), [0; 77]).unwrap();
        std::fs::write(folder.path().join("undo.dat"), [0; 23]).unwrap();
        let mut directory = Directory::default();
        assert_eq!(directory.sizes(None), Sizes::default());
        let missing = Directory::default().sizes(Some(&folder.path().join("a/b")));
        assert_eq!((missing.store, missing.directory), (Some(0), Some(0)));
        assert!(missing.free.is_some());
        let sizes = directory.sizes(Some(folder.path()));
        assert_eq!((sizes.store, sizes.directory), (Some(77), Some(100)));
        assert!(sizes.free.unwrap() <= sizes.disk.unwrap());
        // The next look is not due yet.
        std::fs::write(store.join("2"), [0; 7]).unwrap();
        assert_eq!(directory.sizes(Some(folder.path())), sizes);
    }
}
