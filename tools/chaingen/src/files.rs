//! Writes a chain to `blk*.dat` files, as Bitcoin Core does, with a manifest beside them.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::chain::generate;
use crate::chain_spec::{ChainSpec, GenerateError, Progress, Summary};
use tempfile::TempPath;

/// The manifest's name.
const MANIFEST: &str = "manifest.json";
/// What the name of the directory of an unfinished chain begins with.
const UNFINISHED: &str = "incomplete-";
/// Magic of regtest: each record begins with these bytes.
const MAGIC: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda];
/// Largest block file in bytes: 128 MiB.
const FILE_BYTES_MAX: u64 = 128 << 20;
/// Bytes of a record before the block: magic and length.
const RECORD_HEADER_BYTES: u64 = 8;
/// Generates the chain of a spec into the directory `out`, which is created if it is missing. The
/// files are `blk00000.dat` and so on, without an xor key, and `manifest.json` with the
/// [`Summary`]. A record is regtest's magic, the block's length (4 bytes, little endian) and the
/// block.
///
/// # Errors
///
/// Those of [`generate`] for its spec; [`GenerateError::Occupied`] when `out` holds block files or
/// a manifest already, also where another process has put them there meanwhile;
/// [`GenerateError::Write`] when a file or the directory could not be created or written. An error
/// leaves no file of the chain. Until the chain is whole, its files are in a directory of `out`,
/// `incomplete-` and random letters, which a killed process leaves behind.
pub fn write_chain(
    out: &Path,
    spec: &ChainSpec,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Summary, GenerateError> {
    write_chain_until(out, spec, &AtomicBool::new(false), progress)
}

/// As [`write_chain`], but setting `stop` ends the run before the next block.
///
/// # Errors
///
/// Those of [`write_chain`], and [`GenerateError::Stopped`].
pub fn write_chain_until(
    out: &Path,
    spec: &ChainSpec,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Summary, GenerateError> {
    write_files(out, spec, FILE_BYTES_MAX, stop, progress)
}

fn write_files(
    out: &Path,
    spec: &ChainSpec,
    file_bytes_max: u64,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Summary, GenerateError> {
    spec.check()?;
    let is_new = !out.try_exists().map_err(failed(out))?;
    fs::create_dir_all(out).map_err(failed(out))?;
    let written = write_unfinished(out, spec, file_bytes_max, stop, progress);
    // An error leaves nothing behind that was not there.
    if written.is_err() && is_new {
        // What another process has put there stays.
        let _ = fs::remove_dir(out);
    }
    written
}

fn write_unfinished(
    out: &Path,
    spec: &ChainSpec,
    file_bytes_max: u64,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Summary, GenerateError> {
    check_free(out)?;
    let unfinished = tempfile::Builder::new().prefix(UNFINISHED).tempdir_in(out);
    let unfinished = unfinished.map_err(failed(out))?;
    let mut files = BlockFiles {
        directory: unfinished.path(),
        out,
        file_bytes_max,
        path: out.to_owned(),
        current: None,
        used: 0,
        names: Vec::new(),
    };
    let mut append = |_, block: &[u8]| match stop.load(Ordering::Relaxed) {
        // `generate` knows no stop, so it is an error of the sink until it comes back.
        true => Err(ErrorKind::Interrupted.into()),
        false => files.append(block),
    };
    let written = generate(spec, &mut append, progress).and_then(|mut summary| {
        files.finish().map_err(failed(&files.path))?;
        summary.files.clone_from(&files.names);
        let text = serde_json::to_string_pretty(&summary).expect("a summary has only strings and numbers");
        let manifest = unfinished.path().join(MANIFEST);
        fs::write(&manifest, text + "\n").map_err(failed(&out.join(MANIFEST)))?;
        finish(unfinished.path(), out, &files.names)?;
        Ok(summary)
    });
    written.map_err(|error| match error {
        GenerateError::Sink { .. } if stop.load(Ordering::Relaxed) => GenerateError::Stopped {
            directory: out.to_owned(),
        },
        GenerateError::Sink { source, .. } => failed(&files.path)(source),
        error => error,
    })
}

/// Moves the files of a whole chain to `out`. The manifest is the last one: a directory with it is
/// whole. What another process has put there meanwhile stays, and what has moved before is removed.
fn finish(unfinished: &Path, out: &Path, names: &[String]) -> Result<(), GenerateError> {
    check_free(out)?;
    let mut moved = Vec::new();
    for name in names.iter().map(String::as_str).chain([MANIFEST]) {
        let to = out.join(name);
        if let Err(error) = give_name(unfinished.join(name), &to) {
            // What cannot be removed has no manifest beside it.
            moved.iter().for_each(|file| drop(fs::remove_file(file)));
            return Err(match error.kind() {
                ErrorKind::AlreadyExists => GenerateError::Occupied { file: to },
                _ => failed(&to)(error),
            });
        }
        moved.push(to);
    }
    Ok(())
}

/// Renames a file to a name that is free.
fn give_name(from: PathBuf, to: &Path) -> io::Result<()> {
    match TempPath::try_from_path(from)?.persist_noclobber(to) {
        Ok(()) => Ok(()),
        Err(refused) if refused.error.kind() == ErrorKind::AlreadyExists => Err(refused.error),
        // The file system has neither RENAME_NOREPLACE nor hard links; the name was free before.
        Err(refused) => Ok(refused.path.persist(to)?),
    }
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> GenerateError + use<> {
    let path = path.to_owned();
    move |source| GenerateError::Write { path, source }
}

/// Whether a file is called as a block file is.
fn is_block_file(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(b"blk") && name.ends_with(b".dat")
}

/// Fails if a directory has block files or a manifest.
fn check_free(out: &Path) -> Result<(), GenerateError> {
    match chain_file_in(out).map_err(failed(out))? {
        Some(file) => Err(GenerateError::Occupied { file }),
        None => Ok(()),
    }
}

/// A block file of the directory, or its manifest, if it has one.
fn chain_file_in(directory: &Path) -> io::Result<Option<PathBuf>> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == MANIFEST || is_block_file(&name) {
            return Ok(Some(entry.path()));
        }
    }
    Ok(None)
}

struct BlockFiles<'a> {
    directory: &'a Path,
    /// The directory in which they are at the end.
    out: &'a Path,
    file_bytes_max: u64,
    /// The file that was created last, or that could not be created, as it is called at the end.
    path: PathBuf,
    current: Option<BufWriter<File>>,
    /// Bytes in the current file.
    used: u64,
    names: Vec<String>,
}

impl BlockFiles<'_> {
    fn append(&mut self, block: &[u8]) -> io::Result<()> {
        let length = u32::try_from(block.len()).map_err(io::Error::other)?;
        let record_bytes = RECORD_HEADER_BYTES + u64::from(length);
        // As Core: a record is never cut.
        if self.used + record_bytes > self.file_bytes_max {
            self.finish()?;
        }
        let file = match &mut self.current {
            Some(file) => file,
            None => {
                let name = format!("blk{:05}.dat", self.names.len());
                self.path = self.out.join(&name);
                let file = File::create_new(self.directory.join(&name))?;
                self.names.push(name);
                self.used = 0;
                self.current.insert(BufWriter::with_capacity(1 << 20, file))
            }
        };
        file.write_all(&MAGIC)?;
        file.write_all(&length.to_le_bytes())?;
        file.write_all(block)?;
        self.used += record_bytes;
        Ok(())
    }

    /// Ends the current file.
    fn finish(&mut self) -> io::Result<()> {
        match self.current.take() {
            Some(mut file) => file.flush(),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain_spec::Profile;
    use bitcoin::Block;
    use bitcoin::consensus::deserialize;

    fn spec() -> ChainSpec {
        ChainSpec {
            inputs: 500,
            ..ChainSpec::new(Profile::Utxo, 120, 3)
        }
    }

    fn records(directory: &Path, names: &[String]) -> Vec<Vec<u8>> {
        let mut blocks = Vec::new();
        for name in names {
            let file = fs::read(directory.join(name)).unwrap();
            let mut rest = &file[..];
            while !rest.is_empty() {
                assert_eq!(rest[..4], MAGIC);
                let length = u32::from_le_bytes(rest[4..8].try_into().unwrap()) as usize;
                blocks.push(rest[8..8 + length].to_vec());
                rest = &rest[8 + length..];
            }
        }
        blocks
    }

    #[test]
    fn files_hold_the_chain_record_by_record() {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path().join("new");
        let summary = write_files(&out, &spec(), 20_000, &AtomicBool::new(false), &mut |_| ()).unwrap();
        assert!(summary.files.len() > 1);
        for name in &summary.files {
            assert!(fs::metadata(out.join(name)).unwrap().len() <= 20_000);
        }
        let blocks = records(&out, &summary.files);
        let mut generated = Vec::new();
        let direct = generate(
            &spec(),
            &mut |_, block| {
                generated.push(block.to_vec());
                Ok(())
            },
            &mut |_| (),
        );
        assert_eq!(blocks, generated);
        assert_eq!(
            Summary {
                files: Vec::new(),
                ..summary.clone()
            },
            direct.unwrap()
        );
        let tip: Block = deserialize(blocks.last().unwrap()).unwrap();
        assert_eq!(tip.block_hash().to_string(), summary.tip);
        let manifest = fs::read_to_string(out.join(MANIFEST)).unwrap();
        assert_eq!(serde_json::from_str::<Summary>(&manifest).unwrap(), summary);
    }

    #[test]
    fn an_occupied_directory_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("blk00007.dat");
        fs::write(&file, b"").unwrap();
        match write_chain(directory.path(), &spec(), &mut |_| ()) {
            Err(GenerateError::Occupied { file: named }) => assert_eq!(named, file),
            other => panic!("{other:?}"),
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// Two at once: the one that ends first has written a whole chain, the other one is refused.
    #[test]
    fn the_later_of_two_writers_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path().join("new");
        let mut inner = None;
        let mut progress = |_: &Progress| {
            inner.get_or_insert_with(|| write_chain(&out, &spec(), &mut |_| ()).unwrap());
        };
        let outer = write_files(&out, &spec(), 5_000, &AtomicBool::new(false), &mut progress);
        assert!(matches!(outer, Err(GenerateError::Occupied { .. })), "{outer:?}");
        let inner = inner.unwrap();
        let mut expected = inner.files.clone();
        expected.push(MANIFEST.to_owned());
        assert_eq!(names(&out), expected);
        assert_eq!(records(&out, &inner.files).len(), 121);
    }

    /// A chain never replaces what is there, and leaves nothing where it cannot move.
    #[test]
    fn files_of_the_user_are_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let (whole, left) = (directory.path().join("whole"), directory.path().join("left"));
        write_chain(&whole, &spec(), &mut |_| ()).unwrap();
        for name in [MANIFEST, "blk00000.dat", "blk00001.dat", "blk00099.dat"] {
            fs::create_dir_all(left.join("incomplete-0")).unwrap();
            fs::write(left.join("incomplete-0/blk00000.dat"), "left by a killed process").unwrap();
            fs::write(left.join(name), "mine").unwrap();
            let error = write_chain(&left, &spec(), &mut |_| ());
            assert!(matches!(error, Err(GenerateError::Occupied { .. })), "{error:?}");
            assert_eq!(fs::read(left.join(name)).unwrap(), b"mine");
            let mut expected = [name, "incomplete-0"];
            expected.sort_unstable();
            assert_eq!(names(&left), expected);
            fs::remove_dir_all(&left).unwrap();
        }
        // One that appears between the check and the move.
        let (from, to) = (whole.join(MANIFEST), directory.path().join("there"));
        fs::write(&to, "mine").unwrap();
        let error = give_name(from, &to).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&to).unwrap(), b"mine");
    }

    #[test]
    fn a_stop_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let there = directory.path().join("there");
        fs::create_dir(&there).unwrap();
        fs::write(there.join("other"), b"").unwrap();
        for (out, left) in [(directory.path().join("new"), None), (there, Some(1))] {
            let stop = AtomicBool::new(false);
            let mut progress = |progress: &Progress| stop.store(progress.blocks_done == 50, Ordering::Relaxed);
            match write_files(&out, &spec(), 5_000, &stop, &mut progress) {
                Err(GenerateError::Stopped { directory }) => assert_eq!(directory, out),
                other => panic!("{other:?}"),
            }
            assert_eq!(fs::read_dir(&out).ok().map(Iterator::count), left);
        }
    }

    #[test]
    fn a_sink_that_fails_ends_it() {
        let error = generate(
            &spec(),
            &mut |height, _| {
                if height < 3 {
                    Ok(())
                } else {
                    Err(io::Error::other("full"))
                }
            },
            &mut |_| (),
        );
        assert!(matches!(error, Err(GenerateError::Sink { height: 3, .. })));
    }
}
