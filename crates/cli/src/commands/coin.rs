//! `blockmill coin`.

use crate::arguments::CoinArguments;
use crate::commands::{NEVER, cores};
use crate::doing::{self, Doing};
use crate::failure::Failure;
use crate::output::{self, Stdout};
use crate::progress::EngineMeter;
use crate::signals;
use blockmill_block::{Coin, Network, NoOutPoint, OutPoint, hex};
use blockmill_blockfiles::lines::{Line, read_line};
use blockmill_datadir::CoinLookup;
use blockmill_descriptors::address;
use serde::Serialize;
use std::io::{self, BufReader, BufWriter, Write};

/// Longest line that is read, in bytes.
const LINE_MAX: usize = 1024;

#[derive(Serialize)]
struct CoinJson {
    txid: String,
    vout: u32,
    height: u32,
    coinbase: bool,
    /// In satoshi.
    value: i64,
    script: String,
    address: Option<String>,
}

impl CoinJson {
    fn new(outpoint: &OutPoint, coin: &Coin, network: Network) -> Self {
        Self {
            txid: outpoint.txid.to_string(),
            vout: outpoint.vout,
            height: coin.height,
            coinbase: coin.is_coinbase,
            value: coin.value,
            script: hex::encode(&coin.script_pubkey),
            address: address(&coin.script_pubkey, network),
        }
    }
}

/// Answers one outpoint after the other.
struct Answers {
    coins: CoinLookup,
    as_json: bool,
    out: BufWriter<Stdout>,
}

impl Answers {
    fn answer(&mut self, outpoint: &OutPoint) -> Result<(), Failure> {
        let coin = self.coins.get(outpoint)?;
        let network = self.coins.directory().chain_id().network;
        let answer = coin.map(|coin| CoinJson::new(outpoint, &coin, network));
        if self.as_json {
            serde_json::to_writer(&mut self.out, &answer).map_err(io::Error::from)?;
            writeln!(self.out)?;
            return Ok(());
        }
        let Some(coin) = answer else {
            writeln!(self.out, "{outpoint}  no coin")?;
            return Ok(());
        };
        let coinbase = if coin.coinbase { ", coinbase" } else { "" };
        let whose = coin.address.unwrap_or_else(|| format!("script {}", coin.script));
        let (value, height) = (output::bitcoins(coin.value), coin.height);
        writeln!(self.out, "{outpoint}  {value} BTC, height {height}{coinbase}, {whose}")?;
        Ok(())
    }

    /// Answers lines of standard input. All that were asked are answered before the next ones are
    /// waited for.
    fn answer_lines(&mut self) -> Result<(), Failure> {
        let mut input = BufReader::new(io::stdin().lock());
        let mut number = 0u64;
        loop {
            // The next line may be long in coming: what is answered goes out before.
            if input.buffer().is_empty() {
                self.out.flush()?;
            }
            let Some(line) = read_line(&mut input, LINE_MAX)? else {
                return Ok(());
            };
            number += 1;
            let text = match &line {
                Line::Text(line) => String::from_utf8_lossy(line),
                // It is no outpoint, which the message below says.
                Line::TooLong(_) => "the line is too long".into(),
            };
            if text.trim().is_empty() {
                continue;
            }
            let outpoint = text.trim().parse().or_else(|error: NoOutPoint| {
                // The answers to the lines before are not lost.
                self.out.flush()?;
                Err(Failure::Corrupt(format!("standard input: line {number}: {error}")))
            })?;
            self.answer(&outpoint)?;
        }
    }
}

pub(crate) fn run(arguments: &CoinArguments) -> Result<u8, Failure> {
    signals::end_at_once()?;
    let mut coins = CoinLookup::open(&arguments.set.data)?;
    if let Some(earlier) = arguments.set.at.earlier() {
        let mut meter = EngineMeter::new();
        coins = coins.at(earlier, cores(), &NEVER, &mut meter)?;
    }
    doing::set(Doing::Something("answering outpoints"));
    let mut answers = Answers {
        coins,
        as_json: arguments.json,
        out: BufWriter::new(output::stdout()),
    };
    for outpoint in &arguments.outpoints {
        answers.answer(outpoint)?;
    }
    if arguments.outpoints.is_empty() {
        answers.answer_lines()?;
    }
    answers.out.flush()?;
    Ok(0)
}
