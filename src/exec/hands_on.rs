//! Methods common to the operators that hand on the rows of one input.

/// Methods of an [`ExecutionPlan`](datafusion::physical_plan::ExecutionPlan) whose rows are those
/// of its field `input`, in their partitions and their order. The operator has a method
/// `with_input`, which puts it above another input; it says itself which filters pass.
macro_rules! hands_on_rows {
    () => {
        fn properties(&self) -> &Arc<::datafusion::physical_plan::PlanProperties> {
            self.input.properties()
        }

        fn maintains_input_order(&self) -> Vec<bool> {
            vec![true]
        }

        fn benefits_from_input_partitioning(&self) -> Vec<bool> {
            vec![false]
        }

        crate::operator::one_input::one_input!();

        fn execute(
            &self,
            partition: usize,
            context: Arc<::datafusion::execution::TaskContext>,
        ) -> Result<::datafusion::execution::SendableRecordBatchStream> {
            self.input.execute(partition, context)
        }

        fn child_stats_requests(
            &self,
            partition: Option<usize>,
        ) -> Vec<::datafusion::physical_plan::statistics::ChildStats> {
            vec![::datafusion::physical_plan::statistics::ChildStats::At(partition)]
        }

        fn statistics_from_inputs(
            &self,
            input_stats: &[Arc<::datafusion::common::Statistics>],
            _: &::datafusion::physical_plan::statistics::StatisticsArgs,
        ) -> Result<Arc<::datafusion::common::Statistics>> {
            match input_stats {
                [input] => Ok(Arc::clone(input)),
                _ => ::datafusion::common::internal_err!("{} has one input", self.name()),
            }
        }

        fn supports_limit_pushdown(&self) -> bool {
            true
        }

        fn cardinality_effect(
            &self,
        ) -> ::datafusion::physical_plan::execution_plan::CardinalityEffect {
            ::datafusion::physical_plan::execution_plan::CardinalityEffect::Equal
        }
    };
}

pub(crate) use hands_on_rows;
