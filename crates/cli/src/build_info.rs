//! Which program this is: what `build.rs` found out.

use std::sync::LazyLock;

/// The commit it was built from; `unknown` outside of a working copy.
pub(crate) const COMMIT: &str = env!("BLOCKMILL_COMMIT");

/// The version of Core whose interpreter runs the scripts.
pub(crate) const CORE: &str = blockmill_script::CORE_VERSION;

/// What `--version` prints after the name.
pub(crate) static VERSION: LazyLock<String> = LazyLock::new(|| {
    format!(
        "{} (commit {COMMIT}, scripts by Bitcoin Core {CORE})",
        env!("CARGO_PKG_VERSION")
    )
});

/// Says what this build leaves out; none where it has everything.
pub(crate) fn left_out() -> Option<String> {
    let parts = [
        ("generate and demo", cfg!(feature = "generate")),
        ("addresses and descriptors", cfg!(feature = "descriptors")),
        ("Parquet, Arrow and SQLite", cfg!(feature = "tables")),
        ("the page of --http", cfg!(feature = "http")),
        ("mirror", cfg!(feature = "postgres")),
    ];
    let left_out = parts.iter().filter(|(_, is_there)| !is_there);
    let left_out: Vec<&str> = left_out.map(|(name, _)| *name).collect();
    let names = left_out.join(", ");
    (!left_out.is_empty()).then(|| format!("this build leaves out {names}; `make install` builds everything"))
}
