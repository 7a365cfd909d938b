//! Programs in Python, which read what the command has written.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Python with the modules that a test needs.
pub(crate) struct Python {
    /// Where `make test` installs modules.
    modules: PathBuf,
}

impl Python {
    /// None, with a line for the list of tests that were left out, where a module is missing.
    pub(crate) fn with(modules: &[&str]) -> Option<Self> {
        let python = Self {
            modules: Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/python"),
        };
        let imports = format!("import {}", modules.join(", "));
        let is_there = python.command().args(["-c", &imports]).output();
        if is_there.is_ok_and(|output| output.status.success()) {
            return Some(python);
        }
        eprintln!(
            "skipped: python3 has not all of {}; `make test` installs them",
            modules.join(", ")
        );
        None
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new("python3");
        command.env("PYTHONPATH", &self.modules);
        command
    }

    /// What a program prints that gets the path of a file.
    #[track_caller]
    pub(crate) fn run(&self, program: &str, file: &Path) -> String {
        let output = self.command().args(["-c", program]).arg(file).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        String::from_utf8(output.stdout).unwrap()
    }
}
