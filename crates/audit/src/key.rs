//! The key of a run.

use crate::field::Element;
use blockmill_block::hex;
use blockmill_blockfiles::{FileError, NewFile, open_regular};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use thiserror::Error;

/// The first line of a key file.
const FILE_HEAD: &str = "blockmill audit key 1";

/// Bytes of a key: two points, and a key for parts.
const LENGTH: usize = 96;

/// A key file is no longer than this.
const FILE_LENGTH_MAX: u64 = 1024;

/// Why a key file is not read or written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The file cannot be read or written, or is there already.
    #[error(transparent)]
    File(#[from] FileError),
    /// It is no key file.
    #[error("{path}: this is no key file of blockmill audit")]
    NoKey {
        /// The file.
        path: String,
    },
    /// Others can read it.
    #[error("{path}: others than its owner can read this key (mode {mode:o}): draw a new one")]
    Exposed {
        /// The file.
        path: String,
        /// Its mode.
        mode: u32,
    },
    /// The operating system gives no random numbers.
    #[error("random numbers: {0}")]
    Random(getrandom::Error),
}

/// A name for bytes: the first half of a hash of them. Each domain has its own names.
pub(crate) fn name_of(domain: &[u8], bytes: &[u8]) -> [u8; 16] {
    let hash: [u8; 32] = Sha256::new().chain_update(domain).chain_update(bytes).finalize().into();
    std::array::from_fn(|index| hash[index])
}

/// Makes a type of names, which are shown in hex.
macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; 16]);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&blockmill_block::hex::encode(&self.0))
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }
    };
}
pub(crate) use name;

name! {
    /// Names a run: a hash of its key.
    RunId
}

/// The secret of a run: the points at which its products are taken, and the key that parts are
/// sealed with. All parts of a run share it. It is random, and nobody who can choose the files or
/// the snapshot may know it.
#[derive(Clone)]
pub struct Key {
    bytes: [u8; LENGTH],
}

impl fmt::Debug for Key {
    /// The run's id alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key of run {}", self.run())
    }
}

impl Key {
    /// A new key, from the operating system's random numbers.
    ///
    /// # Errors
    /// [`KeyError::Random`].
    pub fn draw() -> Result<Self, KeyError> {
        let mut bytes = [0; LENGTH];
        getrandom::fill(&mut bytes).map_err(KeyError::Random)?;
        Ok(Self { bytes })
    }

    /// The secret itself, to be handed to other processes of the run, and to nobody else.
    pub fn secret(&self) -> &[u8] {
        &self.bytes
    }

    /// The key with this [secret](Self::secret). None if the bytes are no secret of a key.
    pub fn from_secret(secret: &[u8]) -> Option<Self> {
        Some(Self {
            bytes: secret.try_into().ok()?,
        })
    }

    #[cfg(test)]
    pub(crate) fn of_number(number: u8) -> Self {
        let mut bytes = [number; LENGTH];
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = byte.wrapping_mul(37).wrapping_add(index as u8).wrapping_mul(101);
        }
        Self { bytes }
    }

    /// Reads a key file.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        use std::os::unix::fs::MetadataExt;
        let file = open_regular(path)?;
        let mode = file.metadata().map_err(FileError::io(path))?.mode() & 0o777;
        // Neither its group nor others may read it.
        if mode & 0o077 != 0 {
            return Err(KeyError::Exposed {
                path: path.display().to_string(),
                mode,
            });
        }
        let mut text = String::new();
        let no_key = || KeyError::NoKey {
            path: path.display().to_string(),
        };
        match file.take(FILE_LENGTH_MAX).read_to_string(&mut text) {
            Err(error) if error.kind() == ErrorKind::InvalidData => return Err(no_key()),
            read => read.map_err(FileError::io(path))?,
        };
        let digits = text.strip_prefix(FILE_HEAD).ok_or_else(no_key)?.trim();
        let bytes = hex::decode(digits).map_err(|_| no_key())?;
        let bytes = bytes.try_into().map_err(|_| no_key())?;
        Ok(Self { bytes })
    }

    /// Writes a new file that only its owner can read.
    ///
    /// # Errors
    /// [`KeyError::File`], also if there is a file of this name.
    pub fn write(&self, path: &Path) -> Result<(), KeyError> {
        let mut new = NewFile::begin_private(path)?;
        let text = format!("{FILE_HEAD}\n{}\n", hex::encode(&self.bytes));
        new.write_all(text.as_bytes()).map_err(FileError::io(path))?;
        new.complete()?;
        Ok(())
    }

    /// The run's name.
    pub fn run(&self) -> RunId {
        RunId(name_of(b"blockmill audit run", &self.bytes))
    }

    /// The two points.
    pub(crate) fn points(&self) -> [Element; 2] {
        let ([first, second, _], _) = self.bytes.as_chunks::<32>() else {
            // Not reached: a key has three chunks.
            return [Element::ZERO; 2];
        };
        // The last bytes are more than the prime has.
        [first, second].map(|bytes| bytes.first_chunk().map_or(Element::ZERO, Element::from_bytes))
    }

    fn mac(&self, domain: &str, message: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.bytes[64..]).expect("any length of key does");
        mac.update(domain.as_bytes());
        // No domain has a zero byte, so this is where the message begins.
        mac.update(&[0]);
        mac.update(message);
        mac
    }

    /// A seal over a message.
    pub(crate) fn seal(&self, message: &[u8]) -> [u8; 32] {
        self.mac("seal", message).finalize().into_bytes().into()
    }

    /// Whether the seal is the message's.
    pub(crate) fn is_sealed(&self, message: &[u8], seal: &[u8; 32]) -> bool {
        // Compared in constant time.
        self.mac("seal", message).verify_slice(seal).is_ok()
    }

    /// Bytes that hide what is sealed with `seal`; each number gives others.
    pub(crate) fn mask(&self, number: u8, seal: &[u8; 32]) -> [u8; 32] {
        let domain = format!("mask {number}");
        self.mac(&domain, seal).finalize().into_bytes().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_file_is_the_owners_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        let key = Key::draw().unwrap();
        key.write(&path).unwrap();
        let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(), 0o600);
        assert_eq!(Key::read(&path).unwrap().bytes, key.bytes);
        let error = key.write(&path).unwrap_err();
        assert!(matches!(error, KeyError::File(FileError::Exists { .. })), "{error}");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        let error = Key::read(&path).unwrap_err();
        assert!(matches!(error, KeyError::Exposed { mode: 0o640, .. }), "{error}");
        assert_ne!(Key::draw().unwrap().bytes, key.bytes);
    }

    #[test]
    fn other_files_are_no_keys() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        assert!(matches!(Key::read(&path), Err(KeyError::File(_))));
        Key::draw().unwrap().write(&path).unwrap();
        let good = std::fs::read(&path).unwrap();
        for bad in [
            &b""[..],
            &good[..100],
            &[good.clone(), b"00".to_vec()].concat(),
            &[0xff; 300],
        ] {
            std::fs::write(&path, bad).unwrap();
            assert!(matches!(Key::read(&path), Err(KeyError::NoKey { .. })), "{bad:?}");
        }
    }

    #[test]
    fn nothing_prints_a_key() {
        let key = Key::of_number(1);
        let text = format!("{key:?}");
        assert_eq!(text, format!("Key of run {}", key.run()));
        let secret = hex::encode(&key.bytes);
        assert!((0..secret.len() - 8).all(|at| !text.contains(&secret[at..at + 8])));
        assert_ne!(key.run(), Key::of_number(2).run());
    }
}
