//! Examples of each command, for its help and for the manual page. They stand in `examples.txt`.

use clap::Command;

/// For each command its name, and its examples as the help shows them.
const EXAMPLES: &str = include_str!("examples.txt");

/// The examples of a command; empty where it has none.
fn of(command: &str) -> &'static str {
    // An empty line ends a section; the name of its command and a colon begin it.
    let mut sections = EXAMPLES.split("\n\n").filter_map(|section| section.split_once(":\n"));
    let found = sections.find(|(name, _)| *name == command);
    found.map_or("", |(_, examples)| examples.trim_end())
}

/// The same, what an example does and its line apart.
pub(crate) fn apart(command: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let examples = of(command).split("  # ");
    examples.filter_map(|example| example.trim_end().split_once("\n  "))
}

/// A command line whose commands have their examples at the end of their help.
pub(crate) fn with_examples(command: Command) -> Command {
    with_examples_below(command, "")
}

fn with_examples_below(command: Command, above: &str) -> Command {
    let names: Vec<String> = command
        .get_subcommands()
        .map(|below| below.get_name().to_owned())
        .collect();
    let command = match of(above) {
        "" => command,
        examples => command.after_help(format!("Examples:\n{examples}")),
    };
    names.into_iter().fold(command, |command, name| {
        let full = [above, &name].join(" ").trim().to_owned();
        command.mut_subcommand(name, |below| with_examples_below(below, &full))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Arguments;
    use clap::{CommandFactory, Parser};

    /// The names of all commands that can be called.
    fn callable(command: &Command, above: &str, names: &mut Vec<String>) {
        for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
            let name = [above, below.get_name()].join(" ").trim().to_owned();
            callable(below, &name, names);
            if !below.is_subcommand_required_set() {
                names.push(name);
            }
        }
    }

    #[test]
    fn every_command_has_examples_which_parse() {
        let mut names = Vec::new();
        callable(&Arguments::command(), "", &mut names);
        assert!(names.len() >= 15, "{names:?}");
        let mut count = 0;
        for name in &names {
            assert!(apart(name).next().is_some(), "{name}");
            for (_, line) in apart(name) {
                assert!(line.starts_with(&format!("blockmill {name}")), "{line}");
                let words = line.split(['|', '<', '>']).next().unwrap_or_default();
                let words = words.split_whitespace().map(|word| word.trim_matches('\''));
                let parsed = Arguments::try_parse_from(words);
                assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
                count += 1;
            }
        }
        // A build without some features has not all commands.
        let all = EXAMPLES.matches("\n  blockmill ").count();
        assert!(count == all || cfg!(not(all(feature = "descriptors", feature = "generate"))));
    }
}
