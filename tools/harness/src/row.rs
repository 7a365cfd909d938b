//! A printed row.

use serde_json::{Map, Value};

/// Shown where a row has no value.
pub(crate) const NO_VALUE: &str = "-";

/// Names and values in the order of their columns. The names have the units.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Row {
    cells: Vec<(String, Value)>,
    /// Only in JSON.
    hidden: Vec<(String, Value)>,
}

impl Row {
    /// An empty row of a table.
    pub fn new(table: &str) -> Self {
        let mut row = Self::default();
        row.set_hidden("table", table);
        row
    }

    /// Adds a value.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.set(name, value);
        self
    }

    /// Adds a value, or sets it anew. A number that is not finite is none.
    pub fn set(&mut self, name: &str, value: impl Into<Value>) {
        set(&mut self.cells, name, value.into());
    }

    /// The same of a value that only JSON has.
    pub fn set_hidden(&mut self, name: &str, value: impl Into<Value>) {
        set(&mut self.hidden, name, value.into());
    }

    /// A value; null if there is none.
    pub fn value(&self, name: &str) -> &Value {
        let mut all = self.cells.iter().chain(&self.hidden);
        all.find(|cell| cell.0 == name).map_or(&Value::Null, |cell| &cell.1)
    }

    /// A number, if there is one of that name.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.value(name).as_f64()
    }

    /// Whether the text of a name is this.
    pub fn is(&self, name: &str, text: &str) -> bool {
        self.value(name) == text
    }

    /// The table's name.
    pub fn table(&self) -> &str {
        self.value("table").as_str().unwrap_or_default()
    }

    /// The names of the columns.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let known = self.cells.iter().filter(|cell| !cell.1.is_null());
        known.map(|cell| cell.0.as_str())
    }

    /// The value of a column as text.
    pub(crate) fn cell(&self, name: &str) -> String {
        match self.value(name) {
            Value::Null => NO_VALUE.to_owned(),
            Value::String(text) => text.clone(),
            Value::Number(number) => number.as_f64().map_or_else(|| number.to_string(), figure),
            other => other.to_string(),
        }
    }

    /// All of it.
    pub(crate) fn json(&self) -> Value {
        let cells = self.cells.iter().chain(&self.hidden).cloned();
        Value::Object(cells.collect::<Map<String, Value>>())
    }
}

fn set(cells: &mut Vec<(String, Value)>, name: &str, value: Value) {
    match cells.iter_mut().find(|cell| cell.0 == name) {
        Some(cell) => cell.1 = value,
        None => cells.push((name.to_owned(), value)),
    }
}

/// A number with three significant digits, or all digits before the point, with a comma after each
/// thousand.
fn figure(number: f64) -> String {
    let decimals = if number.fract() == 0.0 {
        0
    } else {
        // Below a millionth the rest is noise.
        let magnitude = number.abs().log10().floor() as i32;
        (2 - magnitude).clamp(0, 6) as usize
    };
    let text = format!("{number:.decimals$}");
    let digits_start = usize::from(text.starts_with('-'));
    let digits_end = text.find('.').unwrap_or(text.len());
    let mut with_commas = String::new();
    for (position, character) in text.char_indices() {
        let remaining = digits_end.saturating_sub(position);
        if position > digits_start && remaining > 0 && remaining % 3 == 0 {
            with_commas.push(',');
        }
        with_commas.push(character);
    }
    with_commas
}

/// A name as the heading of a column.
pub(crate) fn heading(name: &str) -> String {
    let short = match name {
        "seconds_median" => "seconds",
        "cpu_seconds_median" => "CPU s",
        "cpu_us_each" => "CPU us each",
        "ratio_median" => "ratio",
        "seconds_min" | "ratio_min" => "min",
        "seconds_max" | "ratio_max" => "max",
        other => other,
    };
    short.replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (number, text) in [
            (0.0, "0"),
            (999.0, "999"),
            (1000.0, "1,000"),
            (-1000.0, "-1,000"),
            (-100.0, "-100"),
            (1_234_567.891, "1,234,568"),
            (16.84, "16.8"),
            (4.4449, "4.44"),
            (0.073_14, "0.0731"),
            (0.000_000_1, "0.000000"),
        ] {
            assert_eq!(figure(number), text);
        }
    }

    #[test]
    fn values_are_set_once_and_hidden_ones_are_in_json() {
        let mut row = Row::new("t").with("who", "ours").with("seconds", 1.5);
        row.set("seconds", 2.5);
        row.set("nothing", f64::NAN);
        row.set_hidden("more", 7);
        assert!(row.is("who", "ours") && row.table() == "t");
        assert_eq!(row.names().collect::<Vec<_>>(), ["who", "seconds"]);
        assert_eq!(
            (row.cell("seconds"), row.cell("nothing")),
            ("2.50".to_owned(), NO_VALUE.to_owned())
        );
        let wanted = serde_json::json!({"who": "ours", "seconds": 2.5, "nothing": null, "table": "t", "more": 7});
        assert_eq!(row.json(), wanted);
    }
}
