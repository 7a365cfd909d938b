//! Where Core's source is: in the package of the kernel library's bindings, which this crate names
//! as a dependency of no target. Cargo locks, downloads and vendors that package, and builds
//! nothing of it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The package that has Core's source.
pub(crate) const PACKAGE: &str = "libbitcoinkernel-sys";
/// The version that Cargo.toml pins.
pub(crate) const VERSION: &str = "0.4.1";

/// What cargo says to a build script.
pub(crate) struct SourceSearch {
    pub(crate) cargo: OsString,
    /// The folder of this crate.
    pub(crate) manifest_dir: PathBuf,
    /// The folder for what is built.
    pub(crate) out_dir: PathBuf,
    /// Cargo's folder for downloads.
    pub(crate) cargo_home: Option<PathBuf>,
}

impl SourceSearch {
    /// The package's folder.
    ///
    /// # Errors
    /// A sentence that says what to do.
    pub(crate) fn run(&self) -> Result<PathBuf, String> {
        let found = self
            .beside()
            .or_else(|| self.by_metadata(true))
            .or_else(|| self.downloaded())
            .or_else(|| self.by_metadata(false));
        found.ok_or_else(|| {
            format!(
                "the source of {PACKAGE} {VERSION} is not on this machine: \
                 run `cargo fetch` in the folder of the crate that you build, then build again"
            )
        })
    }

    /// In a registry's folder, and in a vendored one, packages lie beside each other.
    fn beside(&self) -> Option<PathBuf> {
        let folder = self.manifest_dir.parent()?;
        let names = [format!("{PACKAGE}-{VERSION}"), PACKAGE.to_owned()];
        names.iter().map(|name| folder.join(name)).find(|path| is_source(path))
    }

    /// Where cargo has the package: for the program that is built, if its folder has the one for
    /// what is built, or for this crate.
    fn by_metadata(&self, offline: bool) -> Option<PathBuf> {
        let built = self
            .out_dir
            .ancestors()
            .find(|folder| folder.join("Cargo.lock").is_file() && folder.join("Cargo.toml").is_file());
        let roots = built.into_iter().chain([self.manifest_dir.as_path()]);
        roots
            .filter_map(|root| self.metadata(root, offline))
            .find(|path| is_source(path))
    }

    /// Without `--filter-platform`: the package belongs to no platform. `--locked`: a build changes
    /// no lock file.
    fn metadata(&self, root: &Path, offline: bool) -> Option<PathBuf> {
        let mut command = Command::new(&self.cargo);
        command.args(["metadata", "--format-version", "1", "--locked"]);
        if offline {
            command.arg("--offline");
        }
        // A vendored folder is named in a file of settings. Cargo looks for it from here upwards.
        command
            .current_dir(root)
            .arg("--manifest-path")
            .arg(root.join("Cargo.toml"));
        let output = command.output().ok()?;
        let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
        let packages = metadata["packages"].as_array()?;
        let package = packages
            .iter()
            .find(|package| package["name"] == PACKAGE && package["version"] == VERSION)?;
        Some(Path::new(package["manifest_path"].as_str()?).parent()?.to_owned())
    }

    /// In cargo's folder for downloads. `cargo metadata` says nothing without a network where a
    /// package of the workspace is missing, whether this build needs it or not.
    fn downloaded(&self) -> Option<PathBuf> {
        let registries = std::fs::read_dir(self.cargo_home.as_ref()?.join("registry/src")).ok()?;
        let folders = registries.filter_map(Result::ok);
        let mut packages = folders.map(|folder| folder.path().join(format!("{PACKAGE}-{VERSION}")));
        // Cargo writes this file when it has unpacked all others.
        packages.find(|path| path.join(".cargo-ok").is_file() && is_source(path))
    }
}

/// Whether a folder has the package with this version, and Core's source in it.
fn is_source(folder: &Path) -> bool {
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
    let has = |wanted: String| manifest.lines().any(|line| line == wanted);
    has(format!("name = \"{PACKAGE}\""))
        && has(format!("version = \"{VERSION}\""))
        && core(folder).join("script/interpreter.cpp").is_file()
}

/// The folder of Core's source in that of the package.
pub(crate) fn core(package: &Path) -> PathBuf {
    package.join("bitcoin/src")
}
