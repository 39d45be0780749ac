//! Methods common to the operators that read pairs from one input.

/// Methods of an [`ExecutionPlan`](datafusion::physical_plan::ExecutionPlan) with fields `input`,
/// `properties` and `metrics`, and a method `with_input`, which puts it above another input.
macro_rules! reads_pairs {
    () => {
        fn properties(&self) -> &Arc<::datafusion::physical_plan::PlanProperties> {
            &self.properties
        }

        crate::util::one_input::one_input!();

        fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
            Ok(Arc::new(self.with_input(Arc::clone(&self.input))?))
        }

        fn metrics(&self) -> Option<::datafusion::physical_plan::metrics::MetricsSet> {
            Some(self.metrics.clone_inner())
        }
    };
}

/// Methods of an operator that reads all pairs in one partition and one order.
macro_rules! reads_sorted_pairs {
    () => {
        fn required_input_distribution(&self) -> Vec<::datafusion::physical_plan::Distribution> {
            vec![::datafusion::physical_plan::Distribution::SinglePartition]
        }

        fn required_input_ordering(
            &self,
        ) -> Vec<Option<::datafusion::physical_expr::OrderingRequirements>> {
            vec![order_of(&self.input, &self.sort())]
        }

        fn benefits_from_input_partitioning(&self) -> Vec<bool> {
            vec![true]
        }
    };
}

use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{OrderingRequirements, PhysicalSortRequirement};
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};

pub(super) use reads_pairs;
pub(super) use reads_sorted_pairs;

/// The requirement that the columns of a plan are sorted, NULLs last; `true`: falling.
pub(super) fn order_of(
    input: &Arc<dyn ExecutionPlan>,
    columns: &[(usize, bool)],
) -> Option<OrderingRequirements> {
    let schema = input.schema();
    let sorted = columns.iter().filter_map(|(index, descending)| {
        let name = schema.fields().get(*index)?.name();
        let column = Arc::new(Column::new(name, *index));
        let options = SortOptions { descending: *descending, nulls_first: false };
        Some(PhysicalSortRequirement::new(column, Some(options)))
    });
    OrderingRequirements::new_alternatives(
        datafusion::physical_expr::LexRequirement::new(sorted),
        false,
    )
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

/// The pairs of an operator that reads all of them in its only partition.
pub(super) fn sorted_pairs(
    input: &Arc<dyn ExecutionPlan>,
    partition: usize,
    context: &Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    if partition != 0 || input.output_partitioning().partition_count() != 1 {
        return internal_err!("sorted pairs are read in one partition");
    }
    input.execute(0, Arc::clone(context))
}
