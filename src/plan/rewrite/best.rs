//! The best pairs of a join are found without making the others.
//!
//! `ORDER BY score DESC LIMIT k` above a similarity join needs the pairs whose score is that of the k-th
//! at least. The pass tells the join so, and changes nothing else: the sort above keeps its keys, and
//! decides among pairs of equal scores. A filter of `rank()` or `row_number()` within groups of rows of one side
//! needs of each row of it the pairs whose score is that of its k-th at least: a pair that ranks among the
//! first k of a group does so among those of its own row. `row_number()` needs no more than k of a row: of those in
//! a tie the first ones by the further keys. The window and the filter stay above.
//!
//! ```text
//! Sort: score DESC, a.id, fetch=k              Sort: score DESC, a.id, fetch=k
//!   Projection: a.id, __simjoin_… AS score ──►   Projection: a.id, __simjoin_… AS score
//!     SetSimilarityJoin                            SetSimilarityJoin, the k best
//! ```
//!
//! Between the two may be what keeps all rows: projections and aliases. Below `one_to_one` there may be
//! filters of NULL nodes as well: no pair with one is taken.

use std::num::NonZeroUsize;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{JoinType, Result};
use datafusion::logical_expr::expr_rewriter::unalias;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, Extension, Filter, LogicalPlan, Projection, Sort, SortExpr};

use crate::plan::logical::SetSimilarityJoin;
use crate::plan::relations::{PairFunction, PairsNode, ScoreOrder};
use crate::plan::rewrite::ranked::{RankingWindow, ranked_below};
use crate::plan::rewrite::score_push::with_input;
use crate::spec::{
    BestPairs, MOST_TIE_COLUMNS, Need, Order, OutputColumn, Side, TieBreak, TieColumn,
};

/// The most pairs that are found by raising bounds.
const MOST_PAIRS: usize = 1 << 20;

/// Tells the similarity joins below sorts by their score with a limit to give the best pairs, wherever
/// in `plan` they are.
pub(crate) fn limit_joins(plan: LogicalPlan) -> Result<LogicalPlan> {
    let limited = plan.transform_up_with_subqueries(|plan| {
        let limited = match &plan {
            LogicalPlan::Sort(sort) => limit_below(sort)?,
            LogicalPlan::Filter(filter) => limit_ranked(filter)?,
            LogicalPlan::Extension(Extension { node }) => {
                node.as_any().downcast_ref::<PairsNode>().map(limit_matched).transpose()?.flatten()
            }
            _ => None,
        };
        Ok(match limited {
            Some(input) => Transformed::yes(with_input(&plan, input)?),
            None => Transformed::no(plan),
        })
    })?;
    Ok(limited.data)
}

/// The input of a sort with its join told.
fn limit_below(sort: &Sort) -> Result<Option<LogicalPlan>> {
    let (Some(count), Some(first)) = (sort.fetch.and_then(NonZeroUsize::new), sort.expr.first())
    else {
        return Ok(None);
    };
    if count.get() > MOST_PAIRS {
        return Ok(None);
    }
    let Some(score) = index_of(&first.expr, &sort.input) else { return Ok(None) };
    let asked = Asked {
        score,
        order: if first.asc { Order::Distance } else { Order::Similarity },
        groups: vec![],
        best: BestPairs::First { count, any_tie: sort.expr.len() == 1 },
    };
    asked.limit(&sort.input)
}

/// The input of a filter of ranks with its join told.
fn limit_ranked(filter: &Filter) -> Result<Option<LogicalPlan>> {
    let Some(ranked) = ranked_below(filter) else { return Ok(None) };
    let RankingWindow { window, count, score, is_ascending, groups, further } = ranked;
    if count.get() > MOST_PAIRS {
        return Ok(None);
    }
    let columns = groups.iter().flat_map(Expr::column_refs);
    let groups = columns.map(|column| window.input.schema().maybe_index_of_column(column));
    let groups = groups.collect::<Option<Vec<_>>>();
    let (Some(score), Some(groups)) = (index_of(score, &window.input), groups) else {
        return Ok(None);
    };
    let asked = |side: Side| Asked {
        score,
        order: if is_ascending { Order::Distance } else { Order::Similarity },
        groups: Vec::clone(&groups),
        best: BestPairs::OfEachRow { count, side, ties: ties_by(further, &window.input) },
    };
    let input = match asked(Side::Left).limit(&window.input)? {
        Some(input) => Some(input),
        None => asked(Side::Right).limit(&window.input)?,
    };
    let Some(input) = input else { return Ok(None) };
    let window = with_input(&LogicalPlan::Window(window.clone()), input)?;
    ranked_input(&filter.input, window).map(Some)
}

/// The input of `one_to_one` with its join told.
fn limit_matched(pairs: &PairsNode) -> Result<Option<LogicalPlan>> {
    let PairFunction::OneToOne { order } = pairs.function() else { return Ok(None) };
    let asked = Asked {
        score: 2,
        order: match order {
            ScoreOrder::Similarity => Order::Similarity,
            ScoreOrder::Distance => Order::Distance,
        },
        groups: vec![],
        best: BestPairs::OneToOne { nodes: [0, 1] },
    };
    asked.limit(pairs.input())
}

/// `plan` with `window` in place of the window below.
fn ranked_input(plan: &LogicalPlan, window: LogicalPlan) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Window(_) => Ok(window),
        other => with_input(other, ranked_input(other.inputs()[0], window)?),
    }
}

/// The choice among rows of `plan` of equal scores by further keys of a window; `None` where all are kept.
fn ties_by(further: Option<&[SortExpr]>, plan: &LogicalPlan) -> TieBreak {
    let Some(further) = further else { return TieBreak::All };
    if further.is_empty() {
        return TieBreak::Any;
    }
    let mut columns = [None; MOST_TIE_COLUMNS];
    for (at, key) in further.iter().enumerate() {
        match (columns.get_mut(at), index_of(&key.expr, plan)) {
            (Some(to), Some(column)) => {
                let (descending, nulls_first) = (!key.asc, key.nulls_first);
                *to = Some(TieColumn { column, descending, nulls_first });
            }
            _ => return TieBreak::All,
        }
    }
    TieBreak::Columns(columns)
}

/// The column of `plan` that `expr` is.
fn index_of(expr: &Expr, plan: &LogicalPlan) -> Option<usize> {
    match unalias(expr.clone()) {
        Expr::Column(column) => plan.schema().maybe_index_of_column(&column),
        _ => None,
    }
}

/// Pairs that are asked of the rows of a plan.
#[derive(Debug, Clone)]
struct Asked {
    /// The column with the score.
    score: usize,
    /// The direction in which its values are better.
    order: Order,
    /// Columns that have to be read from rows of the side whose rows have pairs of their own.
    groups: Vec<usize>,
    /// Nodes are columns of the plan.
    best: BestPairs,
}

impl Asked {
    /// `plan` with the join below told, if it gives what is asked.
    fn limit(&self, plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
        if let Some(node) = SetSimilarityJoin::of(plan) {
            let told = self.is_given_by(node).then(|| {
                let best = self.of_other_side(node);
                let mut node = SetSimilarityJoin { need: Need::Best(best), ..node.clone() };
                if let BestPairs::OneToOne { .. } = best {
                    // No pair without a score is taken.
                    node.predicate = node.predicate.without_nan();
                }
                node.into_plan()
            });
            return Ok(told);
        }
        let (input, below) = match plan {
            LogicalPlan::Projection(projection) => (&projection.input, self.below(projection)),
            LogicalPlan::SubqueryAlias(alias) => (&alias.input, Some(self.clone())),
            LogicalPlan::Filter(filter) if self.admits(&filter.predicate, &filter.input) => {
                (&filter.input, Some(self.clone()))
            }
            _ => return Ok(None),
        };
        let Some(below) = below else { return Ok(None) };
        match below.limit(input)? {
            Some(input) => with_input(plan, input).map(Some),
            None => Ok(None),
        }
    }

    /// The pairs that have to be asked of the input of a projection, for these to be asked of it.
    fn below(&self, projection: &Projection) -> Option<Self> {
        let Projection { expr, input, .. } = projection;
        let of_group = |index: &usize| {
            let columns = expr[*index].column_refs().into_iter();
            let below = columns.map(|column| input.schema().maybe_index_of_column(column));
            below.collect::<Option<Vec<_>>>().filter(|_| !expr[*index].is_volatile())
        };
        let groups: Vec<_> = self.groups.iter().map(of_group).collect::<Option<_>>()?;
        let best = match self.best {
            BestPairs::OneToOne { nodes: [left, right] } => BestPairs::OneToOne {
                nodes: [index_of(&expr[left], input)?, index_of(&expr[right], input)?],
            },
            BestPairs::OfEachRow { count, side, ties: TieBreak::Columns(columns) } => {
                let below = columns.map(|column| {
                    column.map(|key| {
                        Some(TieColumn { column: index_of(&expr[key.column], input)?, ..key })
                    })
                });
                // The window decides among all rows by a key that is computed.
                let ties = match below.contains(&Some(None)) {
                    true => TieBreak::All,
                    false => TieBreak::Columns(below.map(Option::flatten)),
                };
                BestPairs::OfEachRow { count, side, ties }
            }
            other => other,
        };
        let score = index_of(&expr[self.score], input)?;
        Some(Self { score, groups: groups.concat(), best, order: self.order })
    }

    /// Whether a filter of `input` takes away only pairs with a NULL, which are not asked for.
    fn admits(&self, filter: &Expr, input: &LogicalPlan) -> bool {
        let BestPairs::OneToOne { nodes: [left, right] } = self.best else { return false };
        split_conjunction(filter).into_iter().all(|conjunct| match conjunct {
            Expr::IsNotNull(part) => index_of(part, input)
                .is_some_and(|index| [left, right, self.score].contains(&index)),
            _ => false,
        })
    }

    /// The pairs of a join: the columns of a row itself, and the score, decide no tie among its pairs.
    fn of_other_side(&self, node: &SetSimilarityJoin) -> BestPairs {
        let BestPairs::OfEachRow { count, side, ties: TieBreak::Columns(columns) } = self.best
        else {
            return self.best;
        };
        let mut left = [None; MOST_TIE_COLUMNS];
        let of_other =
            columns.into_iter().flatten().filter(|key| match node.output.get(key.column) {
                Some(OutputColumn::Input(of, _)) => *of != side,
                Some(OutputColumn::Score(call)) => *call != node.predicate.call,
                _ => true,
            });
        let of_other: Vec<TieColumn> = of_other.collect();
        let is_input =
            |key: &TieColumn| node.output.get(key.column).is_some_and(|c| c.source().is_some());
        let ties = match of_other.as_slice() {
            [] => TieBreak::Any,
            keys if keys.iter().all(is_input) => {
                left.iter_mut().zip(keys).for_each(|(to, key)| *to = Some(*key));
                TieBreak::Columns(left)
            }
            _ => TieBreak::All,
        };
        BestPairs::OfEachRow { count, side, ties }
    }

    fn is_given_by(&self, node: &SetSimilarityJoin) -> bool {
        let call = node.predicate.call;
        let conditions = node.on.iter().flat_map(|(left, right)| [left, right]);
        let conditions = conditions.chain(node.side_filters.iter().flatten()).chain(&node.residual);
        // A pair may be looked at several times.
        let is_volatile = node.arguments.iter().chain(conditions).any(Expr::is_volatile);
        let side = match self.best {
            BestPairs::OfEachRow { side, .. } => side,
            BestPairs::First { .. } | BestPairs::OneToOne { .. } => Side::Left,
        };
        let is_of_side = |index: &usize| match node.output.get(*index) {
            Some(OutputColumn::Input(of, _)) => *of == side,
            _ => false,
        };
        node.need == Need::Rows
            && self.groups.iter().all(is_of_side)
            && node.join_type == JoinType::Inner
            && node.output.get(self.score) == Some(&OutputColumn::Score(call))
            && call.function.info().order == self.order
            && !node.predicate.bound.is_nan()
            && !is_volatile
    }
}
