//! `meta.json`: what a data directory belongs to.

use crate::error::{OpenError, Remedy};
use crate::files::{HEADERS_FILE, META_FILE};
use crate::headers_file::came_with_snapshot;
use blockmill_block::hash::sha256d;
use blockmill_block::{BlockHash, Network, hex};
use blockmill_blockfiles::disk::Disk;
use blockmill_blockfiles::{FileError, find_regular};
use blockmill_rules::Params;
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::path::Path;

/// Version of the layout of a data directory.
const FORMAT: u32 = 1;

/// Bytes of the file at most. A challenge is the longest part, and has 10,000 bytes in hex.
const LENGTH_MAX: u64 = 100_000;

/// The name of the only store that this version has.
const STORE: &str = "log";

/// Bytes of its checksum.
const CHECKSUM: usize = 8;

/// What helps where the file is lost. The store knows the network, but nothing else says up to
/// which block a snapshot stands.
pub(super) fn remedy(directory: &Path) -> Remedy {
    match came_with_snapshot(&directory.join(HEADERS_FILE)) {
        Ok(false) => Remedy::RemoveFile,
        _ => Remedy::NewDirectory,
    }
}

/// What a data directory belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainId {
    /// The network.
    pub network: Network,
    /// On signet a challenge other than the default.
    pub signet_challenge: Option<Vec<u8>>,
}

impl ChainId {
    /// The network's parameters.
    pub fn params(&self) -> Params {
        Params::new(self.network, self.signet_challenge.clone())
    }

    /// The chain id as one text: the network's name, and the challenge where there is one.
    pub fn text(&self) -> String {
        match &self.signet_challenge {
            Some(challenge) => format!("{}:{}", self.network, hex::encode(challenge)),
            None => self.network.to_string(),
        }
    }

    /// The chain id of a text.
    pub fn from_text(text: &str) -> Option<Self> {
        let (network, challenge) = match text.split_once(':') {
            Some((network, challenge)) => (network, Some(hex::decode(challenge).ok()?)),
            None => (text, None),
        };
        Some(Self {
            network: network.parse().ok()?,
            signet_challenge: challenge,
        })
    }

    /// Whether a directory of this chain may be opened as `wanted`. Challenges are compared only if
    /// `wanted` has one.
    pub(crate) fn fits(&self, wanted: &Self) -> bool {
        let same_challenge = || self.params().signet_challenge == wanted.params().signet_challenge;
        self.network == wanted.network && (wanted.signet_challenge.is_none() || same_challenge())
    }
}

/// The block up to which a snapshot has replaced validation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotMark {
    /// Its height.
    pub height: u32,
    /// Its hash.
    pub hash: BlockHash,
}

/// What the file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Meta {
    pub(super) chain_id: ChainId,
    /// None where the set was validated from the first block on.
    pub(super) snapshot: Option<SnapshotMark>,
}

impl Meta {
    /// That of a directory in which nothing was made yet.
    pub(super) fn new(chain_id: ChainId) -> Self {
        Self {
            chain_id,
            snapshot: None,
        }
    }
}

#[derive(Clone, Serialize, Deserialize)]
struct MetaJson {
    format: u32,
    network: String,
    signet_challenge: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    store: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    snapshot: Option<SnapshotJson>,
    /// None only while it is computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    checksum: Option<String>,
}

impl MetaJson {
    /// A checksum of all the rest.
    fn checksum(&self) -> serde_json::Result<String> {
        let rest = Self {
            checksum: None,
            ..self.clone()
        };
        let hash = sha256d(serde_json::to_string(&rest)?.as_bytes());
        Ok(hex::encode(&hash[..CHECKSUM]))
    }
}

#[derive(Clone, Serialize, Deserialize)]
struct SnapshotJson {
    height: u32,
    hash: String,
}

/// Reads the file. None where there is none.
pub(super) fn read_meta(path: &Path) -> Result<Option<Meta>, OpenError> {
    let damaged = |detail: String| OpenError::damaged(path, detail, remedy(path.parent().unwrap_or(path)));
    let Some(file) = find_regular(path)? else {
        return Ok(None);
    };
    let mut text = String::new();
    // One more than allowed, so that a longer file shows.
    match file.take(LENGTH_MAX + 1).read_to_string(&mut text) {
        Ok(length) if length as u64 > LENGTH_MAX => {
            return Err(damaged(format!(
                "it has more than {LENGTH_MAX} bytes, and is none of a data directory"
            )));
        }
        Ok(_) => {}
        // Bytes that are no text are damage, and no failure of the disk.
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => return Err(damaged(error.to_string())),
        Err(error) => return Err(FileError::io(path)(error).into()),
    };
    let meta: MetaJson = serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
    let of_another_program = |detail: String| OpenError::damaged(path, detail, None);
    if meta.format != FORMAT {
        return Err(of_another_program(format!(
            "format {}, this program reads format {FORMAT}",
            meta.format
        )));
    }
    if let Some(checksum) = &meta.checksum
        && meta.checksum().ok().as_ref() != Some(checksum)
    {
        return Err(damaged("it is not what was written: its checksum differs".to_owned()));
    }
    match meta.store.as_deref() {
        Some(STORE) => {}
        Some(name) => {
            return Err(of_another_program(format!(
                "the store {name:?}, this program reads {STORE:?}"
            )));
        }
        None => return Err(damaged("it names no store".to_owned())),
    }
    if meta.checksum.is_none() {
        return Err(damaged("it has no checksum".to_owned()));
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
        Some(SnapshotJson { height, hash }) => Some(SnapshotMark {
            height: *height,
            hash: hash.parse().map_err(|_| damaged(format!("{hash} is no hash")))?,
        }),
        None => None,
    };
    let chain_id = ChainId {
        network,
        signet_challenge,
    };
    Ok(Some(Meta { chain_id, snapshot }))
}

/// Writes the file: it is whole or not there.
pub(super) fn write_meta(disk: &dyn Disk, directory: &Path, meta: &Meta) -> Result<(), FileError> {
    let Meta { chain_id, snapshot } = meta;
    let mut meta = MetaJson {
        format: FORMAT,
        network: chain_id.network.to_string(),
        signet_challenge: chain_id.signet_challenge.as_deref().map(hex::encode),
        store: Some(STORE.to_owned()),
        snapshot: snapshot.map(|mark| SnapshotJson {
            height: mark.height,
            hash: mark.hash.to_string(),
        }),
        checksum: None,
    };
    let path = directory.join(META_FILE);
    let mut write = || -> std::io::Result<()> {
        meta.checksum = Some(meta.checksum()?);
        disk.replace(&path, serde_json::to_string_pretty(&meta)?.as_bytes())
    };
    write().map_err(FileError::io(&path))
}
