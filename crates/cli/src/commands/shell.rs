//! `blockmill completions` and `blockmill man`.

use crate::arguments::{Arguments, CompletionsArguments};
use crate::examples;
use crate::failure::Failure;
use crate::output;
use clap::{Arg, Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Write;

/// Writes the completions of a shell to standard output.
pub(crate) fn completions(arguments: &CompletionsArguments) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "blockmill", &mut script);
    print(&script)
}

/// Writes the manual page to standard output.
pub(crate) fn man() -> Result<u8, Failure> {
    print(&page(Arguments::command())?)
}

fn print(text: &[u8]) -> Result<u8, Failure> {
    let mut out = output::stdout();
    out.write_all(text)?;
    out.flush()?;
    Ok(0)
}

/// What the exit statuses mean.
const STATUSES: [(&str, &str); 7] = [
    ("0", "The command is done."),
    (
        "1",
        "A block of the best chain breaks a rule, or a result differs from the expected one.",
    ),
    ("2", "Wrong usage."),
    ("3", "Input or the data directory is unreadable, corrupt or incomplete."),
    ("4", "The store failed, or another process has the data directory."),
    ("141", "Nobody reads standard output any more."),
    (
        "128+N",
        "Signal N stopped the command before its result was there (connect and submit: 0).",
    ),
];

/// One page: the command, then each of its commands with all options.
fn page(command: Command) -> Result<Vec<u8>, Failure> {
    let mut page = Vec::new();
    // Global options stand in the first part alone.
    let mut command = command.disable_help_subcommand(true);
    let title = Man::new(command.clone());
    title.render_title(&mut page)?;
    title.render_name_section(&mut page)?;
    title.render_synopsis_section(&mut page)?;
    title.render_description_section(&mut page)?;
    title.render_options_section(&mut page)?;
    // It gives the commands their full names.
    command.build();
    write_commands(&command, &mut page)?;
    write_environment(&command, &mut page)?;
    write_examples(&command, "", &mut section("EXAMPLES")).to_writer(&mut page)?;
    let mut statuses = Roff::new();
    statuses.control("SH", ["EXIT STATUS"]);
    for (status, meaning) in STATUSES {
        statuses.control("TP", []).text([roman(status)]).text([roman(meaning)]);
    }
    statuses.to_writer(&mut page)?;
    Ok(page)
}

fn section(heading: &str) -> Roff {
    let mut section = Roff::new();
    section.control("SH", [heading]);
    section
}

/// The variables of the environment that stand for options, each with the first option's help.
fn variables<'c>(command: &'c Command, found: &mut BTreeMap<&'c OsStr, &'c Arg>) {
    for argument in command.get_arguments() {
        if let Some(name) = argument.get_env() {
            found.entry(name).or_insert(argument);
        }
    }
    for below in command.get_subcommands() {
        variables(below, found);
    }
}

fn write_environment(command: &Command, page: &mut Vec<u8>) -> Result<(), Failure> {
    let mut found = BTreeMap::new();
    variables(command, &mut found);
    let mut environment = section("ENVIRONMENT");
    for (name, argument) in found {
        let option = argument.get_long().unwrap_or_default();
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        let text = format!("Stands for --{option} where that is not given: {help}.");
        let name = name.to_string_lossy().into_owned();
        environment.control("TP", []).text([roman(name)]).text([roman(text)]);
    }
    environment.to_writer(page)?;
    Ok(())
}

/// Adds the examples of a command and of those below it.
fn write_examples<'r>(command: &Command, above: &str, section: &'r mut Roff) -> &'r mut Roff {
    for below in command.get_subcommands() {
        let name = [above, below.get_name()].join(" ").trim().to_owned();
        for (what, line) in examples::apart(&name) {
            section
                .control("TP", [])
                .text([roman(line)])
                .text([roman(format!("{what}."))]);
        }
        write_examples(below, &name, section);
    }
    section
}

/// Writes a section for each command that can be called, nested ones included.
fn write_commands(command: &Command, page: &mut Vec<u8>) -> Result<(), Failure> {
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        write_commands(below, page)?;
        // It does nothing by itself.
        if below.is_subcommand_required_set() {
            continue;
        }
        // The full name, such as `blockmill snapshot dump`.
        let name = below.get_bin_name().unwrap_or(below.get_name());
        let mut heading = Roff::new();
        heading.control("SH", [name.to_uppercase().as_str()]);
        heading.to_writer(page)?;
        let own = below.clone().mut_args(|argument| {
            let hide = argument.is_global_set() || argument.get_id() == "help";
            argument.hide(hide)
        });
        let man = Man::new(own);
        let mut sections = Vec::new();
        man.render_description_section(&mut sections)?;
        man.render_synopsis_section(&mut sections)?;
        man.render_options_section(&mut sections)?;
        // The command's own sections become subsections.
        let sections = String::from_utf8_lossy(&sections).replace("\n.SH ", "\n.SS ");
        let first = sections.strip_prefix(".SH ").map(|rest| format!(".SS {rest}"));
        page.extend(first.unwrap_or(sections).into_bytes());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_command_and_option_once() {
        let text = String::from_utf8(page(Arguments::command()).unwrap()).unwrap();
        for heading in [
            "BLOCKMILL CONNECT",
            "BLOCKMILL SNAPSHOT DUMP",
            "BLOCKMILL MAN",
            "BLOCKMILL AUDIT",
            "BLOCKMILL AUDIT KEY",
            "EXIT STATUS",
        ] {
            assert!(text.contains(&format!(".SH \"{heading}\"")), "{heading}:\n{text}");
        }
        for words in [
            ".SH ENVIRONMENT",
            "BLOCKMILL_DATA\n",
            ".SH EXAMPLES",
            "coin \\-\\-data data",
        ] {
            assert!(text.contains(words), "{words}:\n{text}");
        }
        assert_eq!(text.matches("stop\\-at\\-height").count(), 2, "{text}");
        // Once with its explanation, and once in the synopsis.
        assert_eq!(text.matches("\\-\\-log").count(), 2, "{text}");
    }
}
