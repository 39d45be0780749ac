//! A warning of weighted sets of two scales: both sides are weighted by windows over tables of their own.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, Join, LogicalPlan, Window, WindowFunctionDefinition};
use datafusion_simjoin::functions::{WeightedMeasure, Weighting};

const TWO_SCALES: &str = "weights of the two sides come from two windows, so that a token may weigh differently on \
     each side; take one window over both by UNION ALL";

/// Warns of a similarity of weighted sets whose arguments are weighted by two windows over different tables.
pub fn of_windows(plan: &LogicalPlan) -> Option<String> {
    let mut found = false;
    // Neither closure returns an error.
    let _ = plan.apply_with_subqueries(|node| {
        for expression in node.expressions() {
            expression.apply(|part| {
                found |= compares_scales(part, node);
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        Ok(TreeNodeRecursion::Continue)
    });
    found.then(|| TWO_SCALES.to_string())
}

/// Whether an expression of a node compares weights of windows over different tables.
fn compares_scales(expression: &Expr, node: &LogicalPlan) -> bool {
    let Expr::ScalarFunction(call) = expression else { return false };
    let is_weighted = WeightedMeasure::ALL.iter().any(|of| of.name() == call.func.name());
    let [left, right] = call.args.as_slice() else { return false };
    let tables = |side: &Expr| node.inputs().into_iter().find_map(|input| scale_of(side, input));
    is_weighted
        && matches!((tables(left), tables(right)), (Some(left), Some(right)) if left != right)
}

/// The tables whose rows give the weights that an expression over the rows of a plan has; `None` where they are of no
/// window, or not of one alone.
fn scale_of(expression: &Expr, plan: &LogicalPlan) -> Option<Vec<String>> {
    match expression {
        Expr::Alias(alias) => scale_of(&alias.expr, plan),
        Expr::Column(column) => scale_at(plan.schema().maybe_index_of_column(column)?, plan),
        _ => None,
    }
}

/// As [`scale_of`], of the column at a place of the rows of a plan.
fn scale_at(place: usize, plan: &LogicalPlan) -> Option<Vec<String>> {
    match plan {
        LogicalPlan::Projection(projection) => {
            scale_of(projection.expr.get(place)?, &projection.input)
        }
        LogicalPlan::Window(Window { input, window_expr, .. }) => {
            match place.checked_sub(input.schema().fields().len()) {
                None => scale_at(place, input),
                Some(place) => weighs(window_expr.get(place)?).then(|| tables_of(input)),
            }
        }
        LogicalPlan::Join(Join { left, right, .. }) if plan.schema().fields().len() > place => {
            match place.checked_sub(left.schema().fields().len()) {
                None => scale_at(place, left),
                Some(place) => scale_at(place, right),
            }
        }
        LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Repartition(_) => scale_at(place, plan.inputs().first()?),
        _ => None,
    }
}

/// Whether an expression is a window function that weighs tokens.
fn weighs(expression: &Expr) -> bool {
    match expression {
        Expr::Alias(alias) => weighs(&alias.expr),
        Expr::WindowFunction(call) => match &call.fun {
            WindowFunctionDefinition::WindowUDF(udf) => {
                Weighting::ALL.iter().any(|weighting| weighting.name() == udf.name())
            }
            WindowFunctionDefinition::AggregateUDF(_) => false,
        },
        _ => false,
    }
}

/// The names of the tables that a plan reads.
fn tables_of(plan: &LogicalPlan) -> Vec<String> {
    let mut names = vec![];
    // The closure returns no error.
    let _ = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            names.push(scan.table_name.to_string());
        }
        Ok(TreeNodeRecursion::Continue)
    });
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use datafusion::execution::SessionStateBuilder;
    use datafusion::prelude::SessionContext;

    use super::*;
    use datafusion_simjoin::{SimJoinContextExt, install};

    #[tokio::test]
    async fn weights_of_two_tables_are_told() {
        let builder = SessionStateBuilder::new_with_default_features();
        let ctx = SessionContext::new_with_state(install(builder).unwrap().build());
        for name in ["ours", "theirs"] {
            let table = format!("CREATE TABLE {name} AS SELECT 1 AS id, 'a b' AS s");
            ctx.sql(&table).await.unwrap();
        }
        let weighed = |table: &str, function: &str| {
            format!("(SELECT id, {function}(word_tokens(s)) OVER () AS w FROM {table})")
        };
        let both = "WITH w AS (SELECT side, id, tfidf(word_tokens(s)) OVER () AS w FROM (SELECT 0 AS side, * FROM \
                    ours UNION ALL SELECT 1, * FROM theirs))";
        let on = "ON weighted_cosine(a.w, b.w) >= 0.5";
        let [ours, theirs] = ["ours", "theirs"].map(|table| weighed(table, "tfidf"));
        for (sql, is_told) in [
            (format!("SELECT a.id FROM {ours} a SIMJOIN {theirs} b {on}"), true),
            (format!("SELECT weighted_dice(a.w, b.w) AS s FROM {ours} a, {theirs} b"), true),
            (format!("SELECT a.id FROM {ours} a SIMJOIN {ours} b {on}"), false),
            (
                format!(
                    "SELECT a.id FROM {ours} a JOIN ours x ON a.id = x.id SIMJOIN {theirs} b {on}"
                ),
                true,
            ),
            (
                format!(
                    "{both} SELECT a.id FROM (SELECT * FROM w WHERE side = 0) a SIMJOIN w b {on}"
                ),
                false,
            ),
            (
                format!(
                    "SELECT a.id FROM (SELECT id, token_counts(word_tokens(s)) AS w FROM ours) a SIMJOIN {} b \
                     NEAREST 2 BY SIMILARITY weighted_overlap(a.w, b.w)",
                    weighed("theirs", "bm25_weights")
                ),
                false,
            ),
        ] {
            let frame = ctx.simjoin_sql(&sql).await.unwrap();
            assert_eq!(of_windows(frame.logical_plan()).is_some(), is_told, "{sql}");
        }
    }
}
