//! Writes a chain to `blk*.dat` files, as Bitcoin Core does, with a manifest beside them.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::chain::generate;
use crate::chain_spec::{ChainSpec, GenerateError, Progress, Summary};

/// Magic of regtest: each record begins with these bytes.
const MAGIC: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda];
/// Largest block file in bytes: 128 MiB.
const FILE_BYTES_MAX: u64 = 128 << 20;
/// Bytes of a record before the block: magic and length.
const RECORD_HEADER_BYTES: u64 = 8;
/// The manifest's name.
const MANIFEST: &str = "manifest.json";

/// Generates the chain of a spec into the directory `out`, which is created if it is missing. The
/// files are `blk00000.dat` and so on, without an xor key, and `manifest.json` with the
/// [`Summary`]. A record is regtest's magic, the block's length (4 bytes, little endian) and the
/// block.
///
/// # Errors
///
/// Those of [`generate`] for its spec; [`GenerateError::Occupied`] when `out` holds block files
/// already; [`GenerateError::Write`] when a file or the directory could not be created or written.
/// An error leaves no file of the chain.
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
    let is_new = !out.exists();
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| GenerateError::Write { path, source }
    };
    fs::create_dir_all(out).map_err(failed(out))?;
    if let Some(file) = block_file_in(out).map_err(failed(out))? {
        return Err(GenerateError::Occupied { file });
    }
    let mut files = BlockFiles {
        directory: out,
        file_bytes_max,
        path: out.to_owned(),
        current: None,
        used: 0,
        names: Vec::new(),
    };
    let mut append = |_, block: &[u8]| match stop.load(Ordering::Relaxed) {
        true => Err(io::ErrorKind::Interrupted.into()),
        false => files.append(block),
    };
    let written = generate(spec, &mut append, progress).and_then(|mut summary| {
        files.finish().map_err(failed(&files.path))?;
        summary.files.clone_from(&files.names);
        let text = serde_json::to_string_pretty(&summary).expect("a summary has only strings and numbers");
        let manifest = out.join(MANIFEST);
        fs::write(&manifest, text + "\n").map_err(|error| {
            let _ = fs::remove_file(&manifest);
            failed(&manifest)(error)
        })?;
        Ok(summary)
    });
    written.map_err(|error| {
        // A part of a chain is useless, and would block the next one. Files that cannot be removed
        // stay.
        for name in &files.names {
            let _ = fs::remove_file(out.join(name));
        }
        if is_new {
            let _ = fs::remove_dir(out);
        }
        match error {
            GenerateError::Sink { .. } if stop.load(Ordering::Relaxed) => GenerateError::Stopped {
                directory: out.to_owned(),
            },
            GenerateError::Sink { source, .. } => failed(&files.path)(source),
            error => error,
        }
    })
}

/// A block file of the directory, if it has one.
fn block_file_in(directory: &Path) -> io::Result<Option<PathBuf>> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("blk") && name.ends_with(".dat") {
            return Ok(Some(entry.path()));
        }
    }
    Ok(None)
}

struct BlockFiles<'a> {
    directory: &'a Path,
    file_bytes_max: u64,
    /// The file that was created last, or that could not be created.
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
        if self.used + record_bytes > self.file_bytes_max {
            self.finish()?;
        }
        let file = match &mut self.current {
            Some(file) => file,
            None => {
                let name = format!("blk{:05}.dat", self.names.len());
                self.path = self.directory.join(&name);
                let file = File::create_new(&self.path)?;
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
