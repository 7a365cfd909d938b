//! Documents name tests that exist: as `path::function`, with paths from the project's folder.

use std::path::{Path, PathBuf};

/// What is checked, from the project's folder.
const DOCUMENTS: [&str; 3] = ["docs/trust.md", "docs/signatures.md", "CONTRIBUTING.md"];

/// Functions that the documents name at least: fewer mean that they are not found in the text.
const FUNCTIONS_MIN: usize = 30;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A file of code, and a function in it if one is named.
#[derive(Debug, PartialEq, Eq)]
struct Reference<'a> {
    path: &'a str,
    function: Option<&'a str>,
}

/// What stands between backticks, outside of blocks of code.
fn code_spans(text: &str) -> Vec<&str> {
    let mut spans = Vec::new();
    for (index, prose) in text.split("```").enumerate() {
        if index % 2 == 0 {
            spans.extend(prose.split('`').skip(1).step_by(2));
        }
    }
    spans
}

/// The files of code that a document names.
fn references(text: &str) -> Vec<Reference<'_>> {
    let mut references = Vec::new();
    for span in code_spans(text) {
        let (path, function) = match span.split_once("::") {
            Some((path, function)) => (path, Some(function)),
            None => (span, None),
        };
        let is_rust = path.ends_with(".rs");
        let is_cpp = path.contains('/') && (path.ends_with(".cpp") || path.ends_with(".h"));
        if is_rust || is_cpp {
            references.push(Reference { path, function });
        }
    }
    references
}

/// Whether source code has a function of this name.
fn has_function(source: &str, name: &str) -> bool {
    let head = format!("fn {name}");
    source
        .match_indices(&head)
        .any(|(start, _)| source[start + head.len()..].starts_with(['(', '<']))
}

/// What a document names that is not there.
fn missing(root: &Path, text: &str) -> Vec<String> {
    let mut missing = Vec::new();
    for reference in references(text) {
        match std::fs::read_to_string(root.join(reference.path)) {
            Err(error) => missing.push(format!("{}: {error}", reference.path)),
            Ok(source) => {
                if let Some(function) = reference.function
                    && !has_function(&source, function)
                {
                    missing.push(format!("{} has no function {function}", reference.path));
                }
            }
        }
    }
    missing
}

#[test]
fn what_documents_name_is_there() {
    let root = root();
    for document in DOCUMENTS {
        let text = std::fs::read_to_string(root.join(document)).expect(document);
        assert_eq!(missing(&root, &text), Vec::<String>::new(), "{document}");
    }
}

#[test]
fn promises_name_their_tests() {
    let root = root();
    for document in ["docs/trust.md", "docs/signatures.md"] {
        let text = std::fs::read_to_string(root.join(document)).expect(document);
        let functions = references(&text).iter().filter(|one| one.function.is_some()).count();
        assert!(functions >= FUNCTIONS_MIN, "{document}: {functions}");
    }
}

/// Every promise has something that stands for it.
#[test]
fn no_promise_is_without_a_test() {
    let text = std::fs::read_to_string(root().join("docs/trust.md")).expect("docs/trust.md");
    let promises: Vec<&str> = text.split("\n### ").skip(1).collect();
    assert!(promises.len() >= 18, "{}", promises.len());
    for promise in promises {
        let promise = promise.split("\n## ").next().unwrap_or_default();
        assert!(
            references(promise).iter().any(|one| one.function.is_some()),
            "without a test: {promise}"
        );
    }
}

#[test]
fn what_is_made_up_is_found() {
    let root = root();
    let faults = |text: &str| missing(&root, text).len();
    let this = "crates/cli/tests/it/documents.rs";
    assert_eq!(faults(&format!("`{this}` and `{this}::what_is_made_up_is_found`")), 0);
    assert_eq!(faults(&format!("`{this}::what_is_made`")), 1);
    assert_eq!(faults(&format!("`{this}::`")), 1);
    assert_eq!(faults("`crates/cli/tests/it/no_such_file.rs`"), 1);
    assert_eq!(faults("`documents.rs`"), 1);
    assert_eq!(faults("`crates/script/core/no_such_header.h`"), 1);
    // Neither code of the library, nor names of commands, nor blocks of code.
    assert_eq!(
        faults("`Options::signatures`, `make test`\n```sh\nno/such.rs `x.rs`\n```\n"),
        0
    );
}
