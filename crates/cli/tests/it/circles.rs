//! A test over the sources: each room uses only rooms before it in `ROOMS`, and no module is in a
//! circle with another.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Each room uses only those before it.
const ROOMS: [&str; 6] = ["report", "chain", "datadir", "pipeline", "engine", "inspect"];

/// For each module the modules that it uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// The source files, by the paths of their modules. Tests are left out.
fn sources() -> BTreeMap<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = BTreeMap::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(&root).unwrap().with_extension("");
            let names: Vec<&str> = name.iter().map(|part| part.to_str().unwrap()).collect();
            if names.contains(&"tests") || names == ["lib"] || names == ["rooms"] {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
            found.insert(names.join("::"), code.to_owned());
        }
    }
    found
}

/// The deepest module that a path within the crate names; the root is none.
fn module_of<'a>(path: &str, modules: &'a BTreeMap<String, String>) -> Option<&'a str> {
    let mut path = path;
    loop {
        if let Some((name, _)) = modules.get_key_value(path) {
            return Some(name);
        }
        path = path.rsplit_once("::")?.0;
    }
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
        None => found.push(format!("{prefix}{tree}").replace("::self", "")),
    }
}

/// What a module uses of the crate: its `use` declarations, and paths in its code.
fn used_paths(module: &str, code: &str) -> Vec<String> {
    let mut found = Vec::new();
    let parent = module.rsplit_once("::").map_or("", |(parent, _)| parent);
    let lines: Vec<&str> = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect();
    for statement in lines.join("\n").split(';') {
        let (before, tree) = statement.rsplit_once("\nuse ").unwrap_or((statement, ""));
        let (before, tree) = match statement.strip_prefix("use ") {
            Some(tree) => ("", tree),
            None => (before, tree),
        };
        if let Some(tree) = tree.strip_prefix("crate::") {
            paths("", tree, &mut found);
        } else if let Some(tree) = tree.strip_prefix("super::") {
            paths(&format!("{parent}::"), tree, &mut found);
        }
        let rest = before.split("crate::").skip(1);
        let is_path = |character: char| character.is_alphanumeric() || "_:".contains(character);
        found.extend(rest.map(|rest| rest.chars().take_while(|&character| is_path(character)).collect()));
    }
    found
}

fn uses() -> Uses {
    let sources = sources();
    let mut uses = Uses::new();
    for (module, code) in &sources {
        let used = used_paths(module, code).into_iter();
        let used = used.filter_map(|path| module_of(&path, &sources));
        uses.insert(
            module.clone(),
            used.filter(|used| used != module).map(str::to_owned).collect(),
        );
    }
    uses
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

/// The modules that reach themselves.
fn modules_in_circles(uses: &Uses) -> Vec<&String> {
    uses.keys()
        .filter(|module| reached(uses, module).contains(*module))
        .collect()
}

#[test]
fn no_module_is_in_a_circle() {
    let uses = uses();
    assert!(
        uses.len() > 40 && uses.values().map(BTreeSet::len).sum::<usize>() > 150,
        "{uses:#?}"
    );
    assert_eq!(modules_in_circles(&uses), [""; 0]);
}

#[test]
fn rooms_use_only_rooms_below_them() {
    let room = |module: &str| {
        let name = module.split("::").next().unwrap();
        ROOMS
            .iter()
            .position(|room| *room == name)
            .unwrap_or_else(|| panic!("{module} is in no room"))
    };
    for (module, used) in uses() {
        for other in used {
            assert!(room(&other) <= room(&module), "{module} uses {other}");
        }
    }
}

#[test]
fn a_planted_circle_is_found() {
    let mut uses = uses();
    uses.get_mut("report::stages")
        .unwrap()
        .insert("engine::submit".to_owned());
    let circle = modules_in_circles(&uses);
    assert!(circle.iter().any(|module| *module == "engine::submit"), "{circle:?}");
}

#[test]
fn the_main_loop_has_at_most_300_lines() {
    let main_loop =
        &std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/pipeline/connect.rs")).unwrap();
    assert!(main_loop.lines().count() <= 300);
}

#[test]
fn all_ways_to_name_a_module_are_seen() {
    let code = "use crate::a::{b, c::{D, e::F}};\n// use crate::z;\nfn x() { crate::g::h(); }\nuse super::i::J;";
    let expected = ["a::b", "a::c::D", "a::c::e::F", "g::h", "m::i::J"];
    let mut found = used_paths("m::n", code);
    found.sort_unstable();
    assert_eq!(found, expected);
}
