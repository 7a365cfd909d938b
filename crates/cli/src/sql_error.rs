//! What the errors of a PostgreSQL server mean for a command.

use postgres::error::SqlState;
use std::error::Error;

/// Whether an error passes: the server is gone, or was asked to end what it did.
pub(crate) fn passes(error: &postgres::Error) -> bool {
    let Some(code) = error.code() else {
        // No answer of the server: a connection that has ended.
        return true;
    };
    let passing = [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::QUERY_CANCELED,
        SqlState::TOO_MANY_CONNECTIONS,
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
    ];
    passing.contains(code) || code.code().starts_with("08")
}

/// Whether an error says that the call was wrong: who may not come in, or may not do this.
pub(crate) fn is_usage(error: &postgres::Error) -> bool {
    let Some(code) = error.code() else { return false };
    let wrong = [
        SqlState::INVALID_CATALOG_NAME,
        SqlState::INSUFFICIENT_PRIVILEGE,
        SqlState::DUPLICATE_TABLE,
    ];
    wrong.contains(code) || code.code().starts_with("28")
}

/// Whether the tables are not what they were left as: a row is there already, a table or a column
/// is not, or is of another kind.
pub(crate) fn is_damage(error: &postgres::Error) -> bool {
    let Some(code) = error.code() else { return false };
    let damage = [
        SqlState::UNIQUE_VIOLATION,
        SqlState::NOT_NULL_VIOLATION,
        SqlState::CHECK_VIOLATION,
        SqlState::UNDEFINED_TABLE,
        SqlState::UNDEFINED_COLUMN,
        SqlState::UNDEFINED_FUNCTION,
        SqlState::WRONG_OBJECT_TYPE,
        SqlState::DATATYPE_MISMATCH,
        SqlState::BAD_COPY_FILE_FORMAT,
        SqlState::INVALID_BINARY_REPRESENTATION,
    ];
    damage.contains(code)
}

/// An error in the server's words.
pub(crate) fn text(error: &postgres::Error) -> String {
    if let Some(answer) = error.as_db_error() {
        let more = answer.detail().or(answer.hint());
        let more = more.map(|more| format!(" ({more})")).unwrap_or_default();
        return format!("PostgreSQL: {}{more}", answer.message());
    }
    let (mut text, mut next) = (format!("PostgreSQL: {error}"), error.source());
    while let Some(cause) = next {
        text += &format!(": {cause}");
        next = cause.source();
    }
    text
}
