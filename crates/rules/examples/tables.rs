//! Prints the tables of rules: name, source and activation, in the order in which they run.

use blockmill_rules::block::{BLOCK_RULES, CONTEXT_RULES};
use blockmill_rules::header::HEADER_RULES;
use blockmill_rules::rule::Rule;
use blockmill_rules::spend::SPEND_RULES;
use blockmill_rules::transaction::TRANSACTION_RULES;
use std::io::{self, Write};

fn main() -> io::Result<()> {
    print_all(&mut io::stdout().lock())
}

fn print_all(out: &mut dyn Write) -> io::Result<()> {
    print("a header among its ancestors", HEADER_RULES, out)?;
    print("a block by itself", BLOCK_RULES, out)?;
    print("a transaction by itself", TRANSACTION_RULES, out)?;
    print("a block among the headers before it", CONTEXT_RULES, out)?;
    print("a transaction and its coins", SPEND_RULES, out)
}

fn print<C>(title: &str, rules: &[Rule<C>], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{title}")?;
    for rule in rules {
        let activation = format!("{:?}", rule.activation);
        writeln!(out, "  {:27} {:30} {}", rule.name, activation, rule.source)?;
    }
    Ok(())
}

#[test]
fn all_tables_are_printed() {
    let mut out = Vec::new();
    print_all(&mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let tables = [
        HEADER_RULES.len(),
        BLOCK_RULES.len(),
        TRANSACTION_RULES.len(),
        CONTEXT_RULES.len(),
        SPEND_RULES.len(),
    ];
    assert_eq!(text.lines().count(), tables.len() + tables.iter().sum::<usize>());
    assert!(text.contains("  height_in_coinbase          From(HeightInCoinbase)         BIP 34\n"));
}
