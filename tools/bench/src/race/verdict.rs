//! Whether all contenders have come to the same set.

use super::{RUNS, SETS};
use blockmill_harness::{Failure, Row, Wrong};
use serde_json::Value;

/// What is compared of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Set {
    height: u64,
    block: String,
    coins: u64,
    hash: String,
}

impl Set {
    /// The set of an answer of `gettxoutsetinfo`, or of `stats`, which has the same keys.
    pub(super) fn of(answer: &Value) -> Result<Self, Failure> {
        let number = |key: &str| answer[key].as_u64().ok_or_else(|| format!("no {key} of the set"));
        let text = |key: &str| answer[key].as_str().map(str::to_owned);
        Ok(Self {
            height: number("height")?,
            block: text("bestblock").ok_or("no bestblock of the set")?,
            coins: number("txouts")?,
            hash: text("hash_serialized_3").ok_or("no hash_serialized_3 of the set: Bitcoin Core has it since 26.0")?,
        })
    }
}

/// Adds the rows of the sets to those of the runs, and says what is wrong: sets that differ, or
/// else contenders that have failed.
pub(super) fn verdict(rows: &mut Vec<Row>, sets: &[(&'static str, Set)]) -> Option<Wrong> {
    let failed: Vec<String> = rows
        .iter()
        .filter(|row| row.table() == RUNS && row.value("failed").is_string())
        .map(|row| format!("{}: {}", text(row, "who"), text(row, "failed")))
        .collect();
    let first = sets.first();
    let mut differing = Vec::new();
    for (who, set) in sets {
        let is_same = first.is_none_or(|(_, first)| first == set);
        let row = Row::new(SETS).with("who", *who).with("height", set.height);
        let row = row.with("block", set.block.as_str()).with("coins", set.coins);
        let row = row.with("hash_serialized_3", set.hash.as_str());
        rows.push(row.with("same", if is_same { "yes" } else { "NO" }));
        if !is_same {
            differing.push(*who);
        }
    }
    match (first, differing.is_empty(), failed.is_empty()) {
        (Some((first, _)), false, _) => Some(Wrong::Differs(format!(
            "the set of {} is not that of {first}",
            differing.join(" and ")
        ))),
        (_, _, false) => Some(Wrong::Failed(failed.join("; "))),
        _ => None,
    }
}

fn text<'a>(row: &'a Row, name: &str) -> &'a str {
    row.value(name).as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn set(hash: &str) -> Set {
        let answer = json!({"height": 7, "bestblock": "aa", "txouts": 9, "hash_serialized_3": hash, "muhash": "x"});
        Set::of(&answer).unwrap()
    }

    #[test]
    fn sets_are_compared_with_the_first() {
        let runs = || vec![Row::new(RUNS).with("who", "connect").with("seconds_median", 1.0)];
        let mut rows = runs();
        assert_eq!(verdict(&mut rows, &[("connect", set("cc")), ("peer", set("cc"))]), None);
        assert!(rows[1].is("same", "yes") && rows[2].is("same", "yes") && rows.len() == 3);
        let mut rows = runs();
        let wrong = verdict(&mut rows, &[("connect", set("cc")), ("peer", set("dd"))]);
        assert_eq!(
            wrong,
            Some(Wrong::Differs("the set of peer is not that of connect".to_owned()))
        );
        assert!(rows[2].is("same", "NO"));
    }

    #[test]
    fn one_that_failed_is_named_and_a_difference_counts_more() {
        let runs = || vec![Row::new(RUNS).with("who", "peer").with("failed", "signal: 9")];
        let failed = verdict(&mut runs(), &[("connect", set("cc"))]);
        assert_eq!(failed, Some(Wrong::Failed("peer: signal: 9".to_owned())));
        let differs = verdict(&mut runs(), &[("connect", set("cc")), ("peer", set("dd"))]);
        assert!(matches!(differs, Some(Wrong::Differs(_))));
    }

    #[test]
    fn an_answer_without_the_hash_says_which_version_has_it() {
        let error = Set::of(&json!({"height": 7, "bestblock": "aa", "txouts": 9, "hash_serialized_2": "x"}));
        assert!(error.unwrap_err().to_string().contains("26.0"));
    }
}
