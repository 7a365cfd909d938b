//! The projection for the main network in `docs/main-network.md`: what `docs/projection.json`
//! counts, times what the results in `docs/measured` cost. These are the JSON files of
//! `blockmill-bench signatures` and `blockmill-bench race` as they were written. With
//! `BLOCKMILL_WRITE_FIGURES` the tables are written into the page, and the hours of two cores into
//! `docs/figures.json`.

use serde_json::Value;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// The marks around what is made of results.
const VALIDATION: [&str; 2] = ["<!--projection-->\n", "<!--/projection-->\n"];
const EXPORTS: [&str; 2] = ["<!--exports-->\n", "<!--/exports-->\n"];

/// The figure that stands on other pages, too: hours of two cores of the first column.
const HOURS: &str = "main-network-hours";

/// The row of `signatures` that has all inputs of large real blocks.
const ALL_INPUTS: &str = "all";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&read(path)).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn number(value: &Value, what: &str) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{what} is {value}"))
}

/// The result of a benchmark.
struct Measured(Value);

impl Measured {
    /// A figure of the row that has these texts.
    fn figure(&self, texts: &[(&str, &str)], name: &str) -> f64 {
        let mut rows = self.0["rows"].as_array().expect("rows").iter();
        let row = rows.find(|row| texts.iter().all(|&(key, text)| row[key] == text));
        number(&row.unwrap_or(&Value::Null)[name], &format!("{name} of {texts:?}"))
    }

    /// CPU seconds of a stage.
    fn stage(&self, stage: &str) -> f64 {
        self.figure(&[("stage", stage)], "cpu_s")
    }

    /// A count of the chain that was connected.
    fn count(&self, name: &str) -> f64 {
        self.figure(&[("table", "blocks")], name)
    }

    /// Checks that the lanes of signatures were those of a backend, where a row says it: a machine
    /// that does not have what is forced takes another.
    fn expect_lanes(&self, backend: &str) {
        for row in self.0["rows"].as_array().expect("rows") {
            if row["what"] == "lanes of signatures" {
                assert_eq!(row["is"], backend);
            }
            if row["lanes"].is_string() {
                assert_eq!(row["lanes"], backend);
            }
        }
    }

    /// Processor and command.
    fn words(&self) -> (String, String) {
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        (text(&self.0["machine"]["cpu"]), text(&self.0["command"]))
    }
}

/// What work costs, in seconds of one core.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Costs {
    script: f64,
    byte: f64,
    resolve: f64,
    lookup: f64,
    change: f64,
}

impl Costs {
    fn of(scripts: &Measured, who: &str, bytes: &Measured, coins: &Measured) -> Self {
        let script = scripts.figure(&[("what", ALL_INPUTS), ("who", who)], "cpu_us_each");
        Self {
            script: script / 1e6,
            byte: (bytes.stage("read") + bytes.stage("decode")) / bytes.count("bytes"),
            resolve: (coins.stage("resolve") + coins.stage("commit")) / coins.count("inputs"),
            lookup: coins.stage("fetch") / coins.count("store_lookups"),
            change: coins.stage("flush") / coins.count("store_changes"),
        }
    }

    fn times(self, factor: f64) -> Self {
        Self {
            script: self.script * factor,
            byte: self.byte * factor,
            resolve: self.resolve * factor,
            lookup: self.lookup * factor,
            change: self.change * factor,
        }
    }

    /// Hours of one core: scripts, bytes, resolving, the store.
    fn hours(self, network: &Value) -> [f64; 4] {
        let count = |name: &str| number(&network[name], name) / 3600.0;
        [
            self.script * count("inputs"),
            self.byte * count("bytes"),
            self.resolve * count("inputs"),
            self.lookup * count("inputs") + self.change * count("store_changes"),
        ]
    }
}

/// The columns by name, those with a factor made from the ones that they name.
fn columns(plan: &Value, measured: &dyn Fn(&Value) -> Measured) -> Vec<(String, Costs)> {
    let coins = measured(&plan["coins"]);
    let mut columns: Vec<(String, Costs)> = Vec::new();
    for column in plan["columns"].as_array().expect("columns") {
        let text = |key: &str| column[key].as_str();
        let costs = match text("as") {
            Some(other) => {
                let known = columns
                    .iter()
                    .find(|(name, _)| name == other)
                    .expect("a column before it");
                known.1.times(number(&column["times"], "times"))
            }
            None => {
                let [scripts, bytes] = ["scripts", "bytes"].map(|key| measured(&column[key]));
                let who = text("who").expect("who");
                bytes.expect_lanes(text("lanes").expect("lanes"));
                if who == "lanes" {
                    scripts.expect_lanes(text("lanes").expect("lanes"));
                }
                Costs::of(&scripts, who, &bytes, &coins)
            }
        };
        columns.push((text("name").expect("a name").to_owned(), costs));
    }
    columns
}

/// Two digits, as much as a projection is worth.
fn short(number: f64) -> String {
    if number < 1.0 {
        format!("{number:.2}")
    } else {
        format!("{number:.1}")
    }
}

fn row(into: &mut String, name: &str, cells: impl Iterator<Item = String>) {
    let cells: String = cells.map(|cell| format!(" {cell} |")).collect();
    writeln!(into, "| {name} |{cells}").expect("text grows");
}

/// The tables.
fn tables(plan: &Value, columns: &[(String, Costs)]) -> String {
    let mut text = String::new();
    let head = |text: &mut String, name: &str| {
        row(text, name, columns.iter().map(|(name, _)| name.clone()));
        row(text, "---", columns.iter().map(|_| "---".to_owned()));
    };
    let each = |text: &mut String, name: &str, figure: &dyn Fn(Costs) -> f64| {
        row(text, name, columns.iter().map(|&(_, costs)| short(figure(costs))));
    };
    head(&mut text, "what one core does");
    each(&mut text, "scripts: us an input of large real blocks", &|costs| {
        costs.script * 1e6
    });
    each(&mut text, "reading and decoding: ns a byte", &|costs| costs.byte * 1e9);
    each(&mut text, "resolving: us an input", &|costs| costs.resolve * 1e6);
    each(&mut text, "store: us a look-up, one for each input", &|costs| {
        costs.lookup * 1e6
    });
    each(&mut text, "store: us a coin that is written or removed", &|costs| {
        costs.change * 1e6
    });
    let network = &plan["network"];
    for (index, name) in ["scripts", "reading and decoding", "resolving", "the store"]
        .iter()
        .enumerate()
    {
        each(&mut text, &format!("hours of {name}"), &|costs| {
            costs.hours(network)[index]
        });
    }
    text.push('\n');
    head(&mut text, "hours, by number of cores");
    for cores in plan["cores"].as_array().expect("cores") {
        each(&mut text, &cores.to_string(), &|costs| {
            costs.hours(network).iter().sum::<f64>() / number(cores, "cores")
        });
    }
    text
}

/// The table of what `export` writes, by what each row of `blockmill-bench tables` costs a byte of
/// blocks.
fn exports(plan: &Value, measured: &Measured) -> String {
    let mut text = String::new();
    let words = ["CPU ns a byte of blocks", "hours, 2 cores", "hours, 16 cores"].map(str::to_owned);
    row(&mut text, "table", words.into_iter());
    row(&mut text, "---", (0..3).map(|_| "---".to_owned()));
    let bytes = number(&plan["network"]["bytes"], "bytes");
    for found in measured.0["rows"].as_array().expect("rows") {
        let what = found["what"].as_str().expect("a table");
        let figure = |name: &str| number(&found[name], what);
        // The indexes of Core's daemon are made by one thread, which a start of the daemon comes
        // before.
        let (each, cores) = match what.ends_with("index") {
            true => (figure("seconds_median") / figure("count"), [1.0, 1.0]),
            false => (figure("cpu_us_each") / 1e6, [2.0, 16.0]),
        };
        let [few, many] = cores.map(|cores| short(each * bytes / 3600.0 / cores));
        let cells = [short(each * 1e9), few, many];
        row(&mut text, what, cells.into_iter());
    }
    text
}

/// The page with other tables. None: the page has no such marks.
fn with_tables(page: &str, [begin, end]: [&str; 2], tables: &str) -> Option<String> {
    let (before, rest) = page.split_once(begin)?;
    let (_, after) = rest.split_once(end)?;
    Some(format!("{before}{begin}\n{tables}\n{end}{after}"))
}

#[test]
fn the_page_has_what_was_measured() {
    let docs = root().join("docs");
    let plan = json(&docs.join("projection.json"));
    let page = read(&docs.join("main-network.md"));
    let measured = |name: &Value| {
        let name = name.as_str().expect("a name");
        let measured = Measured(json(&docs.join("measured").join(name)));
        let (processor, command) = measured.words();
        assert!(page.contains(&processor), "the page does not say {processor}");
        // A path would be one of whoever measured.
        assert!(
            command.starts_with("blockmill-bench ") && !command.contains('/'),
            "{name}: {command}"
        );
        measured
    };
    let columns = columns(&plan, &measured);
    let wanted = with_tables(&page, VALIDATION, &tables(&plan, &columns)).expect("marks for the tables");
    let exports = exports(&plan, &measured(&plan["exports"]));
    let wanted = with_tables(&wanted, EXPORTS, &exports).expect("marks for the exports");
    let hours = short(columns[0].1.hours(&plan["network"]).iter().sum::<f64>() / 2.0);
    let path = docs.join("figures.json");
    let figures = read(&path);
    let figure = json(&path)["figures"][HOURS]["value"].as_str().expect(HOURS).to_owned();
    if std::env::var_os("BLOCKMILL_WRITE_FIGURES").is_some() {
        fs::write(docs.join("main-network.md"), wanted).expect("a page can be written");
        let key = format!("\"{HOURS}\": {{\n      \"value\": ");
        let changed = figures.replace(&format!("{key}\"{figure}\""), &format!("{key}\"{hours}\""));
        fs::write(path, changed).expect("the figures can be written");
        return;
    }
    assert_eq!(page, wanted);
    assert_eq!(figure, hours, "{HOURS}");
}

#[test]
fn every_file_is_used() {
    let docs = root().join("docs");
    let plan = read(&docs.join("projection.json"));
    for entry in fs::read_dir(docs.join("measured")).expect("a folder") {
        let name = entry.expect("an entry").file_name().into_string().expect("text");
        assert!(plan.contains(&format!("\"{name}\"")), "{name} is used nowhere");
    }
}

#[test]
fn costs_times_counts_are_hours() {
    let plan = serde_json::json!({
        "network": {"inputs": 3.6e9, "bytes": 3.6e12, "store_changes": 7.2e9},
        "cores": [2],
        "coins": "coins",
        "columns": [
            {"name": "fast", "scripts": "scripts", "who": "lanes", "bytes": "bytes", "lanes": "some"},
            {"name": "slow", "as": "fast", "times": 10},
        ],
    });
    let stage = |stage: &str, busy: f64| serde_json::json!({"stage": stage, "cpu_s": busy});
    let measured = |name: &Value| {
        let rows = match name.as_str() {
            Some("scripts") => vec![
                serde_json::json!({"what": "all", "who": "other", "cpu_us_each": 9}),
                serde_json::json!({"what": "all", "who": "lanes", "cpu_us_each": 4, "lanes": "some"}),
            ],
            _ => vec![
                stage("read", 1.0),
                stage("decode", 4.0),
                stage("fetch", 6.0),
                stage("resolve", 2.5),
                stage("commit", 0.5),
                stage("flush", 1.0),
                serde_json::json!({
                    "table": "blocks", "bytes": 1e9, "inputs": 1e6, "store_lookups": 2e6, "store_changes": 4e6,
                }),
            ],
        };
        Measured(serde_json::json!({ "rows": rows }))
    };
    let columns = columns(&plan, &measured);
    let hours = columns[0]
        .1
        .hours(&plan["network"])
        .map(|hours| (hours * 1e6).round() / 1e6);
    assert_eq!(hours, [4.0, 5.0, 3.0, 3.5]);
    let text = tables(&plan, &columns);
    for line in [
        "| scripts: us an input of large real blocks | 4.0 | 40.0 |",
        "| store: us a coin that is written or removed | 0.25 | 2.5 |",
        "| 2 | 7.8 | 77.5 |",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let measured = Measured(serde_json::json!({"rows": [
        {"what": "inputs", "cpu_us_each": 0.002},
        {"what": "some index", "cpu_us_each": 1, "seconds_median": 3.0, "count": 1e9},
    ]}));
    let text = exports(&plan, &measured);
    for line in ["| inputs | 2.0 | 1.0 | 0.12 |", "| some index | 3.0 | 3.0 | 3.0 |"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let [begin, end] = EXPORTS;
    let page = format!("a\n{begin}old\n{end}b\n");
    let filled = with_tables(&page, EXPORTS, "new\n").unwrap();
    assert_eq!(filled, format!("a\n{begin}\nnew\n\n{end}b\n"));
    assert_eq!(with_tables(&filled, EXPORTS, "new\n").unwrap(), filled);
    assert!(with_tables("nothing", EXPORTS, "new\n").is_none());
}
