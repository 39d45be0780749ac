//! Figures from the answers of verbs: a suggested threshold, the thresholds of links, the best F1.

use arrow::array::AsArray;
use arrow::datatypes::{Float64Type, Int64Type};
use datafusion::common::Result;
use datafusion::prelude::SessionContext;

use super::evaluate::{LINKS, TRUTH};
use super::values::count_of;
use super::{AtThreshold, Evaluation, JUDGED, suggestion};

/// A threshold that may be the one, and why, from the query of the rows of each threshold, the strictest first.
///
/// # Errors
///
/// When the query fails.
pub async fn suggestion_of(ctx: &SessionContext, sql: &str) -> Result<Option<(f64, String)>> {
    let mut steps = vec![];
    for batch in ctx.sql(sql).await?.collect().await? {
        let thresholds = batch.column(0).as_primitive::<Float64Type>();
        let [added, largest] =
            [2, 5].map(|column| batch.column(column).as_primitive::<Int64Type>());
        steps.extend((0..batch.num_rows()).map(|row| AtThreshold {
            threshold: thresholds.value(row),
            added: added.value(row),
            largest: largest.value(row),
        }));
    }
    Ok(suggestion(&steps))
}

/// Thresholds between the scores of links that are judged; none where they have no scores.
///
/// # Errors
///
/// When the links are not judged.
pub async fn thresholds_of_links(ctx: &SessionContext) -> Result<Vec<f64>> {
    let ends = format!("SELECT min(score), max(score) FROM {JUDGED}");
    let ends = ctx.sql(&ends).await?.collect().await?;
    let end = |column: usize| {
        let column = ends.first()?.column(column).as_primitive_opt::<Float64Type>()?;
        column.iter().next().flatten()
    };
    Ok(match (end(0), end(1)) {
        (Some(least), Some(greatest)) => Evaluation::thresholds(least, greatest),
        _ => vec![],
    })
}

/// The best F1 of links at thresholds, and the threshold of it, from the query of an evaluation.
///
/// # Errors
///
/// When the query fails.
pub async fn best_f1(ctx: &SessionContext, sql: &str) -> Result<Option<(f64, f64)>> {
    let best = format!(
        "SELECT threshold, f1 FROM ({sql}) WHERE f1 > 0 ORDER BY f1 DESC, threshold DESC LIMIT 1"
    );
    let batches = ctx.sql(&best).await?.collect().await?;
    Ok(batches.iter().find(|batch| batch.num_rows() > 0).map(|batch| {
        let number = |column: usize| batch.column(column).as_primitive::<Float64Type>().value(0);
        (number(0), number(1))
    }))
}

/// Whether some row of a judged link is one of a true pair, or there are no links or no true pairs.
///
/// # Errors
///
/// When the links are not judged.
pub async fn have_common_rows(ctx: &SessionContext) -> Result<bool> {
    let rows = |table: &str| format!("SELECT l AS row FROM {table} UNION SELECT r FROM {table}");
    let common = format!(
        "SELECT count(*) FROM ({}) l JOIN ({}) t ON l.row = t.row",
        rows(LINKS),
        rows(TRUTH)
    );
    let some = |table: &str| format!("SELECT count(*) FROM {table}");
    let [links, truth] = [count_of(ctx, &some(LINKS)).await?, count_of(ctx, &some(TRUTH)).await?];
    Ok(links == 0 || truth == 0 || count_of(ctx, &common).await? > 0)
}
