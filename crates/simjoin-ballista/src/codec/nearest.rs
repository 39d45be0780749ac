//! A join with nearest rows as a message, and back.

use std::num::NonZeroUsize;
use std::sync::Arc;

use datafusion::common::{NullEquality, Result};
use datafusion::physical_plan::ExecutionPlan;

use super::join::{
    count, null_equality, read_input, read_join_type, read_on, read_options, read_outputs,
    read_residual, unknown, write_input, write_join_type, write_on, write_options, write_output,
    write_residual,
};
use super::messages::NearestJoinNode;
use super::rounds::{read_rounds, read_search, write_rounds, write_search};
use super::{NodeReader, Writer};
use datafusion_simjoin::nearest::NearestJoinExec;
use datafusion_simjoin::spec::{Nearest, NearestJoin, Order, Residual, Side};

/// The node without its inputs.
pub(super) fn write(node: &NearestJoinExec, writer: &Writer<'_>) -> Result<NearestJoinNode> {
    let join = node.join();
    let residual = |residual: &Option<Residual>| {
        residual.as_ref().map(|residual| write_residual(residual, writer)).transpose()
    };
    let search = join.search.as_ref().map(|search| write_search(search, writer));
    Ok(NearestJoinNode {
        input: write_input(node.input()),
        options: write_options(node.options()),
        count: join.nearest.count.get() as u64,
        with_ties: join.nearest.with_ties,
        is_distance: join.order == Order::Distance,
        text: join.text.clone(),
        join_type: write_join_type(join.join_type)?,
        score: residual(&join.score)?,
        on: write_on(&join.on, writer)?,
        nulls_are_equal: join.null_equality == NullEquality::NullEqualsNull,
        left_filter: writer.optional(join.side_filter(Side::Left))?,
        right_filter: writer.optional(join.side_filter(Side::Right))?,
        condition: residual(&join.condition)?,
        search: search.transpose()?,
        rounds: write_rounds(&join.rounds, writer)?,
        output: join.output.iter().copied().map(write_output).collect(),
        schema: writer.schema(&join.schema)?,
        shares_left_rows: node.shares_left_rows(),
        fetch: node.fetch().map(|fetch| fetch as u64),
    })
}

/// The node over its inputs.
pub(super) fn read(
    node: NearestJoinNode,
    inputs: &[Arc<dyn ExecutionPlan>],
    reader: &NodeReader<'_>,
) -> Result<NearestJoinExec> {
    let input = read_input(node.input, inputs)?;
    let (left, right) = (input.side(Side::Left).schema(), input.side(Side::Right).schema());
    let Some(neighbours) = NonZeroUsize::new(count(node.count)?) else {
        return unknown("number of nearest rows");
    };
    let search = node.search.map(|search| read_search(search, [&left, &right], reader));
    let join = NearestJoin {
        nearest: Nearest { count: neighbours, with_ties: node.with_ties },
        order: if node.is_distance { Order::Distance } else { Order::Similarity },
        text: node.text,
        join_type: read_join_type(node.join_type)?,
        score: node.score.map(|r| read_residual(r, reader)).transpose()?,
        on: read_on(&node.on, [&left, &right], reader)?,
        null_equality: null_equality(node.nulls_are_equal),
        side_filters: [
            reader.optional(node.left_filter.as_ref(), &left)?,
            reader.optional(node.right_filter.as_ref(), &right)?,
        ],
        condition: node.condition.map(|r| read_residual(r, reader)).transpose()?,
        search: search.transpose()?,
        rounds: read_rounds(node.rounds, [&left, &right], reader)?,
        output: read_outputs(node.output, reader)?,
        schema: reader.schema(&node.schema)?,
    };
    let (shares_left_rows, fetch) = (node.shares_left_rows, node.fetch.map(count).transpose()?);
    let node =
        NearestJoinExec::try_new(input, join, reader.families, read_options(&node.options)?)?
            .fetching(fetch);
    if shares_left_rows { node.with_shared_left_rows() } else { Ok(node) }
}
