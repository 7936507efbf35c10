//! What an error of PostgreSQL means to callers: the database can't be used now, or a statement failed. The driver's errors
//! never hold a password.

use tokio_postgres::error::SqlState;

use redrive_engine::error::Error;

/// An error of PostgreSQL with the server's message; the driver's own text names only the kind of error.
#[derive(Debug, thiserror::Error)]
#[error("PostgreSQL: {}", message(.0))]
pub(crate) struct PgError(#[source] tokio_postgres::Error);

pub(crate) fn message(error: &tokio_postgres::Error) -> String {
    match (error.as_db_error(), std::error::Error::source(error)) {
        (Some(db), _) => format!("{} ({})", db.message(), db.code().code()),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}

/// Tells a database that can't be used now from a statement that failed.
pub(crate) fn classify(error: impl Into<Error>) -> Error {
    match error.into() {
        Error::Storage(source) => match source.downcast::<tokio_postgres::Error>() {
            Ok(error) => database(*error),
            Err(source) => Error::Storage(source),
        },
        other => other,
    }
}

/// The same for an error of the driver.
pub(crate) fn database(error: tokio_postgres::Error) -> Error {
    let unavailable = is_unavailable(&error);
    let source = Box::new(PgError(error));
    if unavailable { Error::Unavailable(source) } else { Error::Storage(source) }
}

/// Whether nothing can be read or written now, rather than that the statement failed.
pub(crate) fn is_unavailable(error: &tokio_postgres::Error) -> bool {
    let Some(code) = error.code() else { return true };
    // Classes: connection, transaction rolled back by the server, resources, the operator, the system itself.
    let away = ["08", "40", "53", "57", "58"].iter().any(|class| code.code().starts_with(class));
    away || *code == SqlState::READ_ONLY_SQL_TRANSACTION
        || *code == SqlState::LOCK_NOT_AVAILABLE
        || *code == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
}
