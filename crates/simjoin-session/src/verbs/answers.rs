//! What the answers of verbs say: a threshold that may be the one, and the thresholds of links.

use arrow::array::{Array, AsArray};
use arrow::datatypes::{Float64Type, Int64Type};
use datafusion::common::{Result, internal_err};
use datafusion::prelude::SessionContext;

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

/// The number that a query counts.
///
/// # Errors
///
/// When it counts nothing.
pub async fn count_of(ctx: &SessionContext, sql: &str) -> Result<i64> {
    let batches = ctx.sql(sql).await?.collect().await?;
    let counts = batches.iter().flat_map(|batch| batch.columns().first());
    let mut counts = counts.filter_map(|counts| counts.as_primitive_opt::<Int64Type>());
    match counts.find(|counts| !counts.is_empty()) {
        Some(counts) => Ok(counts.value(0)),
        None => internal_err!("{sql} counts nothing"),
    }
}
