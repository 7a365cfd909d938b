//! Errors of the command line itself, which quote what was typed.

use crate::build_info;
use crate::plain::{self, one_line};
use crate::{READER_IS_GONE, ended_by};
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
    let shown = on_lines(&message, std::env::args_os().skip(1));
    // Without a reader there is nobody to tell.
    let _ = match shown == message {
        true => error.print(),
        false => io::stderr().lock().write_all(shown.as_bytes()),
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

/// A message whose arguments, which it quotes, each stand on one line.
fn on_lines(message: &str, arguments: impl Iterator<Item = OsString>) -> String {
    let arguments = arguments.map(|argument| argument.to_string_lossy().into_owned());
    let broken = arguments.filter(|argument| argument.contains('\n'));
    let message = broken.fold(message.to_owned(), |message, argument| {
        // clap has removed escape sequences from its message.
        let stripped = strip_ansi_codes(&argument);
        message
            .replace(&argument, &one_line(&argument))
            .replace(&*stripped, &one_line(&stripped))
    });
    plain::lines(&message).into_owned()
}
