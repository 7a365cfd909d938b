//! Which program this is: what `build.rs` found out.

use std::sync::LazyLock;

/// The commit it was built from; `unknown` outside of a working copy.
pub(crate) const COMMIT: &str = env!("BLOCKMILL_COMMIT");

/// The version of Core whose interpreter runs the scripts.
pub(crate) const KERNEL: &str = blockmill_script::CORE_VERSION;

/// What `--version` prints after the name.
pub(crate) static VERSION: LazyLock<String> = LazyLock::new(|| {
    format!(
        "{} (commit {COMMIT}, scripts by Bitcoin Core {KERNEL})",
        env!("CARGO_PKG_VERSION")
    )
});
