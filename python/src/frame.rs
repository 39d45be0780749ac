//! A frame: a query that runs when its rows are asked for.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::{DataFusionError, TableReference};
use datafusion::dataframe::DataFrame;
use datafusion::logical_expr::{LogicalPlan, ident};
use datafusion::physical_plan::common::collect;
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::metrics::MetricValue;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use futures::{TryStreamExt, future};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict, PyList};
use simjoin_session::host::{self, Host, HostError, ProgressLine, Running};
use simjoin_session::verbs::family;

use crate::errors::{of_engine, raise, warn};
use crate::runtime::{drop_apart, wait, wait_with};
use crate::stream::{self, Batches, Cast};
use crate::{cells, extension};

/// The query of a `simjoin.Frame`.
#[pyclass(frozen, module = "simjoin._native")]
pub(crate) struct Frame {
    host: Host,
    /// Present until the frame is dropped.
    frame: Option<DataFrame>,
    /// The statement, for hints.
    sql: Arc<str>,
}

impl Drop for Frame {
    fn drop(&mut self) {
        drop_apart(self.frame.take());
    }
}

impl Frame {
    pub(crate) fn new(host: Host, frame: DataFrame, sql: impl Into<Arc<str>>) -> Self {
        Self { host, frame: Some(frame), sql: sql.into() }
    }

    fn frame(&self) -> PyResult<DataFrame> {
        let frame = self.frame.clone();
        frame.ok_or_else(|| pyo3::exceptions::PyRuntimeError::new_err("the frame is gone"))
    }

    /// Another query over this one.
    fn derived(
        &self,
        py: Python<'_>,
        derive: impl FnOnce(DataFrame) -> datafusion::common::Result<DataFrame> + Send + 'static,
    ) -> PyResult<Self> {
        let frame = self.frame()?;
        let derived = wait(py, async move { derive(frame) })?;
        let derived = derived.map_err(|error| self.raise(py, error))?;
        Ok(Self::new(self.host.clone(), derived, Arc::clone(&self.sql)))
    }

    fn raise(&self, py: Python<'_>, error: impl Into<DataFusionError>) -> PyErr {
        raise(py, &HostError::of(error.into(), &self.sql))
    }

    /// Plans and starts the query, for a reader that may gather all rows in memory.
    fn start(&self, py: Python<'_>, frame: DataFrame, gathers: bool) -> PyResult<Running> {
        let (host, sql) = (self.host.clone(), Arc::clone(&self.sql));
        let running = wait(py, async move {
            match gathers {
                true => host.start_gathering(frame, &sql).await,
                false => host.start(frame, &sql).await,
            }
        })?;
        let running = running.map_err(|error| raise(py, &error))?;
        warn(py, &running.warnings)?;
        Ok(running)
    }

    /// The rows of a query, while `progress` is called with a line of its `columns` every 200
    /// milliseconds.
    fn collect(
        &self,
        py: Python<'_>,
        frame: DataFrame,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Vec<RecordBatch>> {
        let running = self.start(py, frame, true)?;
        let batches = collect(running.batches);
        let collected = match progress {
            None => wait(py, batches),
            Some(progress) => {
                let mut line = ProgressLine::new(Arc::clone(&running.plan));
                let columns = progress.getattr(py, "columns")?.extract(py)?;
                let mut looks = 0u32;
                wait_with(py, batches, |py| {
                    looks += 1;
                    if looks.is_multiple_of(10) {
                        progress.call1(py, (line.text(columns),))?;
                    }
                    Ok(())
                })
            }
        };
        drop_apart(running.plan);
        let collected = collected?;
        collected.map_err(|error| self.raise(py, error))
    }
}

#[pymethods]
impl Frame {
    /// The schema as a capsule.
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let frame = self.frame()?;
        stream::schema_capsule(py, frame.schema().as_arrow())
    }

    /// The names and types of the columns.
    fn columns(&self) -> PyResult<Vec<(String, String)>> {
        let frame = self.frame()?;
        let fields = frame.schema().fields().iter();
        Ok(fields.map(|field| (field.name().clone(), field.data_type().to_string())).collect())
    }

    /// The family of each column for the one-liners: "text", "set", "integers" (a set or a vector),
    /// "vector" or "other".
    fn families(&self) -> PyResult<Vec<&'static str>> {
        let frame = self.frame()?;
        Ok(frame.schema().fields().iter().map(|f| family(f.data_type())).collect())
    }

    /// Whether a column has lists of 0 and 1 alone, one of them of more than two elements. Reading ends
    /// at the first list that tells.
    fn has_only_bits(&self, py: Python<'_>, column: &str) -> PyResult<bool> {
        let frame = self.frame()?.select(vec![ident(column)]);
        let running = self.start(py, frame.map_err(|error| self.raise(py, error))?, false)?;
        drop_apart(running.plan);
        let mut batches = running.batches;
        let has_only_bits = wait(py, async move {
            let mut is_long = false;
            while let Some(batch) = batches.try_next().await? {
                match cells::longest_bits(batch.column(0))? {
                    Some(longest) => is_long |= longest > 2,
                    None => return Ok(false),
                }
            }
            Ok(is_long)
        })?;
        has_only_bits.map_err(|error: DataFusionError| self.raise(py, error))
    }

    /// A column of numbers as bytes: of i64 with -1 for NULL, or of f64 with NaN for NULL.
    fn numbers<'py>(&self, py: Python<'py>, column: usize) -> PyResult<Bound<'py, PyBytes>> {
        let frame = self.frame()?;
        let schema = Arc::clone(frame.schema().inner());
        let batches = self.collect(py, frame, None)?;
        let numbers = cells::numbers(py, schema, &batches, column);
        numbers.map_err(|error| self.raise(py, error))
    }

    /// The rows as dictionaries.
    #[pyo3(signature = (progress=None))]
    fn rows<'py>(
        &self,
        py: Python<'py>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let batches = self.collect(py, self.frame()?, progress)?;
        cells::rows(py, &batches)
    }

    /// The rows as a capsule, which come as the reader asks for them.
    #[pyo3(signature = (requested=None))]
    fn stream<'py>(
        &self,
        py: Python<'py>,
        requested: Option<&Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let requested = requested.map(stream::requested).transpose()?;
        let running = self.start(py, self.frame()?, false)?;
        drop_apart(running.plan);
        let batches = Batches::new(running.batches)?;
        match requested {
            Some(schema) => stream::stream_capsule(py, Cast::over(batches, schema)),
            None => stream::stream_capsule(py, Box::new(batches)),
        }
    }

    /// All rows, which stay in memory, as a frame.
    #[pyo3(signature = (progress=None))]
    fn cache(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<Self> {
        let frame = self.frame()?;
        let schema = Arc::clone(frame.schema().inner());
        let mut batches = self.collect(py, frame, progress)?;
        if batches.is_empty() {
            batches.push(RecordBatch::new_empty(schema));
        }
        let read = self.host.context().read_batches(batches);
        let read = read.map_err(|error| self.raise(py, error))?;
        Ok(Self::new(self.host.clone(), read, Arc::clone(&self.sql)))
    }

    /// The number of rows.
    #[pyo3(signature = (progress=None))]
    fn count(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<i64> {
        use datafusion::functions_aggregate::count::count_all;
        let counted = self.frame()?.aggregate(vec![], vec![count_all()]);
        let counted = counted.map_err(|error| self.raise(py, error))?;
        let batches = self.collect(py, counted, progress)?;
        let counts = batches.iter().map(|batch| {
            let counts = batch.column(0).as_any().downcast_ref::<arrow::array::Int64Array>();
            counts.map_or(0, |counts| counts.values().iter().sum::<i64>())
        });
        Ok(counts.sum())
    }

    /// The first rows.
    fn limit(&self, py: Python<'_>, rows: usize) -> PyResult<Self> {
        self.derived(py, move |frame| frame.limit(0, Some(rows)))
    }

    /// Some of the columns, by their names.
    fn select(&self, py: Python<'_>, columns: Vec<String>) -> PyResult<Self> {
        self.derived(py, move |frame| frame.select(columns.into_iter().map(ident)))
    }

    /// Names the query as a table.
    fn register(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let (ctx, name) = (self.host.context(), TableReference::bare(name));
        let view = self.frame()?.into_view();
        let put = || {
            ctx.deregister_table(name.clone())?;
            ctx.register_table(name.clone(), view)
        };
        put().map(drop).map_err(|error| of_engine(py, error))
    }

    /// The query as a table for the package `datafusion`, in a capsule.
    fn provider<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        extension::table_capsule(py, self.host.clone(), self.frame()?, Arc::clone(&self.sql))
    }

    /// The first rows as a table of text, and whether there are more.
    fn text(
        &self,
        py: Python<'_>,
        rows: usize,
        width: Option<usize>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<(String, bool)> {
        let (schema, batches, has_more) = self.first(py, rows, progress)?;
        let text = host::table(schema.into(), &batches, width);
        Ok((text.map_err(|error| self.raise(py, error))?, has_more))
    }

    /// The first rows as lists of texts, and whether there are more.
    fn cells(&self, py: Python<'_>, rows: usize) -> PyResult<(Vec<Vec<String>>, bool)> {
        let (_, batches, has_more) = self.first(py, rows, None)?;
        let options = FormatOptions::new().with_null("NULL").with_display_error(true);
        let mut cells = vec![];
        for batch in &batches {
            let columns = batch.columns().iter().map(|c| ArrayFormatter::try_new(c, &options));
            let columns: Result<Vec<_>, _> = columns.collect();
            let columns = columns.map_err(|error| self.raise(py, error))?;
            cells.extend((0..batch.num_rows()).map(|row| {
                columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>()
            }));
        }
        Ok((cells, has_more))
    }

    /// The plan as text, its operators as dictionaries, and a summary. With `analyze`, the query runs
    /// first; of a query with a similarity join there is a summary then.
    fn explain<'py>(
        &self,
        py: Python<'py>,
        analyze: bool,
        verbose: bool,
    ) -> PyResult<(String, Bound<'py, PyList>, Option<String>)> {
        let frame = self.frame()?;
        let logical = frame.logical_plan().clone();
        let (plan, summed_up) = match analyze {
            true => {
                let running = self.start(py, frame, false)?;
                let started = Instant::now();
                let rows = running.batches.try_for_each(|_| future::ready(Ok(())));
                wait(py, rows)?.map_err(|error| self.raise(py, error))?;
                let summed_up = host::analyzed(&running.plan, running.planning, started.elapsed());
                (running.plan, summed_up)
            }
            false => {
                let host = self.host.clone();
                let plan = wait(py, async move { host.planned(frame).await })?;
                (plan.map_err(|error| self.raise(py, error))?, None)
            }
        };
        let (summary, text) = summed_up.unzip();
        let text = match text {
            Some(text) if !verbose => text,
            _ => explained(&logical, plan.as_ref(), analyze, verbose),
        };
        let operators = PyList::empty(py);
        push_operators(&plan, 0, &operators)?;
        drop_apart((logical, plan));
        Ok((text, operators, summary))
    }
}

impl Frame {
    /// The first rows, and whether there are more.
    fn first(
        &self,
        py: Python<'_>,
        rows: usize,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<(Schema, Vec<RecordBatch>, bool)> {
        let frame = self.frame()?;
        let schema = frame.schema().as_arrow().clone();
        let limited = frame.limit(0, Some(rows.saturating_add(1)));
        let limited = limited.map_err(|error| self.raise(py, error))?;
        let (mut kept, mut left, mut has_more) = (vec![], rows, false);
        for batch in self.collect(py, limited, progress)? {
            has_more |= batch.num_rows() > left;
            let shown = batch.num_rows().min(left);
            kept.push(batch.slice(0, shown));
            left -= shown;
        }
        Ok((schema, kept, has_more))
    }
}

fn explained(
    logical: &LogicalPlan,
    plan: &dyn ExecutionPlan,
    analyze: bool,
    verbose: bool,
) -> String {
    if analyze {
        let shown = match verbose {
            true => DisplayableExecutionPlan::with_full_metrics(plan),
            false => DisplayableExecutionPlan::with_metrics(plan),
        };
        return shown.indent(verbose).to_string();
    }
    match verbose {
        true => format!("{}\n{}", logical.display_indent_schema(), displayable(plan).indent(true)),
        false => displayable(plan).indent(false).to_string(),
    }
}

/// Adds an operator and those below it: its name, what it does, its depth and its metrics.
fn push_operators(
    plan: &Arc<dyn ExecutionPlan>,
    depth: usize,
    operators: &Bound<'_, PyList>,
) -> PyResult<()> {
    let py = operators.py();
    let operator = PyDict::new(py);
    operator.set_item("operator", plan.name())?;
    operator.set_item("depth", depth)?;
    operator.set_item("details", displayable(plan.as_ref()).one_line().to_string().trim_end())?;
    let metrics = PyDict::new(py);
    if let Some(set) = plan.metrics() {
        for metric in set.aggregate_by_name().iter() {
            let value = metric.value();
            if !matches!(value, MetricValue::StartTimestamp(_) | MetricValue::EndTimestamp(_)) {
                metrics.set_item(value.name(), value.as_usize())?;
            }
        }
    }
    operator.set_item("metrics", metrics)?;
    operators.append(operator)?;
    for child in plan.children() {
        push_operators(child, depth + 1, operators)?;
    }
    Ok(())
}
