//! The operators that send rows to tasks as messages, and back.

use std::sync::Arc;

use datafusion::common::{NullEquality, Result, internal_err};
use datafusion::physical_plan::ExecutionPlan;

use super::join::{count, null_equality, read_side, unknown, write_predicate, write_side};
use super::messages::{AxisGridNode, AxisHistogramNode, GridPairsNode, PlacedRowsNode};
use super::{NodeReader, Writer};
use datafusion_simjoin::internals::shuffle::{
    AxisGridExec, AxisHistogramExec, GridPairs, GridSpec, PlacedRows,
};

pub(super) fn write(node: &AxisGridExec, writer: &Writer<'_>) -> Result<AxisGridNode> {
    let GridSpec { predicate, tasks, visits_once, pairs } = *node.spec();
    let [left_visits_once, right_visits_once] = visits_once;
    Ok(AxisGridNode {
        rows: write_rows(node.rows(), writer)?,
        predicate: write_predicate(predicate),
        tasks: tasks as u64,
        left_visits_once,
        right_visits_once,
        pairs: match pairs {
            GridPairs::All => GridPairsNode::All,
            GridPairs::Within => GridPairsNode::Within,
            GridPairs::Across => GridPairsNode::Across,
        } as i32,
    })
}

pub(super) fn read(
    node: AxisGridNode,
    inputs: &[Arc<dyn ExecutionPlan>],
    reader: &NodeReader<'_>,
) -> Result<AxisGridExec> {
    let [input, histograms @ ..] = inputs else {
        return internal_err!("AxisGridExec came without its input");
    };
    let spec = GridSpec {
        predicate: reader.predicate(node.predicate)?,
        tasks: count(node.tasks)?,
        visits_once: [node.left_visits_once, node.right_visits_once],
        pairs: match GridPairsNode::try_from(node.pairs) {
            Ok(GridPairsNode::All) => GridPairs::All,
            Ok(GridPairsNode::Within) => GridPairs::Within,
            Ok(GridPairsNode::Across) => GridPairs::Across,
            Err(_) => return unknown("choice of pairs"),
        },
    };
    let rows = read_rows(node.rows, input, reader)?;
    AxisGridExec::try_new(Arc::clone(input), histograms.to_vec(), rows, spec)
}

pub(super) fn write_histogram(
    node: &AxisHistogramExec,
    writer: &Writer<'_>,
) -> Result<AxisHistogramNode> {
    Ok(AxisHistogramNode { rows: write_rows(node.rows(), writer)?, times: node.times() })
}

pub(super) fn read_histogram(
    node: AxisHistogramNode,
    inputs: &[Arc<dyn ExecutionPlan>],
    reader: &NodeReader<'_>,
) -> Result<AxisHistogramExec> {
    let [input] = inputs else {
        return internal_err!("AxisHistogramExec came with {} inputs", inputs.len());
    };
    let rows = read_rows(node.rows, input, reader)?;
    AxisHistogramExec::try_new(Arc::clone(input), rows, node.times)
}

fn write_rows(rows: &PlacedRows, writer: &Writer<'_>) -> Result<PlacedRowsNode> {
    Ok(PlacedRowsNode {
        family: rows.family.name().to_string(),
        predicate: write_predicate(rows.predicate),
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
    reader: &NodeReader<'_>,
) -> Result<PlacedRows> {
    let schema = input.schema();
    let keys = node.keys.iter().map(|key| reader.expression(key, &schema));
    Ok(PlacedRows {
        family: reader.family(&node.family)?,
        predicate: reader.predicate(node.predicate)?,
        side: read_side(node.side)?,
        argument: reader.expression(&node.argument, &schema)?,
        keys: keys.collect::<Result<_>>()?,
        null_equality: null_equality(node.nulls_are_equal),
        filter: reader.optional(node.filter.as_ref(), &schema)?,
    })
}
