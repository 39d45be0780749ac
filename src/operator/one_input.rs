//! Methods common to operators that have one input and no expressions.

/// Methods of an [`ExecutionPlan`](datafusion::physical_plan::ExecutionPlan) with a field `input`. The
/// operator has a method `with_input`, which puts it above another input.
macro_rules! one_input {
    () => {
        fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
            vec![&self.input]
        }

        fn apply_expressions(
            &self,
            _: &mut dyn FnMut(
                &Arc<dyn ::datafusion::physical_expr::PhysicalExpr>,
            ) -> Result<::datafusion::common::tree_node::TreeNodeRecursion>,
        ) -> Result<::datafusion::common::tree_node::TreeNodeRecursion> {
            Ok(::datafusion::common::tree_node::TreeNodeRecursion::Continue)
        }

        fn with_new_children(
            self: Arc<Self>,
            mut children: Vec<Arc<dyn ExecutionPlan>>,
        ) -> Result<Arc<dyn ExecutionPlan>> {
            match children.pop() {
                Some(input) if children.is_empty() => Ok(Arc::new(self.with_input(input)?)),
                _ => ::datafusion::common::internal_err!("{} has one input", self.name()),
            }
        }
    };
}

pub(crate) use one_input;
