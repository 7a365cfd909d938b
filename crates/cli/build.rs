//! Finds out the commit that the command is built from.

use std::process::Command;

/// What a git command prints, if it succeeds.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

fn main() {
    // The sources of a package from a registry may lie in another project's working copy.
    let is_own = git(&["ls-files", "build.rs"]).is_some_and(|files| !files.is_empty());
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).filter(|_| is_own);
    println!(
        "cargo::rustc-env=BLOCKMILL_COMMIT={}",
        commit.as_deref().unwrap_or("unknown")
    );
    println!("cargo::rerun-if-changed=build.rs");
    // The one changes with the branch, the other with every commit.
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", name]) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}
