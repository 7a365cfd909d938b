//! The command `blockmill`: Bitcoin block files in, a validated UTXO set out.
//!
//! Results go to standard output, progress and messages to standard error. `shell.rs` lists the
//! exit statuses, `failure.rs` assigns them.

mod advice;
mod arguments;
#[cfg(feature = "tables")]
mod arrow_stream;
mod build_info;
mod commands;
mod doing;
mod examples;
mod export;
mod failure;
mod feed;
mod headers;
#[cfg(feature = "http")]
mod http;
mod listener;
mod log;
mod orphans;
mod output;
mod plain;
mod progress;
mod recent;
mod service;
mod signals;
mod terminal;
mod totals;
mod trace;
mod usage;
mod verifier;
#[cfg(feature = "http")]
mod warnings;
mod whole;

use arguments::{Arguments, Command};
use build_info::VERSION;
use clap::{CommandFactory, FromArgMatches};
use failure::Failure;
use serde_json::json;
use std::process::ExitCode;

/// glibc keeps what it has freed in arenas, one for each of many threads: a long run took up to
/// three times the memory promised (docs/adr/0009-allocator.md).
#[cfg(any(target_os = "linux", target_os = "macos"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The exit status of a command whose standard output nobody reads any more: that of SIGPIPE.
const READER_IS_GONE: u8 = 141;

fn main() -> ExitCode {
    signals::survive_file_size_limit();
    let mut command = examples::with_examples(Arguments::command()).version(VERSION.as_str());
    let parsed = command.try_get_matches_from_mut(std::env::args_os());
    if let Some(name) = parsed.as_ref().ok().and_then(|matches| matches.subcommand_name()) {
        blockmill_datadir::set_subcommand(name);
    }
    let arguments = match parsed.and_then(|matches| Arguments::from_arg_matches(&matches)) {
        Ok(arguments) => arguments,
        Err(error) => return usage::refuse(error.format(&mut command)),
    };
    orphans::reap_as_process_1();
    log::set_format(arguments.log);
    log::set_quiet(arguments.quiet);
    let outcome = match arguments.command {
        #[cfg(feature = "generate")]
        Command::Demo(arguments) => commands::demo::run(&arguments),
        Command::Connect(arguments) => commands::connect::run(&arguments),
        Command::Follow(arguments) => commands::follow::run(&arguments),
        Command::Feed(arguments) => commands::feed::run(&arguments),
        #[cfg(feature = "postgres")]
        Command::Mirror(arguments) => commands::mirror::run(&arguments),
        Command::Submit(arguments) => commands::submit::run(&arguments),
        Command::Verify(arguments) => commands::verify::run(&arguments),
        Command::Audit(arguments) => commands::audit::run(&arguments),
        Command::Stats(arguments) => commands::stats::run(&arguments),
        Command::Status(arguments) => commands::status::run(&arguments),
        Command::Coin(arguments) => commands::coin::run(&arguments),
        #[cfg(feature = "descriptors")]
        Command::Balance(arguments) => commands::balance::run(&arguments),
        Command::Export(command) => commands::export::run(&command),
        Command::Snapshot(arguments) => commands::snapshot::run(&arguments),
        Command::Doctor(arguments) => commands::doctor::run(&arguments),
        #[cfg(feature = "generate")]
        Command::Generate(arguments) => commands::generate::run(&arguments),
        Command::Completions(arguments) => commands::shell::completions(&arguments),
        Command::Man => commands::shell::man(),
    };
    signals::answer();
    match outcome {
        // Nobody reads the result, and it is nobody's fault.
        _ if output::is_reader_gone() => ExitCode::from(READER_IS_GONE),
        Ok(status) => ExitCode::from(status),
        Err(failure) => ended_by(&failure),
    }
}

/// Says what has ended a command early. Returns its exit status.
fn ended_by(failure: &Failure) -> ExitCode {
    let message = failure.message();
    match failure.is_stop() {
        true => log::info("stopped", &message, json!({})),
        false => log::error("failed", &message, json!({"status": failure.status()})),
    }
    ExitCode::from(failure.status())
}
