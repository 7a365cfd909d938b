//! The figures of the engine as JSON, for reports and for the page.

use blockmill_engine::report::{Totals, Value as FigureValue};
use serde_json::{Value, json};

/// A figure as JSON.
pub(crate) fn figure_json(figure: FigureValue) -> Value {
    match figure {
        FigureValue::Count(number) | FigureValue::Max(number) => number.into(),
        FigureValue::Seconds(seconds) | FigureValue::Longest(seconds) => seconds.into(),
        FigureValue::Depth(depth) => json!({"mean": depth.mean(), "max": depth.max()}),
    }
}

/// Puts a value where its key says: names with points between them.
pub(crate) fn put(object: &mut Value, key: &str, value: Value) {
    // An index makes an object of what is not there yet.
    let at = key.split('.').fold(object, |object, name| &mut object[name]);
    *at = value;
}

/// Puts the times of the stages.
pub(crate) fn put_stages(object: &mut Value, totals: &Totals) {
    for (name, time) in totals.stages.named() {
        let times = json!({"busy_s": time.busy_seconds, "wait_s": time.wait_seconds});
        put(object, &format!("stages.{name}"), times);
    }
}
