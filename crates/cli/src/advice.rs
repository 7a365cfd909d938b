//! What a user can do about an error, in the words of the command line.

use blockmill_chain::Event;
use blockmill_coins::StoreError;
use blockmill_datadir::{OpenError, Remedy};
use blockmill_engine::ConnectError;
use blockmill_engine::engine::LoadSnapshotError;
use blockmill_rules::RejectKind;

/// What helps where records hide blocks that only reading shows.
pub(crate) const OF_HIDDEN: &str = "run `connect`, then export with --data DIR";

/// What helps against damage.
pub(crate) fn of_remedy(remedy: Remedy) -> &'static str {
    match remedy {
        Remedy::NewDirectoryToReorganise => "to allow it, connect into a new data directory",
        Remedy::RemoveFile => "remove what is there of it and connect with --network, and it is made again",
        Remedy::SubmitAgain => "submit these blocks again",
        Remedy::ConnectAgain => "connect the blocks again, into this data directory",
        // Kinds of damage that come later end here, too.
        _ => "connect into a new data directory",
    }
}

/// What helps where a data directory cannot be opened.
pub(crate) fn of_open(error: &OpenError) -> Option<&'static str> {
    match error {
        OpenError::Foreign { .. } => Some("name another for --data"),
        OpenError::NoDataDirectory { .. } => Some("--network is needed to make one"),
        error => error.remedy().map(of_remedy),
    }
}

/// What helps where the store failed.
pub(crate) fn of_store(error: &StoreError) -> Option<&'static str> {
    match error {
        StoreError::Corrupt(_) | StoreError::Damaged { .. } => Some(of_remedy(Remedy::NewDirectory)),
        _ => None,
    }
}

/// What helps where blocks cannot be connected.
pub(crate) fn of_connect(error: &ConnectError) -> Option<&'static str> {
    match error {
        ConnectError::Store(error) => of_store(error),
        ConnectError::CannotDisconnect { .. } => {
            Some("name the block files that hold it, or connect into a new data directory")
        }
        _ => None,
    }
}

/// What helps where a snapshot cannot be loaded.
pub(crate) fn of_load(error: &LoadSnapshotError) -> Option<&'static str> {
    match error {
        LoadSnapshotError::SetExists { .. } => Some("name a new one"),
        LoadSnapshotError::Base { .. } => {
            Some("name block files that have it, or the REST interface of a node for --headers")
        }
        LoadSnapshotError::UnknownHash { .. } => Some("--hash says which it must have"),
        LoadSnapshotError::Store(error) => of_store(error),
        _ => None,
    }
}

/// What helps against what an event reports.
pub(crate) fn of_event(event: &Event<'_>) -> Option<&'static str> {
    match event {
        Event::Rejected(rejected) if rejected.reject.kind == RejectKind::Mutated => Some(
            "its header is sound, so these bytes may be damage, and not the block: compare them with \
             `bitcoin-cli getblock HASH 0`, or connect again with another copy of the file",
        ),
        Event::Rejected(rejected) if rejected.reject.reason == "time-too-new" => {
            Some("its time is more than two hours ahead of the clock of this machine: is the clock right?")
        }
        Event::UndoDamaged { .. } => Some(of_remedy(Remedy::NewDirectoryToReorganise)),
        _ => None,
    }
}

/// A text with its advice.
pub(crate) fn with_advice(text: String, advice: Option<&str>) -> String {
    match advice {
        Some(advice) => format!("{text}; {advice}"),
        None => text,
    }
}
