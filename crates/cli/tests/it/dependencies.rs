//! How many packages of others the command stands on.

use std::collections::BTreeSet;
use std::process::Command;

/// Most packages of others without the features that are on by default.
const LEAN_MAX: usize = 70;

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
