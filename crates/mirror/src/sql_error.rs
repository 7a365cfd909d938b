//! What an error of a PostgreSQL server, or of the way to it, means for a mirror.
//!
//! A transaction moves the tables together with the block that they are at, and every attempt reads
//! that block first. So an attempt may always be repeated: the table decides only where that helps.

use openssl::ssl::{self, ErrorCode};
use std::error::Error;
use std::io::{self, ErrorKind};

/// What follows from an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The next attempt may succeed without a change of the call: `mirror` retries with back-off.
    Retry,
    /// The arguments, or the set-up of the role or the database, are wrong.
    Usage,
    /// As `Usage`: the database's encoding lacks a character of a name.
    Encoding,
    /// The tables are not as a mirror left them.
    Damage,
    /// Each attempt would meet it again.
    Fatal,
}

/// SQLSTATEs by their beginnings, of which the longest counts. All others are fatal.
const FATES: [(&str, Fate); 29] = [
    // The connection is gone; PgBouncer has 08P01 for what it cannot forward.
    ("08", Fate::Retry),
    // A name that the encoding of the database cannot hold.
    ("22021", Fate::Encoding),
    ("22P05", Fate::Encoding),
    // PGOPTIONS, or a parameter of the URL, that the server refuses.
    ("22023", Fate::Usage),
    ("42704", Fate::Usage),
    ("55P02", Fate::Usage),
    // A column of another type takes no row of COPY.
    ("22P03", Fate::Damage),
    ("22P04", Fate::Damage),
    // A row that is there already, or a constraint that was added.
    ("23", Fate::Damage),
    // The server is read-only: a standby until the failover is complete, or by its settings.
    ("25006", Fate::Retry),
    // Ended as idle in a transaction (25P03), or as too long a transaction (25P04).
    ("25P03", Fate::Retry),
    ("25P04", Fate::Retry),
    // Password, pg_hba.conf, no such role: more attempts could have the role locked.
    ("28", Fate::Usage),
    // No such database, also once it was removed under a session (57P04).
    ("3D", Fate::Usage),
    // Deadlock, serialization failure, a commit of unknown outcome.
    ("40", Fate::Retry),
    // Privileges, and tables of somebody else in the schema.
    ("42501", Fate::Usage),
    ("42P07", Fate::Usage),
    // A schema, table, column or function that is gone, or of another kind.
    ("3F", Fate::Damage),
    ("42703", Fate::Damage),
    ("42804", Fate::Damage),
    ("42809", Fate::Damage),
    ("42883", Fate::Damage),
    ("42P01", Fate::Damage),
    // Disk, memory or connections are used up, until an operator or another client frees some.
    ("53", Fate::Retry),
    // In use or locked (55006, 55P03), or a database that takes no connections for now (55000).
    ("55", Fate::Retry),
    // An operator or a time limit ended the statement (57014) or the session (57P05, 57P04), or the
    // server stops (57P01), has crashed (57P02) or starts (57P03).
    ("57", Fate::Retry),
    // The server could not read or write a file. One that is gone (58P01) does not come back.
    ("58000", Fate::Retry),
    ("58030", Fate::Retry),
    // A fault of the server, not of the tables.
    ("XX", Fate::Fatal),
];

pub(crate) fn fate(error: &postgres::Error) -> Fate {
    match error.code() {
        Some(code) => fate_of_code(code.code()),
        None if error.is_closed() || is_of_network(error) => Fate::Retry,
        // TLS, authentication, or an answer that is not of PostgreSQL's protocol.
        None => Fate::Fatal,
    }
}

fn fate_of_code(code: &str) -> Fate {
    let fitting = FATES.iter().filter(|(beginning, _)| code.starts_with(beginning));
    let longest = fitting.max_by_key(|(beginning, _)| beginning.len());
    longest.map_or(Fate::Fatal, |(_, fate)| *fate)
}

/// Whether the way to the server failed: refused, reset, timed out, a name that is not resolved.
fn is_of_network(error: &postgres::Error) -> bool {
    causes(error).any(|cause| {
        if let Some(error) = cause.downcast_ref::<ssl::Error>() {
            return is_cut_off(error);
        }
        let Some(error) = cause.downcast_ref::<io::Error>() else {
            return false;
        };
        match error.get_ref().and_then(|inner| inner.downcast_ref::<ssl::Error>()) {
            Some(error) => is_cut_off(error),
            // What cannot be parsed has these.
            None => !matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::InvalidInput),
        }
    })
}

/// Whether an encrypted connection has ended without a word, and not by a fault of TLS.
fn is_cut_off(error: &ssl::Error) -> bool {
    let has_reason = |word: &str| {
        let stack = error.ssl_error().map(|stack| stack.errors()).unwrap_or_default();
        stack
            .iter()
            .any(|error| error.reason().is_some_and(|reason| reason.contains(word)))
    };
    error.code() != ErrorCode::SSL || has_reason("unexpected eof")
}

fn causes<'e>(error: &'e postgres::Error) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(error.source(), |error| (*error).source())
}

/// An error in the server's words.
pub(crate) fn text(error: &postgres::Error) -> String {
    if let Some(answer) = error.as_db_error() {
        let more = answer.detail().or(answer.hint());
        let more = more.map(|more| format!(" ({more})")).unwrap_or_default();
        return format!("PostgreSQL: {}{more}", answer.message());
    }
    let mut text = format!("PostgreSQL: {error}");
    for cause in causes(error).map(ToString::to_string) {
        // An error of TLS repeats its cause.
        if !text.contains(&cause) {
            text += &format!(": {cause}");
        }
    }
    if text.contains("password missing") {
        text += ": PGPASSWORD or a line of ~/.pgpass has it";
    }
    if text.contains("certificate verify failed") {
        text += "; sslrootcert=FILE names the certificate of the authority that has signed the server's, and \
                 sslmode=verify-ca does not compare names";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_beginning_counts() {
        for (code, fate) in [
            ("57P05", Fate::Retry),
            ("55P03", Fate::Retry),
            ("55P02", Fate::Usage),
            ("25006", Fate::Retry),
            ("25001", Fate::Fatal),
            ("58030", Fate::Retry),
            ("58P01", Fate::Fatal),
            ("XX001", Fate::Fatal),
            ("P0001", Fate::Fatal),
        ] {
            assert_eq!(fate_of_code(code), fate, "{code}");
        }
    }
}
