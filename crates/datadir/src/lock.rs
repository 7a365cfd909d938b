//! The lock of a data directory: one writer at a time. Readers need no lock, since the store has
//! its last commit whole, whatever is appended meanwhile.
//!
//! The writer notes in the file who it is, for those that it keeps out.

use crate::error::OpenError;
use crate::files::LOCK_FILE;
use crate::writer::Writer;
use blockmill_blockfiles::{FileError, find_regular};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::Path;
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::Duration;

/// How often a writer asks for a lock that others share.
const ATTEMPTS: u32 = 50;

/// Time between two attempts.
const PAUSE: Duration = Duration::from_millis(10);

/// Bytes of the note that are read.
const NOTE_BYTES_MAX: u64 = 4096;

/// Characters of a program's name that are noted.
const PROGRAM_CHARS_MAX: usize = 60;

/// Letters of a subcommand's name.
const SUBCOMMAND_LETTERS_MAX: usize = 12;

fn locked(path: &Path, writer: Writer) -> OpenError {
    OpenError::Locked {
        path: path.to_owned(),
        writer,
    }
}

/// Whether a lock was to be had.
fn is_taken(path: &Path, taken: Result<(), TryLockError>) -> Result<bool, OpenError> {
    match taken {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(FileError::io(path.join(LOCK_FILE))(error).into()),
    }
}

/// The only writer's lock of the directory at `path`.
pub(super) fn lock_to_write(path: &Path) -> Result<File, OpenError> {
    let lock_path = path.join(LOCK_FILE);
    let mut options = OpenOptions::new();
    // Not truncated: it has the note of whoever holds the lock.
    options.read(true).write(true).create(true).truncate(false);
    let file = options.open(&lock_path).map_err(FileError::io(&lock_path))?;
    if !file.metadata().map_err(FileError::io(&lock_path))?.is_file() {
        // The note of a pipe would be waited for.
        return Err(FileError::NotRegular { path: lock_path }.into());
    }
    for _ in 0..ATTEMPTS {
        if is_taken(path, file.try_lock())? {
            // Only a refusal would need it.
            let _ = note(&file);
            return Ok(file);
        }
        // Where it may be shared, `writer` of other processes has it, for a moment only.
        if !is_taken(path, file.try_lock_shared())? {
            return Err(locked(path, noted(&file)));
        }
        file.unlock().map_err(FileError::io(&lock_path))?;
        sleep(PAUSE);
    }
    // The note is of an earlier writer.
    Err(locked(path, Writer { noted: None }))
}

/// The writer that has the directory at this moment, if one has it.
pub(super) fn writer(path: &Path) -> Result<Option<Writer>, OpenError> {
    let lock_path = path.join(LOCK_FILE);
    let Some(file) = find_regular(&lock_path)? else {
        return Ok(None);
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

/// The subcommand of this process, where its program has told: options may come before it.
static SUBCOMMAND: OnceLock<String> = OnceLock::new();

/// Sets the subcommand that this process notes beside its program when it locks a data directory to
/// write. Without it, that is the first argument, if that looks like one.
pub fn set_subcommand(name: &str) {
    let _ = SUBCOMMAND.set(name.to_owned());
}

/// Notes who this process is.
fn note(mut file: &File) -> std::io::Result<()> {
    let mut words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let program = words.next();
    let subcommand = SUBCOMMAND.get().cloned().or_else(|| words.next());
    let command = shown_command(program.into_iter().chain(subcommand));
    file.set_len(0)?;
    file.write_all(format!("{}\n{command}\n", std::process::id()).as_bytes())
}

/// Who the writer has noted to be.
fn noted(file: &File) -> Writer {
    let mut text = String::new();
    let read = file.take(NOTE_BYTES_MAX).read_to_string(&mut text);
    let mut lines = text.lines();
    let process = lines.next().and_then(|line| line.parse().ok());
    let command = lines.next().map(str::to_owned);
    let noted = process.zip(command);
    Writer {
        noted: noted.filter(|_| read.is_ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_writer_is_told_who_the_first_is() {
        let directory = tempfile::tempdir().unwrap();
        let first = lock_to_write(directory.path()).unwrap();
        for _ in 0..2 {
            let error = lock_to_write(directory.path()).unwrap_err();
            let OpenError::Locked { writer, .. } = &error else {
                panic!("{error}")
            };
            let (process, command) = writer.noted.as_ref().unwrap();
            assert_eq!(*process, std::process::id());
            assert!(command.starts_with("blockmill_datadir-"), "{command}");
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

    /// As another process shares it while it looks who writes.
    fn share(path: &Path) -> File {
        let file = File::create(path.join(LOCK_FILE)).unwrap();
        file.lock_shared().unwrap();
        file
    }

    #[test]
    fn a_writer_waits_for_a_lock_of_a_moment() {
        let directory = tempfile::tempdir().unwrap();
        let shared = share(directory.path());
        std::thread::scope(|scope| {
            scope.spawn(move || {
                sleep(PAUSE * 3);
                drop(shared);
            });
            drop(lock_to_write(directory.path()).unwrap());
        });
    }

    #[test]
    fn a_lock_that_stays_shared_is_not_said_to_be_the_last_writers() {
        let directory = tempfile::tempdir().unwrap();
        let shared = share(directory.path());
        std::fs::write(directory.path().join(LOCK_FILE), "12\ncommand\n").unwrap();
        let error = lock_to_write(directory.path()).unwrap_err();
        assert!(error.to_string().ends_with("in use by another process"), "{error}");
        drop(shared);
    }
}
