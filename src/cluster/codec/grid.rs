//! The operators that send rows to tasks as messages, and back.

use std::sync::Arc;

use datafusion::common::{NullEquality, Result, internal_err};
use datafusion::physical_plan::ExecutionPlan;

use super::join::{count, null_equality, read_call, read_side, write_call, write_side};
use super::messages::{PlacedRowsNode, SizeGridNode};
use super::{Reader, Writer};
use crate::exec::grid::{GridSpec, PlacedRows, SizeGridExec, SizeHistogramExec};

pub(super) fn write(node: &SizeGridExec, writer: &Writer<'_>) -> Result<SizeGridNode> {
    let GridSpec { call, threshold, tasks, visits_once } = *node.spec();
    let [left_visits_once, right_visits_once] = visits_once;
    Ok(SizeGridNode {
        rows: write_rows(node.rows(), writer)?,
        call: write_call(call),
        threshold: threshold.to_bits(),
        tasks: tasks as u64,
        left_visits_once,
        right_visits_once,
    })
}

pub(super) fn read(
    node: SizeGridNode,
    inputs: &[Arc<dyn ExecutionPlan>],
    reader: &Reader<'_>,
) -> Result<SizeGridExec> {
    let [input, histograms @ ..] = inputs else {
        return internal_err!("SizeGridExec came without its input");
    };
    let spec = GridSpec {
        call: read_call(node.call)?,
        threshold: f64::from_bits(node.threshold),
        tasks: count(node.tasks)?,
        visits_once: [node.left_visits_once, node.right_visits_once],
    };
    let rows = read_rows(node.rows, input, reader)?;
    SizeGridExec::try_new(Arc::clone(input), histograms.to_vec(), rows, spec)
}

pub(super) fn read_histogram(
    node: PlacedRowsNode,
    inputs: &[Arc<dyn ExecutionPlan>],
    reader: &Reader<'_>,
) -> Result<SizeHistogramExec> {
    let [input] = inputs else {
        return internal_err!("SizeHistogramExec came with {} inputs", inputs.len());
    };
    let rows = read_rows(node, input, reader)?;
    SizeHistogramExec::try_new(Arc::clone(input), rows)
}

pub(super) fn write_rows(rows: &PlacedRows, writer: &Writer<'_>) -> Result<PlacedRowsNode> {
    Ok(PlacedRowsNode {
        side: write_side(rows.side),
        argument: writer.expression(&rows.argument)?,
        keys: rows.keys.iter().map(|key| writer.expression(key)).collect::<Result<_>>()?,
        nulls_are_equal: rows.null_equality == NullEquality::NullEqualsNull,
        filter: writer.optional(rows.filter.as_ref())?,
    })
}

fn read_rows(
    node: PlacedRowsNode,
    input: &Arc<dyn ExecutionPlan>,
    reader: &Reader<'_>,
) -> Result<PlacedRows> {
    let schema = input.schema();
    let keys = node.keys.iter().map(|key| reader.expression(key, &schema));
    Ok(PlacedRows {
        side: read_side(node.side)?,
        argument: reader.expression(&node.argument, &schema)?,
        keys: keys.collect::<Result<_>>()?,
        null_equality: null_equality(node.nulls_are_equal),
        filter: reader.optional(node.filter.as_ref(), &schema)?,
    })
}
