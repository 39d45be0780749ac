//! The join that a [`SetSimilarityJoinExec`](crate::exec::SetSimilarityJoinExec) computes, as the planner
//! hands it over: nothing here says how.

mod behind;
mod nearest;

use arrow::datatypes::SchemaRef;
use datafusion::common::{JoinType, NullEquality};
use datafusion::physical_expr::PhysicalExprRef;

pub(crate) use crate::predicate::value_array;
pub use crate::predicate::{Call, Function, FunctionInfo, NanScore, Order, Predicate, Side};
pub(crate) use nearest::VALUE_NAME;
pub use nearest::{
    BestPairs, DriverKind, MOST_TIE_COLUMNS, Nearest, NearestJoin, Search, SearchDriver,
    SearchRound, TieBreak, TieColumn,
};

/// Whether rows of a side appear in the answer of a join even without a match.
pub trait Preserved {
    /// Whether rows of this side do so in `join_type`.
    fn is_preserved(&self, join_type: JoinType) -> bool;
}

impl Preserved for Side {
    fn is_preserved(&self, join_type: JoinType) -> bool {
        match self {
            Side::Left => {
                matches!(join_type, JoinType::Left | JoinType::Full | JoinType::LeftAnti)
            }
            Side::Right => {
                matches!(join_type, JoinType::Right | JoinType::Full | JoinType::RightAnti)
            }
        }
    }
}

/// The rows or values that a multiplicity counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CountOf {
    /// Joined rows: `count(*)`.
    Rows,
    /// Joined rows with a row of that side: `count` of one of its non-NULL columns.
    Matched(Side),
    /// Joined rows in which that column of that side's input is not NULL. Only with
    /// [`Need::Counts`] per row of the other side.
    NonNull(Side, usize),
}

/// A column of the operator's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OutputColumn {
    /// A column of one side's input.
    Input(Side, usize),
    /// A function of the pair, NULL in a row without a partner.
    Score(Call),
    /// `Int64`: how many rows of the join this row stands for. Only with [`Need::Counts`].
    Count(CountOf),
}

impl OutputColumn {
    /// The input column that this one is made from, where it is one.
    pub fn source(self) -> Option<(Side, usize)> {
        match self {
            OutputColumn::Input(side, index)
            | OutputColumn::Count(CountOf::NonNull(side, index)) => Some((side, index)),
            OutputColumn::Score(_) | OutputColumn::Count(_) => None,
        }
    }

    /// This column made from another column of the same side.
    pub fn with_source(self, index: usize) -> Self {
        match self {
            OutputColumn::Input(side, _) => OutputColumn::Input(side, index),
            OutputColumn::Count(CountOf::NonNull(side, _)) => {
                OutputColumn::Count(CountOf::NonNull(side, index))
            }
            other => other,
        }
    }
}

/// Rows or their multiplicities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Need {
    /// One output row for each row of the join.
    Rows,
    /// Rows of the join that connect the same values of its two output columns, one of each side, as
    /// all of its rows do, and in which the same values occur.
    ///
    /// Where the inputs are one, both columns are the same column of it, and the residual compares that
    /// column with itself, if there is one, and the function is symmetric; otherwise there is no residual.
    Connections,
    /// At least the rows of the join whose lesser input row is the first of the rows with its key and its
    /// argument.
    ///
    /// The inputs are one, and the residual says by `<`, `<=`, `>` or `>=` of a column with itself which
    /// row is lesser: nothing else. The function is reflexive, and there is no filter of a side.
    Firsts,
    /// Rows of the join that rank among the best of their left row. The planner makes a [`NearestJoin`] of
    /// a join with this need.
    Nearest(Nearest),
    /// The best rows of an inner join, and any others. The planner makes a join that needs [`Need::Rows`] of
    /// it, inside of an operator that raises its bound.
    Best(BestPairs),
    /// Output rows that carry multiplicities instead of pairs; summing an `OutputColumn::Count`
    /// over them gives the count.
    ///
    /// `Some(side)`: one output row at most for each row of that side (plus, for the unmatched
    /// rows of a preserved other side, rows in which this side's columns are NULL). `None`: any
    /// number of rows that hold counts only.
    Counts(Option<Side>),
}

/// A column that the residual filter reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ResidualColumn {
    /// A column of one side's input.
    Input(Side, usize),
    /// A function of the pair.
    Score(Call),
}

/// An expression of a pair of rows: the part of the join condition that only a matched pair can decide.
#[derive(Debug, Clone)]
pub struct Residual {
    /// An expression over `schema`, a Boolean one where it is a condition.
    pub expression: PhysicalExprRef,
    /// The sources of the columns of `schema`.
    pub columns: Vec<ResidualColumn>,
    /// The schema that `expression` reads.
    pub schema: SchemaRef,
}

/// The similarity join as planned.
///
/// A pair of rows matches when the arguments satisfy `predicate`, every
/// pair of `on` is equal, the side filters hold and the residual holds.
#[derive(Debug, Clone)]
pub struct SimilarityJoin {
    /// The similarity predicate.
    pub predicate: Predicate,
    /// The similarity conjunct as the user wrote it, for EXPLAIN.
    pub text: String,
    /// The type of the join.
    pub join_type: JoinType,
    /// The argument of each side, over that side's input schema.
    pub arguments: [PhysicalExprRef; 2],
    /// Blocking keys: equalities (left over the left schema, right over the right schema).
    pub on: Vec<(PhysicalExprRef, PhysicalExprRef)>,
    /// Whether NULL keys of `on` are equal.
    pub null_equality: NullEquality,
    /// Per side, a Boolean over that side's schema that a row must pass to match anything.
    pub side_filters: [Option<PhysicalExprRef>; 2],
    /// The part of the condition that only a matched pair can decide.
    pub residual: Option<Residual>,
    /// Rows or their multiplicities.
    pub need: Need,
    /// The columns of the output.
    pub output: Vec<OutputColumn>,
    /// The schema of `output`: names, nullability and metadata as the logical plan has them.
    pub schema: SchemaRef,
}

impl SimilarityJoin {
    /// The argument of a side, over that side's input schema.
    pub fn argument(&self, side: Side) -> &PhysicalExprRef {
        &self.arguments[side as usize]
    }

    /// Whether two rows of one input match in both orders or in none, by the predicate, and the answer is
    /// made of such pairs: then a join of an input with itself need meet each pair only once. The residual
    /// is evaluated for each of the two orders.
    pub fn is_symmetric(&self) -> bool {
        self.join_type == JoinType::Inner
            && matches!(
                self.need,
                Need::Rows | Need::Connections | Need::Firsts | Need::Counts(None)
            )
            && self.predicate.call.function.is_symmetric()
    }

    /// The filter of a side's rows, over that side's input schema.
    pub fn side_filter(&self, side: Side) -> Option<&PhysicalExprRef> {
        self.side_filters[side as usize].as_ref()
    }
}
