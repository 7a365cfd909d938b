//! A test over the sources of all crates: no module is in a circle with another, and no folder of
//! modules. So the modules of a crate have an order in which each uses only those below it.
//!
//! What a module uses of those within it does not count, nor what tests use.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The folders of the tiers.
const TIERS: [&str; 4] = ["lib", "crates", "bindings", "tools"];

/// Source files by the paths of their modules. The root is the empty path.
type Sources = BTreeMap<String, String>;

/// For each module the modules that it uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The crates, as `tier/folder`.
fn crates() -> Vec<String> {
    let mut found = Vec::new();
    for tier in TIERS {
        for entry in std::fs::read_dir(project().join(tier)).unwrap() {
            let entry = entry.unwrap();
            if entry.path().join("Cargo.toml").is_file() {
                found.push(format!("{tier}/{}", entry.file_name().into_string().unwrap()));
            }
        }
    }
    found
}

/// The sources of a crate. Tests are left out.
fn sources(name: &str) -> Sources {
    let root = project().join(name).join("src");
    let mut found = Sources::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(&root).unwrap().with_extension("");
            let mut names: Vec<&str> = name.iter().map(|part| part.to_str().unwrap()).collect();
            if path.extension().is_none_or(|extension| extension != "rs") || names.contains(&"tests") {
                continue;
            }
            match names[..] {
                ["lib" | "main"] => names.clear(),
                [.., "mod"] => drop(names.pop()),
                _ => {}
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
            *found.entry(names.join("::")).or_default() += code;
        }
    }
    found
}

/// The paths that a `use` tree names.
fn paths(prefix: &str, tree: &str, found: &mut Vec<String>) {
    let tree = tree.trim();
    match tree.split_once('{') {
        Some((head, rest)) => {
            let inner = rest.rsplit_once('}').map_or(rest, |(inner, _)| inner);
            let (mut depth, mut start) = (0, 0);
            for (at, character) in inner.char_indices().chain([(inner.len(), ',')]) {
                match character {
                    '{' => depth += 1,
                    '}' => depth -= 1,
                    ',' if depth == 0 => {
                        paths(&format!("{prefix}{head}"), &inner[start..at], found);
                        start = at + 1;
                    }
                    _ => {}
                }
            }
        }
        None if tree.is_empty() => {}
        None => {
            let path = tree.split(" as ").next().unwrap_or(tree);
            found.push(format!("{prefix}{path}").replace("::self", ""));
        }
    }
}

/// A path as it is from the root, if it begins with `crate`, `self` or `super`.
fn from_root(module: &str, path: &str) -> Option<String> {
    let mut base: Vec<&str> = module.split("::").filter(|name| !name.is_empty()).collect();
    let mut names = path.split("::").peekable();
    let mut is_own = false;
    while let Some(&name) = names.peek() {
        match name {
            "crate" => base.clear(),
            "self" => {}
            "super" => drop(base.pop()),
            _ => break,
        }
        is_own = true;
        names.next();
    }
    is_own.then(|| base.into_iter().chain(names).collect::<Vec<_>>().join("::"))
}

/// The `use` declarations of a module, and the paths in its code, as they are written.
fn written_paths(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    let lines: Vec<&str> = code
        .lines()
        .map(|line| line.split("// ").next().unwrap_or(line))
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect();
    for statement in format!("\n{}", lines.join("\n")).split(';') {
        let (before, tree) = statement.rsplit_once("use ").unwrap_or((statement, ""));
        let (before, tree) = match before.rsplit('\n').next().map(str::trim) {
            Some("" | "pub" | "pub(crate)" | "pub(super)") => (before, tree),
            _ => (statement, ""),
        };
        paths("", tree, &mut found);
        for start in ["crate::", "super::"] {
            let is_path = |character: char| character.is_alphanumeric() || "_:".contains(character);
            let all = before
                .match_indices(start)
                .filter(|(at, _)| !before[..*at].ends_with(is_path));
            found.extend(all.map(|(at, _)| {
                before[at..]
                    .chars()
                    .take_while(|&character| is_path(character))
                    .collect()
            }));
        }
    }
    found
}

/// The module that a path from the root leads to, through names that modules take from others.
fn module_of(path: &str, sources: &Sources, taken: &BTreeMap<String, String>, steps: usize) -> Option<String> {
    let mut rest = path;
    loop {
        if let Some(target) = taken.get(rest).filter(|_| steps > 0) {
            let whole = format!("{target}{}", &path[rest.len()..]);
            return module_of(&whole, sources, taken, steps - 1);
        }
        if sources.contains_key(rest) {
            return Some(rest.to_owned()).filter(|module| !module.is_empty());
        }
        rest = rest.rsplit_once("::")?.0;
    }
}

/// For each name that a module takes from one within it, where it lies.
fn taken_from_within(sources: &Sources) -> BTreeMap<String, String> {
    let mut taken = BTreeMap::new();
    for (module, code) in sources {
        let inner = |name: &str| match module.as_str() {
            "" => name.to_owned(),
            module => format!("{module}::{name}"),
        };
        for path in written_paths(code) {
            let path = from_root(module, &path).unwrap_or_else(|| inner(&path));
            let Some((holder, name)) = path.rsplit_once("::") else {
                continue;
            };
            let first = holder
                .strip_prefix(module.as_str())
                .map(|rest| rest.trim_start_matches(':'));
            let is_within = first.is_some_and(|first| !first.is_empty()) && sources.contains_key(holder);
            if is_within && !sources.contains_key(&path) {
                taken.insert(inner(name), path);
            }
        }
    }
    taken
}

fn uses(sources: &Sources) -> Uses {
    let taken = taken_from_within(sources);
    let mut uses = Uses::new();
    for (module, code) in sources.iter().filter(|(module, _)| !module.is_empty()) {
        let used = written_paths(code).into_iter();
        let used = used.filter_map(|path| module_of(&from_root(module, &path)?, sources, &taken, 4));
        let within = format!("{module}::");
        let used = used.filter(|used| used != module && !used.starts_with(&within));
        uses.insert(module.clone(), used.collect());
    }
    uses
}

/// The same for the first names of the paths: a folder is one with its file.
fn of_folders(uses: &Uses) -> Uses {
    let folder = |module: &str| module.split("::").next().unwrap_or_default().to_owned();
    let mut folders = Uses::new();
    for (module, used) in uses {
        let all = folders.entry(folder(module)).or_default();
        all.extend(
            used.iter()
                .map(|used| folder(used))
                .filter(|used| *used != folder(module)),
        );
    }
    folders
}

/// The modules that one can get to from a module.
fn reached(uses: &Uses, from: &str) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        for used in &uses[module] {
            if reached.insert(used.clone()) {
                open.push(used);
            }
        }
    }
    reached
}

/// The arrows of circles, of modules and of folders of modules.
fn circles(uses: &Uses) -> BTreeSet<String> {
    let mut arrows = BTreeSet::new();
    for uses in [uses, &of_folders(uses)] {
        for (module, used) in uses {
            let back = used.iter().filter(|used| reached(uses, used).contains(module));
            arrows.extend(back.map(|used| format!("{module} -> {used}")));
        }
    }
    arrows
}

#[test]
fn no_crate_has_a_circle() {
    let (mut arrows, mut circular) = (0, BTreeMap::new());
    for name in crates() {
        let uses = uses(&sources(&name));
        arrows += uses.values().map(BTreeSet::len).sum::<usize>();
        let circles = circles(&uses);
        if !circles.is_empty() {
            circular.insert(name, circles);
        }
    }
    assert!(circular.is_empty(), "{circular:#?}");
    assert!(crates().len() > 20 && arrows > 500, "{arrows}");
}

#[test]
fn a_planted_circle_is_found() {
    let mut sources = sources("crates/engine");
    assert!(circles(&uses(&sources)).is_empty());
    *sources.get_mut("report::stages").unwrap() += "\nuse crate::engine::Submission;\n";
    let circles = circles(&uses(&sources));
    for arrow in ["report::stages -> engine::submit", "report -> engine"] {
        assert!(circles.contains(arrow), "{circles:?}");
    }
}

#[test]
fn the_main_loop_has_at_most_300_lines() {
    let main_loop = project().join("crates/engine/src/pipeline/connect.rs");
    assert!(std::fs::read_to_string(main_loop).unwrap().lines().count() <= 300);
}

#[test]
fn all_ways_to_name_a_module_are_seen() {
    let code = "use crate::a::{b, c::{D, e::F}};\n// use crate::z;\nfn x() { crate::g::h(); super::k::l() }\n\
                pub(crate) use super::i::J as K;\n    use super::super::o::P;\nlet caused = self::q::r;";
    let found: BTreeSet<_> = written_paths(code)
        .iter()
        .filter_map(|path| from_root("m::n", path))
        .collect();
    let expected = ["a::b", "a::c::D", "a::c::e::F", "g::h", "m::i::J", "m::k::l", "o::P"];
    assert_eq!(found, expected.map(str::to_owned).into());
    let sources = Sources::from([
        (String::new(), "pub use a::b::X;\npub mod a;".to_owned()),
        ("a".to_owned(), "pub use self::b::Y;".to_owned()),
        ("a::b".to_owned(), String::new()),
        ("c".to_owned(), "use crate::X;".to_owned()),
        ("d".to_owned(), "fn d(_: crate::a::Y, _: crate::Z) {}".to_owned()),
        ("e".to_owned(), "use crate::a::{self, Z};".to_owned()),
    ]);
    let uses = uses(&sources);
    for (module, used) in [("a", ""), ("c", "a::b"), ("d", "a::b"), ("e", "a")] {
        let used: BTreeSet<String> = Some(used.to_owned())
            .filter(|used| !used.is_empty())
            .into_iter()
            .collect();
        assert_eq!(uses[module], used, "{module}");
    }
}
