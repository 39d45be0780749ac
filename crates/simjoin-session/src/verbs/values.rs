//! The single value of a query.

use arrow::array::{Array, AsArray};
use arrow::datatypes::Int64Type;
use arrow::util::display::array_value_to_string;
use datafusion::common::{Result, internal_err};
use datafusion::prelude::SessionContext;

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

/// The text that a query gives, where it gives one.
pub(super) async fn text_of(ctx: &SessionContext, sql: &str) -> Result<Option<String>> {
    for batch in ctx.sql(sql).await?.collect().await? {
        if batch.num_rows() > 0 && !batch.column(0).is_null(0) {
            return Ok(Some(array_value_to_string(batch.column(0), 0)?));
        }
    }
    Ok(None)
}
