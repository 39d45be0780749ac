//! Counts rows whose scores are all NaN, which do not rank.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::expressions::Column;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;

use super::pairs::{admitted, evaluate};
use crate::engine::EncodeInput;
use crate::exec::{JoinInput, NanRows};
use crate::families::{Bound, Families};
use crate::spec::{NearestJoin, Side};

/// The rows of a side, which are counted as they are read. Arguments that are computed are not looked at: they
/// may cost more than the search.
///
/// # Errors
///
/// When an argument has no type, or one that cannot be joined.
pub(super) fn counted(
    rows: SendableRecordBatchStream,
    side: Side,
    (join, input): (&NearestJoin, &JoinInput),
    families: &Families,
    counts: NanRows,
) -> Result<SendableRecordBatchStream> {
    let Some(search) = join.search.as_ref().filter(|s| s.predicate.call.function.may_be_nan())
    else {
        return Ok(rows);
    };
    let schemas = [Side::Left, Side::Right].map(|side| input.side(side).schema());
    let arguments = [0, 1].map(|side| (&search.arguments[side], schemas[side].as_ref()));
    let Bound { matcher, sources, .. } = families.bind(search.predicate, arguments)?;
    let argument = Arc::clone(&sources[side as usize]);
    if !argument.is::<Column>() {
        return Ok(rows);
    }
    let filter = join.side_filter(side).cloned();
    let schema = rows.schema();
    let rows = rows.map(move |batch| {
        let batch = batch?;
        let (values, filter) = (evaluate(&argument, &batch)?, admitted(filter.as_ref(), &batch)?);
        let input = EncodeInput { values: &values, keys: None, filter: filter.as_ref() };
        counts.add(side, matcher.rows_with_nan(&input));
        Ok(batch)
    });
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
}
