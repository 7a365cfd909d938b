//! Writes a chain to `blk*.dat` files, as Bitcoin Core does, with a manifest beside them.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::chain::generate;
use crate::chain_spec::{ChainSpec, GenerateError, Progress, Summary};
use crate::unfinished::{MANIFEST, NAME, Unfinished, failed, is_block_file};

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
/// a manifest already; [`GenerateError::Foreign`] when its folder for unfinished chains was not
/// made by this function; [`GenerateError::InUse`] when another process is writing a chain there;
/// [`GenerateError::Write`] when a file or the directory could not be created or written. An error
/// leaves no file of the chain. Until the chain is whole, its files are in a folder of `out`.
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
    // With such a folder there may be files that only have to move.
    let folder = out.join(NAME);
    if !folder.try_exists().map_err(failed(&folder))? {
        check_free(out)?;
    }
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
    let unfinished = Unfinished::open(out)?;
    // Another process may have finished just now.
    check_free(out)?;
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
        true => Err(io::ErrorKind::Interrupted.into()),
        false => files.append(block),
    };
    let written = generate(spec, &mut append, progress).and_then(|mut summary| {
        files.finish().map_err(failed(&files.path))?;
        summary.files.clone_from(&files.names);
        let text = serde_json::to_string_pretty(&summary).expect("a summary has only strings and numbers");
        let manifest = unfinished.path().join(MANIFEST);
        fs::write(&manifest, text + "\n").map_err(failed(&out.join(MANIFEST)))?;
        unfinished.finish(out)?;
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

    /// Two at once, and after each other: the second one is refused, and the first one's chain is
    /// whole.
    #[test]
    fn a_second_writer_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path().join("new");
        let mut second = Vec::new();
        let mut progress = |_: &Progress| second.push(write_chain(&out, &spec(), &mut |_| ()));
        let first = write_files(&out, &spec(), 5_000, &AtomicBool::new(false), &mut progress).unwrap();
        let refused = |error: &Result<_, _>| matches!(error, Err(GenerateError::InUse { .. }));
        assert!(!second.is_empty() && second.iter().all(refused), "{second:?}");
        let left = names(&out);
        assert_eq!(left.len(), first.files.len() + 1, "{left:?}");
        assert!(matches!(
            write_chain(&out, &spec(), &mut |_| ()),
            Err(GenerateError::Occupied { .. })
        ));
        assert_eq!(names(&out), left);
    }

    /// The folder of a process that was killed, as it was first.
    fn leave_folder(out: &Path) {
        fs::create_dir_all(out.join(NAME)).unwrap();
        let text = "An unfinished chain of blockmill generate. The next one removes this folder.\n";
        fs::write(out.join(NAME).join("generate.txt"), text).unwrap();
    }

    /// What a process leaves that was killed while it wrote, and while its files moved.
    #[test]
    fn what_a_dead_process_has_left_is_in_nobodys_way() {
        let directory = tempfile::tempdir().unwrap();
        let whole = directory.path().join("whole");
        let summary = write_files(&whole, &spec(), 5_000, &AtomicBool::new(false), &mut |_| ()).unwrap();
        let left = directory.path().join("left");
        leave_folder(&left);
        for name in ["blk00000.dat", "blk00099.dat"] {
            fs::write(left.join("incomplete").join(name), "half").unwrap();
        }
        write_files(&left, &spec(), 5_000, &AtomicBool::new(false), &mut |_| ()).unwrap();
        assert_eq!(names(&left), names(&whole));
        assert_eq!(records(&left, &summary.files), records(&whole, &summary.files));
        // All but the first file still had to move.
        leave_folder(&left);
        for name in names(&whole).iter().filter(|name| *name != "blk00000.dat") {
            fs::rename(left.join(name), left.join("incomplete").join(name)).unwrap();
        }
        let error = write_chain(&left, &spec(), &mut |_| ());
        assert!(matches!(error, Err(GenerateError::Occupied { .. })), "{error:?}");
        assert_eq!(names(&left), names(&whole));
        assert_eq!(records(&left, &summary.files), records(&whole, &summary.files));
    }

    /// Every file that was there is there still, with its bytes.
    #[test]
    fn files_of_the_user_are_left_alone() {
        let text = "An unfinished chain of blockmill generate. The next one removes this folder.\n";
        let other = format!("{text}no");
        let trees: [&[(&str, &str)]; 11] = [
            &[("manifest.json", "mine")],
            &[("incomplete/movie.part", "precious")],
            &[("incomplete/blk00000.dat", "precious")],
            &[("incomplete/manifest.json", "{}")],
            &[("incomplete/generate.txt", text), ("incomplete/movie.part", "precious")],
            &[
                ("incomplete/generate.txt", text),
                ("incomplete/blk00000.dat/inner", "precious"),
            ],
            &[
                ("incomplete/generate.txt", "mine"),
                ("incomplete/blk00000.dat", "precious"),
            ],
            &[("incomplete/generate.txt", &other)],
            &[("incomplete/blk00000.dat", ""), ("manifest.json", "mine")],
            &[("incomplete", "a file")],
            &[("incomplete/generate.txt", text), ("blk00000.dat", "mine")],
        ];
        for tree in trees {
            let directory = tempfile::tempdir().unwrap();
            for (name, text) in tree {
                let path = directory.path().join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            let error = write_chain(directory.path(), &spec(), &mut |_| ()).unwrap_err();
            let is_refused = matches!(error, GenerateError::Occupied { .. } | GenerateError::Foreign { .. });
            assert!(is_refused, "{tree:?}: {error}");
            for (name, text) in tree.iter().filter(|(name, _)| *name != "incomplete/generate.txt") {
                assert_eq!(fs::read_to_string(directory.path().join(name)).unwrap(), *text);
            }
        }
    }

    /// Files of a dead process that were to move, and one of the user where one of them belongs.
    #[test]
    fn a_chain_that_moves_replaces_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let (whole, left) = (directory.path().join("whole"), directory.path().join("left"));
        write_files(&whole, &spec(), 5_000, &AtomicBool::new(false), &mut |_| ()).unwrap();
        leave_folder(&left);
        for name in names(&whole) {
            fs::copy(whole.join(&name), left.join(NAME).join(&name)).unwrap();
        }
        for name in ["manifest.json", "blk00001.dat"] {
            fs::write(left.join(name), "mine").unwrap();
            let before = names(&left.join(NAME));
            let error = write_chain(&left, &spec(), &mut |_| ());
            assert!(matches!(error, Err(GenerateError::Occupied { .. })), "{error:?}");
            assert_eq!(fs::read(left.join(name)).unwrap(), b"mine");
            assert_eq!(names(&left.join(NAME)), before);
            fs::remove_file(left.join(name)).unwrap();
        }
        let error = write_chain(&left, &spec(), &mut |_| ());
        assert!(matches!(error, Err(GenerateError::Occupied { .. })), "{error:?}");
        assert_eq!(names(&left), names(&whole));
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
