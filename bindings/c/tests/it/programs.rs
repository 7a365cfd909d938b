//! Programs in C over the library, with sanitizers, and under valgrind.

use crate::cases::cases;
use crate::header::of_header;
use blockmill_realdata::shared_data;
use std::fmt::Write;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// How a program is linked and watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Build {
    /// The shared library, with sanitizers.
    Shared,
    /// The static library, with sanitizers.
    Static,
    /// The shared library, without sanitizers: for valgrind.
    Plain,
}

/// Where the tests, and so the libraries, are built.
fn built() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    program.parent().unwrap().to_owned()
}

fn own(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn has(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: {tool} is missing");
    }
    found
}

/// Compiles a program with warnings as errors.
fn compile(source: &Path, folder: &TempDir, build: Build) -> PathBuf {
    let stem = source.file_stem().unwrap().to_str().unwrap();
    let program = folder.path().join(format!("{stem}-{build:?}"));
    let is_cpp = source.extension().is_some_and(|extension| extension == "cpp");
    let mut compiler = Command::new(if is_cpp { "c++" } else { "cc" });
    compiler.arg(if is_cpp { "-std=c++17" } else { "-std=c99" });
    compiler.args(["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pedantic"]);
    if build != Build::Plain {
        compiler.args(["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]);
    }
    compiler
        .arg("-I")
        .arg(own("include"))
        .arg(source)
        .arg("-o")
        .arg(&program);
    if build == Build::Static {
        compiler.arg(built().join("libblockmill.a"));
        compiler.args(["-lstdc++", "-lgcc_s", "-lpthread", "-ldl", "-lm"]);
    } else {
        // The shared library goes under the name that programs look for.
        let name = folder.path().join("libblockmill.so.0");
        if !name.exists() {
            std::fs::copy(built().join("libblockmill.so"), &name).unwrap();
        }
        // Not if the program itself calls nothing of it.
        compiler.arg("-Wl,--as-needed").arg(&name);
        compiler.arg("-Wl,-rpath").arg(folder.path()).arg("-ldl");
    }
    let output = compiler.output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {words}", source.display());
    program
}

/// Runs a program, which must end with this status.
fn run(command: &mut Command, status: i32) -> Output {
    let output = command.output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{command:?}: {words}");
    output
}

fn valgrind() -> Command {
    let mut command = Command::new("valgrind");
    command.args([
        "-q",
        "--error-exitcode=99",
        "--leak-check=full",
        "--errors-for-leak-kinds=definite",
    ]);
    command
}

#[test]
fn the_header_is_c_and_cpp_and_the_libraries_have_all_of_it() {
    if !has("cc") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("all.c");
    let mut text = "#include <blockmill.h>\nint main(void) {\n    int count = 0;\n".to_owned();
    let functions = of_header();
    for name in functions.keys() {
        writeln!(text, "    count += {name} != 0;").unwrap();
    }
    writeln!(text, "    return count == {} ? 0 : 1;\n}}", functions.len()).unwrap();
    std::fs::write(&source, &text).unwrap();
    for (language, standard) in [("c", "-std=c99"), ("c++", "-std=c++11")] {
        let mut compiler = Command::new("cc");
        compiler.args([
            "-x",
            language,
            standard,
            "-fsyntax-only",
            "-Wall",
            "-Wno-address",
            "-Werror",
            "-pedantic",
        ]);
        run(compiler.arg("-I").arg(own("include")).arg(&source), 0);
    }
    // A linker finds every function in both.
    let quiet = text.replace("#include", "#pragma GCC diagnostic ignored \"-Waddress\"\n#include");
    std::fs::write(&source, quiet).unwrap();
    for build in [Build::Shared, Build::Static] {
        run(&mut Command::new(compile(&source, &folder, build)), 0);
    }
}

/// Runs a program with both libraries, and under valgrind.
fn check_program(name: &str) {
    if !has("cc") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let source = own("tests/programs").join(name);
    for build in [Build::Shared, Build::Static] {
        run(&mut Command::new(compile(&source, &folder, build)), 0);
    }
    if has("valgrind") {
        run(valgrind().arg(compile(&source, &folder, Build::Plain)), 0);
    }
}

#[test]
fn misuse_is_an_error() {
    check_program("misuse.c");
}

#[test]
fn coins_of_the_block_and_above_it_are_missing() {
    check_program("coins.c");
}

/// Handlers, locale, names that other libraries look for: all as before.
#[test]
fn loading_the_library_changes_nothing_in_its_host() {
    if !has("c++") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compile(&own("tests/programs/host.cpp"), &folder, Build::Plain);
    run(Command::new(program).arg(folder.path().join("libblockmill.so.0")), 0);
}

#[test]
fn an_allocation_that_fails_is_an_error_and_no_verdict() {
    if has("c++") {
        let folder = tempfile::tempdir().unwrap();
        let program = compile(&own("tests/programs/allocations.cpp"), &folder, Build::Plain);
        run(&mut Command::new(program), 0);
    }
}

/// A name that the library exports takes the place of its host's.
#[test]
fn no_names_are_exported_but_those_of_the_header() {
    if !has("nm") {
        return;
    }
    let mut nm = Command::new("nm");
    nm.args(["-D", "--defined-only", "--format=just-symbols"]);
    let output = run(nm.arg(built().join("libblockmill.so")), 0);
    let names = String::from_utf8_lossy(&output.stdout);
    let mut names: Vec<&str> = names.lines().collect();
    names.sort_unstable();
    assert_eq!(names, of_header().into_keys().collect::<Vec<_>>());
}

/// The full-block tests, and mutated copies: the verdicts of Rust, which are Core's.
#[test]
fn verdicts_are_those_of_rust() {
    let Some((text, count)) = cases().filter(|_| has("cc")) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cases");
    std::fs::write(&path, text).unwrap();
    let program = compile(&own("tests/programs/cases.c"), &folder, Build::Shared);
    // libsecp256k1 one by one, and lanes with two threads.
    for arguments in [["0", "1"], ["1", "2"]] {
        let input = Stdio::from(File::open(&path).unwrap());
        let output = run(Command::new(&program).args(arguments).stdin(input), 0);
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            format!("{count} cases, 0 wrong\n")
        );
    }
}

/// Real blocks, by the example that is in the documentation.
#[test]
fn real_blocks_are_valid() {
    let Some(blocks) = shared_data("blocks") else { return };
    if !has("cc") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let source = own("examples/validate_block.c");
    let program = compile(&source, &folder, Build::Static);
    let arguments = |name: &str| {
        let (network, height) = name.split_once('_').unwrap();
        let file = |extension: &str| blocks.join(name).with_extension(extension).display().to_string();
        [network.to_owned(), height.to_owned(), file("raw"), file("undo")]
    };
    for (name, words) in [
        ("mainnet_170", "valid: 1 inputs, 0 satoshi of fees\n"),
        ("mainnet_757739", "valid: "),
        ("mainnet_866342", "valid: 7972 inputs, "),
    ] {
        let output = run(Command::new(&program).args(arguments(name)), 0);
        let found = String::from_utf8_lossy(&output.stdout);
        assert!(found.starts_with(words), "{name}: {found}");
    }
    // Coins of another block.
    let mut other = arguments("mainnet_170");
    other[3] = arguments("mainnet_116928")[3].clone();
    let output = run(Command::new(&program).args(&other), 1);
    let missing = "invalid: bad-txns-inputs-missingorspent, transaction -1, input -1\n";
    assert_eq!(String::from_utf8_lossy(&output.stdout), missing);
    other[0] = "nonet".to_owned();
    let output = run(Command::new(&program).args(&other), 3);
    assert!(String::from_utf8_lossy(&output.stderr).contains("the last error was: unknown network 'nonet'"));
    if has("valgrind") {
        let program = compile(&source, &folder, Build::Plain);
        run(valgrind().arg(program).args(arguments("mainnet_116928")), 0);
    }
}
