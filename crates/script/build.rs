//! Compiles the shim, and Core's interpreter once more, against Core's source in the kernel crate.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const KERNEL: &str = "libbitcoinkernel-sys";

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|error| panic!("cargo sets {name} for build scripts: {error}"))
}

/// What `cargo metadata` says of the packages that this target needs.
fn metadata(manifest: &Path, offline: bool) -> Result<serde_json::Value, String> {
    let mut command = Command::new(variable("CARGO"));
    command.args(["metadata", "--format-version", "1", "--locked", "--filter-platform"]);
    command.arg(variable("TARGET")).arg("--manifest-path").arg(manifest);
    if offline {
        command.arg("--offline");
    }
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{command:?}: {}\n{words}", output.status));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("{command:?}: {error}"))
}

/// The folder with Core's source: in the registry's cache, in a vendored copy, or where else cargo
/// has the kernel crate.
fn core_source() -> PathBuf {
    let manifest = Path::new(&variable("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    // Whatever this build needs is downloaded. What it does not need (packages for tests of others)
    // may not be.
    let metadata = metadata(&manifest, true)
        .or_else(|first| metadata(&manifest, false).map_err(|second| format!("{first}\n{second}")))
        .unwrap_or_else(|error| {
            panic!("the source of {KERNEL} is found through cargo metadata, which failed:\n{error}")
        });
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let found: Vec<&str> = packages
        .iter()
        .filter(|package| package["name"] == KERNEL)
        .filter_map(|package| package["manifest_path"].as_str())
        .collect();
    let [path] = found[..] else {
        panic!(
            "one package {KERNEL} is expected, cargo metadata has {}: {found:?}",
            found.len()
        );
    };
    let source = Path::new(path).with_file_name("bitcoin").join("src");
    let interpreter = source.join("script/interpreter.cpp");
    assert!(interpreter.is_file(), "{KERNEL} has no {}", interpreter.display());
    source
}

/// The version of Core whose source this is.
fn core_version(source: &Path) -> String {
    let path = source.with_file_name("CMakeLists.txt");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let number = |name: &str| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(&format!("set(CLIENT_VERSION_{name} ")));
        let number = line.and_then(|rest| rest.strip_suffix(')'));
        number.unwrap_or_else(|| panic!("{} has no {name} version", path.display()))
    };
    format!("{}.{}.{}", number("MAJOR"), number("MINOR"), number("BUILD"))
}

fn main() {
    let source = core_source();
    println!("cargo:rustc-env=BLOCKMILL_CORE_VERSION={}", core_version(&source));
    for file in ["hash_writer.h", "names.h", "shim.h", "tweak.h"] {
        println!("cargo:rerun-if-changed=core/{file}");
    }
    println!("cargo:rerun-if-changed=build.rs");
    let mut build = cc::Build::new();
    build.cpp(true).std("c++20").opt_level(2).warnings(false);
    build.include(&source).include(source.join("secp256k1/include"));
    // The guards that Core's own build has, where the compiler knows them.
    for flag in [
        "-fstack-reuse=none",
        "-fstack-protector-strong",
        "-fcf-protection=full",
        "-fstack-clash-protection",
    ] {
        build.flag_if_supported(flag);
    }
    for file in ["interpreter.cpp", "shim.cpp", "tweak.cpp", "eval.cpp"] {
        let file = format!("core/{file}");
        println!("cargo:rerun-if-changed={file}");
        build.file(file);
    }
    build.compile("blockmill_script");
}
