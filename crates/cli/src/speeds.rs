//! How fast the ways of hashing and of verifying signatures were, when this process measured them.

use blockmill_fastest::{Speed, Speeds};
use blockmill_script::Way;
use serde_json::{Map, Value, json};
use sha256_lanes::Backend;
use std::time::Duration;

/// The ways of verifying signatures, by a check: empty if nothing was measured.
pub(crate) fn signatures_text() -> String {
    match blockmill_script::measured() {
        Some(speeds) => format!("measured a check: {}", in_words(speeds, Way::name, microseconds)),
        None => String::new(),
    }
}

/// The same as JSON, in nanoseconds; null if nothing was measured.
pub(crate) fn signatures_json() -> Value {
    blockmill_script::measured().map_or(Value::Null, |speeds| as_json(speeds, Way::name))
}

/// The way of hashing, and how fast all ways were by a hash, if that was measured.
pub(crate) fn hashes_text() -> String {
    let way = Backend::detect().name();
    match sha256_lanes::measured() {
        Some(speeds) => format!(
            "{way}; measured a hash: {}",
            in_words(speeds, Backend::name, nanoseconds)
        ),
        None => way.to_owned(),
    }
}

/// The same as JSON, in nanoseconds.
pub(crate) fn hashes_json() -> Value {
    json!({
        "way": Backend::detect().name(),
        "measured": sha256_lanes::measured().map(|speeds| as_json(speeds, Backend::name)),
    })
}

fn microseconds(time: Duration) -> String {
    format!("{:.1} us", time.as_secs_f64() * 1e6)
}

fn nanoseconds(time: Duration) -> String {
    format!("{} ns", time.as_nanos())
}

fn in_words<W: Copy>(speeds: &Speeds<W>, name: fn(W) -> &'static str, time: fn(Duration) -> String) -> String {
    let of = |speed: &Speed<W>| format!("{} {}", name(speed.way), time(speed.time));
    speeds.ways().iter().map(of).collect::<Vec<_>>().join(", ")
}

fn as_json<W: Copy>(speeds: &Speeds<W>, name: fn(W) -> &'static str) -> Value {
    let of = |speed: &Speed<W>| (name(speed.way).to_owned(), json!(speed.time.as_nanos() as u64));
    Value::Object(speeds.ways().iter().map(of).collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use blockmill_fastest::Contender;

    #[test]
    fn figures_in_words_and_in_json() {
        let speeds = Speeds::measure(1, vec![Contender::new(Backend::Sha, 1, |_| ())]);
        let nanos = speeds.ways()[0].time.as_nanos() as u64;
        assert_eq!(in_words(&speeds, Backend::name, nanoseconds), format!("sha {nanos} ns"));
        assert_eq!(as_json(&speeds, Backend::name), json!({"sha": nanos}));
        assert_eq!(microseconds(Duration::from_nanos(14_580)), "14.6 us");
    }
}
