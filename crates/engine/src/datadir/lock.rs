//! The lock of a data directory: one writer at a time. Readers of the log need no lock, since the
//! log has its last commit whole, whatever is appended meanwhile. Readers of redb share the lock.
//!
//! The writer notes in the file who it is, for those that it keeps out.

use crate::datadir::error::{OpenError, file_error};
use crate::datadir::files::LOCK_FILE;
use crate::datadir::holder::{Holder, Writer};
use crate::datadir::lost_store::kind_of;
use crate::datadir::store_kind::StoreKind;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// How often a writer asks for a lock that readers have, and a reader for the store of a writer
/// that has just begun.
const ATTEMPTS: u32 = 50;

/// Time between two attempts.
const PAUSE: Duration = Duration::from_millis(10);

/// Bytes of the note that are read.
const NOTE_BYTES_MAX: u64 = 4096;

/// Characters of a program's name that are noted.
const PROGRAM_CHARS_MAX: usize = 60;

/// Letters of a subcommand's name.
const SUBCOMMAND_LETTERS_MAX: usize = 12;

fn locked(path: &Path, holder: Holder) -> OpenError {
    OpenError::Locked {
        path: path.to_owned(),
        holder,
    }
}

/// Whether a lock was to be had.
fn is_taken(path: &Path, taken: Result<(), TryLockError>) -> Result<bool, OpenError> {
    match taken {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(file_error(path.join(LOCK_FILE))(error).into()),
    }
}

/// The only writer's lock of the directory at `path`.
pub(super) fn lock_to_write(path: &Path) -> Result<File, OpenError> {
    let lock_path = path.join(LOCK_FILE);
    let mut options = OpenOptions::new();
    // Not truncated: it has the note of whoever holds the lock.
    options.read(true).write(true).create(true).truncate(false);
    let file = options.open(&lock_path).map_err(file_error(&lock_path))?;
    for _ in 0..ATTEMPTS {
        if is_taken(path, file.try_lock())? {
            // Only a refusal would need it.
            let _ = note(&file);
            return Ok(file);
        }
        // Where readers may share it, it is theirs. Many have it for a moment only.
        if !is_taken(path, file.try_lock_shared())? {
            return Err(locked(path, Holder::Writer(noted(&file))));
        }
        file.unlock().map_err(file_error(&lock_path))?;
        sleep(PAUSE);
    }
    Err(locked(path, Holder::Readers))
}

/// The lock that readers share; none where they need none. The directory need not be writable.
/// `noted` is the kind of store that `meta.json` names.
pub(super) fn lock_to_read(path: &Path, noted: Option<StoreKind>) -> Result<Option<File>, OpenError> {
    let mut attempts = 0..ATTEMPTS;
    loop {
        // What is wrong with the store is told when it is opened.
        let kind = kind_of(path).ok().flatten().or(noted);
        if kind == Some(StoreKind::Log) {
            return Ok(None);
        }
        match share(path)? {
            Ok(lock) => return Ok(Some(lock)),
            // A writer that has just begun has no store yet.
            Err(_) if kind.is_none() && attempts.next().is_some() => sleep(PAUSE),
            Err(writer) => return Err(locked(path, Holder::WriterOfRedb(writer))),
        }
    }
}

/// The lock that readers share, or who keeps it from them.
fn share(path: &Path) -> Result<Result<File, Writer>, OpenError> {
    let lock_path = path.join(LOCK_FILE);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let file = options.open(&lock_path).or_else(|error| match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => File::open(&lock_path),
        _ => Err(error),
    });
    let file = file.map_err(file_error(&lock_path))?;
    Ok(match is_taken(path, file.try_lock_shared())? {
        true => Ok(file),
        false => Err(noted(&file)),
    })
}

/// The writer that has the directory at this moment, if one has it.
pub(super) fn writer(path: &Path) -> Result<Option<Writer>, OpenError> {
    let lock_path = path.join(LOCK_FILE);
    let file = match File::open(&lock_path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.map_err(file_error(&lock_path))?,
    };
    Ok(match is_taken(path, file.try_lock_shared())? {
        true => None,
        false => Some(noted(&file)),
    })
}

/// The program of a command line and its subcommand. The rest may have a password or a private key,
/// and other users read the note.
fn shown_command(mut words: impl Iterator<Item = String>) -> String {
    let program = words.next().unwrap_or_default();
    let program = Path::new(&program).file_name().unwrap_or_default().to_string_lossy();
    let is_letter = |character: &char| character.is_ascii_alphanumeric() || "-_.+".contains(*character);
    let mut command: String = program.chars().filter(is_letter).take(PROGRAM_CHARS_MAX).collect();
    let is_subcommand = |word: &String| {
        (1..=SUBCOMMAND_LETTERS_MAX).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_lowercase())
    };
    if let Some(subcommand) = words.next().filter(is_subcommand) {
        command.push(' ');
        command.push_str(&subcommand);
    }
    command
}

/// Notes who this process is.
fn note(mut file: &File) -> std::io::Result<()> {
    let command = shown_command(std::env::args_os().map(|word| word.to_string_lossy().into_owned()));
    file.set_len(0)?;
    file.write_all(format!("{}\n{command}\n", std::process::id()).as_bytes())
}

/// Who the writer has noted to be.
fn noted(file: &File) -> Writer {
    let mut text = String::new();
    let read = file.take(NOTE_BYTES_MAX).read_to_string(&mut text);
    let mut lines = text.lines();
    let process = lines.next().and_then(|line| line.parse().ok());
    // An earlier version notes the whole command line.
    let command = lines
        .next()
        .map(|line| shown_command(line.split(' ').map(str::to_owned)));
    let noted = process.zip(command);
    Writer {
        noted: noted.filter(|_| read.is_ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(error: &OpenError) -> &Holder {
        match error {
            OpenError::Locked { holder, .. } => holder,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn a_second_writer_is_told_who_the_first_is() {
        let directory = tempfile::tempdir().unwrap();
        let first = lock_to_write(directory.path()).unwrap();
        for _ in 0..2 {
            let error = lock_to_write(directory.path()).unwrap_err();
            let Holder::Writer(writer) = holder(&error) else {
                panic!("{error}")
            };
            let (process, command) = writer.noted.as_ref().unwrap();
            assert_eq!(*process, std::process::id());
            assert!(command.starts_with("blockmill_engine-"), "{command}");
        }
        assert!(writer(directory.path()).unwrap().unwrap().noted.is_some());
        drop(first);
        assert_eq!(writer(directory.path()).unwrap(), None);
        drop(lock_to_write(directory.path()).unwrap());
    }

    #[test]
    fn a_note_has_no_arguments() {
        for (line, shown) in [
            ("/usr/bin/blockmill connect --data d", "blockmill connect"),
            (
                "blockmill snapshot load --headers http://user:password@host",
                "blockmill snapshot",
            ),
            ("python3 /home/user/tprv8Zgx.py", "python3"),
            ("blockmill --log json connect", "blockmill"),
            ("blockmill secretsecretsecret", "blockmill"),
            ("block\u{1b}[2Jmill\tx connect", "block2Jmillx connect"),
            ("blockmill", "blockmill"),
            ("", ""),
        ] {
            assert_eq!(shown_command(line.split(' ').map(str::to_owned)), shown);
        }
        let long = format!("{} connect", "x".repeat(5000));
        assert!(shown_command(long.split(' ').map(str::to_owned)).len() < 80);
        // Whatever an earlier version or somebody else has written.
        let directory = tempfile::tempdir().unwrap();
        let first = lock_to_write(directory.path()).unwrap();
        let text = "12\nblockmill connect --headers http://user:password@host\n";
        std::fs::write(directory.path().join(LOCK_FILE), text).unwrap();
        let noted = writer(directory.path()).unwrap().unwrap().noted;
        assert_eq!(noted, Some((12, "blockmill connect".to_owned())));
        drop(first);
    }

    #[test]
    fn a_note_that_is_none_is_left_out() {
        let directory = tempfile::tempdir().unwrap();
        let first = lock_to_write(directory.path()).unwrap();
        for text in ["", "what", "12", "12x\ncommand\n"] {
            std::fs::write(directory.path().join(LOCK_FILE), text).unwrap();
            let error = lock_to_write(directory.path()).unwrap_err();
            assert!(error.to_string().ends_with("in use by another process"), "{error}");
        }
        drop(first);
    }

    #[test]
    fn readers_of_redb_share_and_those_of_the_log_need_none() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        assert!(lock_to_read(path, Some(StoreKind::Log)).unwrap().is_none());
        let reader = lock_to_read(path, Some(StoreKind::Redb)).unwrap();
        let other = lock_to_read(path, Some(StoreKind::Redb)).unwrap();
        let error = lock_to_write(path).unwrap_err();
        assert_eq!(*holder(&error), Holder::Readers);
        drop((reader, other));

        let first = lock_to_write(path).unwrap();
        let error = lock_to_read(path, Some(StoreKind::Redb)).unwrap_err();
        assert!(matches!(holder(&error), Holder::WriterOfRedb(_)));
        assert!(lock_to_read(path, Some(StoreKind::Log)).unwrap().is_none());
        drop(first);
    }

    #[test]
    fn a_writer_waits_for_a_reader_of_a_moment() {
        let directory = tempfile::tempdir().unwrap();
        let reader = lock_to_read(directory.path(), None).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                sleep(PAUSE * 3);
                drop(reader);
            });
            drop(lock_to_write(directory.path()).unwrap());
        });
    }
}
