//! Where the build script looks for Core's source, in folders made for that.

#[path = "../build/source.rs"]
mod source;

use source::{PACKAGE, SourceSearch, VERSION};
use std::fs;
use std::path::{Path, PathBuf};

/// A folder with a package that has a name, a version, and Core's interpreter.
fn package(folder: &Path, version: &str) -> PathBuf {
    let interpreter = source::core(folder).join("script/interpreter.cpp");
    fs::create_dir_all(interpreter.parent().unwrap()).unwrap();
    fs::write(interpreter, "").unwrap();
    let manifest = format!("[package]\nname = \"{PACKAGE}\"\nversion = \"{version}\"\n");
    fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    folder.to_owned()
}

/// A search in a folder, with no cargo.
fn search(folder: &Path) -> SourceSearch {
    SourceSearch {
        cargo: folder.join("no-cargo").into(),
        manifest_dir: folder.join("packages/blockmill-script"),
        out_dir: folder.join("target/release/build/out"),
        cargo_home: Some(folder.join("home")),
    }
}

#[test]
fn beside_this_crate() {
    for name in [PACKAGE.to_owned(), format!("{PACKAGE}-{VERSION}")] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("packages").join(name);
        package(&path, "0.4.0");
        assert!(search(folder.path()).run().is_err());
        package(&path, VERSION);
        assert_eq!(search(folder.path()).run(), Ok(path));
    }
}

#[test]
fn among_downloads_once_all_is_unpacked() {
    let folder = tempfile::tempdir().unwrap();
    let registry = folder.path().join("home/registry/src/index");
    let path = package(&registry.join(format!("{PACKAGE}-{VERSION}")), VERSION);
    assert!(search(folder.path()).run().is_err());
    fs::write(path.join(".cargo-ok"), "").unwrap();
    assert_eq!(search(folder.path()).run(), Ok(path));
}

#[test]
fn a_package_without_cores_source_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = package(&folder.path().join("packages").join(PACKAGE), VERSION);
    fs::remove_dir_all(source::core(&path)).unwrap();
    assert!(search(folder.path()).run().is_err());
}

#[test]
fn nothing_found_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let sentence = search(folder.path()).run().unwrap_err();
    assert!(sentence.contains("run `cargo fetch`"), "{sentence}");
    assert_eq!(sentence.lines().count(), 1);
}

/// The build script, the manifest and the lock file name one version: that of the kernel library
/// which tests compare this crate with.
#[test]
fn one_version_of_core() {
    let manifest = include_str!("../Cargo.toml");
    assert!(manifest.contains(&format!("{PACKAGE} = \"={VERSION}\"")));
    let lock = include_str!("../../../Cargo.lock");
    let mut lines = lock.lines();
    let mut versions = Vec::new();
    while let Some(line) = lines.next() {
        if line == format!("name = \"{PACKAGE}\"") {
            versions.extend(lines.next());
        }
    }
    assert_eq!(versions, [format!("version = \"{VERSION}\"")]);
}
