//! What an error of PostgreSQL means to callers: not now, or not expected. Its text names no password: the driver's errors
//! never hold one.

use tokio_postgres::error::SqlState;

use crate::error::Error;

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Self {
        let said = said(&error);
        if is_unavailable(&error) { Self::Unavailable(said) } else { Self::Unexpected(format!("PostgreSQL: {said}")) }
    }
}

/// The driver keeps what the server said one level down.
pub(super) fn said(error: &tokio_postgres::Error) -> String {
    match (error.as_db_error(), std::error::Error::source(error)) {
        (Some(db), _) => format!("{} ({})", db.message(), db.code().code()),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}

/// Whether nothing can be read or written now, rather than that the statement was wrong.
pub(super) fn is_unavailable(error: &tokio_postgres::Error) -> bool {
    let Some(code) = error.code() else { return true };
    // Classes: connection, transaction rolled back by the server, resources, the operator, the system itself.
    let away = ["08", "40", "53", "57", "58"].iter().any(|class| code.code().starts_with(class));
    away || *code == SqlState::READ_ONLY_SQL_TRANSACTION
        || *code == SqlState::LOCK_NOT_AVAILABLE
        || *code == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
}
