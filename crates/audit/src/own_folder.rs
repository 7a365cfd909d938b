//! A folder that nobody else can write to.
//!
//! Who knows the key of a run can make up coins, and who can seal parts can make up proofs. So the
//! key and the parts of a run are taken only from a folder of the user's own.

use crate::error::AuditError;
use blockmill_blockfiles::FileError;
use rustix::process::geteuid;
use std::fs::{DirBuilder, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

/// Bits of a mode with which others than the owner can write.
const OTHERS_WRITE: u32 = 0o022;

/// Makes a folder that is the user's alone, or checks that one is.
pub(crate) fn open_own_folder(path: &Path) -> Result<(), AuditError> {
    let linked = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent).map_err(FileError::io(parent))?;
            }
            // Made with this mode, so it is open to others at no moment.
            let made = DirBuilder::new().mode(0o700).create(path);
            made.map_err(FileError::io(path))?;
            std::fs::symlink_metadata(path)
        }
        found => found,
    };
    let linked = linked.map_err(FileError::io(path))?;
    let user = geteuid().as_raw();
    // Root may link a folder for a user; another user could turn the link.
    let fault = if linked.is_symlink() && ![user, 0].contains(&linked.uid()) {
        Some(format!("a symbolic link of user {}", linked.uid()))
    } else {
        fault(&std::fs::metadata(path).map_err(FileError::io(path))?, user)
    };
    refuse(path, fault)
}

/// Checks that a file is the user's.
pub(crate) fn check_own_file(path: &Path) -> Result<(), AuditError> {
    let metadata = std::fs::metadata(path).map_err(FileError::io(path))?;
    refuse(path, fault_of_owner(&metadata, geteuid().as_raw()))
}

fn refuse(path: &Path, fault: Option<String>) -> Result<(), AuditError> {
    match fault {
        None => Ok(()),
        Some(why) => Err(AuditError::NotOwn {
            path: path.to_owned(),
            why,
        }),
    }
}

/// What keeps a folder from being one that only this user can write to.
fn fault(folder: &Metadata, user: u32) -> Option<String> {
    if !folder.is_dir() {
        return Some("not a directory".to_owned());
    }
    let mode = folder.mode() & 0o7777;
    fault_of_owner(folder, user).or_else(|| {
        let is_open = mode & OTHERS_WRITE != 0;
        is_open.then(|| format!("others can write into it (mode {mode:o}; chmod go-w ends that)"))
    })
}

fn fault_of_owner(metadata: &Metadata, user: u32) -> Option<String> {
    let owner = metadata.uid();
    (owner != user).then(|| format!("it belongs to user {owner}, and you are user {user}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn refused(path: &Path) -> String {
        match open_own_folder(path) {
            Err(AuditError::NotOwn { why, .. }) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_new_folder_is_the_users_alone() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("a/b");
        for _ in 0..2 {
            open_own_folder(&path).unwrap();
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700);
        }
    }

    #[test]
    fn folders_that_others_can_write_to() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("folder");
        std::fs::create_dir(&path).unwrap();
        for (mode, is_fine) in [
            (0o700, true),
            (0o755, true),
            (0o775, false),
            (0o757, false),
            (0o1777, false),
            (0o720, false),
        ] {
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            if is_fine {
                open_own_folder(&path).unwrap();
            } else {
                assert!(refused(&path).contains(&format!("mode {mode:o}")));
            }
        }
        std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        let link = parent.path().join("link");
        symlink(&path, &link).unwrap();
        open_own_folder(&link).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        assert!(refused(&link).contains("mode 777"));
        let file = parent.path().join("file");
        std::fs::write(&file, []).unwrap();
        assert!(refused(&file).contains("not a directory"));
    }

    #[test]
    fn folders_and_files_of_others() {
        let user = geteuid().as_raw();
        let directory = tempfile::tempdir().unwrap();
        let own = std::fs::metadata(directory.path()).unwrap();
        assert_eq!(fault(&own, user), None);
        assert!(fault(&own, user + 1).unwrap().contains("belongs to user"));
        // Root alone can give a file away.
        if user == 0 {
            let path = directory.path().join("given");
            std::fs::create_dir(&path).unwrap();
            std::os::unix::fs::chown(&path, Some(12_345), None).unwrap();
            assert!(refused(&path).contains("belongs to user 12345"));
            let link = directory.path().join("link");
            symlink(directory.path(), &link).unwrap();
            std::os::unix::fs::lchown(&link, Some(12_345), None).unwrap();
            assert!(refused(&link).contains("symbolic link of user 12345"));
            let file = directory.path().join("file");
            std::fs::write(&file, []).unwrap();
            check_own_file(&file).unwrap();
            std::os::unix::fs::chown(&file, Some(12_345), None).unwrap();
            assert!(check_own_file(&file).is_err());
        }
    }
}
