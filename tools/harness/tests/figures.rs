//! Figures that stand on several pages are those of `docs/figures.json`. A spot for one is
//! `<!--=NAME-->VALUE<!--/-->`. With `BLOCKMILL_WRITE_FIGURES` the values are written into the
//! pages.

use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const BEGIN: &str = "<!--=";
const MIDDLE: &str = "-->";
const END: &str = "<!--/-->";

/// A page with its figures, and what is wrong with it.
#[derive(Debug, Default)]
struct Filled {
    text: String,
    names: Vec<String>,
    faults: Vec<String>,
}

/// Fills the spots of a page.
fn fill(page: &str, figures: &Map<String, Value>, machines: &Map<String, Value>) -> Filled {
    let mut filled = Filled::default();
    let mut rest = page;
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let spot = after.split_once(MIDDLE).and_then(|(name, after)| {
            let (value, after) = after.split_once(END)?;
            Some((name, value, after))
        });
        let Some((name, value, after)) = spot else {
            filled.faults.push("a spot has no end".to_owned());
            break;
        };
        let figure = &figures.get(name).unwrap_or(&Value::Null);
        match figure["value"].as_str() {
            Some(wanted) if wanted == value => {}
            Some(wanted) => filled
                .faults
                .push(format!("{name} is {value}, and {wanted} in the file")),
            None => filled.faults.push(format!("there is no figure {name}")),
        }
        let machine = figure["machine"].as_str().and_then(|machine| machines.get(machine));
        let processor = machine.and_then(|machine| machine["processor"].as_str());
        if !processor.is_some_and(|processor| page.contains(processor)) {
            filled
                .faults
                .push(format!("the page does not say the processor of {name}"));
        }
        let value = figure["value"].as_str().unwrap_or(value);
        filled.text.extend([before, BEGIN, name, MIDDLE, value, END]);
        filled.names.push(name.to_owned());
        rest = after;
    }
    filled.text.push_str(rest);
    filled
}

/// README and all pages of `docs`, `crates`, `lib`, `tools`.
fn pages(root: &Path) -> Vec<PathBuf> {
    let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
    let mut pages = vec![
        root.join("README.md"),
        root.join("ARCHITECTURE.md"),
        root.join("CONTRIBUTING.md"),
    ];
    pages.extend(entries(&root.join("docs")).map(|entry| entry.path()));
    for tier in ["crates", "lib", "tools"] {
        pages.extend(entries(&root.join(tier)).map(|entry| entry.path().join("README.md")));
    }
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md") && page.is_file());
    pages
}

fn figures() -> Value {
    let path = root().join("docs/figures.json");
    serde_json::from_str(&fs::read_to_string(path).expect("docs/figures.json")).expect("JSON")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn pages_have_the_figures_of_the_file() {
    let all = figures();
    let (Some(figures), Some(machines)) = (all["figures"].as_object(), all["machines"].as_object()) else {
        panic!("the file has figures and machines");
    };
    let (mut found, mut faults) = (BTreeSet::new(), Vec::new());
    for page in pages(&root()) {
        // CONTRIBUTING.md says how a spot looks.
        let text = fs::read_to_string(&page)
            .expect("a page")
            .replace("<!--=NAME--><!--/-->", "");
        let filled = fill(&text, figures, machines);
        if std::env::var_os("BLOCKMILL_WRITE_FIGURES").is_some() && filled.text != text {
            fs::write(&page, &filled.text).expect("a page can be written");
            found.extend(filled.names);
            continue;
        }
        faults.extend(filled.faults.iter().map(|fault| format!("{}: {fault}", page.display())));
        found.extend(filled.names);
    }
    assert_eq!(faults, Vec::<String>::new());
    for (name, figure) in figures {
        assert!(found.contains(name), "{name} stands on no page");
        for key in ["value", "machine", "command", "commit"] {
            assert!(figure[key].is_string(), "{name} has no {key}");
        }
    }
}

#[test]
fn a_page_that_differs_is_found_and_mended() {
    let all = serde_json::json!({
        "figures": {"speed": {"value": "7", "machine": "m"}},
        "machines": {"m": {"processor": "Some CPU"}},
    });
    let (figures, machines) = (
        all["figures"].as_object().unwrap(),
        all["machines"].as_object().unwrap(),
    );
    let fill = |page: &str| fill(page, figures, machines);
    let right = "Some CPU: <!--=speed-->7<!--/--> s";
    assert!(fill(right).faults.is_empty() && fill(right).names == ["speed"]);
    let wrong = fill("Some CPU: <!--=speed-->6<!--/--> s");
    assert_eq!((wrong.faults.len(), wrong.text.as_str()), (1, right));
    assert_eq!(
        fill("<!--=speed-->7<!--/-->").faults,
        ["the page does not say the processor of speed"]
    );
    assert_eq!(
        fill("Some CPU <!--=more-->7<!--/-->").faults[0],
        "there is no figure more"
    );
    assert_eq!(fill("<!--=speed-->7").faults, ["a spot has no end"]);
}
