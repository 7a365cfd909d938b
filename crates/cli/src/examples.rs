//! Examples of each command, for its help and for the manual page. They stand here once.

use clap::Command;

/// A line to type, and what it does.
type Example = (&'static str, &'static str);

/// The commands by their names, with examples.
const EXAMPLES: &[(&str, &[Example])] = &[
    #[cfg(feature = "generate")]
    (
        "demo",
        &[(
            "blockmill demo --keep demo",
            "Keep the chain and the data directory in demo",
        )],
    ),
    (
        "connect",
        &[
            (
                "blockmill connect --blocks ~/.bitcoin/blocks --data data --network bitcoin",
                "Validate the main network from Bitcoin Core's files; the same again resumes",
            ),
            (
                "blockmill connect --blocks ~/.bitcoin/blocks --data data --dbcache 4GiB --metrics 9332 --verbose",
                "With more memory, figures for Prometheus, and a table at the end",
            ),
        ],
    ),
    (
        "submit",
        &[(
            "blockmill submit --data data --utxo <blocks.hex",
            "Verdicts on blocks in hex, one a line, with the set's hash after each",
        )],
    ),
    (
        "verify",
        &[
            (
                "blockmill verify --blocks ~/.bitcoin/blocks --network bitcoin",
                "Verify all blocks against the undo files beside them, without a data directory",
            ),
            (
                "blockmill verify --block block.hex --undo undo.hex --height 800000 --network bitcoin",
                "Verify a single block",
            ),
        ],
    ),
    (
        "audit",
        &[(
            "blockmill audit --blocks ~/.bitcoin/blocks --network bitcoin --snapshot utxo.dat --resume work",
            "Prove a file of dumptxoutset, and go on after a stop",
        )],
    ),
    (
        "audit key",
        &[("blockmill audit key run.key", "A key for a run on several machines")],
    ),
    (
        "audit part",
        &[(
            "blockmill audit part --blocks blocks --network bitcoin --key run.key --from 0 --to 400000 --out 1.part",
            "The blocks up to height 400,000",
        )],
    ),
    (
        "audit merge",
        &[(
            "blockmill audit merge 1.part 2.part --key run.key --snapshot utxo.dat",
            "Join the parts of a run, and compare with the set",
        )],
    ),
    (
        "stats",
        &[(
            "blockmill stats --data data --hash muhash --json",
            "The figures of gettxoutsetinfo, with MuHash alone",
        )],
    ),
    (
        "status",
        &[("blockmill status --data data", "How far connect is, while it runs")],
    ),
    (
        "coin",
        &[(
            "blockmill coin --data data 0e3e2357e806b6cdb1f70b54c3a3a17b6714ee1f0e68bebb44a74b1efd512098:0",
            "The first coin of block 1, which nobody has spent",
        )],
    ),
    #[cfg(feature = "descriptors")]
    (
        "balance",
        &[
            (
                "blockmill balance --data data 1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa",
                "The coins of an address",
            ),
            (
                "blockmill balance --data data --at 500000 --range 0-99 'wpkh(xpub.../0/*)'",
                "The first hundred keys of a wallet, as they were at height 500,000",
            ),
        ],
    ),
    (
        "export coins",
        &[
            #[cfg(feature = "tables")]
            (
                "blockmill export coins --data data --out coins.parquet",
                "The set as a Parquet file",
            ),
            (
                "blockmill export coins --data data --format csv --out - | head",
                "The first lines of it",
            ),
        ],
    ),
    (
        "export blocks",
        &[(
            "blockmill export blocks --blocks blocks --network bitcoin --from 0 --to 100000 --out blocks.jsonl",
            "Transactions with the coins that they spend, a line of JSON each",
        )],
    ),
    (
        "snapshot dump",
        &[(
            "blockmill snapshot dump --data data utxo.dat",
            "A file that Core's loadtxoutset reads",
        )],
    ),
    (
        "snapshot load",
        &[(
            "blockmill snapshot load --data data --blocks blocks --network bitcoin utxo.dat",
            "Begin with the set of a file of dumptxoutset, and connect above it",
        )],
    ),
    (
        "doctor",
        &[(
            "blockmill doctor --data data",
            "What is sound, what is damaged, what to do",
        )],
    ),
    #[cfg(feature = "generate")]
    (
        "generate",
        &[(
            "blockmill generate --out chain --blocks 500 --profile mixed --seed 7",
            "A chain of 500 blocks, the same on every machine",
        )],
    ),
    (
        "completions",
        &[(
            "blockmill completions bash >~/.local/share/bash-completion/completions/blockmill",
            "Completions for bash, for you alone",
        )],
    ),
    ("man", &[("blockmill man | man -l -", "Read the manual page")]),
];

/// The examples of a command; none where it has none.
pub(crate) fn of(command: &str) -> &'static [Example] {
    let found = EXAMPLES.iter().find(|(name, _)| *name == command);
    found.map_or(&[], |(_, examples)| examples)
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
    let lines: Vec<String> = of(above)
        .iter()
        .map(|(line, what)| format!("  # {what}\n  {line}"))
        .collect();
    let command = match &lines[..] {
        [] => command,
        lines => command.after_help(format!("Examples:\n{}", lines.join("\n"))),
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
        for name in &names {
            assert!(!of(name).is_empty(), "{name}");
        }
        for (name, examples) in EXAMPLES {
            assert!(names.contains(&(*name).to_owned()), "{name}");
            for (line, _) in *examples {
                assert!(line.starts_with(&format!("blockmill {name}")), "{line}");
                let words = line.split(['|', '<', '>']).next().unwrap_or_default();
                let words = words.split_whitespace().map(|word| word.trim_matches('\''));
                let parsed = Arguments::try_parse_from(words);
                assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
            }
        }
    }
}
