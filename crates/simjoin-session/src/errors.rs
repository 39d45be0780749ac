//! Errors as one line, with a hint where one helps ([`hints`]).

use std::io::{self, Write};

use arrow::error::ArrowError;
use datafusion::common::{DataFusionError, SchemaError};

use super::escape;
use super::hints;
use datafusion_simjoin::sql::restore_sql;
use simjoin_files::storage;

/// A signal that asks the program to stop something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Signal {
    /// Ctrl-C.
    Interrupt,
    /// The end of the terminal.
    HangUp,
    /// A request to end.
    Terminate,
}

impl Signal {
    /// The exit status of a program that it ends: 128 and the signal's number.
    pub fn status(self) -> u8 {
        match self {
            Self::HangUp => 129,
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }
}

/// Why a session or its command line stops.
#[derive(Debug)]
pub enum SessionError {
    /// An error of DataFusion.
    Sql(DataFusionError),
    /// A file, flag or command that does not work.
    Usage(String),
    /// An error of reading or writing.
    Io(io::Error),
    /// The reader of the output has gone.
    ClosedPipe,
    /// Ctrl-C and the like.
    Stopped(Signal),
    /// An error that was printed where it happened.
    Reported,
}

impl SessionError {
    /// The error of a write of output.
    pub fn from_write(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::ClosedPipe,
            _ => Self::Io(error),
        }
    }
}

impl From<DataFusionError> for SessionError {
    fn from(error: DataFusionError) -> Self {
        Self::Sql(error)
    }
}

impl From<ArrowError> for SessionError {
    fn from(error: ArrowError) -> Self {
        Self::Sql(error.into())
    }
}

/// Prints the error and its hint to standard error, the place before it where there is one; `sql`
/// is the text that failed.
pub fn print(error: &SessionError, place: Option<&str>, sql: &str) {
    if matches!(error, SessionError::Stopped(_) | SessionError::ClosedPipe | SessionError::Reported)
    {
        return;
    }
    let (message, hint) = explain(error, sql);
    let place = place.map(|place| format!("{place}: ")).unwrap_or_default();
    tell(&format!("Error: {place}{message}"));
    if let Some(hint) = hint {
        tell(&format!("Hint: {hint}"));
    }
}

/// The message of an error, in one line, and advice; `sql` is the text that failed.
pub fn explain(error: &SessionError, sql: &str) -> (String, Option<String>) {
    let message = text(error);
    match error {
        SessionError::Sql(error) => {
            (hints::without_noise(&message), hints::hint(error, &message, sql))
        }
        _ => (message, None),
    }
}

/// The message of an error, in one line.
pub fn text(error: &SessionError) -> String {
    match error {
        SessionError::Sql(error) => one_line(&restore_sql(&message(error))),
        SessionError::Usage(message) => one_line(message),
        SessionError::Io(error) => one_line(&error.to_string()),
        SessionError::Stopped(_) | SessionError::ClosedPipe | SessionError::Reported => {
            String::new()
        }
    }
}

/// Writes a line to standard error, without characters that a terminal would obey, and ignores a
/// reader that has closed it.
pub fn tell(line: &str) {
    let _ = writeln!(io::stderr(), "{}", escape::line(line));
}

/// The message without the names of the layers that it came through.
pub fn message(error: &DataFusionError) -> String {
    if let Some(outside) = storage::outside(error) {
        return outside.to_string();
    }
    match error {
        DataFusionError::Context(context, inner) if names_a_rule(context) => message(inner),
        DataFusionError::Context(context, inner) => format!("{context}: {}", message(inner)),
        DataFusionError::Diagnostic(_, inner) => message(inner),
        DataFusionError::Shared(inner) => message(inner),
        DataFusionError::Collection(errors) => match errors.first() {
            Some(first) => message(first),
            None => error.to_string(),
        },
        DataFusionError::External(inner) => match inner.downcast_ref::<DataFusionError>() {
            Some(inner) => message(inner),
            None => inner.to_string(),
        },
        DataFusionError::ArrowError(inner, _) => match inner.as_ref() {
            ArrowError::ExternalError(inner) => match inner.downcast_ref::<DataFusionError>() {
                Some(inner) => message(inner),
                None => inner.to_string(),
            },
            inner => inner.to_string(),
        },
        DataFusionError::SQL(inner, _) => parser_message(&inner.to_string()),
        DataFusionError::ResourcesExhausted(message) if hints::is_of_disk(message) => {
            message.clone()
        }
        DataFusionError::ResourcesExhausted(message) => format!("out of memory: {message}"),
        DataFusionError::NotImplemented(message) => format!("not supported: {message}"),
        // A hint names the field that may have been meant.
        DataFusionError::SchemaError(inner, _) => match inner.as_ref() {
            SchemaError::FieldNotFound { field, .. } => {
                format!("No field named {}.", field.quoted_flat_name())
            }
            inner => inner.to_string(),
        },
        DataFusionError::ObjectStore(inner) => inner.to_string(),
        DataFusionError::ParquetError(inner) => inner.to_string(),
        DataFusionError::IoError(inner) => inner.to_string(),
        DataFusionError::Plan(message)
        | DataFusionError::Execution(message)
        | DataFusionError::Configuration(message) => message.clone(),
        error => error.strip_backtrace(),
    }
}

/// Contexts such as `type_coercion` or `Optimizer rule 'x' failed` tell nothing to a user.
fn names_a_rule(context: &str) -> bool {
    context.starts_with("Optimizer rule")
        || context.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

fn parser_message(text: &str) -> String {
    text.trim_start_matches("sql parser error: ").to_string()
}

/// A text of several lines as one, without a backtrace.
pub fn one_line(text: &str) -> String {
    let text = text.split(DataFusionError::BACK_TRACE_SEP).next().unwrap_or_default();
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionContext;

    use super::*;

    async fn explained(sql: &str) -> String {
        let ctx = SessionContext::new().enable_url_table();
        ctx.sql("CREATE TABLE t AS SELECT 1 AS \"Id\", 'x' AS name").await.unwrap();
        let error = match ctx.sql(sql).await {
            Err(error) => error,
            Ok(frame) => frame.collect().await.unwrap_err(),
        };
        one_line(&message(&error))
    }

    #[tokio::test]
    async fn errors_are_one_line_without_layers() {
        for (sql, starts) in [
            ("SELEC 1", "Expected: an SQL statement, found: SELEC"),
            ("SELECT 1 +", "Expected: an expression"),
            ("SELECT abs(name) FROM t", ""),
            ("SELECT 1 / 0", "Divide by zero"),
            ("SELECT 'a", "Unterminated string literal"),
            ("SELECT t.nam FROM t", "No field named t.nam."),
        ] {
            let message = explained(sql).await;
            assert!(message.starts_with(starts), "{sql}: {message}");
            for layer in ["Error during planning", "caused by", "ParserError", "type_coercion"] {
                assert!(!message.contains(layer), "{sql}: {message}");
            }
            assert!(!message.contains('\n'));
        }
    }
}
