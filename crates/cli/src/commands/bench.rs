//! `blockmill bench`.

use crate::arguments::BenchArguments;
use crate::failure::Failure;
use crate::log;
use blockmill_bench::{BenchOptions, NAMES, WITHOUT};
use serde_json::json;

/// The command line as text.
fn command_line() -> String {
    let words: Vec<_> = std::env::args_os().collect();
    words.join(" ".as_ref()).to_string_lossy().into_owned()
}

pub(crate) fn run(arguments: &BenchArguments) -> Result<u8, Failure> {
    if !NAMES.contains(&arguments.name.as_str()) {
        return Err(Failure::Usage(format!(
            "there is no benchmark '{}' (there are: {})",
            arguments.name,
            NAMES.join(", ")
        )));
    }
    let options = BenchOptions {
        quick: arguments.quick,
        json: arguments.json.clone(),
        html: arguments.html.clone(),
        command: command_line(),
        executable: std::env::current_exe().ok(),
        without: WITHOUT
            .into_iter()
            .filter(|part| arguments.without.iter().any(|name| name == part))
            .collect(),
        bitcoind: arguments.bitcoind.clone(),
        part: arguments.part.clone(),
    };
    let mut out = std::io::stdout().lock();
    blockmill_bench::run(&arguments.name, &options, &mut out, &mut |line| {
        log::info("bench", line, json!({}))
    })?;
    Ok(0)
}
