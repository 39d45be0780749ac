//! The number of pairs of rows behind matches of items.

use datafusion::logical_expr::Operator::{Gt, GtEq, Lt, LtEq, NotEq};

use crate::engine::{MatchOrder, MatchRun, Orders, RowPairCounts};
use crate::exec::answer::batch::ProbeBatch;
use crate::exec::build_side::BuildSide;
use crate::exec::layout::JoinLayout;
use crate::exec::rows::ranks::Ranks;
use crate::exec::sink::PairSink;

/// Whether matches of items tell everything of a join whose build rows have these ranks: no pair of
/// rows has to be made.
pub(crate) fn items_suffice(layout: &JoinLayout, ranks: Option<&Ranks>) -> bool {
    match layout.sink.pairs {
        PairSink::Output | PairSink::Connections | PairSink::Firsts => false,
        PairSink::Rows => layout.items_decide(),
        PairSink::Total => {
            layout.residual(ranks.is_some()).is_none()
                && match (layout.row_order, layout.spec.orders) {
                    (None, _) => true,
                    (Some(_), Orders::Unordered) => ranks.is_some_and(|r| r.distinct),
                    (Some(_), Orders::Given | Orders::Mirrored) => false,
                }
        }
    }
}

/// Whether the matches of the items of a batch, which meet the build side in both orders, tell the number of
/// pairs of rows: no row is equal to a build row by the row order, and none is NULL.
pub(super) fn batch_suffices(layout: &JoinLayout, batch: &ProbeBatch, build: &BuildSide) -> bool {
    let (Some(of_build), Some(of_batch)) = (&build.ranks, &batch.ranks) else { return false };
    layout.sink.pairs == PairSink::Total
        && layout.spec.orders == Orders::Mirrored
        && layout.residual(true).is_none()
        && !of_build.has_null
        && of_batch.iter().all(|&rank| Ranks::is_apart(rank))
}

/// The number of row pairs behind a run of matches of a batch.
pub(super) fn of_run(
    layout: &JoinLayout,
    batch: &ProbeBatch,
    build: &BuildSide,
    run: MatchRun<'_>,
) -> u64 {
    let (probe, build) = (batch.items.groups(), build.items.groups());
    let unordered = layout.spec.orders == Orders::Unordered;
    let orders = if run.order == MatchOrder::All { orders(layout) } else { 1 };
    let mut total = 0;
    // The matches of a probe item follow each other.
    for group in run.matches.chunk_by(|a, b| a.probe == b.probe) {
        let rows = u64::from(probe.row_count_of(group[0].probe));
        let mut partners = 0;
        for found in group {
            match unordered && found.probe == found.build {
                true => total += with_itself(layout, rows * rows, rows),
                false => partners += u64::from(build.row_count_of(found.build)),
            }
        }
        total += rows * partners * orders;
    }
    total
}

/// The number of row pairs behind matches that were counted without being given.
pub(super) fn of_counts(layout: &JoinLayout, counts: RowPairCounts) -> u64 {
    orders(layout) * counts.cross + with_itself(layout, counts.squares, counts.rows)
}

/// The number of times that a match of two different items counts.
fn orders(layout: &JoinLayout) -> u64 {
    match (layout.spec.orders, layout.row_order.map(|order| order.operator)) {
        (Orders::Given, _) => 1,
        (Orders::Mirrored | Orders::Unordered, None | Some(NotEq)) => 2,
        // A comparison holds in one order of two rows that differ, and all rows do.
        (Orders::Mirrored | Orders::Unordered, Some(_)) => 1,
    }
}

/// The number of row pairs of items that match themselves. `squares` is the sum of the squares of
/// their row counts, `rows` the sum of these counts.
fn with_itself(layout: &JoinLayout, squares: u64, rows: u64) -> u64 {
    match layout.row_order.map(|order| order.operator) {
        None => squares,
        Some(Lt | Gt) => (squares - rows) / 2,
        Some(LtEq | GtEq) => (squares + rows) / 2,
        Some(_) => squares - rows,
    }
}
