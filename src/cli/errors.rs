//! Errors as one line, with a hint where one helps.

use std::io::{self, Write};
use std::path::Path;

use datafusion::arrow::error::ArrowError;
use datafusion::common::DataFusionError;

use super::interrupt::Signal;

/// Why the command line stops.
#[derive(Debug)]
pub(super) enum CliError {
    Sql(DataFusionError),
    /// A file, flag or command that does not work.
    Usage(String),
    Io(io::Error),
    /// The reader of the output has gone.
    ClosedPipe,
    /// Ctrl-C and the like.
    Stopped(Signal),
    /// An error that was printed where it happened.
    Reported,
}

impl From<ArrowError> for CliError {
    fn from(error: ArrowError) -> Self {
        Self::Sql(error.into())
    }
}

/// Prints the error and its hint to standard error, the place before it where there is one; `sql`
/// is the text that failed.
pub(super) fn print(error: &CliError, place: Option<&str>, sql: &str) {
    let (message, hint) = match error {
        CliError::Sql(error) => {
            let message = one_line(&message(error));
            let hint = hint(error, &message, sql);
            (message, hint)
        }
        CliError::Usage(message) => (one_line(message), None),
        CliError::Io(error) => (one_line(&error.to_string()), None),
        CliError::Stopped(_) | CliError::ClosedPipe | CliError::Reported => return,
    };
    let place = place.map(|place| format!("{place}: ")).unwrap_or_default();
    tell(&format!("Error: {place}{message}"));
    if let Some(hint) = hint {
        tell(&format!("Hint: {hint}"));
    }
}

/// Writes a line to standard error. Where that is closed, nobody wants to know.
pub(super) fn tell(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// The message without the names of the layers that it came through.
fn message(error: &DataFusionError) -> String {
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
        DataFusionError::ResourcesExhausted(message) => format!("out of memory: {message}"),
        DataFusionError::NotImplemented(message) => format!("not supported: {message}"),
        DataFusionError::SchemaError(inner, _) => inner.to_string(),
        DataFusionError::ObjectStore(inner) => inner.to_string(),
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

fn one_line(text: &str) -> String {
    let text = text.split(DataFusionError::BACK_TRACE_SEP).next().unwrap_or_default();
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Advice for the errors that a newcomer meets.
fn hint(error: &DataFusionError, message: &str, sql: &str) -> Option<String> {
    if let Some(table) = between(message, "table '", "' not found") {
        return unknown_table(table);
    }
    if let Some(field) = between(message, "No field named ", ".") {
        let name = field.trim_matches('"');
        let valid = message.split_once("Valid fields are ").map_or("", |(_, fields)| fields);
        let other_case = valid
            .split([',', ' ', '.'])
            .find(|v| v.starts_with('"') && v.trim_matches('"').eq_ignore_ascii_case(name));
        return match other_case {
            Some(column) => Some(format!("names with capitals need double quotes: {column}")),
            None if sql.contains(&format!("\"{name}\"")) => {
                Some(format!("text is written in single quotes: '{name}'"))
            }
            None => None,
        };
    }
    if message.starts_with("Invalid function") {
        return Some("SHOW FUNCTIONS, or \\h at the prompt, lists the functions".to_string());
    }
    if message.contains("No suitable object store") {
        return Some("simjoin reads local files: give a path without a scheme".to_string());
    }
    if matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)) {
        return Some(
            "allow more with --memory-limit, or lower datafusion.execution.target_partitions"
                .to_string(),
        );
    }
    None
}

const FILE_TYPES: [&str; 5] = ["parquet", "csv", "json", "arrow", "avro"];

/// The table's name is the full one: catalog, schema, table.
fn unknown_table(full_name: &str) -> Option<String> {
    let name = full_name.strip_prefix("datafusion.").unwrap_or(full_name);
    let unquoted_file = FILE_TYPES.iter().any(|t| name.ends_with(&format!(".{t}")));
    if let Some(table) = name.strip_prefix("public.") {
        let path = Path::new(table);
        let looks_like_file = table.contains(['/', '\\', '*']) || path.extension().is_some();
        return if !looks_like_file {
            Some(
                "\\d or SHOW TABLES lists the tables; a file is read as FROM 'file.parquet'".into(),
            )
        } else if path.exists() {
            Some(format!(
                "the file type of '{table}' is not known by its name; use CREATE EXTERNAL TABLE … \
                 STORED AS … LOCATION '{table}'"
            ))
        } else if table.contains('*') {
            Some(format!("no file matches '{table}'"))
        } else {
            let folder = std::env::current_dir().unwrap_or_default();
            Some(format!("there is no file '{table}' in {}", folder.display()))
        };
    }
    unquoted_file.then(|| format!("a file name needs quotes: FROM '{name}'"))
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let start = text.find(before)? + before.len();
    let length = text[start..].find(after)?;
    Some(&text[start..start + length])
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionContext;

    use super::*;

    async fn explained(sql: &str) -> (String, String) {
        let ctx = SessionContext::new().enable_url_table();
        ctx.sql("CREATE TABLE t AS SELECT 1 AS \"Id\", 'x' AS name").await.unwrap();
        let error = match ctx.sql(sql).await {
            Err(error) => error,
            Ok(frame) => frame.collect().await.unwrap_err(),
        };
        let message = one_line(&message(&error));
        let hint = hint(&error, &message, sql).unwrap_or_default();
        (message, hint)
    }

    #[tokio::test]
    async fn errors_are_one_line_without_layers() {
        for (sql, starts) in [
            ("SELEC 1", "Expected: an SQL statement, found: SELEC"),
            ("SELECT 1 +", "Expected: an expression"),
            ("SELECT abs(name) FROM t", ""),
            ("SELECT 1 / 0", "Divide by zero"),
            ("SELECT 'a", "Unterminated string literal"),
        ] {
            let (message, _) = explained(sql).await;
            assert!(message.starts_with(starts), "{sql}: {message}");
            for layer in ["Error during planning", "caused by", "ParserError", "type_coercion"] {
                assert!(!message.contains(layer), "{sql}: {message}");
            }
            assert!(!message.contains('\n'));
        }
    }

    #[tokio::test]
    async fn hints_help_with_what_newcomers_meet() {
        for (sql, expected) in [
            ("SELECT * FROM missing", "lists the tables"),
            ("SELECT * FROM x.parquet", "a file name needs quotes: FROM 'x.parquet'"),
            ("SELECT * FROM 'no/such.parquet'", "there is no file 'no/such.parquet' in "),
            ("SELECT * FROM 'no/*.parquet'", "no file matches"),
            ("SELECT * FROM 'Cargo.lock'", "CREATE EXTERNAL TABLE"),
            ("SELECT id FROM t", "double quotes: \"Id\""),
            ("SELECT * FROM t WHERE name = \"x\"", "single quotes: 'x'"),
            ("SELECT jacard([1], [1])", "SHOW FUNCTIONS"),
        ] {
            let (message, hint) = explained(sql).await;
            assert!(hint.contains(expected), "{sql}: {message}: {hint}");
        }
        let error = DataFusionError::ResourcesExhausted("no".into()).context("sorting");
        assert!(hint(&error, "", "").unwrap().contains("--memory-limit"));
    }
}
