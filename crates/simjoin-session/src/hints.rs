//! Advice on errors.

use std::io;
use std::path::Path;

use arrow::error::ArrowError;
use datafusion::common::{Column, DataFusionError, SchemaError};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use super::meanings;
use datafusion_simjoin::config::nearest;
use simjoin_files::READING;

/// Advice for the errors that a newcomer meets.
pub fn hint(error: &DataFusionError, message: &str, sql: &str) -> Option<String> {
    if let DataFusionError::SchemaError(inner, _) = error.find_root()
        && let SchemaError::FieldNotFound { field, valid_fields } = inner.as_ref()
    {
        let advice = of_clauses(field, sql).map(str::to_string);
        return advice.or_else(|| unknown_field(field, valid_fields, sql));
    }
    if message.contains("similarity is 0")
        && let Some(division) = integer_division(sql)
    {
        return Some(division);
    }
    if let Some(table) = between(message, "table '", "' not found") {
        return unknown_table(table);
    }
    let table_function = between(message, "table function '", "'");
    if let Some(advice) = table_function.and_then(meanings::of_function) {
        return Some(advice.to_string());
    }
    if let Some(name) = between(message, "Invalid function '", "'") {
        let advice = meanings::of_function(name);
        return Some(advice.unwrap_or("SHOW FUNCTIONS, or \\h, lists the functions").to_string());
    }
    if let Some(advice) = of_other_systems(message, sql) {
        return Some(advice.to_string());
    }
    if message.contains("No suitable object store") {
        return Some("simjoin reads local files: give a path without a scheme".to_string());
    }
    match error.find_root() {
        DataFusionError::ResourcesExhausted(message) => exhausted(message),
        DataFusionError::ArrowError(root, _) => csv(error, root),
        DataFusionError::IoError(root) if root.kind() == io::ErrorKind::StorageFull => {
            Some("free some space, or write to another disk".to_string())
        }
        _ => None,
    }
}

/// Whether what is exhausted is the room for temporary files.
pub fn is_of_disk(message: &str) -> bool {
    message.contains("max_temp_directory_size")
}

/// Advice on limits. Errors of devices advise by themselves.
fn exhausted(message: &str) -> Option<String> {
    if message.contains("CUDA") {
        return None;
    }
    Some(match is_of_disk(message) {
        true => "allow more temporary files with --disk-limit".to_string(),
        false => "allow more with --memory-limit, or lower datafusion.execution.target_partitions"
            .to_string(),
    })
}

/// The file that an error names, and what its reader said.
fn read(error: &DataFusionError) -> Option<(&str, &DataFusionError)> {
    match error {
        DataFusionError::Context(context, inner) => match context.strip_prefix(READING) {
            Some(file) => Some((file, inner)),
            None => read(inner),
        },
        DataFusionError::Diagnostic(_, inner) => read(inner),
        DataFusionError::Shared(inner) => read(inner),
        DataFusionError::External(inner) => read(inner.downcast_ref()?),
        DataFusionError::ArrowError(inner, _) => match inner.as_ref() {
            ArrowError::ExternalError(inner) => read(inner.downcast_ref()?),
            _ => None,
        },
        _ => None,
    }
}

/// Advice on a file whose reader gives none itself.
fn csv(error: &DataFusionError, root: &ArrowError) -> Option<String> {
    let (name, _) = read(error)?;
    match root {
        ArrowError::ParseError(_) => Some(format!(
            "declare the types, as in CREATE EXTERNAL TABLE t (id BIGINT, code TEXT) STORED AS CSV \
             LOCATION '{name}'"
        )),
        ArrowError::CsvError(_) => Some(format!(
            "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{name}' OPTIONS (…) has \
             'format.delimiter' ';' for another delimiter, 'format.quote' and 'format.escape', and \
             'format.truncated_rows' 'true' for short rows"
        )),
        _ => None,
    }
}

/// Advice where the statement asks for what other systems have.
fn of_other_systems(message: &str, sql: &str) -> Option<&'static str> {
    let is_relative = message.contains("the distance must be compared by")
        || message.contains("nothing is known of levenshtein(");
    if is_relative && sql.to_lowercase().contains("levenshtein") {
        return Some(meanings::EDIT_DISTANCE);
    }
    if message.contains(OUTER_COLUMN) {
        return Some(meanings::NEAREST);
    }
    if message.contains("found: NEAREST") {
        return Some(meanings::NEAREST_BEFORE_ON);
    }
    if sql.to_lowercase().contains("normalized") && message.contains("ormalized") {
        return Some(meanings::FORMS);
    }
    if is_remainder_of_texts(message) {
        return Some(meanings::PERCENT);
    }
    meanings::of_operator(sql)
}

/// Advice where a field is none because the statement has a clause or a keyword of other systems.
fn of_clauses(field: &Column, sql: &str) -> Option<&'static str> {
    let is_form = ["nfc", "nfd", "nfkc", "nfkd"].contains(&field.name().to_lowercase().as_str());
    if is_form && sql.to_lowercase().contains("normalize") {
        return Some(meanings::FORMS);
    }
    meanings::of_clause(sql)
}

/// `'a' % 'b'`
fn is_remainder_of_texts(message: &str) -> bool {
    let operands = between(message, "arithmetic expression ", " to valid types");
    operands
        .and_then(|o| o.split_once(" % "))
        .is_some_and(|(a, b)| [a, b].iter().any(|operand| operand.contains("Utf8")))
}

/// The words by which the physical planner says that it cannot run a correlated subquery.
const OUTER_COLUMN: &str = "OuterReferenceColumn";

/// The message without what would mislead: DataFusion's guess at a function, which may be like the
/// name in no letter, and the printed fields of a column.
pub fn without_noise(message: &str) -> String {
    if let Some((start, rest)) = message.split_once(" Did you mean '")
        && let (Some(name), Some(guess)) =
            (between(start, "Invalid function '", "'"), rest.split('\'').next())
        && (meanings::of_function(name).is_some() || nearest(name, [guess]).is_none())
    {
        return start.to_string();
    }
    if message.contains(OUTER_COLUMN)
        && let Some(name) = between(message, "name: \"", "\"")
    {
        return format!(
            "not supported: a subquery in this place that reads {name} of the query around it"
        );
    }
    message.to_string()
}

/// Names listed of a relation.
const NAMES_LISTED: usize = 20;

fn unknown_field(field: &Column, valid: &[Column], sql: &str) -> Option<String> {
    let name = field.name();
    if let Some(column) =
        valid.iter().find(|v| v.name() != name && v.name.eq_ignore_ascii_case(name))
        && field.relation.as_ref().is_none_or(|r| column.relation.as_ref() == Some(r))
    {
        let column = quoted(column, field);
        return Some(format!("names with capitals need double quotes: {column}"));
    }
    if field.relation.is_none() && sql.contains(&format!("\"{name}\"")) {
        return Some(format!("text is written in single quotes: '{name}'"));
    }
    let relation = field.relation.as_ref();
    let of_relation: Vec<&Column> =
        valid.iter().filter(|v| relation.is_none() || v.relation.as_ref() == relation).collect();
    let (columns, whose) = match relation {
        // The relation itself may be mistyped.
        Some(relation) if of_relation.is_empty() => {
            let same = valid.iter().filter(|v| v.name() == name).collect::<Vec<_>>();
            let columns = if same.is_empty() { valid.iter().collect() } else { same };
            (columns, format!("nothing is named {relation} here; there are"))
        }
        Some(relation) => (of_relation, format!("the fields of {relation} are")),
        None => (of_relation, "the fields are".to_string()),
    };
    if let Some(near) = nearest(name, columns.iter().map(|column| column.name()))
        && near != name
        && let Some(column) = columns.iter().find(|column| column.name() == near)
    {
        return Some(format!("did you mean {}?", quoted(column, field)));
    }
    let names: Vec<String> =
        columns.iter().take(NAMES_LISTED).map(|c| c.quoted_flat_name()).collect();
    let more = match columns.len().saturating_sub(NAMES_LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!names.is_empty()).then(|| format!("{whose} {}{more}", names.join(", ")))
}

/// The column's name, with its relation if the field was written with one.
fn quoted(column: &Column, field: &Column) -> String {
    match &field.relation {
        Some(_) => column.quoted_flat_name(),
        None => Column::new_unqualified(column.name()).quoted_flat_name(),
    }
}

/// Tells of the first division of whole numbers in the text that loses a part of the result.
fn integer_division(sql: &str) -> Option<String> {
    let tokens = Tokenizer::new(&GenericDialect {}, sql).tokenize().ok()?;
    let tokens: Vec<&Token> =
        tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_))).collect();
    tokens.windows(3).find_map(|window| {
        let [Token::Number(a, _), Token::Div, Token::Number(b, _)] = window else { return None };
        let (dividend, divisor) = (a.parse::<u64>().ok()?, b.parse::<u64>().ok()?);
        let result = dividend.checked_div(divisor)?;
        (dividend % divisor != 0)
            .then(|| format!("{a}/{b} divides whole numbers and gives {result}; write {a}.0/{b}"))
    })
}

const FILE_TYPES: [&str; 6] = ["parquet", "csv", "tsv", "json", "jsonl", "arrow"];

/// The table's name is the full one: catalog, schema, table.
fn unknown_table(full_name: &str) -> Option<String> {
    let name = full_name.strip_prefix("datafusion.").unwrap_or(full_name);
    let unquoted_file = FILE_TYPES.iter().any(|t| name.ends_with(&format!(".{t}")));
    if let Some(table) = name.strip_prefix("public.") {
        let path = Path::new(table);
        let looks_like_file = table.contains(['/', '\\', '*']) || path.extension().is_some();
        let is_workbook =
            ["xlsx", "xls", "ods"].iter().any(|end| path.extension() == Some(end.as_ref()));
        return if !looks_like_file && path.is_dir() {
            Some(format!(
                "the folder is read as FROM '{table}'; \\d or SHOW TABLES lists the tables"
            ))
        } else if is_workbook && path.exists() {
            Some(format!("'{table}' is a workbook; save the sheet as CSV, in UTF-8"))
        } else if !looks_like_file {
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
    use datafusion::execution::SessionStateBuilder;
    use datafusion::prelude::SessionContext;

    use super::super::errors::{message, one_line};
    use super::*;
    use datafusion_simjoin::{SimJoinContextExt, install};

    /// Message and hint.
    async fn explained(sql: &str) -> (String, String) {
        let builder = SessionStateBuilder::new_with_default_features();
        let ctx = SessionContext::new_with_state(install(builder).unwrap().build());
        let ctx = ctx.enable_url_table();
        ctx.sql("CREATE TABLE t AS SELECT 1 AS \"Id\", 'x' AS name, [1] AS toks").await.unwrap();
        let error = match ctx.simjoin_sql(sql).await {
            Err(error) => error,
            Ok(frame) => frame.collect().await.unwrap_err(),
        };
        let message = one_line(&message(&error));
        let hint = hint(&error, &message, sql).unwrap_or_default();
        (message, hint)
    }

    #[tokio::test]
    async fn hints_help_with_what_newcomers_meet() {
        for (sql, expected) in [
            ("SELECT * FROM missing", "lists the tables"),
            ("SELECT * FROM x.parquet", "a file name needs quotes: FROM 'x.parquet'"),
            ("SELECT * FROM 'no/such.parquet'", "there is no file 'no/such.parquet' in "),
            ("SELECT * FROM 'no/*.parquet'", "no file matches"),
            ("SELECT * FROM 'Cargo.toml'", "CREATE EXTERNAL TABLE"),
            ("SELECT id FROM t", "double quotes: \"Id\""),
            ("SELECT * FROM t WHERE name = \"x\"", "single quotes: 'x'"),
            ("SELECT jacard([1], [1])", "SHOW FUNCTIONS"),
            ("SELECT jaro_winkler('a', 'b')", "jaro_winkler_similarity(a, b)"),
            ("SELECT 1 FROM t a, t b WHERE a.name % b.name", "pg_trgm"),
            ("SELECT 1 FROM t ORDER BY toks <-> [1]", "array_distance"),
            ("SELECT 1 FROM t a, t b WHERE a.toks <=> b.toks < 0.1", "cosine_distance"),
            (
                "SELECT 1 FROM t a SIMJOIN t b ON levenshtein(a.name, b.name) / length(a.name) <= 1",
                "levenshtein_similarity(a, b)",
            ),
            (
                "SELECT 1 FROM t a, LATERAL (SELECT 1 FROM t b ORDER BY jaccard(a.toks, b.toks) LIMIT 3)",
                "NEAREST 5 BY SIMILARITY",
            ),
            ("SELECT nam FROM t", "did you mean name?"),
            ("SELECT a.nam FROM t a, t b", "did you mean a.name?"),
            ("SELECT c.name FROM t a, t b", "nothing is named c here; there are a.name, b.name"),
            (
                "SELECT 1 FROM t a SIMJOIN t b ON jaccard(a.toks, b.toks) >= 18/20",
                "18/20 divides whole numbers and gives 0; write 18.0/20",
            ),
        ] {
            let (message, hint) = explained(sql).await;
            assert!(hint.contains(expected), "{sql}: {message}: {hint}");
        }
        for (message, plain) in [
            (
                "Invalid function 'jaro_winkler'. Did you mean 'var_sample'?",
                "Invalid function 'jaro_winkler'.",
            ),
            ("Invalid function 'qwxz'. Did you mean 'var_sample'?", "Invalid function 'qwxz'."),
            (
                "Invalid function 'jacard'. Did you mean 'jaccard'?",
                "Invalid function 'jacard'. Did you mean 'jaccard'?",
            ),
            (
                "not supported: … OuterReferenceColumn(Field { name: \"n\", data_type: … }, …)",
                "not supported: a subquery in this place that reads n of the query around it",
            ),
        ] {
            assert_eq!(without_noise(message), plain);
        }
        // Nothing is like nope: a wrong guess is worse than none.
        let (message, hint_of_nope) = explained("SELECT b.nope FROM t a, t b").await;
        assert_eq!(message, "No field named b.nope.");
        assert_eq!(hint_of_nope, "the fields of b are b.\"Id\", b.name, b.toks");
        let error = DataFusionError::ResourcesExhausted("no".into()).context("sorting");
        assert!(hint(&error, "", "").unwrap().contains("--memory-limit"));
    }
}
