//! How many packages of others the command stands on.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// Most packages of others without the features that are on by default.
const LEAN_MAX: usize = 70;

/// Most packages of others with all features of the command, by their names, without those that
/// bind OpenSSL.
const WHOLE_MAX: usize = 155;

/// The packages of others in a build of the command with these features.
fn packages(features: &[&str]) -> BTreeSet<String> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    command.args(["tree", "--offline", "--locked", "--package", "blockmill-cli"]);
    command.args([
        "--edges",
        "normal",
        "--prefix",
        "none",
        "--no-dedupe",
        "--format",
        "{p}",
    ]);
    let output = command.args(features).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    // Those of this workspace have the path of their folder.
    let others = text.lines().filter(|line| !line.is_empty() && !line.contains("(/"));
    others.map(|line| line.replace(" (proc-macro)", "")).collect()
}

#[test]
fn the_command_without_features_stands_on_few_packages() {
    let lean = packages(&["--no-default-features"]);
    assert!(lean.len() <= LEAN_MAX, "{}: {lean:#?}", lean.len());
    for name in ["clap ", "serde_json "] {
        assert!(lean.iter().any(|package| package.starts_with(name)), "{name}");
    }
    let whole = packages(&[]);
    let names = whole.iter().filter_map(|package| package.split(' ').next());
    let is_openssl = |name: &&str| name.contains("openssl") || name.starts_with("foreign-types");
    let names: BTreeSet<&str> = names.filter(|name| !is_openssl(name)).collect();
    assert!(names.len() <= WHOLE_MAX, "{}: {names:#?}", names.len());
    for (feature, name) in [
        ("tables", "parquet "),
        ("descriptors", "miniscript "),
        ("descriptors", "bitcoin "),
    ] {
        assert!(whole.iter().any(|package| package.starts_with(name)), "{name}");
        assert!(
            !lean.iter().any(|package| package.starts_with(name)),
            "{name}: {feature}"
        );
    }
}

/// The packages that are published, by their names without `blockmill-`, and what each needs of
/// them.
fn published() -> BTreeMap<String, BTreeSet<String>> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    command.args([
        "metadata",
        "--offline",
        "--locked",
        "--no-deps",
        "--format-version",
        "1",
    ]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let own_name = |name: &Value| {
        let name = name.as_str().unwrap();
        name.strip_prefix("blockmill-").unwrap_or(name).to_owned()
    };
    let packages = metadata["packages"].as_array().unwrap();
    let published = packages.iter().filter(|package| package["publish"].is_null());
    published
        .map(|package| {
            let needed = package["dependencies"].as_array().unwrap().iter();
            let needed = needed.filter(|needed| needed["kind"] != "dev" && !needed["path"].is_null());
            (
                own_name(&package["name"]),
                needed.map(|needed| own_name(&needed["name"])).collect(),
            )
        })
        .collect()
}

/// CONTRIBUTING names all published packages, each after those that it needs.
#[test]
fn packages_are_published_in_the_order_of_their_dependencies() {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../CONTRIBUTING.md")).unwrap();
    let (_, list) = text.split_once("in the order of their dependencies:").unwrap();
    let list = list.split("\n\n").next().unwrap();
    let order: Vec<&str> = list.split('`').skip(1).step_by(2).collect();
    let published = published();
    assert_eq!(
        order.iter().copied().collect::<BTreeSet<_>>(),
        published.keys().map(|name| &**name).collect()
    );
    for (position, name) in order.iter().enumerate() {
        for needed in &published[*name] {
            assert!(order[..position].contains(&&**needed), "{name} is before {needed}");
        }
    }
}
