//! A session: tables of Python's objects, and statements.

use std::sync::Arc;

use arrow::array::{RecordBatchIterator, RecordBatchReader};
use arrow::datatypes::SchemaRef;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::catalog::{MemorySchemaProvider, TableProvider};
use datafusion::common::{DataFusionError, ParamValues, Result, TableReference, exec_err};
use datafusion::datasource::MemTable;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::streaming::PartitionStream;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use simjoin_session::host::Host;
use simjoin_session::verbs::drop_made;

use crate::errors::{of_engine, raise, warn};
use crate::frame::Frame;
use crate::runtime::wait;
use crate::verbs::{self, VerbAnswer};
use crate::{params, stream, values};

/// The session of a `simjoin.Context`.
#[pyclass(frozen, module = "simjoin._native")]
pub(crate) struct Session {
    host: Host,
}

/// The name of a table: catalog and schema where they are named, and its own.
type TableName = (Option<String>, Option<String>, String);

#[pymethods]
impl Session {
    /// Opens a session for flags of the command line.
    #[new]
    fn new(py: Python<'_>, flags: Vec<String>) -> PyResult<Self> {
        let host = wait(py, async move { Host::open(flags) })?;
        Ok(Self { host: host.map_err(|error| raise(py, &error))? })
    }

    /// Runs the statements of a text; a query at its end is planned only.
    fn run(
        &self,
        py: Python<'_>,
        text: String,
        positional: &Bound<'_, PyList>,
        named: &Bound<'_, PyDict>,
    ) -> PyResult<Frame> {
        let params: Option<ParamValues> = params::read(positional, named)?;
        let (host, sql) = (self.host.clone(), text.clone());
        let outcome = wait(py, async move { host.run(&sql, params).await })?;
        let outcome = outcome.map_err(|error| raise(py, &error))?;
        warn(py, &outcome.warnings)?;
        Ok(Frame::new(self.host.clone(), outcome.frame, text))
    }

    /// Runs a verb over tables of the session, whose rows are numbered. The tables that it makes stay until
    /// [`Self::drop_made`].
    fn verb(
        &self,
        py: Python<'_>,
        name: String,
        words: &Bound<'_, PyDict>,
    ) -> PyResult<VerbAnswer> {
        verbs::run(py, &self.host, name, words)
    }

    /// Drops the tables that verbs have made.
    fn drop_made(&self, py: Python<'_>) -> PyResult<()> {
        drop_made(self.host.context()).map_err(|error| of_engine(py, error))
    }

    /// Makes a table of an object's rows, which it reads now. No buffer is copied. A column `row`
    /// numbers them where it is named.
    #[pyo3(signature = (name, object, row=None))]
    fn register(
        &self,
        py: Python<'_>,
        name: &str,
        object: &Bound<'_, PyAny>,
        row: Option<String>,
    ) -> PyResult<usize> {
        let reader = stream::open(object)?;
        self.collect(py, name, reader, row)
    }

    /// Makes a table of columns: a dictionary of lists, or of arrays of numbers.
    #[pyo3(signature = (name, columns, row=None))]
    fn register_columns(
        &self,
        py: Python<'_>,
        name: &str,
        columns: &Bound<'_, PyDict>,
        row: Option<String>,
    ) -> PyResult<usize> {
        let batch = values::batch(columns)?;
        let schema = batch.schema();
        let reader = RecordBatchIterator::new([Ok(batch)], schema);
        self.collect(py, name, Box::new(reader), row)
    }

    /// Makes a table of the rows that `open()` gives for each scan. The rows of an `exclusive` source,
    /// a query of a connection that runs one at a time, are read before those of another scan. The
    /// table is of the catalog's schema `within` where that is named.
    #[pyo3(signature = (name, schema, open, exclusive, within=None))]
    fn register_lazy(
        &self,
        py: Python<'_>,
        name: &str,
        schema: &Bound<'_, PyAny>,
        open: Py<PyAny>,
        exclusive: bool,
        within: Option<String>,
    ) -> PyResult<()> {
        let schema = match schema.hasattr("__arrow_c_schema__")? {
            true => stream::schema_of(schema)?,
            false => stream::open(schema)?.schema(),
        };
        let scan = Scan { schema: Arc::clone(&schema), open: Arc::new(open), exclusive };
        let table = StreamingTable::try_new(schema, vec![Arc::new(scan)]);
        let table = Arc::new(table.map_err(|error| of_engine(py, error))?);
        match within {
            None => self.put(py, TableReference::bare(name), table),
            Some(within) => {
                self.make_schema(&within).map_err(|error| of_engine(py, error))?;
                self.put(py, TableReference::partial(within, name), table)
            }
        }
    }

    /// Removes a table; false where there is none of that name.
    #[pyo3(signature = (name, within=None))]
    fn deregister(&self, py: Python<'_>, name: &str, within: Option<String>) -> PyResult<bool> {
        let table = match within {
            None => TableReference::bare(name),
            Some(within) => TableReference::partial(within, name),
        };
        let removed = self.host.context().deregister_table(table);
        Ok(removed.map_err(|error| of_engine(py, error))?.is_some())
    }

    /// The tables that a query names, files among them: catalog and schema where they are named, and
    /// the name. A text that is no query is an error.
    fn tables_of(&self, py: Python<'_>, text: &str) -> PyResult<Vec<TableName>> {
        let tables = self.host.tables_of(text).map_err(|error| raise(py, &error))?;
        let part = |part: Option<&str>| part.map(str::to_string);
        let parts = |t: &TableReference| (part(t.catalog()), part(t.schema()), t.table().into());
        Ok(tables.iter().map(parts).collect())
    }

    /// The names of the tables.
    fn tables(&self) -> Vec<String> {
        let catalog = self.host.context().catalog("datafusion");
        let schema = catalog.and_then(|catalog| catalog.schema("public"));
        let mut names = schema.map(|schema| schema.table_names()).unwrap_or_default();
        names.sort_unstable();
        names
    }
}

impl Session {
    /// Reads all rows, and makes a table of them. Gives their number.
    fn collect(
        &self,
        py: Python<'_>,
        name: &str,
        reader: Box<dyn RecordBatchReader + Send>,
        row: Option<String>,
    ) -> PyResult<usize> {
        let read = py.detach(|| stream::read_all(reader, row.as_deref()));
        let (schema, batches) = read.map_err(|error| of_engine(py, error))?;
        let rows = batches.iter().map(|batch| batch.num_rows()).sum();
        let table = MemTable::try_new(schema, vec![batches]);
        let table = Arc::new(table.map_err(|error| of_engine(py, error))?);
        self.put(py, TableReference::bare(name), table)?;
        Ok(rows)
    }

    /// Makes a schema of the catalog, unless it has it.
    fn make_schema(&self, name: &str) -> Result<()> {
        match self.host.context().catalog("datafusion") {
            Some(catalog) if catalog.schema(name).is_none() => {
                catalog.register_schema(name, Arc::new(MemorySchemaProvider::new()))?;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Names a table, in place of one that had the name.
    fn put(
        &self,
        py: Python<'_>,
        name: TableReference,
        table: Arc<dyn TableProvider>,
    ) -> PyResult<()> {
        let ctx = self.host.context();
        let put = || {
            ctx.deregister_table(name.clone())?;
            ctx.register_table(name.clone(), table)
        };
        put().map(drop).map_err(|error| of_engine(py, error))
    }
}

/// A table that is read anew for each scan.
#[derive(Debug, Clone)]
struct Scan {
    schema: SchemaRef,
    open: Arc<Py<PyAny>>,
    exclusive: bool,
}

/// Held while an exclusive source is read.
static EXCLUSIVE: Mutex<()> = Mutex::new(());

impl Scan {
    /// Opens the rows, those of an exclusive source as read.
    fn open(&self) -> Result<Box<dyn RecordBatchReader + Send>> {
        // Nobody waits for this lock while holding Python's.
        let _alone = self.exclusive.then(|| EXCLUSIVE.lock());
        let reader = Python::attach(|py| stream::open(&self.open.bind(py).call0()?));
        let reader = reader.map_err(|error| DataFusionError::Execution(error.to_string()))?;
        let schema = reader.schema();
        if schema.fields() != self.schema.fields() {
            return exec_err!(
                "the columns of a registered object have changed: it had {}, and now has {schema}; \
                 register it again",
                self.schema
            );
        }
        if !self.exclusive {
            return Ok(reader);
        }
        let batches: Vec<_> = reader.collect();
        Ok(Box::new(RecordBatchIterator::new(batches, schema)))
    }
}

impl PartitionStream for Scan {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut builder = RecordBatchReceiverStream::builder(Arc::clone(&self.schema), 2);
        let (send, scan) = (builder.tx(), self.clone());
        // Python's lock is waited for, and the object may run a query of its own.
        builder.spawn_blocking(move || {
            let reader = scan.open()?;
            for batch in reader {
                let is_last = batch.is_err();
                let sent = send.blocking_send(batch.map_err(DataFusionError::from));
                if sent.is_err() || is_last {
                    break;
                }
            }
            Ok(())
        });
        builder.build()
    }
}
