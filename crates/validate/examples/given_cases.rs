//! Writes blocks, each with its coins and its verdict, for the tests of bindings. Without the known
//! full-block tests beside the project it writes nothing.

#[path = "../tests/it/cases.rs"]
mod cases;
#[path = "../tests/it/conformance_rows.rs"]
mod conformance_rows;
#[path = "../tests/it/given_chain.rs"]
mod given_chain;

use std::io::Write;

fn main() -> std::io::Result<()> {
    match cases::cases() {
        Some((text, _)) => std::io::stdout().lock().write_all(text.as_bytes()),
        None => Ok(()),
    }
}
