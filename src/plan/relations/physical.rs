//! From a [`PairsNode`] to its operator.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::UserDefinedLogicalNodeCore;
use datafusion::physical_plan::ExecutionPlan;

use super::node::PairsNode;
use super::{PairFunction, ScoreOrder};
use crate::results::{ConnectedComponentsExec, Merge, OneToOneExec, RepresentativesExec};

/// The operator of a node over its planned input. On a cluster (`is_cluster`) each task unites or sorts the
/// pairs that it reads, and one task what these give.
pub(crate) fn plan_pairs(
    node: &PairsNode,
    inputs: &[Arc<dyn ExecutionPlan>],
    is_cluster: bool,
) -> Result<Arc<dyn ExecutionPlan>> {
    let [input] = inputs else {
        return internal_err!("{} has one input", node.function().name());
    };
    let input = Arc::clone(input);
    let schema: SchemaRef = Arc::clone(node.schema().inner());
    Ok(match node.function() {
        PairFunction::ConnectedComponents { .. } => {
            let merge = |input, merge| {
                ConnectedComponentsExec::try_new(input, Arc::clone(&schema), merge).map(Arc::new)
            };
            match is_cluster {
                true => merge(merge(input, Merge::Partial)?, Merge::Single)?,
                false => merge(input, Merge::Process)?,
            }
        }
        PairFunction::Representatives { order } => {
            let is_distance = *order == ScoreOrder::Distance;
            let operator = RepresentativesExec::try_new(input, schema, is_distance)?;
            Arc::new(if is_cluster { operator } else { operator.sorting() })
        }
        PairFunction::OneToOne { order } => {
            let operator = OneToOneExec::try_new(input, *order == ScoreOrder::Distance)?;
            Arc::new(if is_cluster { operator } else { operator.sorting() })
        }
    })
}
