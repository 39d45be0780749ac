//! Runs the sqllogictest files of `tests/slt`.
//!
//! `SIMJOIN_SLT_UPDATE=1` writes what the session answers into the files, to be read in the diff.

use std::path::Path;

use arrow::datatypes::DataType;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use async_trait::async_trait;
use datafusion::common::DataFusionError;
use datafusion::prelude::SessionContext;
use sqllogictest::{AsyncDB, DBOutput, DefaultColumnType, Runner};

use crate::support::{Session, plan};

struct Database(SessionContext);

/// One line, as the files have it.
#[derive(Debug)]
struct OneLine(String);

impl std::fmt::Display for OneLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OneLine {}

impl From<DataFusionError> for OneLine {
    fn from(error: DataFusionError) -> Self {
        Self(error.strip_backtrace().replace('\n', " "))
    }
}

fn column_type(data_type: &DataType) -> DefaultColumnType {
    match data_type {
        t if t.is_integer() => DefaultColumnType::Integer,
        t if t.is_numeric() => DefaultColumnType::FloatingPoint,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => DefaultColumnType::Text,
        _ => DefaultColumnType::Any,
    }
}

#[async_trait]
impl AsyncDB for Database {
    type Error = OneLine;
    type ColumnType = DefaultColumnType;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, OneLine> {
        let frame = plan(&self.0, sql).await?;
        let types: Vec<_> =
            frame.schema().fields().iter().map(|f| column_type(f.data_type())).collect();
        let batches = frame.collect().await?;
        if types.is_empty() {
            return Ok(DBOutput::StatementComplete(0));
        }
        let options = FormatOptions::default().with_null("NULL");
        let mut rows = Vec::new();
        for batch in &batches {
            let columns = batch
                .columns()
                .iter()
                .map(|c| ArrayFormatter::try_new(c.as_ref(), &options))
                .collect::<Result<Vec<_>, _>>()
                .map_err(DataFusionError::from)?;
            for row in 0..batch.num_rows() {
                let cell = |c: &ArrayFormatter| match c.value(row).to_string() {
                    text if text.is_empty() => "(empty)".to_string(),
                    text => text,
                };
                rows.push(columns.iter().map(cell).collect());
            }
        }
        Ok(DBOutput::Rows { types, rows })
    }

    async fn shutdown(&mut self) {}

    fn engine_name(&self) -> &str {
        "datafusion"
    }
}

async fn run(file: &str) {
    let path =
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("tests/slt").join(file);
    let connect = || async {
        let ctx = Session::default().context();
        Ok(Database(ctx))
    };
    let mut runner = Runner::new(connect);
    runner.with_column_validator(sqllogictest::strict_column_validator);
    if std::env::var_os("SIMJOIN_SLT_UPDATE").is_some() {
        runner
            .update_test_file(
                &path,
                " ",
                sqllogictest::default_validator,
                sqllogictest::default_normalizer,
                sqllogictest::strict_column_validator,
            )
            .await
            .unwrap_or_else(|e| panic!("{file}: {e}"));
        return;
    }
    runner.run_file_async(&path).await.unwrap_or_else(|e| panic!("{}", e.display(false)));
}

#[tokio::test]
async fn measures() {
    run("measures.slt").await;
}

#[tokio::test]
async fn tokenizers() {
    run("tokenizers.slt").await;
}

#[tokio::test]
async fn simjoin_syntax() {
    run("simjoin_syntax.slt").await;
}

#[tokio::test]
async fn join_types() {
    run("join_types.slt").await;
}

#[tokio::test]
async fn options() {
    run("options.slt").await;
}

#[tokio::test]
async fn vectors() {
    run("vectors.slt").await;
}

#[tokio::test]
async fn errors() {
    run("errors.slt").await;
}

/// A file that no test names would be a file that never runs.
#[test]
fn every_file_has_a_test() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("tests/slt");
    let source = include_str!("slt.rs");
    for entry in std::fs::read_dir(folder).expect("the folder of the files") {
        let name = entry.expect("an entry").file_name().into_string().expect("a plain name");
        assert!(source.contains(&format!("run(\"{name}\")")), "no test runs {name}");
    }
}
