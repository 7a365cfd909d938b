//! Dependencies point only downward: every crate lies in the folder of its tier and stands on a
//! floor. It uses only lower floors, and only tiers that its own may use. All of `lib/` is below
//! the other tiers.

use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// The folders of the tiers.
const LIB: &str = "lib";
const CRATES: &str = "crates";
const TOOLS: &str = "tools";
const BINDINGS: &str = "bindings";

/// All crates, with their folders and floors.
const FLOORS: [(&str, &str, u8); 33] = [
    ("secp256k1-lanes", LIB, 0),
    ("sync", LIB, 0),
    ("sha256-lanes", LIB, 1),
    ("pool", LIB, 1),
    ("workqueue", LIB, 2),
    ("checkqueue", LIB, 2),
    ("block", CRATES, 1),
    ("blockfiles", CRATES, 2),
    ("descriptors", CRATES, 2),
    ("rules", CRATES, 2),
    ("script", CRATES, 3),
    ("coinmap", CRATES, 2),
    ("coins", CRATES, 3),
    ("store-log", CRATES, 4),
    ("fetch", CRATES, 4),
    ("chain", CRATES, 4),
    ("datadir", CRATES, 5),
    ("validate", CRATES, 4),
    ("checks", CRATES, 5),
    ("engine", CRATES, 6),
    ("tables", CRATES, 6),
    ("audit", CRATES, 6),
    ("mirror", CRATES, 7),
    ("cli", CRATES, 8),
    ("python", BINDINGS, 8),
    ("c", BINDINGS, 8),
    ("chaingen", TOOLS, 1),
    ("kernel", TOOLS, 3),
    ("faultdisk", TOOLS, 3),
    ("realdata", TOOLS, 2),
    ("harness", TOOLS, 0),
    ("bench", TOOLS, 7),
    ("bench-stores", TOOLS, 7),
];

/// Folder and floor of a package of the workspace.
fn floor_of(package: &str) -> Option<(&'static str, u8)> {
    let name = package.strip_prefix("blockmill-").unwrap_or(package);
    let row = FLOORS.iter().find(|(other, ..)| *other == name);
    row.map(|&(_, folder, floor)| (folder, floor))
}

/// Whether a crate of one tier may use one of another. `generate` and `demo` make chains.
fn may_use(name: &str, tier: &str, used: &str, used_tier: &str) -> bool {
    match tier {
        LIB => used_tier == LIB,
        BINDINGS => used_tier != TOOLS,
        CRATES => used_tier != TOOLS || (name, used) == ("blockmill-cli", "blockmill-chaingen"),
        _ => true,
    }
}

/// What is wrong with a package as `cargo metadata` describes it.
fn faults(package: &Value) -> Vec<String> {
    let name = package["name"].as_str().expect("a package has a name");
    let Some((tier, floor)) = floor_of(name) else {
        return vec![format!("{name} stands on no floor")];
    };
    let mut faults = Vec::new();
    let manifest = package["manifest_path"].as_str().expect("a package has a manifest");
    let folder = name.strip_prefix("blockmill-").unwrap_or(name);
    if !manifest.ends_with(&format!("/{tier}/{folder}/Cargo.toml")) {
        faults.push(format!("{name} lies in {manifest}"));
    }
    for dependency in package["dependencies"].as_array().expect("a list of dependencies") {
        let used = dependency["name"].as_str().expect("a dependency has a name");
        let own = dependency["path"].is_string() || used.starts_with("blockmill");
        if !own || dependency["kind"] == "dev" {
            continue;
        }
        let is_lower = |other_tier: &str, other: u8| other < floor || (other_tier == LIB && tier != LIB);
        match floor_of(used) {
            Some((used_tier, other)) if is_lower(used_tier, other) && may_use(name, tier, used, used_tier) => {}
            Some((used_tier, other)) => faults.push(format!(
                "{name} ({tier}, floor {floor}) uses {used} ({used_tier}, floor {other})"
            )),
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
    packages.extend(self::packages("tools/bench-stores/Cargo.toml"));
    for expected in [
        "blockmill-block",
        "blockmill-engine",
        "blockmill-cli",
        "blockmill-bench-stores",
    ] {
        assert!(
            packages.iter().any(|package| package["name"] == expected),
            "{expected} is missing"
        );
    }
    let faults: Vec<_> = packages.iter().flat_map(faults).collect();
    assert_eq!(faults, Vec::<String>::new());
}

/// Names of all packages that a package is built with, those of the build included if wanted.
fn built_with(package: &str, edges: &str) -> Vec<String> {
    let output = Command::new(env!("CARGO"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args([
            "tree",
            "--offline",
            "--prefix",
            "none",
            "--package",
            package,
            "--edges",
            edges,
        ])
        .output()
        .expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("a tree is text");
    let names = text.lines().filter_map(|line| line.split(' ').next());
    names.map(str::to_owned).collect()
}

/// No package that compiles C comes with them.
#[test]
fn parts_for_others_need_no_c_compiler() {
    // These are lists of constants and declarations.
    let is_list = |name: &str| matches!(name, "linux-raw-sys" | "inotify-sys" | "kqueue-sys");
    let needs_c = |name: &String| name == "cc" || name == "cmake" || (name.ends_with("-sys") && !is_list(name));
    let of_lib = FLOORS
        .iter()
        .filter(|(_, folder, _)| *folder == LIB)
        .map(|(name, ..)| *name);
    for name in of_lib.chain([
        "block",
        "blockfiles",
        "rules",
        "coinmap",
        "coins",
        "store-log",
        "fetch",
        "chain",
        "datadir",
        "validate",
        "checks",
        "engine",
    ]) {
        let package = match name {
            "secp256k1-lanes" | "sha256-lanes" => name.to_owned(),
            _ => format!("blockmill-{name}"),
        };
        let names = built_with(&package, "normal,build");
        assert_eq!(names[0], package);
        let c: Vec<_> = names.into_iter().filter(needs_c).collect();
        assert_eq!(c, Vec::<String>::new(), "{package}");
    }
    assert!(built_with("blockmill-script", "normal,build").iter().any(needs_c));
}

/// The command has none of the libraries that benchmarks compare ours with. The client of
/// PostgreSQL comes with one of them, for itself.
#[test]
fn the_command_has_no_peers() {
    let peers = [
        "rayon",
        "crossbeam-channel",
        "parking_lot",
        "blockmill-bench",
        "bitcoinkernel",
        "libbitcoinkernel-sys",
    ];
    let found = |package| {
        let names = built_with(package, "normal,build");
        let of_client = |peer: &&str| package == "blockmill-cli" && *peer == "parking_lot";
        peers
            .into_iter()
            .filter(|peer| !of_client(peer) && names.iter().any(|name| name == peer))
            .count()
    };
    assert_eq!(found("blockmill-cli"), 0);
    assert_eq!(found("blockmill-bench"), peers.len());
}

/// What reads and verifies blocks has no part of what connects them.
#[test]
fn readers_have_no_pipeline() {
    let pipeline = ["blockmill-engine", "blockmill-fetch", "blockmill-workqueue"];
    let found = |package: &str| {
        let names = built_with(package, "normal,build");
        let parts = pipeline
            .into_iter()
            .filter(|part| names.iter().any(|name| name == part));
        parts.collect::<Vec<_>>()
    };
    for reader in [
        "chain", "datadir", "validate", "checks", "tables", "mirror", "audit", "python",
    ] {
        assert_eq!(found(&format!("blockmill-{reader}")), [""; 0], "{reader}");
    }
    assert_eq!(found("blockmill-engine"), pipeline);
}

/// A package in the folder of its tier, which uses another.
fn package(name: &str, used: &str, kind: Option<&str>) -> Value {
    let folder = name.strip_prefix("blockmill-").unwrap_or(name);
    let tier = floor_of(name).map_or(CRATES, |(tier, _)| tier);
    json!({
        "name": name,
        "manifest_path": format!("/project/{tier}/{folder}/Cargo.toml"),
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
    check(package("blockmill-cli", "blockmill-chaingen", None), 0);
    check(package("blockmill-engine", "blockmill-chaingen", None), 1);
    check(package("blockmill-cli", "blockmill-bench", None), 1);
    check(package("blockmill-cli", "blockmill-kernel", None), 1);
    check(package("blockmill-checkqueue", "blockmill-pool", None), 0);
    check(package("blockmill-checkqueue", "blockmill-block", None), 1);
    check(package("blockmill-pool", "secp256k1-lanes", None), 0);
    check(package("blockmill-block", "blockmill-checkqueue", None), 0);
    let mut moved = package("blockmill-coins", "thiserror", None);
    moved["manifest_path"] = json!("/project/crates/coin/Cargo.toml");
    check(moved, 1);
}

/// Whether a registry may have a package, and the reason if `cargo publish` would refuse it.
fn publishing(package: &Value) -> Result<bool, String> {
    if !package["publish"].is_null() {
        return Ok(false);
    }
    let name = package["name"].as_str().expect("a package has a name");
    for key in ["description", "license", "readme", "rust_version"] {
        if !package[key].is_string() {
            return Err(format!("{name} has no {key}"));
        }
    }
    let manifest = Path::new(package["manifest_path"].as_str().expect("a package has a manifest"));
    for file in ["LICENSE-MIT", "LICENSE-APACHE"] {
        if !manifest.with_file_name(file).is_file() {
            return Err(format!("{name} has no {file}"));
        }
    }
    for dependency in package["dependencies"].as_array().expect("a list of dependencies") {
        if dependency["req"] == "*" && dependency["kind"] != "dev" {
            return Err(format!("{name} uses {} without a version", dependency["name"]));
        }
    }
    Ok(true)
}

/// A registry gets the crates of `lib/` and `crates/`, and the generator that the command uses. A
/// dependency without a version is left out of a package, so only dev-dependencies have none.
#[test]
fn crates_can_be_published() {
    for package in packages("Cargo.toml") {
        let name = package["name"].as_str().expect("a package has a name");
        let (tier, _) = floor_of(name).expect("a package of a tier");
        let expected = ![TOOLS, BINDINGS].contains(&tier) || name == "blockmill-chaingen";
        assert_eq!(publishing(&package), Ok(expected), "{name}");
        let mut unlicensed = package.clone();
        unlicensed["license"] = Value::Null;
        assert_eq!(publishing(&unlicensed).is_err(), expected, "{name}");
    }
}
