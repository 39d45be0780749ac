//! The meaning of a [`SimilarityJoin`] for execution: which side probes, what each match must yield,
//! and which columns are carried along.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::common::{JoinType, Result, internal_err};
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr};
use datafusion::physical_expr::utils::{conjunction, split_conjunction};
use datafusion::physical_plan::expressions::Column;

use crate::config::SimJoinOptions;
use crate::engine::{AnyMatcher, MatchNeed, MatchSpec, Orders};
use crate::exec::once::computed_once;
use crate::exec::sink::{Listed, PairSink, Sink};
use crate::families::{Bound, Families};
use crate::spec::{CountOf, Need, OutputColumn, Residual, ResidualColumn, Side, SimilarityJoin};

/// A comparison of a column of each side (`a.id < b.id`), decided on ranks without evaluating an
/// expression.
///
/// The rows of an item are ordered by rank, so that bisection finds the partners of a row in
/// another item: where many rows share an item, the join does not look at their pairs one by one.
/// In a self-join both columns are the same one, and ranks decide. In a join of two inputs ranks
/// decide where the build side repeats its items enough ([`JoinLayout::residual`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowOrder {
    /// Per side, in the schema of its input.
    pub columns: [usize; 2],
    /// `left <operator> right`, one of `<`, `<=`, `>`, `>=`, `<>`.
    pub operator: Operator,
}

impl RowOrder {
    /// Whether rows with equal values make no pair.
    pub(crate) fn parts_equal(self) -> bool {
        matches!(self.operator, Operator::Lt | Operator::Gt | Operator::NotEq)
    }
}

/// The join, resolved for execution.
#[derive(Debug)]
pub(crate) struct JoinLayout {
    pub join: SimilarityJoin,
    /// The predicate over the types of the arguments, which reads their stored forms as well.
    pub matcher: Arc<dyn AnyMatcher>,
    /// The families of the session.
    pub families: Families,
    /// Per side, what is evaluated for rows to be encoded: its argument, or what the encoders make
    /// the argument of.
    pub sources: [PhysicalExprRef; 2],
    pub probe: Side,
    pub self_join: bool,
    pub sink: Sink,
    pub row_order: Option<RowOrder>,
    /// The residual as it is evaluated, and that without `row_order`.
    residuals: [Option<Residual>; 2],
    /// Whether rows of other collections than the build side are encoded like its rows, and ranked
    /// among them.
    pub meets_others: bool,
    /// Per side, the input columns that outlive encoding; the same for both where rows of one input
    /// meet.
    pub carried: [Vec<usize>; 2],
    pub spec: MatchSpec,
}

/// The source of the rows of the two sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sides {
    /// One input is both sides.
    Itself,
    /// Two inputs, of which this one is built.
    Two(Side),
    /// Two parts of one input, of which this one is built. Their rows meet once, and the join emits
    /// each pair in both orders: it is [symmetric](SimilarityJoin::is_symmetric), and the parts
    /// have one schema.
    Mirrored(Side),
}

impl JoinLayout {
    pub(crate) fn try_new(
        join: SimilarityJoin,
        Bound { matcher, sources, families }: Bound,
        sides: Sides,
        options: &SimJoinOptions,
    ) -> Result<Self> {
        let self_join = sides == Sides::Itself;
        let build = match sides {
            Sides::Itself => None,
            Sides::Two(build) | Sides::Mirrored(build) => Some(build),
        };
        let orders = orders_of(&join, sides);
        let probe = match build {
            Some(build) => build.other(),
            None => probe_of_itself(&join, orders),
        };
        let sink = Sink::of(&join, probe, orders)?;
        let (residual_of_ranked, row_order) = match &join.residual {
            Some(residual) => take_row_order(residual, sides),
            None => (None, None),
        };
        // The condition that the join may have to evaluate.
        let residual = if self_join { &residual_of_ranked } else { &join.residual };
        let wants_scores = join.output.iter().any(|c| matches!(c, OutputColumn::Score(_)))
            || residual
                .iter()
                .flat_map(|r| &r.columns)
                .any(|c| matches!(c, ResidualColumn::Score(_)));
        let need = if wants_scores {
            MatchNeed::Scores
        } else if sink.needs_one_match_of(probe) && join.residual.is_none() {
            MatchNeed::Exists
        } else {
            MatchNeed::Pairs
        };
        let spec = MatchSpec {
            probe,
            orders,
            need,
            candidate_chunk: options.candidate_chunk.get(),
            match_buffer: options.match_buffer.get(),
            simd: options.simd.form(),
            gpu: options.gpu(),
            ..MatchSpec::default()
        };
        let counts_partners = join.output.iter().all(|column| match column {
            OutputColumn::Count(CountOf::NonNull(side, _)) => {
                join.need == Need::Counts(Some(side.other()))
            }
            _ => true,
        });
        if !counts_partners {
            return internal_err!("non-NULL values are counted per row of the other side only");
        }
        let carried = carried_columns(&join, residual.as_ref(), sides);
        let evaluated = |residual: Option<Residual>| {
            residual.map(|residual| computed_once(residual, &families)).transpose()
        };
        let residuals = [evaluated(join.residual.clone())?, evaluated(residual_of_ranked)?];
        Ok(Self {
            join,
            matcher,
            families,
            sources,
            probe,
            self_join,
            sink,
            row_order,
            residuals,
            meets_others: !self_join,
            carried,
            spec,
        })
    }

    /// The bytes of a cursor and its buffers, besides what grows with the build side.
    pub(crate) fn cursor_bytes(&self) -> usize {
        self.spec.buffer_bytes() + self.matcher.cursor_bytes(&self.spec)
    }

    /// About the bytes that a probe partition keeps as long as it runs: its cursor, and a batch of a
    /// row of usual size.
    pub(crate) fn partition_bytes(&self) -> usize {
        self.cursor_bytes() + Self::SMALL_BATCH
    }

    /// The bytes of a batch of a row of usual size.
    pub(crate) const SMALL_BATCH: usize = 64 << 10;

    /// The bytes of a memory limit that a build side leaves free for rows of another input, of which
    /// one may be large.
    pub(crate) fn bytes_for_rows(&self, limit: &MemoryLimit) -> usize {
        const PART_OF_LIMIT: usize = 8;
        match limit {
            MemoryLimit::Finite(bytes) if !self.self_join => bytes / PART_OF_LIMIT,
            _ => 0,
        }
    }

    pub(crate) fn build(&self) -> Side {
        self.probe.other()
    }

    /// Whether a match of two items decides all pairs of their rows.
    pub(crate) fn items_decide(&self) -> bool {
        self.join.residual.is_none()
    }

    /// Whether the row order compares this column of the build side.
    pub(crate) fn orders_build_by(&self, column: usize) -> bool {
        self.row_order.is_some_and(|order| order.columns[self.build() as usize] == column)
    }

    /// Whether equal rows by the row order make no pair, and are not listed besides.
    pub(crate) fn parts_equal(&self) -> bool {
        self.row_order.is_some_and(RowOrder::parts_equal) && !self.lists_all_build_rows()
    }

    /// Whether the pairs of rows of two matching items follow without evaluating a condition. `ranked` says
    /// whether build rows have ranks.
    pub(crate) fn knows_pairs(&self, ranked: bool) -> bool {
        match self.row_order {
            None => self.items_decide(),
            Some(_) => ranked || !self.parts_equal(),
        }
    }

    /// The condition to evaluate for pairs of rows, with a build side whose rows have ranks
    /// (`ranked`) or not. The rows of a self-join have ranks wherever there is a row order.
    pub(crate) fn residual(&self, ranked: bool) -> Option<&Residual> {
        let [whole, of_ranked] = &self.residuals;
        match self.row_order {
            Some(_) if ranked => of_ranked.as_ref(),
            _ => whole.as_ref(),
        }
    }

    /// The rows of a side that are listed one by one.
    pub(crate) fn listed(&self, side: Side) -> Listed {
        self.sink.listed[side as usize]
    }

    /// Whether a self-join whose rows have ranks gives pairs of first rows only: where the ranks of all rows
    /// are `distinct`. The partners of a row say nothing about the partners of another row of the same rank.
    pub(crate) fn gives_firsts(&self, distinct: bool) -> bool {
        self.may_give_firsts() && distinct
    }

    /// Whether pairs of first rows are asked for, and the row order alone decides pairs of equal items.
    pub(crate) fn may_give_firsts(&self) -> bool {
        self.sink.pairs == PairSink::Firsts
            && self.row_order.is_some()
            && self.residuals[1].is_none()
    }

    /// Whether all build rows are listed, with a match or without one.
    pub(crate) fn lists_all_build_rows(&self) -> bool {
        self.sink.pairs == PairSink::Connections
            && self.spec.orders == Orders::Unordered
            && self.listed(self.build()).any()
    }

    /// Whether the output lists build rows by whether they match, so that the join marks those that do.
    pub(crate) fn marks_build(&self) -> bool {
        self.listed(self.build()).any()
    }

    /// Whether the output lists probe rows by whether they match, so that the join counts their matches.
    pub(crate) fn counts_probe(&self) -> bool {
        self.listed(self.probe).any()
    }

    /// The build columns that are counted where they are not NULL, in the order of the output.
    pub(crate) fn counted_columns(&self) -> impl Iterator<Item = usize> + '_ {
        self.join.output.iter().filter_map(|column| match column {
            OutputColumn::Count(CountOf::NonNull(_, index)) => Some(*index),
            _ => None,
        })
    }

    /// The position of an input column among those carried.
    pub(crate) fn carried_index(&self, side: Side, column: usize) -> Option<usize> {
        self.carried[side as usize].iter().position(|&c| c == column)
    }

    /// The left and right value of something known per probe and build.
    pub(crate) fn left_right<T>(&self, probe: T, build: T) -> (T, T) {
        match self.probe {
            Side::Left => (probe, build),
            Side::Right => (build, probe),
        }
    }
}

/// The orders in which a join gives the pairs of these sides. Either order of a pair connects, whatever
/// the join type.
fn orders_of(join: &SimilarityJoin, sides: Sides) -> Orders {
    let connects = join.need == Need::Connections && join.predicate.call.function.is_symmetric();
    match sides {
        Sides::Itself if connects || join.is_symmetric() => Orders::Unordered,
        Sides::Itself | Sides::Two(_) => Orders::Given,
        Sides::Mirrored(_) => Orders::Mirrored,
    }
}

/// The side that probes where one input is both sides.
fn probe_of_itself(join: &SimilarityJoin, orders: Orders) -> Side {
    match (join.need, join.join_type) {
        // The build side is the one whose rows are listed.
        (Need::Connections, JoinType::Left) if orders == Orders::Unordered => Side::Right,
        (Need::Connections, _) if orders == Orders::Unordered => Side::Left,
        (Need::Counts(Some(side)), _) => side,
        (_, JoinType::Right | JoinType::RightSemi | JoinType::RightAnti) => Side::Right,
        _ => Side::Left,
    }
}

/// Splits a comparison of a column of each side off a residual: the same column, where rows of one
/// input meet, as a row has one rank. Returns the rest of the residual, and the comparison.
fn take_row_order(residual: &Residual, sides: Sides) -> (Option<Residual>, Option<RowOrder>) {
    let two_inputs = matches!(sides, Sides::Two(_));
    let ranked = |left: &PhysicalExprRef, right: &PhysicalExprRef| {
        let of = |expr| {
            let below = without_cast(expr, &residual.schema);
            ranked_type(&below.data_type(&residual.schema).ok()?)
        };
        of(left).zip(of(right)).is_some_and(|(left, right)| left == right)
    };
    let input = |expr: &PhysicalExprRef| {
        let column = without_cast(expr, &residual.schema).downcast_ref::<Column>()?;
        match residual.columns.get(column.index())? {
            ResidualColumn::Input(side, index) => Some((*side, *index)),
            ResidualColumn::Score(_) => None,
        }
    };
    let mut row_order = None;
    let mut rest = vec![];
    for conjunct in split_conjunction(&residual.expression) {
        let found = conjunct.downcast_ref::<BinaryExpr>().and_then(|binary| {
            let operator = *binary.op();
            let (left, right) = (input(binary.left())?, input(binary.right())?);
            let (operator, left, right) = match (left, right) {
                ((Side::Left, l), (Side::Right, r)) => (operator, l, r),
                ((Side::Right, r), (Side::Left, l)) => (operator.swap()?, l, r),
                _ => return None,
            };
            let known = matches!(
                operator,
                Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq | Operator::NotEq
            );
            (known && ranked(binary.left(), binary.right()) && (left == right || two_inputs))
                .then_some(RowOrder { columns: [left, right], operator })
        });
        match found {
            Some(found) if row_order.is_none() => row_order = Some(found),
            _ => rest.push(Arc::clone(conjunct)),
        }
    }
    let residual =
        (!rest.is_empty()).then(|| Residual { expression: conjunction(rest), ..residual.clone() });
    (residual, row_order)
}

/// A comparison of a column of each side in a condition of two inputs, and the rest of the condition.
pub(crate) fn row_order_of(residual: &Residual) -> Option<(RowOrder, Option<Residual>)> {
    let (rest, order) = take_row_order(residual, Sides::Two(Side::Right));
    order.map(|order| (order, rest))
}

/// The type as which values of a type are ranked, where ranks order them as SQL comparison does: texts
/// and bytes as views, so that their forms do not matter.
pub(crate) fn ranked_type(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Some(DataType::Utf8View),
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => Some(DataType::BinaryView),
        // Zeros of floats are equal, but not those of a dictionary.
        DataType::Dictionary(_, values) => ranked_type(values).filter(is_view),
        DataType::Interval(_) => None,
        other if other == &DataType::Boolean || other.is_numeric() || other.is_temporal() => {
            Some(other.clone())
        }
        _ => None,
    }
}

fn is_view(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8View | DataType::BinaryView)
}

/// The expression below a cast that changes no order: the planner puts one where the two sides of a
/// comparison hold texts in different forms.
fn without_cast<'a>(expr: &'a PhysicalExprRef, schema: &Schema) -> &'a PhysicalExprRef {
    let below = expr.downcast_ref::<CastExpr>().and_then(|cast| {
        let (from, to) = (cast.expr().data_type(schema).ok()?, cast.cast_type());
        // Values may be too many for the keys of a dictionary, or too long for a fixed size.
        let is_safe = !matches!(to, DataType::Dictionary(..) | DataType::FixedSizeBinary(_));
        let as_views = ranked_type(&from).filter(is_view).zip(ranked_type(to).filter(|_| is_safe));
        as_views.is_some_and(|(from, to)| from == to).then(|| cast.expr())
    });
    below.unwrap_or(expr)
}

/// The columns that output and residual read.
fn carried_columns(
    join: &SimilarityJoin,
    residual: Option<&Residual>,
    sides: Sides,
) -> [Vec<usize>; 2] {
    let mut carried: [Vec<usize>; 2] = [vec![], vec![]];
    for (side, index) in join.output.iter().filter_map(|column| column.source()) {
        carried[side as usize].push(index);
    }
    for column in residual.iter().flat_map(|r| &r.columns) {
        if let ResidualColumn::Input(side, index) = column {
            carried[*side as usize].push(*index);
        }
    }
    if !matches!(sides, Sides::Two(_)) {
        let both = [carried[0].as_slice(), carried[1].as_slice()].concat();
        carried = [both.clone(), both];
    }
    for columns in &mut carried {
        columns.sort_unstable();
        columns.dedup();
    }
    carried
}
