//! A folder for the files of an input.

use std::path::PathBuf;
use std::sync::LazyLock;

/// The folder of this process, made when it is first used: in `TMPDIR`, by default in `/dev/shm`.
pub static SCRATCH: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = PathBuf::from("/dev/shm");
    let base = if std::env::var_os("TMPDIR").is_none() && memory.is_dir() {
        memory
    } else {
        std::env::temp_dir()
    };
    let folder = base.join(format!("blockmill-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("blocks")).expect("a folder for files");
    folder
});
