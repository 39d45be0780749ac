//! Aliases that an optimizer has made in plans which another one optimizes again.
//!
//! DataFusion optimizes the query of PREPARE, and optimizes it again for each EXECUTE. The names that it
//! makes (`__common_expr_1`) begin anew there, and a column of one run is taken for that of the other.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// Lets the names of an optimizer begin behind those that its plan has.
#[derive(Debug, Default)]
pub struct NumberAliases;

impl NumberAliases {
    /// The name of the rule.
    pub const NAME: &'static str = "number_aliases_of_similarity_joins";
}

impl OptimizerRule for NumberAliases {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        config.alias_generator().update_min_id(greatest(&plan)?);
        Ok(Transformed::no(plan))
    }
}

/// The greatest number of a name in a plan that an optimizer has made; 0 without one.
fn greatest(plan: &LogicalPlan) -> Result<usize> {
    let mut greatest = 0;
    let mut see = |name: &str| greatest = number(name).unwrap_or(0).max(greatest);
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::SubqueryAlias(named) = node {
            see(named.alias.table());
        }
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                match part {
                    Expr::Alias(alias) => see(&alias.name),
                    Expr::Column(column) => see(&column.name),
                    _ => {}
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(greatest)
}

/// The number at the end of a name such as `__common_expr_1`.
fn number(name: &str) -> Option<usize> {
    let (_, digits) = name.strip_prefix("__")?.rsplit_once('_')?;
    digits.parse().ok().filter(|number| *number < usize::MAX)
}
