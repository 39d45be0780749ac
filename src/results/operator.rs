//! Methods common to the operators that read pairs from one input.

/// Methods of an [`ExecutionPlan`](datafusion::physical_plan::ExecutionPlan) with fields `input`,
/// `properties` and `metrics`, and a method `with_input`, which puts it above another input.
macro_rules! reads_pairs {
    () => {
        fn properties(&self) -> &Arc<::datafusion::physical_plan::PlanProperties> {
            &self.properties
        }

        crate::operator::one_input::one_input!();

        fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
            Ok(Arc::new(self.with_input(Arc::clone(&self.input))?))
        }

        fn metrics(&self) -> Option<::datafusion::physical_plan::metrics::MetricsSet> {
            Some(self.metrics.clone_inner())
        }
    };
}

/// Methods of an operator with one partition that reads all pairs in one order. Where its field `sorts` is
/// set, it sorts them itself; otherwise they come sorted.
macro_rules! reads_sorted_pairs {
    () => {
        fn required_input_distribution(&self) -> Vec<::datafusion::physical_plan::Distribution> {
            vec![match self.sorts {
                true => ::datafusion::physical_plan::Distribution::UnspecifiedDistribution,
                false => ::datafusion::physical_plan::Distribution::SinglePartition,
            }]
        }

        fn required_input_ordering(
            &self,
        ) -> Vec<Option<::datafusion::physical_expr::OrderingRequirements>> {
            let order = order_of(&self.input, &self.sort()).filter(|_| !self.sorts);
            vec![order.map(::datafusion::physical_expr::OrderingRequirements::from)]
        }

        fn benefits_from_input_partitioning(&self) -> Vec<bool> {
            vec![!self.sorts]
        }
    };
}

use std::fmt;
use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};

use super::nodes::NODE_ORDER;
use super::sort::PairSort;

pub(super) use reads_pairs;
pub(super) use reads_sorted_pairs;

/// A column by which pairs are sorted.
#[derive(Debug, Clone, Copy)]
pub(super) enum By {
    /// Nodes, in the order in which they are numbered.
    Nodes(usize),
    /// Scores, the best ones first, NULL last.
    Scores { column: usize, is_distance: bool },
}

/// The order of the columns of a plan.
pub(super) fn order_of(input: &Arc<dyn ExecutionPlan>, columns: &[By]) -> Option<LexOrdering> {
    let schema = input.schema();
    let sorted = columns.iter().filter_map(|by| {
        let (index, options) = match *by {
            By::Nodes(index) => (index, NODE_ORDER),
            By::Scores { column, is_distance } => {
                (column, SortOptions { descending: !is_distance, nulls_first: false })
            }
        };
        let name = schema.fields().get(index)?.name();
        Some(PhysicalSortExpr::new(Arc::new(Column::new(name, index)), options))
    });
    LexOrdering::new(sorted)
}

/// The properties of an operator over pairs, whose rows have no order.
pub(super) fn properties_of(
    input: &Arc<dyn ExecutionPlan>,
    schema: SchemaRef,
    partitions: usize,
    emission: EmissionType,
) -> Arc<PlanProperties> {
    Arc::new(PlanProperties::new(
        EquivalenceProperties::new(schema),
        Partitioning::UnknownPartitioning(partitions),
        emission,
        input.boundedness(),
    ))
}

/// The pairs of an operator that reads all of them in its only partition: as its input gives them, or by `sort`.
pub(super) fn sorted_pairs(
    input: &Arc<dyn ExecutionPlan>,
    partition: usize,
    context: &Arc<TaskContext>,
    sort: Option<PairSort<'_>>,
) -> Result<SendableRecordBatchStream> {
    match sort {
        _ if partition != 0 => internal_err!("sorted pairs are read in one partition"),
        Some(sort) => sort.execute(context),
        None if input.output_partitioning().partition_count() != 1 => {
            internal_err!("sorted pairs come in one partition")
        }
        None => input.execute(0, Arc::clone(context)),
    }
}

/// Writes the order in which an operator sorts.
pub(super) fn fmt_sort(
    sorts: bool,
    order: Option<LexOrdering>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    match order.filter(|_| sorts) {
        Some(order) => write!(f, ", sort=[{order}]"),
        None => Ok(()),
    }
}
