//! The data directory: one lock, one mark of what it belongs to, and the places of everything in it.
//!
//! | file | what |
//! |---|---|
//! | `meta.json` | format, network, signet challenge |
//! | `lock` | held by the process that has the directory open |
//! | `coins.redb` | the coin store |
//! | `undo.dat` | undo data, in the records of Core's `rev*.dat` |
//! | `headers.dat` | headers of connected blocks, and where their undo data lies |
//! | `blocks/` | blocks that came through `submit`, in blk form |

use crate::error::EngineError;
use blockmill_block::disk::{Disk, Open, SystemDisk};
use blockmill_block::files::FileError;
use blockmill_block::{BlockHash, Network, hex};
use blockmill_rules::Params;
use serde::{Deserialize, Serialize};
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Version of the layout of a data directory.
const FORMAT: u32 = 1;

/// What a data directory belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marks {
    /// The network.
    pub network: Network,
    /// On signet a challenge other than the default.
    pub signet_challenge: Option<Vec<u8>>,
}

impl Marks {
    /// The network's parameters.
    pub fn params(&self) -> Params {
        Params::new(self.network, self.signet_challenge.clone())
    }

    /// The marks as one text: the network's name, and the challenge where there is one.
    pub fn text(&self) -> String {
        match &self.signet_challenge {
            Some(challenge) => format!("{}:{}", self.network, hex::encode(challenge)),
            None => self.network.to_string(),
        }
    }
}

/// The block up to which a snapshot has taken the place of validation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotMark {
    /// Its height.
    pub height: u32,
    /// Its hash.
    pub hash: BlockHash,
}

#[derive(Serialize, Deserialize)]
struct Meta {
    format: u32,
    network: String,
    signet_challenge: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    snapshot: Option<SnapshotMeta>,
}

#[derive(Serialize, Deserialize)]
struct SnapshotMeta {
    height: u32,
    hash: String,
}

/// An open data directory. No other process can open it meanwhile.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    marks: Marks,
    snapshot: Option<SnapshotMark>,
    disk: Arc<dyn Disk>,
    _lock: File,
}

impl DataDir {
    /// Opens a data directory, or makes one if `wanted` says for what. An existing one must be for `wanted`, if that is
    /// given; a challenge is compared only if one is given.
    ///
    /// # Errors
    /// [`EngineError::Locked`], [`EngineError::WrongNetwork`], [`EngineError::NoDataDirectory`], or the files' errors.
    pub fn open(path: &Path, wanted: Option<&Marks>) -> Result<Self, EngineError> {
        Self::open_on(Arc::new(SystemDisk), path, wanted)
    }

    /// As [`DataDir::open`], on a disk of the caller's, which everything in the directory is then written to.
    ///
    /// # Errors
    /// As for [`DataDir::open`].
    pub fn open_on(disk: Arc<dyn Disk>, path: &Path, wanted: Option<&Marks>) -> Result<Self, EngineError> {
        let meta_path = path.join("meta.json");
        if !meta_path.is_file() {
            if wanted.is_none() {
                return Err(EngineError::NoDataDirectory { path: path.to_owned() });
            }
            if path.join("blocks").exists() {
                return Err(EngineError::Foreign { path: path.to_owned() });
            }
            disk.create_directories(path)
                .and_then(|()| disk.sync_name(path))
                .map_err(file_error(path))?;
        }
        let lock = lock(path)?;
        let (marks, snapshot) = match (read_meta(&meta_path)?, wanted) {
            (Some((found, snapshot)), Some(wanted)) => {
                let same_challenge =
                    wanted.signet_challenge.is_none() || wanted.signet_challenge == found.signet_challenge;
                if found.network != wanted.network || !same_challenge {
                    return Err(EngineError::WrongNetwork {
                        path: path.to_owned(),
                        found: found.text(),
                        wanted: wanted.text(),
                    });
                }
                (found, snapshot)
            }
            (Some(found), None) => found,
            (None, Some(wanted)) => {
                write_meta(&*disk, path, wanted, None)?;
                (wanted.clone(), None)
            }
            (None, None) => return Err(EngineError::NoDataDirectory { path: path.to_owned() }),
        };
        Ok(Self {
            path: path.to_owned(),
            marks,
            snapshot,
            disk,
            _lock: lock,
        })
    }

    /// What the directory belongs to.
    pub fn marks(&self) -> &Marks {
        &self.marks
    }

    /// The block up to which a snapshot has taken the place of validation, if one was loaded.
    pub fn snapshot(&self) -> Option<SnapshotMark> {
        self.snapshot
    }

    /// Notes, durably, that a snapshot was loaded, or that none was.
    pub(crate) fn set_snapshot(&mut self, snapshot: Option<SnapshotMark>) -> Result<(), EngineError> {
        write_meta(&*self.disk, &self.path, &self.marks, snapshot)?;
        self.snapshot = snapshot;
        Ok(())
    }

    /// What everything in the directory is written to.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// Where a file of the directory lies.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

pub(crate) fn file_error(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> EngineError {
    let path = path.into();
    move |error| EngineError::File(FileError::Io { path, error })
}

fn lock(path: &Path) -> Result<File, EngineError> {
    let lock_path = path.join("lock");
    let file = File::create(&lock_path).map_err(file_error(&lock_path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(EngineError::Locked { path: path.to_owned() }),
        Err(TryLockError::Error(error)) => Err(file_error(lock_path)(error)),
    }
}

fn read_meta(path: &Path) -> Result<Option<(Marks, Option<SnapshotMark>)>, EngineError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(file_error(path)(error)),
    };
    let damaged = |detail: String| EngineError::Damaged {
        path: path.to_owned(),
        detail,
    };
    let meta: Meta = serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
    if meta.format != FORMAT {
        return Err(damaged(format!(
            "format {}, this program reads format {FORMAT}",
            meta.format
        )));
    }
    let network = meta
        .network
        .parse::<Network>()
        .map_err(|error| damaged(error.to_string()))?;
    let signet_challenge = match &meta.signet_challenge {
        Some(text) => Some(hex::decode(text).map_err(|error| damaged(error.to_string()))?),
        None => None,
    };
    let snapshot = match &meta.snapshot {
        Some(SnapshotMeta { height, hash }) => Some(SnapshotMark {
            height: *height,
            hash: hash.parse().map_err(|_| damaged(format!("{hash} is no hash")))?,
        }),
        None => None,
    };
    let marks = Marks {
        network,
        signet_challenge,
    };
    Ok(Some((marks, snapshot)))
}

/// Writes the marks so that they are there whole or not at all.
fn write_meta(
    disk: &dyn Disk,
    directory: &Path,
    marks: &Marks,
    snapshot: Option<SnapshotMark>,
) -> Result<(), EngineError> {
    let meta = Meta {
        format: FORMAT,
        network: marks.network.to_string(),
        signet_challenge: marks.signet_challenge.as_deref().map(hex::encode),
        snapshot: snapshot.map(|mark| SnapshotMeta {
            height: mark.height,
            hash: mark.hash.to_string(),
        }),
    };
    let path = directory.join("meta.json");
    let temporary = directory.join("meta.json.new");
    let text = serde_json::to_string_pretty(&meta).map_err(|error| EngineError::Damaged {
        path: path.clone(),
        detail: error.to_string(),
    })?;
    let write = || -> std::io::Result<()> {
        let file = disk.open(&temporary, Open::Empty)?;
        file.write_all_at(text.as_bytes(), 0)?;
        file.sync_data()?;
        disk.rename(&temporary, &path)?;
        disk.sync_directory(directory)
    };
    write().map_err(file_error(&path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(network: Network) -> Marks {
        Marks {
            network,
            signet_challenge: None,
        }
    }

    #[test]
    fn the_network_is_kept() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("data");
        assert!(matches!(
            DataDir::open(&path, None),
            Err(EngineError::NoDataDirectory { .. })
        ));
        let made = DataDir::open(&path, Some(&marks(Network::Regtest))).unwrap();
        drop(made);
        let opened = DataDir::open(&path, None).unwrap();
        assert_eq!(opened.marks().network, Network::Regtest);
        drop(opened);
        let error = DataDir::open(&path, Some(&marks(Network::Bitcoin))).unwrap_err();
        assert!(matches!(&error, EngineError::WrongNetwork { found, .. } if found == "regtest"));
        assert_eq!(error.exit_status(), 2);
    }

    #[test]
    fn a_challenge_is_kept_and_compared() {
        let parent = tempfile::tempdir().unwrap();
        let with = |challenge: Option<Vec<u8>>| Marks {
            network: Network::Signet,
            signet_challenge: challenge,
        };
        drop(DataDir::open(parent.path(), Some(&with(Some(vec![0x51])))).unwrap());
        let opened = DataDir::open(parent.path(), Some(&with(None))).unwrap();
        assert_eq!(opened.marks().signet_challenge, Some(vec![0x51]));
        drop(opened);
        assert!(DataDir::open(parent.path(), Some(&with(Some(vec![0x52])))).is_err());
    }

    #[test]
    fn the_directory_of_another_program_is_left_alone() {
        let parent = tempfile::tempdir().unwrap();
        std::fs::create_dir(parent.path().join("blocks")).unwrap();
        let error = DataDir::open(parent.path(), Some(&marks(Network::Regtest))).unwrap_err();
        assert!(matches!(error, EngineError::Foreign { .. }));
        assert_eq!(error.exit_status(), 2);
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 1);
    }

    #[test]
    fn the_mark_of_a_snapshot_is_kept() {
        let parent = tempfile::tempdir().unwrap();
        let mut made = DataDir::open(parent.path(), Some(&marks(Network::Regtest))).unwrap();
        assert_eq!(made.snapshot(), None);
        let mark = SnapshotMark {
            height: 7,
            hash: BlockHash([3; 32]),
        };
        made.set_snapshot(Some(mark)).unwrap();
        drop(made);
        let mut opened = DataDir::open(parent.path(), None).unwrap();
        assert_eq!(opened.snapshot(), Some(mark));
        opened.set_snapshot(None).unwrap();
        drop(opened);
        assert_eq!(DataDir::open(parent.path(), None).unwrap().snapshot(), None);
    }

    #[test]
    fn one_at_a_time() {
        let parent = tempfile::tempdir().unwrap();
        let _first = DataDir::open(parent.path(), Some(&marks(Network::Regtest))).unwrap();
        assert!(matches!(
            DataDir::open(parent.path(), None),
            Err(EngineError::Locked { .. })
        ));
    }

    #[test]
    fn damaged_marks_are_refused() {
        let parent = tempfile::tempdir().unwrap();
        for text in [
            "",
            "{}",
            "{\"format\":9,\"network\":\"regtest\",\"signet_challenge\":null}",
        ] {
            std::fs::write(parent.path().join("meta.json"), text).unwrap();
            assert!(matches!(
                DataDir::open(parent.path(), None),
                Err(EngineError::Damaged { .. })
            ));
        }
    }
}
