//! The script verifier of all commands.

use blockmill_chain::Signatures;
use blockmill_chain::report::signatures::SignatureRanges;
use blockmill_rules::SignatureCounts;
use blockmill_script::CoreVerifier;
use serde_json::{Value, json};

/// The engine's script verifier in this command.
pub(crate) type Verifier = CoreVerifier;

/// A verifier for one run of a command. That of `OneByOne` has no lanes.
pub(crate) fn verifier(signatures: Signatures) -> Verifier {
    match signatures {
        Signatures::OneByOne => CoreVerifier::new(blockmill_script::Signatures::OneByOne),
        Signatures::Auto | Signatures::Lanes => CoreVerifier::new(blockmill_script::Signatures::Lanes),
    }
}

/// How signatures were verified, for a person: the way for each range of heights, and the counts.
pub(crate) fn signatures_text(ranges: &SignatureRanges, counts: &SignatureCounts) -> String {
    let mut text = ranges.to_string();
    let counted = counts_text(counts);
    if !counted.is_empty() {
        text.push_str(&format!(": {counted}"));
    }
    text
}

/// The number of signatures for each way of verifying. Empty if all counts are 0.
pub(crate) fn counts_text(counts: &SignatureCounts) -> String {
    let SignatureCounts {
        lanes,
        libsecp256k1,
        again,
        cannot_tell,
        rechecked,
    } = *counts;
    if *counts == SignatureCounts::default() {
        return String::new();
    }
    let mut text = format!("{lanes} in lanes, {libsecp256k1} by libsecp256k1");
    // These are rare, and say something only where they happened.
    for (count, what) in [
        (again, "scripts run again"),
        (cannot_tell, "not judged by lanes"),
        (rechecked, "rechecked"),
    ] {
        if count > 0 {
            text.push_str(&format!(", {count} {what}"));
        }
    }
    text
}

/// The counts as JSON.
pub(crate) fn signatures_json(counts: &SignatureCounts) -> Value {
    json!({
        "lanes": counts.lanes,
        "kernel": counts.libsecp256k1,
        "again": counts.again,
        "cannot_tell": counts.cannot_tell,
        "rechecked": counts.rechecked,
    })
}

/// How transactions and merkle trees are hashed, as JSON.
pub(crate) fn hashes_json() -> Value {
    json!({"way": sha256_lanes::Backend::detect().name()})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_in_words_and_in_json() {
        let ranges = SignatureRanges::default();
        assert_eq!(
            signatures_text(&ranges, &SignatureCounts::default()),
            "no script was run"
        );
        let mut counts = SignatureCounts {
            lanes: 7,
            libsecp256k1: 2,
            ..SignatureCounts::default()
        };
        assert_eq!(counts_text(&counts), "7 in lanes, 2 by libsecp256k1");
        counts.again = 1;
        counts.rechecked = 3;
        assert_eq!(
            counts_text(&counts),
            "7 in lanes, 2 by libsecp256k1, 1 scripts run again, 3 rechecked"
        );
        assert_eq!(
            signatures_json(&counts),
            json!({"lanes": 7, "kernel": 2, "again": 1, "cannot_tell": 0, "rechecked": 3})
        );
    }
}
