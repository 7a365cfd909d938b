//! A row for each text that was asked for, in place of the coins.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use super::wanted::Wanted;
use crate::output;
use serde::Serialize;
use std::io::{self, Write};

/// Coins of a script, of a text, or of all.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sum {
    pub(super) coins: u64,
    /// A damaged set may have amounts whose sum has more than 64 bits.
    pub(super) satoshi: i128,
}

impl Sum {
    pub(super) fn add(&mut self, other: Self) {
        self.coins += other.coins;
        self.satoshi += other.satoshi;
    }

    fn of(sums: impl Iterator<Item = Self>) -> Self {
        sums.fold(Self::default(), |mut all, sum| {
            all.add(sum);
            all
        })
    }
}

/// A row of JSON.
#[derive(Serialize)]
pub(super) struct Row {
    /// What [`Wanted::rows`] calls it.
    target: String,
    coins: u64,
    /// In satoshi.
    value: i128,
    /// In BTC.
    amount: f64,
}

/// The sums of all scripts, by the numbers of these.
pub(super) struct Sums(Vec<Sum>);

impl Sums {
    pub(super) fn new(wanted: &Wanted) -> Self {
        Self(vec![Sum::default(); wanted.scripts()])
    }

    /// Notes coins of a script.
    pub(super) fn add(&mut self, number: u32, coins: Sum) {
        self.0[number as usize].add(coins);
    }

    /// The sum of all coins. One that several texts ask for counts once.
    pub(super) fn total(&self) -> Sum {
        Sum::of(self.0.iter().copied())
    }

    fn rows<'a>(&'a self, wanted: &'a Wanted) -> impl ExactSizeIterator<Item = (&'a str, Sum)> {
        let sum = |numbers: &[u32]| Sum::of(numbers.iter().map(|&number| self.0[number as usize]));
        wanted.rows().map(move |(name, numbers)| (name, sum(numbers)))
    }

    /// The rows for programs.
    pub(super) fn json_rows(&self, wanted: &Wanted) -> Vec<Row> {
        let row = |(name, sum): (&str, Sum)| Row {
            target: name.to_owned(),
            coins: sum.coins,
            value: sum.satoshi,
            amount: output::amount(sum.satoshi),
        };
        self.rows(wanted).map(row).collect()
    }

    /// Writes the rows for a person. Names are of any length, so they come last.
    pub(super) fn write(&self, wanted: &Wanted, out: &mut impl Write) -> io::Result<()> {
        const HEAD: (&str, &str) = ("coins", "satoshi");
        let (mut left, mut right) = (HEAD.0.len(), HEAD.1.len());
        for (_, sum) in self.rows(wanted) {
            left = left.max(sum.coins.to_string().len());
            right = right.max(sum.satoshi.to_string().len());
        }
        writeln!(out, "{:>left$}  {:>right$}  target", HEAD.0, HEAD.1)?;
        for (name, Sum { coins, satoshi }) in self.rows(wanted) {
            writeln!(out, "{coins:>left$}  {satoshi:>right$}  {name}")?;
        }
        Ok(())
    }
}
