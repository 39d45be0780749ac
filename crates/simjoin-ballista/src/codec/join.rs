//! The join itself as a message, and back.

use std::num::NonZeroUsize;
use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::config::ExtensionOptions;
use datafusion::common::{JoinType, NullEquality, Result, internal_datafusion_err, internal_err};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::ExecutionPlan;

use super::messages::*;
use super::{NodeReader, Writer};
use datafusion_simjoin::config::SimJoinOptions;
use datafusion_simjoin::exec::{JoinInput, JoinMode, SetSimilarityJoinExec};
use datafusion_simjoin::nearest::BestPairsExec;
use datafusion_simjoin::spec::{
    BestPairs, Call, CountOf, MOST_TIE_COLUMNS, NanScore, Need, OutputColumn, Predicate, Residual,
    ResidualColumn, Side, SimilarityJoin, TieBreak, TieColumn,
};
use simjoin_core::engine::Family;

/// The node without its inputs.
pub(super) fn write(node: &SetSimilarityJoinExec, writer: &Writer<'_>) -> Result<JoinNode> {
    let mode = match node.mode() {
        JoinMode::Shared => JoinModeKind::Shared(Nothing {}),
        JoinMode::Single => JoinModeKind::Single(Nothing {}),
        JoinMode::Broadcast => JoinModeKind::Broadcast(Nothing {}),
        JoinMode::Partitioned { keys } => JoinModeKind::Partitioned(keys as u64),
        JoinMode::Mirrored { keys } => JoinModeKind::Mirrored(keys as u64),
    };
    Ok(JoinNode {
        input: write_input(node.input()),
        join: write_join(node.join(), writer)?,
        mode: JoinModeNode { kind: Some(mode) },
        reason: node.reason().map(str::to_string),
        options: write_options(node.options()),
    })
}

/// The node over its inputs.
pub(super) fn read(
    node: JoinNode,
    inputs: &[Arc<dyn ExecutionPlan>],
    reader: &NodeReader<'_>,
) -> Result<SetSimilarityJoinExec> {
    let input = read_input(node.input, inputs)?;
    let mode = match node.mode.kind {
        Some(JoinModeKind::Shared(_)) => JoinMode::Shared,
        Some(JoinModeKind::Single(_)) => JoinMode::Single,
        Some(JoinModeKind::Broadcast(_)) => JoinMode::Broadcast,
        Some(JoinModeKind::Partitioned(keys)) => JoinMode::Partitioned { keys: count(keys)? },
        Some(JoinModeKind::Mirrored(keys)) => JoinMode::Mirrored { keys: count(keys)? },
        None => return unknown("mode"),
    };
    let join = read_join(node.join, &input, reader)?;
    let options = read_options(&node.options)?;
    SetSimilarityJoinExec::try_new_in_mode(input, join, reader.families, options, mode, node.reason)
}

/// The node without its inputs.
pub(super) fn write_best_pairs(node: &BestPairsExec, writer: &Writer<'_>) -> Result<BestPairsNode> {
    let mut message = BestPairsNode {
        join: write(node.plain(), writer)?,
        count: 0,
        side: None,
        any_tie: false,
        ties: vec![],
        nodes: None,
    };
    match node.best() {
        BestPairs::OneToOne { nodes: [left, right] } => {
            message.nodes = Some(MatchedNodesNode { left: left as u64, right: right as u64 });
        }
        BestPairs::First { count, any_tie } => {
            (message.count, message.any_tie) = (count.get() as u64, any_tie);
        }
        BestPairs::OfEachRow { count, side, ties } => {
            (message.count, message.side) = (count.get() as u64, Some(write_side(side)));
            message.any_tie = ties == TieBreak::Any;
            if let TieBreak::Columns(columns) = ties {
                message.ties = columns.into_iter().flatten().map(write_tie).collect();
            }
        }
    }
    Ok(message)
}

fn write_tie(tie: TieColumn) -> TieColumnNode {
    let TieColumn { column, descending, nulls_first } = tie;
    TieColumnNode { column: column as u64, descending, nulls_first }
}

/// The node over its inputs.
pub(super) fn read_best_pairs(
    node: BestPairsNode,
    inputs: &[Arc<dyn ExecutionPlan>],
    reader: &NodeReader<'_>,
) -> Result<BestPairsExec> {
    let BestPairsNode { join, count: pairs, side, any_tie, ties, nodes } = node;
    let best = match (nodes, NonZeroUsize::new(count(pairs)?), side) {
        (Some(MatchedNodesNode { left, right }), None, None) => {
            BestPairs::OneToOne { nodes: [count(left)?, count(right)?] }
        }
        (None, Some(count), None) => BestPairs::First { count, any_tie },
        (None, Some(count), Some(side)) => {
            let ties = read_ties(&ties, any_tie)?;
            BestPairs::OfEachRow { count, side: read_side(side)?, ties }
        }
        (Some(_), ..) => return internal_err!("a one-to-one match of a number of pairs"),
        (None, None, _) => return internal_err!("the best 0 pairs of a join"),
    };
    BestPairsExec::try_new(read(join, inputs, reader)?, best, reader.families)
}

fn read_ties(ties: &[TieColumnNode], any_tie: bool) -> Result<TieBreak> {
    if ties.is_empty() {
        return Ok(if any_tie { TieBreak::Any } else { TieBreak::All });
    }
    let mut columns = [None; MOST_TIE_COLUMNS];
    for (at, tie) in ties.iter().enumerate() {
        let Some(to) = columns.get_mut(at) else { return unknown("number of columns of ties") };
        let (descending, nulls_first) = (tie.descending, tie.nulls_first);
        *to = Some(TieColumn { column: count(tie.column)?, descending, nulls_first });
    }
    Ok(TieBreak::Columns(columns))
}

pub(super) fn write_input(input: &JoinInput) -> JoinInputNode {
    let kind = match input {
        JoinInput::Two { build, partitions, .. } => JoinInputKind::Two(TwoInputsNode {
            build: write_side(*build),
            partitions: *partitions as u64,
        }),
        JoinInput::Itself { partitions, .. } => JoinInputKind::Itself(*partitions as u64),
    };
    JoinInputNode { kind: Some(kind) }
}

pub(super) fn read_input(
    node: JoinInputNode,
    inputs: &[Arc<dyn ExecutionPlan>],
) -> Result<JoinInput> {
    Ok(match (node.kind, inputs) {
        (Some(JoinInputKind::Two(two)), [left, right]) => JoinInput::Two {
            left: Arc::clone(left),
            right: Arc::clone(right),
            build: read_side(two.build)?,
            partitions: count(two.partitions)?,
        },
        (Some(JoinInputKind::Itself(partitions)), [input]) => {
            JoinInput::Itself { input: Arc::clone(input), partitions: count(partitions)? }
        }
        (_, inputs) => {
            return internal_err!("a similarity join came with {} inputs", inputs.len());
        }
    })
}

pub(super) fn write_options(options: &SimJoinOptions) -> Vec<OptionNode> {
    let entries = options.entries().into_iter().map(|entry| {
        let name = entry.key.strip_prefix("simjoin.").unwrap_or(&entry.key).to_string();
        OptionNode { name, value: entry.value.unwrap_or_default() }
    });
    entries.collect()
}

pub(super) fn read_options(nodes: &[OptionNode]) -> Result<SimJoinOptions> {
    let mut options = SimJoinOptions::default();
    for OptionNode { name, value } in nodes {
        options.set(name, value)?;
    }
    Ok(options)
}

fn write_join(join: &SimilarityJoin, writer: &Writer<'_>) -> Result<SimilarityJoinNode> {
    let need = match join.need {
        Need::Rows => NeedKind::Rows(Nothing {}),
        Need::Nearest(_) => {
            return internal_err!("a similarity join finds no nearest rows by itself");
        }
        Need::Best(_) => {
            return internal_err!("a similarity join does not raise its bound by itself");
        }
        Need::Connections => NeedKind::Connections(Nothing {}),
        Need::Firsts => NeedKind::Firsts(Nothing {}),
        Need::Counts(None) => NeedKind::Counts(Nothing {}),
        Need::Counts(Some(side)) => NeedKind::CountsPerRow(write_side(side)),
    };
    Ok(SimilarityJoinNode {
        predicate: write_predicate(join.predicate),
        text: join.text.clone(),
        join_type: write_join_type(join.join_type)?,
        left_argument: writer.expression(join.argument(Side::Left))?,
        right_argument: writer.expression(join.argument(Side::Right))?,
        on: write_on(&join.on, writer)?,
        nulls_are_equal: join.null_equality == NullEquality::NullEqualsNull,
        left_filter: writer.optional(join.side_filter(Side::Left))?,
        right_filter: writer.optional(join.side_filter(Side::Right))?,
        residual: join.residual.as_ref().map(|r| write_residual(r, writer)).transpose()?,
        need: NeedNode { kind: Some(need) },
        output: join.output.iter().copied().map(write_output).collect(),
        schema: writer.schema(&join.schema)?,
    })
}

fn read_join(
    node: SimilarityJoinNode,
    input: &JoinInput,
    reader: &NodeReader<'_>,
) -> Result<SimilarityJoin> {
    let (left, right) = (input.side(Side::Left).schema(), input.side(Side::Right).schema());
    let need = match node.need.kind {
        Some(NeedKind::Rows(_)) => Need::Rows,
        Some(NeedKind::Connections(_)) => Need::Connections,
        Some(NeedKind::Firsts(_)) => Need::Firsts,
        Some(NeedKind::Counts(_)) => Need::Counts(None),
        Some(NeedKind::CountsPerRow(side)) => Need::Counts(Some(read_side(side)?)),
        None => return unknown("need"),
    };
    Ok(SimilarityJoin {
        predicate: reader.predicate(node.predicate)?,
        text: node.text,
        join_type: read_join_type(node.join_type)?,
        arguments: [
            reader.expression(&node.left_argument, &left)?,
            reader.expression(&node.right_argument, &right)?,
        ],
        on: read_on(&node.on, [&left, &right], reader)?,
        null_equality: null_equality(node.nulls_are_equal),
        side_filters: [
            reader.optional(node.left_filter.as_ref(), &left)?,
            reader.optional(node.right_filter.as_ref(), &right)?,
        ],
        residual: node.residual.map(|r| read_residual(r, reader)).transpose()?,
        need,
        output: read_outputs(node.output, reader)?,
        schema: reader.schema(&node.schema)?,
    })
}

pub(super) fn write_on(
    on: &[(PhysicalExprRef, PhysicalExprRef)],
    writer: &Writer<'_>,
) -> Result<Vec<KeyPairNode>> {
    let pairs = on.iter().map(|(left, right)| {
        Ok(KeyPairNode { left: writer.expression(left)?, right: writer.expression(right)? })
    });
    pairs.collect()
}

pub(super) fn read_on(
    on: &[KeyPairNode],
    [left, right]: [&Schema; 2],
    reader: &NodeReader<'_>,
) -> Result<Vec<(PhysicalExprRef, PhysicalExprRef)>> {
    let pairs = on.iter().map(|pair| {
        Ok((reader.expression(&pair.left, left)?, reader.expression(&pair.right, right)?))
    });
    pairs.collect()
}

pub(super) fn write_residual(residual: &Residual, writer: &Writer<'_>) -> Result<ResidualNode> {
    let columns = residual.columns.iter().map(|column| match column {
        ResidualColumn::Input(side, index) => OutputColumn::Input(*side, *index),
        ResidualColumn::Score(call) => OutputColumn::Score(*call),
    });
    Ok(ResidualNode {
        expression: writer.expression(&residual.expression)?,
        columns: columns.map(write_output).collect(),
        schema: writer.schema(&residual.schema)?,
    })
}

pub(super) fn read_residual(residual: ResidualNode, reader: &NodeReader<'_>) -> Result<Residual> {
    let schema = reader.schema(&residual.schema)?;
    let columns = residual.columns.into_iter().map(|column| match read_output(column, reader)? {
        OutputColumn::Input(side, index) => Ok(ResidualColumn::Input(side, index)),
        OutputColumn::Score(call) => Ok(ResidualColumn::Score(call)),
        OutputColumn::Count(_) => unknown("column of a residual filter"),
    });
    Ok(Residual {
        expression: reader.expression(&residual.expression, &schema)?,
        columns: columns.collect::<Result<_>>()?,
        schema,
    })
}

pub(super) fn read_outputs(
    nodes: Vec<OutputColumnNode>,
    reader: &NodeReader<'_>,
) -> Result<Vec<OutputColumn>> {
    nodes.into_iter().map(|column| read_output(column, reader)).collect()
}

pub(super) fn write_output(column: OutputColumn) -> OutputColumnNode {
    let of_input =
        |side: Side, index: usize| ColumnNode { side: write_side(side), index: index as u64 };
    let kind = match column {
        OutputColumn::Input(side, index) => OutputColumnKind::Input(of_input(side, index)),
        OutputColumn::Score(call) => OutputColumnKind::Score(write_call(call)),
        OutputColumn::Count(CountOf::Rows) => OutputColumnKind::CountRows(Nothing {}),
        OutputColumn::Count(CountOf::Matched(side)) => {
            OutputColumnKind::CountMatched(write_side(side))
        }
        OutputColumn::Count(CountOf::NonNull(side, index)) => {
            OutputColumnKind::CountNonNull(of_input(side, index))
        }
    };
    OutputColumnNode { kind: Some(kind) }
}

fn read_output(node: OutputColumnNode, reader: &NodeReader<'_>) -> Result<OutputColumn> {
    Ok(match node.kind {
        Some(OutputColumnKind::Input(ColumnNode { side, index })) => {
            OutputColumn::Input(read_side(side)?, count(index)?)
        }
        Some(OutputColumnKind::Score(call)) => OutputColumn::Score(reader.call(call)?),
        Some(OutputColumnKind::CountRows(_)) => OutputColumn::Count(CountOf::Rows),
        Some(OutputColumnKind::CountMatched(side)) => {
            OutputColumn::Count(CountOf::Matched(read_side(side)?))
        }
        Some(OutputColumnKind::CountNonNull(ColumnNode { side, index })) => {
            OutputColumn::Count(CountOf::NonNull(read_side(side)?, count(index)?))
        }
        None => return unknown("output column"),
    })
}

pub(super) fn write_call(call: Call) -> CallNode {
    let Call { function, first } = call;
    CallNode {
        family: function.family().to_string(),
        function: function.name().to_string(),
        first: write_side(first),
    }
}

pub(super) fn write_predicate(predicate: Predicate) -> PredicateNode {
    let Predicate { call, bound, nan } = predicate;
    PredicateNode {
        call: write_call(call),
        bound: bound.to_bits(),
        nan_is_null: nan == NanScore::Null,
    }
}

impl NodeReader<'_> {
    pub(super) fn family(&self, name: &str) -> Result<Arc<dyn Family>> {
        self.families.get(name).map(Arc::clone)
    }

    fn call(&self, node: CallNode) -> Result<Call> {
        let CallNode { family, function, first } = node;
        match self.families.function(&family, &function) {
            Some(function) => Ok(Call { function, first: read_side(first)? }),
            None => unknown("function"),
        }
    }

    pub(super) fn predicate(&self, node: PredicateNode) -> Result<Predicate> {
        let nan = if node.nan_is_null { NanScore::Null } else { NanScore::Ordered };
        Ok(Predicate { call: self.call(node.call)?, bound: f64::from_bits(node.bound), nan })
    }
}

pub(super) fn write_side(side: Side) -> i32 {
    match side {
        Side::Left => SideNode::Left as i32,
        Side::Right => SideNode::Right as i32,
    }
}

pub(super) fn read_side(side: i32) -> Result<Side> {
    match SideNode::try_from(side) {
        Ok(SideNode::Left) => Ok(Side::Left),
        Ok(SideNode::Right) => Ok(Side::Right),
        Ok(SideNode::Unspecified) | Err(_) => unknown("side"),
    }
}

pub(super) fn null_equality(nulls_are_equal: bool) -> NullEquality {
    match nulls_are_equal {
        true => NullEquality::NullEqualsNull,
        false => NullEquality::NullEqualsNothing,
    }
}

pub(super) fn write_join_type(join_type: JoinType) -> Result<i32> {
    match JoinTypeNode::PAIRS.iter().find(|(_, of)| *of == join_type) {
        Some((node, _)) => Ok(*node as i32),
        None => internal_err!("a similarity join cannot be a {join_type} join"),
    }
}

pub(super) fn read_join_type(join_type: i32) -> Result<JoinType> {
    let found = JoinTypeNode::PAIRS.iter().find(|(node, _)| *node as i32 == join_type);
    match found {
        Some((_, join_type)) => Ok(*join_type),
        None => unknown("join type"),
    }
}

pub(super) fn count(value: u64) -> Result<usize> {
    usize::try_from(value).map_err(|_| {
        internal_datafusion_err!("the bytes of a similarity join have a count of {value}")
    })
}

pub(super) fn unknown<T>(what: &str) -> Result<T> {
    internal_err!("the bytes of a similarity join have a {what} that is not known")
}
