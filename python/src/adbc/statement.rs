//! Statements: SQL with parameters, and rows to put into a table.

use adbc_core::error::{Error, Result, Status};
use adbc_core::options::{OptionStatement, OptionValue};
use adbc_core::{Optionable, PartitionedResult, Statement};
use arrow::array::{Array, AsArray, RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, UInt64Type};
use datafusion::common::metadata::ScalarAndMetadata;
use datafusion::common::{ParamValues, ScalarValue, TableReference};
use datafusion::datasource::MemTable;
use simjoin_session::host::{Host, StatementFrame};

use super::{
    Reader, block_on, invalid, not_implemented, number, of_engine, of_host, text_of, unknown,
};
use crate::runtime::runtime;
use crate::stream::{Batches, Canceller};

/// A statement of a connection.
pub(crate) struct SqlStatement {
    host: Host,
    sql: Option<String>,
    bound: Option<Reader>,
    target: Option<String>,
    mode: String,
    /// The task that runs, and the reader of its rows.
    running: Option<Canceller>,
}

impl SqlStatement {
    pub(super) fn new(host: Host) -> Self {
        let mode = "adbc.ingest.mode.create".to_string();
        Self { host, sql: None, bound: None, target: None, mode, running: None }
    }

    fn sql(&self) -> Result<String> {
        self.sql.clone().ok_or_else(|| {
            Error::with_message_and_status("the statement has no text", Status::InvalidState)
        })
    }

    /// Runs a future as a task that `cancel` ends.
    fn task<T: Send + 'static>(
        &mut self,
        future: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let Ok(runtime) = runtime() else { return block_on(future)? };
        let task = runtime.spawn(future);
        self.running = Some(Canceller::of(task.abort_handle()));
        match block_on(task)? {
            Ok(result) => result,
            Err(error) if error.is_cancelled() => Err(Error::with_message_and_status(
                "the statement was cancelled",
                Status::Cancelled,
            )),
            Err(error) => Err(Error::with_message_and_status(
                format!("the engine panicked: {error}"),
                Status::Internal,
            )),
        }
    }

    /// Plans the text with the values of one row; what is no query runs.
    fn run(&mut self, params: Option<ParamValues>) -> Result<StatementFrame> {
        let (host, sql) = (self.host.clone(), self.sql()?);
        self.task(async move { host.run(&sql, params).await.map_err(of_host) })
    }

    /// The rows of the text with the values of one row.
    fn rows(&mut self, params: Option<ParamValues>) -> Result<Reader> {
        let outcome = self.run(params)?;
        let (host, sql) = (self.host.clone(), self.sql()?);
        let running =
            self.task(async move { host.start(outcome.frame, &sql).await.map_err(of_host) })?;
        let batches = Batches::new(running.batches);
        let batches = batches.map_err(|error| invalid(error.to_string()))?;
        self.running = Some(batches.canceller());
        Ok(Box::new(batches))
    }

    /// The values of the parameters, of each row that is bound.
    fn params(&mut self) -> Result<Vec<Option<ParamValues>>> {
        let Some(reader) = self.bound.take() else { return Ok(vec![None]) };
        let mut all = vec![];
        for batch in reader {
            let batch = batch.map_err(of_engine)?;
            for row in 0..batch.num_rows() {
                all.push(Some(params_of(&batch, row)?));
            }
        }
        Ok(all)
    }

    /// Puts the bound rows into the target table.
    fn ingest(&mut self, target: &str) -> Result<i64> {
        let reader = self.bound.take().ok_or_else(|| {
            Error::with_message_and_status("no rows are bound", Status::InvalidState)
        })?;
        let schema = reader.schema();
        let batches = reader.collect::<std::result::Result<Vec<_>, _>>().map_err(of_engine)?;
        let rows = batches.iter().map(|batch| batch.num_rows() as i64).sum();
        let context = self.host.context().clone();
        let name = TableReference::bare(target.to_string());
        let exists = context.table_exist(name.clone()).map_err(of_engine)?;
        let appends = match self.mode.as_str() {
            "adbc.ingest.mode.create" if exists => {
                let text = format!("the table {target} exists already");
                return Err(Error::with_message_and_status(text, Status::AlreadyExists));
            }
            "adbc.ingest.mode.append" if !exists => {
                let text = format!("there is no table {target}");
                return Err(Error::with_message_and_status(text, Status::NotFound));
            }
            "adbc.ingest.mode.append" => true,
            "adbc.ingest.mode.create_append" => exists,
            "adbc.ingest.mode.create" | "adbc.ingest.mode.replace" => false,
            mode => return Err(invalid(format!("{mode} is no mode of ingestion"))),
        };
        let table =
            std::sync::Arc::new(MemTable::try_new(schema, vec![batches]).map_err(of_engine)?);
        if !appends {
            context.deregister_table(name.clone()).map_err(of_engine)?;
            context.register_table(name, table).map_err(of_engine)?;
            return Ok(rows);
        }
        let source = format!("__simjoin_ingest_{target}");
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let (insert, from) = (quoted(target), quoted(&source));
        let source = TableReference::bare(source);
        context.register_table(source.clone(), table).map_err(of_engine)?;
        let host = self.host.clone();
        let inserted = self.task(async move {
            let insert = format!("INSERT INTO {insert} SELECT * FROM {from}");
            host.run(&insert, None).await.map(drop).map_err(of_host)
        });
        context.deregister_table(source).map_err(of_engine)?;
        inserted.map(|()| rows)
    }
}

/// The values of a row, by place where the columns have numbers for names, as those of the DB-API do.
fn params_of(batch: &RecordBatch, row: usize) -> Result<ParamValues> {
    let schema = batch.schema();
    let mut named = vec![];
    for (field, column) in schema.fields().iter().zip(batch.columns()) {
        let value = ScalarValue::try_from_array(column, row).map_err(of_engine)?;
        named.push((field.name().clone(), ScalarAndMetadata::from(value)));
    }
    let is_place = |name: &String| name.is_empty() || name.parse::<usize>().is_ok();
    Ok(match named.iter().all(|(name, _)| is_place(name)) {
        true => ParamValues::List(named.into_iter().map(|(_, value)| value).collect()),
        false => ParamValues::Map(named.into_iter().collect()),
    })
}

impl Optionable for SqlStatement {
    type Option = OptionStatement;

    fn set_option(&mut self, key: OptionStatement, value: OptionValue) -> Result<()> {
        let text = text_of(&key, value)?;
        match key {
            OptionStatement::TargetTable => self.target = Some(text),
            OptionStatement::IngestMode => self.mode = text,
            OptionStatement::Temporary if text == "false" => {}
            key => return Err(unknown(key.as_ref())),
        }
        Ok(())
    }

    fn get_option_string(&self, key: OptionStatement) -> Result<String> {
        match key {
            OptionStatement::TargetTable => Ok(self.target.clone().unwrap_or_default()),
            OptionStatement::IngestMode => Ok(self.mode.clone()),
            key => Err(unknown(key.as_ref())),
        }
    }

    fn get_option_bytes(&self, key: OptionStatement) -> Result<Vec<u8>> {
        self.get_option_string(key).map(String::into_bytes)
    }

    fn get_option_int(&self, key: OptionStatement) -> Result<i64> {
        number(&key, &self.get_option_string(key.clone())?)
    }

    fn get_option_double(&self, key: OptionStatement) -> Result<f64> {
        number(&key, &self.get_option_string(key.clone())?)
    }
}

impl Statement for SqlStatement {
    fn bind(&mut self, batch: RecordBatch) -> Result<()> {
        let schema = batch.schema();
        self.bound = Some(Box::new(RecordBatchIterator::new([Ok(batch)], schema)));
        Ok(())
    }

    fn bind_stream(&mut self, reader: Box<dyn RecordBatchReader + Send>) -> Result<()> {
        self.bound = Some(reader);
        Ok(())
    }

    fn execute(&mut self) -> Result<Reader> {
        if self.target.is_some() {
            self.execute_update()?;
            let schema = std::sync::Arc::new(Schema::empty());
            return Ok(Box::new(RecordBatchIterator::new([], schema)));
        }
        let mut params = self.params()?;
        if params.len() == 1 {
            return self.rows(params.pop().flatten());
        }
        // The rows of all, one after the other.
        let (mut schema, mut batches) = (None, vec![]);
        for params in params {
            let rows = self.rows(params)?;
            schema.get_or_insert_with(|| rows.schema());
            batches.extend(rows);
        }
        let schema = schema.unwrap_or_else(|| std::sync::Arc::new(Schema::empty()));
        Ok(Box::new(RecordBatchIterator::new(batches, schema)))
    }

    fn execute_update(&mut self) -> Result<Option<i64>> {
        if let Some(target) = self.target.clone() {
            return self.ingest(&target).map(Some);
        }
        let mut counted = None;
        for params in self.params()? {
            for batch in self.rows(params)? {
                let batch = batch.map_err(of_engine)?;
                if let Some(rows) = rows_affected(&batch) {
                    counted = Some(counted.unwrap_or(0) + rows);
                }
            }
        }
        Ok(counted)
    }

    fn execute_schema(&mut self) -> Result<Schema> {
        let (host, sql) = (self.host.clone(), self.sql()?);
        let mut plan = block_on(async move { host.plan(&sql).await.map_err(of_host) })??;
        if let Some(params) = self.params()?.pop().flatten() {
            plan = plan.with_param_values(params).map_err(of_engine)?;
        }
        Ok(plan.schema().as_arrow().clone())
    }

    fn execute_partitions(&mut self) -> Result<PartitionedResult> {
        Err(not_implemented("partitions of results"))
    }

    fn get_parameter_schema(&self) -> Result<Schema> {
        let (host, sql) = (self.host.clone(), self.sql()?);
        let plan = block_on(async move { host.plan(&sql).await.map_err(of_host) })??;
        let types = plan.get_parameter_types().map_err(of_engine)?;
        let mut fields: Vec<Field> = types
            .into_iter()
            .map(|(name, kind)| {
                let name = name.trim_start_matches('$').to_string();
                Field::new(name, kind.unwrap_or(DataType::Null), true)
            })
            .collect();
        fields.sort_by_key(|field| (field.name().parse::<usize>().ok(), field.name().clone()));
        Ok(Schema::new(fields))
    }

    /// Does nothing: a statement is planned with its parameters, on which thresholds depend.
    fn prepare(&mut self) -> Result<()> {
        self.sql().map(drop)
    }

    fn set_sql_query(&mut self, query: impl AsRef<str>) -> Result<()> {
        self.sql = Some(query.as_ref().to_string());
        self.target = None;
        Ok(())
    }

    fn set_substrait_plan(&mut self, _: impl AsRef<[u8]>) -> Result<()> {
        Err(not_implemented("plans of Substrait"))
    }

    fn cancel(&mut self) -> Result<()> {
        if let Some(running) = self.running.take() {
            running.cancel();
        }
        Ok(())
    }
}

/// The rows that a statement has written: its result is a column `count`.
fn rows_affected(batch: &RecordBatch) -> Option<i64> {
    let counts = batch.column_by_name("count").filter(|_| batch.num_columns() == 1)?;
    match counts.data_type() {
        DataType::UInt64 => {
            counts.as_primitive::<UInt64Type>().iter().flatten().next().map(|n| n as i64)
        }
        DataType::Int64 => counts.as_primitive::<Int64Type>().iter().flatten().next(),
        _ => None,
    }
}
