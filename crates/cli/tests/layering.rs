//! Dependencies point only downward: every crate of the workspace stands on a floor, and uses only lower ones.

use serde_json::{Value, json};
use std::process::Command;

/// All crates, those not made yet included, with their floors.
const FLOORS: [(&str, u8); 16] = [
    ("secp256k1-lanes", 0),
    ("sync", 0),
    ("block", 0),
    ("crew", 1),
    ("rules", 1),
    ("chaingen", 1),
    ("kernel", 2),
    ("script", 2),
    ("workqueue", 2),
    ("checkqueue", 2),
    ("coins", 2),
    ("fetch", 3),
    ("engine", 4),
    ("bench", 5),
    ("bench_compare", 5),
    ("cli", 6),
];

/// The floor of a package of the workspace.
fn floor_of(package: &str) -> Option<u8> {
    let folder = package.strip_prefix("blockmill-").unwrap_or(package);
    FLOORS.iter().find(|(name, _)| *name == folder).map(|&(_, floor)| floor)
}

/// What is wrong with a package as `cargo metadata` describes it.
fn faults(package: &Value) -> Vec<String> {
    let name = package["name"].as_str().expect("a package has a name");
    let Some(floor) = floor_of(name) else {
        return vec![format!("{name} stands on no floor")];
    };
    let mut faults = Vec::new();
    let manifest = package["manifest_path"].as_str().expect("a package has a manifest");
    // What is for anyone has a name without the project's.
    let place = match name.strip_prefix("blockmill-") {
        Some(folder) => format!("/crates/{folder}/Cargo.toml"),
        None => format!("/lib/{name}/Cargo.toml"),
    };
    if !manifest.ends_with(&place) {
        faults.push(format!("{name} lies in {manifest}"));
    }
    for dependency in package["dependencies"].as_array().expect("a list of dependencies") {
        let used = dependency["name"].as_str().expect("a dependency has a name");
        let own = dependency["path"].is_string() || used.starts_with("blockmill");
        if !own || dependency["kind"] == "dev" {
            continue;
        }
        match floor_of(used) {
            Some(lower) if lower < floor => {}
            Some(other) => faults.push(format!("{name} (floor {floor}) uses {used} (floor {other})")),
            None => faults.push(format!("{name} uses {used}, which stands on no floor")),
        }
    }
    faults
}

/// The packages of the workspace of a manifest below the project.
fn packages(manifest: &str) -> Vec<Value> {
    let manifest = format!("{}/../../{manifest}", env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--format-version",
            "1",
            "--offline",
            "--manifest-path",
            &manifest,
        ])
        .output()
        .expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("metadata in JSON");
    metadata["packages"].as_array().expect("a list of packages").clone()
}

#[test]
fn dependencies_point_downward() {
    // The peers that need another C++ build have a workspace of their own.
    let mut packages = packages("Cargo.toml");
    packages.extend(self::packages("crates/bench_compare/Cargo.toml"));
    for expected in [
        "blockmill-block",
        "blockmill-engine",
        "blockmill-cli",
        "blockmill-bench_compare",
    ] {
        assert!(
            packages.iter().any(|package| package["name"] == expected),
            "{expected} is missing"
        );
    }
    let faults: Vec<_> = packages.iter().flat_map(faults).collect();
    assert_eq!(faults, Vec::<String>::new());
}

/// A package in its place, which uses another.
fn package(name: &str, used: &str, kind: Option<&str>) -> Value {
    let folder = name.strip_prefix("blockmill-").unwrap_or(name);
    json!({
        "name": name,
        "manifest_path": format!("/project/crates/{folder}/Cargo.toml"),
        "dependencies": [{"name": used, "kind": kind, "path": used.starts_with("blockmill").then_some("/work")}],
    })
}

#[test]
fn faults_are_seen() {
    let check = |package: Value, expected: usize| assert_eq!(faults(&package).len(), expected, "{package}");
    check(package("blockmill-engine", "blockmill-coins", None), 0);
    check(package("blockmill-engine", "thiserror", None), 0);
    check(package("blockmill-coins", "blockmill-engine", None), 1);
    check(package("blockmill-coins", "blockmill-engine", Some("build")), 1);
    check(package("blockmill-coins", "blockmill-engine", Some("dev")), 0);
    check(package("blockmill-rules", "blockmill-chaingen", None), 1);
    check(package("blockmill-coins", "blockmill-other", None), 1);
    check(package("blockmill-other", "thiserror", None), 1);
    check(package("other", "thiserror", None), 1);
    let mut moved = package("blockmill-coins", "thiserror", None);
    moved["manifest_path"] = json!("/project/crates/coin/Cargo.toml");
    check(moved, 1);
}
