//! Scalar functions and queries for a session of the Python package `datafusion`, by the interface of the
//! crate `datafusion-ffi`. A query crosses as a table.
//!
//! No operator of the other library runs below one of ours: it would need threads of its own runtime. The
//! query reads tables of the session as Python does, by Arrow's streams.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::dataframe::DataFrame;
use datafusion::execution::{SendableRecordBatchStream, TaskContext, TaskContextProvider};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, TableType};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};
use datafusion::prelude::SessionContext;
use datafusion_ffi::table_provider::FFI_TableProvider;
use datafusion_ffi::udf::FFI_ScalarUDF;
use datafusion_simjoin::functions;
use futures::StreamExt;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use simjoin_session::host::{Host, HostError};

use crate::errors::warn;
use tokio::runtime::Runtime;

use crate::runtime::{drop_apart, runtime};

/// The scalar functions of the engine by their names, each in a capsule.
#[pyfunction]
pub(crate) fn scalar_functions(py: Python<'_>) -> PyResult<Vec<(String, Bound<'_, PyCapsule>)>> {
    let functions = functions::all().into_iter().map(|function| {
        let name = function.name().to_string();
        let function = FFI_ScalarUDF::from(function);
        Ok((name, PyCapsule::new_with_value(py, function, c"datafusion_scalar_udf")?))
    });
    functions.collect()
}

/// A capsule with a query as a table.
pub(crate) fn table_capsule<'py>(
    py: Python<'py>,
    host: Host,
    frame: DataFrame,
    sql: Arc<str>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let context = Arc::new(host.context().clone());
    let schema = Arc::clone(frame.schema().inner());
    let query = Arc::new(Query { host, frame: Some(frame), schema, sql });
    let runtime = runtime()?;
    let handle = Some(runtime.handle().clone());
    let provider =
        Arc::new(QueryTable { query, _context: Arc::clone(&context), _runtime: runtime });
    let context: Arc<dyn TaskContextProvider> = context;
    let table = FFI_TableProvider::new(provider, false, handle, &context, None);
    PyCapsule::new_with_value(py, table, c"datafusion_table_provider")
}

/// A query of a session.
struct Query {
    host: Host,
    /// Present until the query is dropped.
    frame: Option<DataFrame>,
    schema: SchemaRef,
    sql: Arc<str>,
}

impl Drop for Query {
    fn drop(&mut self) {
        drop_apart(self.frame.take());
    }
}

impl Query {
    fn frame(&self) -> Result<DataFrame> {
        match &self.frame {
            Some(frame) => Ok(frame.clone()),
            None => internal_err!("the query is gone"),
        }
    }

    /// The query with the columns and as many rows as are asked for, and what is left to do for its
    /// batches: a query that asks for no column gets the first, and EXPLAIN has no operator above it.
    fn narrowed(
        &self,
        columns: Option<Vec<usize>>,
        limit: Option<usize>,
    ) -> Result<(DataFrame, Option<Vec<usize>>)> {
        let frame = self.frame()?;
        if matches!(frame.logical_plan(), LogicalPlan::Explain(_) | LogicalPlan::Analyze(_)) {
            return Ok((frame, columns));
        }
        let frame = match limit {
            Some(limit) => frame.limit(0, Some(limit))?,
            None => frame,
        };
        let Some(columns) = columns else { return Ok((frame, None)) };
        let (columns, left) = match columns.is_empty() {
            true => (vec![0], Some(columns)),
            false => (columns, None),
        };
        let (state, plan) = frame.into_parts();
        let all = plan.schema().columns();
        let wanted: Vec<_> = columns.iter().map(|i| Expr::Column(all[*i].clone())).collect();
        let plan = LogicalPlanBuilder::from(plan).project(wanted)?.build()?;
        Ok((DataFrame::new(state, plan), left))
    }
}

/// A query as a table, which runs for each scan.
struct QueryTable {
    query: Arc<Query>,
    /// The session that the interface holds by a weak reference, to decode filters. No filter crosses.
    _context: Arc<SessionContext>,
    /// The runtime of which the interface has a handle, and which must not end before.
    _runtime: Arc<Runtime>,
}

impl fmt::Debug for QueryTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryTable").field("sql", &self.query.sql).finish_non_exhaustive()
    }
}

#[async_trait]
impl TableProvider for QueryTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.query.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let scan = QueryExec::new(Arc::clone(&self.query), projection.cloned(), limit)?;
        Ok(Arc::new(scan))
    }
}

/// The operator that runs a query in the session that it was made in, with the limits of that session.
struct QueryExec {
    query: Arc<Query>,
    projection: Option<Vec<usize>>,
    limit: Option<usize>,
    properties: Arc<PlanProperties>,
}

impl QueryExec {
    fn new(
        query: Arc<Query>,
        projection: Option<Vec<usize>>,
        limit: Option<usize>,
    ) -> Result<Self> {
        let schema = match &projection {
            Some(columns) => Arc::new(query.schema.project(columns)?),
            None => Arc::clone(&query.schema),
        };
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        Ok(Self { query, projection, limit, properties })
    }
}

impl fmt::Debug for QueryExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryExec").field("sql", &self.query.sql).finish_non_exhaustive()
    }
}

impl DisplayAs for QueryExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "simjoin: {}", self.query.sql)
    }
}

impl ExecutionPlan for QueryExec {
    fn name(&self) -> &str {
        "simjoin"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let runtime = runtime().map_err(|error| DataFusionError::Execution(error.to_string()))?;
        let _entered = runtime.enter();
        let schema = self.schema();
        let mut builder = RecordBatchReceiverStream::builder(Arc::clone(&schema), 2);
        let (send, query) = (builder.tx(), Arc::clone(&self.query));
        let (columns, limit) = (self.projection.clone(), self.limit);
        // The stacks of the other library's threads may be too small for the query's trees.
        builder.spawn(async move {
            let (frame, left) = query.narrowed(columns, limit)?;
            let running = query.host.start(frame, &query.sql).await.map_err(|e| told(&e))?;
            if !running.warnings.is_empty() {
                Python::attach(|py| warn(py, &running.warnings))
                    .map_err(|error| DataFusionError::Execution(error.to_string()))?;
            }
            let mut batches = running.batches;
            while let Some(batch) = batches.next().await {
                let batch = batch.map_err(|error| told(&HostError::of(error, &query.sql)));
                let batch = batch.and_then(|batch| match &left {
                    Some(columns) => Ok(batch.project(columns)?),
                    None => Ok(batch),
                });
                let is_last = batch.is_err();
                if send.send(batch).await.is_err() || is_last {
                    break;
                }
            }
            Ok(())
        });
        Ok(builder.build())
    }
}

/// The error with its hint: only its text crosses.
fn told(error: &HostError) -> DataFusionError {
    let hint = error.hint().map(|hint| format!("\nHint: {hint}")).unwrap_or_default();
    DataFusionError::Execution(format!("{}{hint}", error.text()))
}
