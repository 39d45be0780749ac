//! Nearest neighbours: for each row of the left side the best rows of the right side.

use std::fmt;
use std::num::NonZeroUsize;

use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::{JoinType, NullEquality, Result};
use datafusion::physical_expr::PhysicalExprRef;

use super::{Need, Order, OutputColumn, Predicate, Residual, Side, SimilarityJoin};

/// The number of neighbours of a left row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Nearest {
    /// The number of neighbours.
    pub count: NonZeroUsize,
    /// Whether further ones whose score is that of the last one are neighbours as well.
    pub with_ties: bool,
}

/// The best pairs of a join by the score of its predicate.
///
/// Other pairs may be in the answer as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BestPairs {
    /// The first of all pairs, and those that are as good as the last one of them, as an ORDER BY of the
    /// score with a LIMIT asks for them.
    First {
        /// The number of pairs.
        count: NonZeroUsize,
        /// Whether any of the pairs that are as good as the last one will do: nothing else orders them.
        any_tie: bool,
    },
    /// The first pairs of each row of a side, as a rank among its pairs has them.
    OfEachRow {
        /// The number of pairs of a row.
        count: NonZeroUsize,
        /// The side.
        side: Side,
        /// The pairs that are given of those that are as good as the last one of them.
        ties: TieBreak,
    },
    /// Pairs from the best score on, ties by the two nodes, each node of a side once.
    OneToOne {
        /// The columns of the output with the left and the right node, one of each side.
        nodes: [usize; 2],
    },
}

/// The choice among pairs of a row that have equal scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TieBreak {
    /// All of them.
    All,
    /// Any of them.
    Any,
    /// The first ones by the values of these columns.
    Columns([Option<TieColumn>; MOST_TIE_COLUMNS]),
}

/// The most columns that decide among pairs of equal scores.
pub const MOST_TIE_COLUMNS: usize = 4;

/// A column that decides among pairs of equal scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TieColumn {
    /// The column of the output, read from the other side.
    pub column: usize,
    /// Whether greater values come first.
    pub descending: bool,
    /// Whether NULL comes first.
    pub nulls_first: bool,
}

impl fmt::Display for BestPairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::First { count, .. } => write!(f, "{count}"),
            Self::OfEachRow { count, side, .. } => write!(f, "{count} of each {side} row"),
            Self::OneToOne { .. } => f.write_str("one to one"),
        }
    }
}

/// A join of each left row with its nearest right rows, as planned.
///
/// A pair of rows is a candidate when every pair of `on` is equal, the side filters and the condition
/// hold, and its score is not NULL. The best candidates of a left row by `order` are its neighbours.
#[derive(Debug, Clone)]
pub struct NearestJoin {
    /// The number of neighbours of a row.
    pub nearest: Nearest,
    /// The direction in which scores are better.
    pub order: Order,
    /// The score as the user wrote it, for EXPLAIN.
    pub text: String,
    /// `Inner`, or `Left`: then a left row without a neighbour is in the answer as well.
    pub join_type: JoinType,
    /// The score of a pair; `None` where `search` finds every neighbour.
    pub score: Option<Residual>,
    /// Blocking keys: equalities (left over the left schema, right over the right schema).
    pub on: Vec<(PhysicalExprRef, PhysicalExprRef)>,
    /// Whether NULL keys of `on` are equal.
    pub null_equality: NullEquality,
    /// Per side, a Boolean over that side's schema that a row must pass to be in a candidate.
    pub side_filters: [Option<PhysicalExprRef>; 2],
    /// The part of the condition that only a pair can decide. It reads no scores.
    pub condition: Option<Residual>,
    /// The similarity join by which neighbours are found, where the score is a function of a family.
    pub search: Option<Search>,
    /// The rounds by which neighbours are found, where the score has functions of families in it. Left rows that no
    /// round serves meet every right row.
    pub rounds: Vec<SearchRound>,
    /// The columns of the output. Scores are those of `search`.
    pub output: Vec<OutputColumn>,
    /// The schema of `output`.
    pub schema: SchemaRef,
}

/// The parts of a similarity join that finds neighbours.
#[derive(Debug, Clone)]
pub struct Search {
    /// The function, and its least similar value that a neighbour may have.
    pub predicate: Predicate,
    /// The argument of each side, over that side's input schema.
    pub arguments: [PhysicalExprRef; 2],
    /// The condition of the pair, with scores taken from the match.
    pub residual: Option<Residual>,
}

/// A step of a search by a score of several functions.
#[derive(Debug, Clone)]
pub struct SearchRound {
    /// The worst score, as a double, of the pairs that the drivers find without exception; `None` where they find all
    /// candidates.
    pub threshold: Option<f64>,
    /// The drivers. A candidate within the threshold meets one of them.
    pub drivers: Vec<SearchDriver>,
}

/// A condition by which pairs are found, and what is computed of them.
#[derive(Debug, Clone)]
pub struct SearchDriver {
    /// The condition.
    pub by: DriverKind,
    /// The score of a pair. It reads the value of the function that drives.
    pub score: Residual,
    /// The condition that no driver before it in the round finds the pair. It reads that value as well.
    pub unmet: Option<Residual>,
}

/// A condition by which pairs are found.
#[derive(Debug, Clone)]
pub enum DriverKind {
    /// A bound of a function.
    Bound {
        /// The join by the function, without a residual.
        search: Search,
        /// The best score that a pair may have, over the value of the function as the only column.
        best: Option<PhysicalExprRef>,
    },
    /// An equality of an expression over the left schema with one over the right schema.
    Equality(PhysicalExprRef, PhysicalExprRef),
}

/// The name of the column that stands for the value of a function.
pub(crate) const VALUE_NAME: &str = "similarity";

impl Search {
    /// The schema of the one column that stands for the value of the function. `schemas` are those of the sides.
    ///
    /// # Errors
    ///
    /// When an argument has no type.
    pub fn value_schema(&self, schemas: [&Schema; 2]) -> Result<Schema> {
        let [left, right] = &self.arguments;
        let types = [left.data_type(schemas[0])?, right.data_type(schemas[1])?];
        let value = self.predicate.call.function.data_type(types.each_ref());
        Ok(Schema::new(vec![Field::new(VALUE_NAME, value, true)]))
    }
}

impl NearestJoin {
    /// The inner join by `search` whose matches have a score of at least `bound`, or as a distance of at
    /// most that.
    pub fn matches(
        &self,
        search: &Search,
        bound: f64,
        output: Vec<OutputColumn>,
        schema: SchemaRef,
    ) -> SimilarityJoin {
        SimilarityJoin {
            predicate: search.predicate.with_bound(bound),
            text: self.text.clone(),
            join_type: JoinType::Inner,
            arguments: search.arguments.clone(),
            on: self.on.clone(),
            null_equality: self.null_equality,
            side_filters: self.side_filters.clone(),
            residual: search.residual.clone(),
            need: Need::Rows,
            output,
            schema,
        }
    }

    /// The filter of a side's rows, over that side's input schema.
    pub fn side_filter(&self, side: Side) -> Option<&PhysicalExprRef> {
        self.side_filters[side as usize].as_ref()
    }
}
