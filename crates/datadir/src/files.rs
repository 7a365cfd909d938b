//! Names of the files in a data directory.

/// What the directory belongs to.
pub const META_FILE: &str = "meta.json";

/// The lock.
pub const LOCK_FILE: &str = "lock";

/// Headers of connected blocks.
pub const HEADERS_FILE: &str = "headers.dat";

/// Undo data of connected blocks.
pub const UNDO_FILE: &str = "undo.dat";

/// The last commit of the store that was synced.
pub const COMMIT_FILE: &str = "commit.dat";

/// Where the blocks are in the files that were searched.
pub const POSITIONS_FILE: &str = "places.dat";

/// The folder of submitted blocks.
pub const BLOCKS_FOLDER: &str = "blocks";

/// The folder of the last blocks, and of those that left the chain.
pub const KEPT_FOLDER: &str = "kept";

/// The folder of the store of the coins.
pub const STORE_FOLDER: &str = "coins.log";

/// The folder of a store that a snapshot is being loaded into.
pub const LOADING_FOLDER: &str = "coins.log.loading";
