//! Errors of the command line itself. They repeat what was typed, which may have a private key.

use crate::build_info;
use crate::plain::{self, one_line};
use crate::{READER_IS_GONE, ended_by};
use blockmill_descriptors::secrets::{HIDDEN, hidden_words, without_keys};
use clap::error::ErrorKind;
use console::strip_ansi_codes;
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

/// The exit status of wrong usage.
const STATUS: u8 = 2;

/// Says what is wrong with the arguments, or prints the help that was asked for.
pub(crate) fn refuse(error: clap::Error) -> ExitCode {
    // It is the help, or the version.
    if !error.use_stderr() {
        let printed = error.print().and_then(|()| io::stdout().flush());
        return match printed {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::from(READER_IS_GONE),
            Err(error) => ended_by(&error.into()),
        };
    }
    let message = error.render().to_string();
    let hidden = without_arguments(&message, std::env::args_os().skip(1));
    // Without a reader there is nobody to tell.
    let _ = match hidden == message {
        true => error.print(),
        false => io::stderr().lock().write_all(hidden.as_bytes()),
    };
    let may_be_left_out = matches!(
        error.kind(),
        ErrorKind::InvalidSubcommand | ErrorKind::UnknownArgument | ErrorKind::InvalidValue
    );
    if let Some(left_out) = build_info::left_out().filter(|_| may_be_left_out) {
        let _ = writeln!(io::stderr(), "\n{left_out}");
    }
    ExitCode::from(STATUS)
}

/// A message without the words of the arguments that may be keys.
fn without_arguments(message: &str, arguments: impl Iterator<Item = OsString>) -> String {
    let arguments: Vec<String> = arguments
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    let mut hidden: Vec<String> = arguments
        .iter()
        .flat_map(|argument| hidden_words(argument))
        // The message may repeat it in either form.
        .flat_map(|word| [word.escape_debug().to_string(), word])
        .collect();
    // A line of an argument is none of the message.
    let broken = arguments.iter().filter(|argument| argument.contains('\n'));
    let message = broken.fold(message.to_owned(), |message, argument| {
        // What commands a terminal is not in the message any more.
        let stripped = strip_ansi_codes(argument);
        message
            .replace(argument, &one_line(argument))
            .replace(&*stripped, &one_line(&stripped))
    });
    // One may be a part of another.
    hidden.sort_by_key(|word| std::cmp::Reverse(word.len()));
    let message = hidden
        .iter()
        .fold(message, |message, word| message.replace(word, HIDDEN));
    plain::lines(&without_keys(&message)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Arguments;
    use clap::Parser;

    #[test]
    fn no_message_has_a_key() {
        let key = "tprv8ZgxMBicQKsPd7Uf69XL1XwhmjHopUGep8GuEiJDZmbQz6o58LninorQAfcKZWARbtRtfnLcJ5MQ2AtHcQJCCRUcMRvmDUjyEmNUWwx8UbK";
        let wif = "cMahea7zqjxrtgAbB7LSGbcQUr1uX1ojuat9jZodMN87JcbXMTcA";
        let hex = "e8f32e723decf4051aefac8e2c93c9c5b214313817cdb01a1494b917c8436b35";
        // With a typing error, too.
        let [bad_key, bad_wif] = [key, wif].map(|key| [&key[..30], "0", &key[31..]].concat());
        for secret in [key, wif, hex, &bad_key, &bad_wif] {
            let descriptor = format!("pkh({secret}/0/*)");
            for text in [secret, &descriptor] {
                for line in [
                    vec![text],
                    vec!["balance", "--data", "d", "--range", text, "raw:51"],
                    vec!["balance", "--data", "d", "--range", &format!("0-{text}"), "raw:51"],
                    vec!["coin", "--data", "d", &format!("{text}\"")],
                    vec!["balance", "--data", "d", &format!("--{text}")],
                    vec!["balance", "--data", "d", &format!("--{text}=5"), "raw:51"],
                    vec!["balance", "--data", "d", &format!("--range={text}"), "raw:51"],
                    vec!["coin", "--data", "d", text],
                    vec!["export", text],
                    vec!["export", "coins", "--data", "d", "--format", text, "--out", "x"],
                    vec![
                        "export", "coins", "--data", "d", "--out", "x", "--out", "y", "--where", text,
                    ],
                    vec!["stats", "--data", "d", text],
                    vec!["connect", "--blocks", "b", "--data", "d", "--network", text],
                    vec!["connect", "--blocks", "b", "--data", "d", "--assume-valid", text],
                    vec!["--log", text, "stats"],
                ] {
                    let line = [vec!["blockmill"], line].concat();
                    let Err(error) = Arguments::try_parse_from(&line) else {
                        // Some of these digits are a hash as well.
                        assert_eq!(text, hex, "{line:?}");
                        continue;
                    };
                    let message = error.render().to_string();
                    let hidden = without_arguments(&message, line.iter().skip(1).map(OsString::from));
                    let parts = (0..secret.len() - 12).map(|at| &secret[at..at + 12]);
                    let told: Vec<&str> = parts.filter(|part| hidden.contains(part)).collect();
                    assert!(told.is_empty(), "{line:?}: {hidden}");
                    assert!(hidden.contains("error: "), "{hidden}");
                }
            }
        }
    }

    #[test]
    fn other_messages_stay() {
        for line in [
            "blockmill connect --blcoks b",
            "blockmill statistics",
            "blockmill coin --data d abababababababababababababababababababababababababababababababab:x5",
            "blockmill connect --blocks b --data d --stop-at-hieght-of-the-chain 5",
        ] {
            let arguments: Vec<&str> = line.split(' ').collect();
            let message = Arguments::try_parse_from(&arguments).unwrap_err().render().to_string();
            let hidden = without_arguments(&message, arguments.iter().map(OsString::from));
            assert_eq!(hidden != message, line.contains(":x5"), "{hidden}");
        }
    }
}
