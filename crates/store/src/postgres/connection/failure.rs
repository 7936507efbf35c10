//! What an error of PostgreSQL means to callers: not now, or not expected. Its text names no password: the driver's errors
//! never hold one.

use tokio_postgres::error::SqlState;

use redrive_engine::error::{BoxError, Error};

/// Tells a database that can't be used now from a statement that was wrong.
pub(crate) fn classify(error: impl Into<Error>) -> Error {
    match error.into() {
        Error::Storage(source) => match source.downcast_ref::<tokio_postgres::Error>() {
            Some(postgres) if is_unavailable(postgres) => Error::Unavailable(said(postgres)),
            Some(postgres) => Error::Unexpected(format!("PostgreSQL: {}", said(postgres))),
            None => Error::Storage(source),
        },
        other => other,
    }
}

/// The same for an error of the driver.
pub(crate) fn database(error: tokio_postgres::Error) -> Error {
    classify(BoxError::from(error))
}

/// The driver keeps what the server said one level down.
pub(crate) fn said(error: &tokio_postgres::Error) -> String {
    match (error.as_db_error(), std::error::Error::source(error)) {
        (Some(db), _) => format!("{} ({})", db.message(), db.code().code()),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}

/// Whether nothing can be read or written now, rather than that the statement was wrong.
pub(crate) fn is_unavailable(error: &tokio_postgres::Error) -> bool {
    let Some(code) = error.code() else { return true };
    // Classes: connection, transaction rolled back by the server, resources, the operator, the system itself.
    let away = ["08", "40", "53", "57", "58"].iter().any(|class| code.code().starts_with(class));
    away || *code == SqlState::READ_ONLY_SQL_TRANSACTION
        || *code == SqlState::LOCK_NOT_AVAILABLE
        || *code == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
}
