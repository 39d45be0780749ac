//! Measures between tokens of two kinds, which are similar by chance at best.

use datafusion::common::Column;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Cast, Expr, LogicalPlan};

use datafusion_simjoin::functions::{TokenizerUdf, measure_of};

/// A warning for each measure of the plan whose arguments come from different tokenizers, or from
/// one with different lengths.
pub fn warnings(plan: &LogicalPlan) -> Vec<String> {
    let mut warnings: Vec<String> = vec![];
    // Neither closure returns an error.
    let _ = plan.apply_with_subqueries(|node| {
        for expression in node.expressions() {
            expression.apply(|expression| {
                warnings.extend(warning(expression, node));
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        Ok(TreeNodeRecursion::Continue)
    });
    let mut seen = std::collections::HashSet::new();
    warnings.retain(|warning| seen.insert(warning.clone()));
    warnings
}

/// The warning of one expression of `node`.
fn warning(expression: &Expr, node: &LogicalPlan) -> Option<String> {
    let Expr::ScalarFunction(ScalarFunction { func, args }) = expression else { return None };
    let (measure, [a, b]) = (measure_of(func)?, args.as_slice()) else { return None };
    let tokens =
        |argument: &Expr| node.inputs().into_iter().find_map(|input| tokenizer(argument, input));
    let (a, b) = (tokens(a)?, tokens(b)?);
    (a != b).then(|| {
        format!(
            "{measure} compares the tokens of {a} with those of {b}, which are equal by chance \
             only; use one tokenizer with one length on both sides"
        )
    })
}

/// The tokenizer that an expression over the rows of `input` calls, with the text left out;
/// `None` for other expressions, and for columns of tables.
fn tokenizer(expression: &Expr, input: &LogicalPlan) -> Option<String> {
    match expression {
        Expr::Alias(alias) => tokenizer(&alias.expr, input),
        Expr::Cast(Cast { expr, .. }) => tokenizer(expr, input),
        Expr::Column(column) => tokenizer_of_column(column, input),
        Expr::ScalarFunction(ScalarFunction { func, args }) => {
            func.inner().downcast_ref::<TokenizerUdf>()?;
            let (source, lengths) = args.split_first()?;
            let mut parts = vec![tokenizer(source, input).unwrap_or_else(|| "…".to_string())];
            for length in lengths {
                // The lengths of two columns may agree row by row.
                parts.push(constant(length)?);
            }
            Some(format!("{}({})", func.name(), parts.join(", ")))
        }
        _ => None,
    }
}

/// The value of a constant.
fn constant(expression: &Expr) -> Option<String> {
    match expression {
        Expr::Literal(value, _) => Some(value.to_string()),
        Expr::Cast(Cast { expr, .. }) => constant(expr),
        Expr::Alias(alias) => constant(&alias.expr),
        _ => None,
    }
}

fn tokenizer_of_column(column: &Column, plan: &LogicalPlan) -> Option<String> {
    tokenizer_at(plan.schema().maybe_index_of_column(column)?, plan)
}

/// The tokenizer that gives the column at `index` of a plan.
fn tokenizer_at(index: usize, plan: &LogicalPlan) -> Option<String> {
    match plan {
        LogicalPlan::Projection(projection) => {
            tokenizer(projection.expr.get(index)?, &projection.input)
        }
        LogicalPlan::SubqueryAlias(alias) => tokenizer_at(index, &alias.input),
        LogicalPlan::Filter(filter) => tokenizer_at(index, &filter.input),
        LogicalPlan::Sort(sort) => tokenizer_at(index, &sort.input),
        LogicalPlan::Limit(limit) => tokenizer_at(index, &limit.input),
        LogicalPlan::TableScan(scan) if scan.projection.is_none() => {
            tokenizer_at(index, scan.source.get_logical_plan()?.as_ref())
        }
        LogicalPlan::Join(join) => {
            let (field, qualifier) = {
                let (qualifier, field) = join.schema.qualified_field(index);
                (field.name(), qualifier)
            };
            let column = Column::new(qualifier.cloned(), field);
            [&join.left, &join.right]
                .into_iter()
                .find_map(|side| tokenizer_of_column(&column, side))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::common::Result;
    use datafusion::execution::SessionStateBuilder;
    use datafusion::prelude::SessionContext;

    use super::*;
    use datafusion_simjoin::{SimJoinContextExt, install};

    async fn told(sql: &str) -> Result<Vec<String>> {
        let builder = SessionStateBuilder::new_with_default_features();
        let ctx = SessionContext::new_with_state(install(builder)?.build());
        for sql in [
            "CREATE TABLE t AS SELECT 1 AS id, 'night watch' AS s, ['night', 'watch'] AS list",
            "CREATE VIEW grams AS SELECT id, qgrams(s, 3) AS toks FROM t",
            "CREATE VIEW words AS SELECT id, word_tokens(s) AS toks FROM t WHERE id > 0",
        ] {
            ctx.sql(sql).await?.collect().await?;
        }
        Ok(warnings(ctx.simjoin_sql(sql).await?.logical_plan()))
    }

    #[tokio::test]
    async fn two_tokenizers_in_one_measure_are_told() {
        let words_and_grams =
            "jaccard compares the tokens of word_tokens(…) with those of qgrams(…, 3)";
        for (sql, expected) in [
            (
                "SELECT 1 FROM t a SIMJOIN t b ON jaccard(word_tokens(a.s), qgrams(b.s, 3)) >= 0.1",
                words_and_grams,
            ),
            (
                "SELECT 1 FROM words a SIMJOIN grams b ON jaccard(a.toks, b.toks) >= 0.1",
                words_and_grams,
            ),
            (
                "SELECT 1 FROM words a, grams b WHERE jaccard(a.toks, b.toks) >= 0.1",
                words_and_grams,
            ),
            (
                "EXPLAIN SELECT 1 FROM words a, grams b WHERE jaccard(a.toks, b.toks) >= 0.1",
                words_and_grams,
            ),
            (
                "WITH x AS (SELECT qgrams(s, 2) g FROM t ORDER BY g LIMIT 9) \
                 SELECT dice(x.g, grams.toks) FROM x CROSS JOIN grams",
                "dice compares the tokens of qgrams(…, 2) with those of qgrams(…, 3)",
            ),
            (
                "SELECT overlap(shingles(word_tokens(s), 2), word_tokens(s)) FROM t",
                "overlap compares the tokens of shingles(word_tokens(…), 2) with those of word_tokens(…)",
            ),
        ] {
            let told = told(sql).await.unwrap();
            assert!(told.len() == 1 && told[0].starts_with(expected), "{sql}: {told:?}");
        }
        for sql in [
            "SELECT 1 FROM t a SIMJOIN t b ON jaccard(qgrams(a.s, 3), qgrams(b.s, 3)) >= 0.1",
            "SELECT 1 FROM grams a SIMJOIN grams b ON jaccard(a.toks, b.toks) >= 0.1",
            "SELECT 1 FROM grams a SIMJOIN t b ON jaccard(a.toks, b.list) >= 0.1",
            "SELECT jaccard(qgrams(s, id), qgrams(s, 3)) FROM t",
        ] {
            assert_eq!(told(sql).await.unwrap(), Vec::<String>::new(), "{sql}");
        }
    }
}
