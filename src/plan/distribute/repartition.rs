//! Both sides repartitioned by a [grid](crate::shuffle) over the sizes of their sets.

use std::sync::Arc;

use datafusion::common::{Result, internal_err};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::{Column, LambdaExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

use super::Distribution;
use super::sample::sample;
use crate::config::BuildSideChoice;
use crate::exec::{JoinInput, JoinMode, JoinPartsExec, SetSimilarityJoinExec};
use crate::shuffle::{AxisGridExec, AxisHistogramExec, GridPairs, GridSpec, PlacedRows};
use crate::spec::{Need, Side, SimilarityJoin};

const SIDES: [Side; 2] = [Side::Left, Side::Right];

impl Distribution<'_> {
    /// Rows meet in the tile of left and right places that holds both.
    pub(crate) fn repartitioned(self, reason: String) -> Result<Arc<dyn ExecutionPlan>> {
        let inputs = self.sides()?;
        let spec = self.spec(GridPairs::All);
        // Both sides read the histograms of both.
        let measured = if self.is_self_join() { &SIDES[..1] } else { &SIDES[..] };
        let histograms = || -> Result<Vec<_>> {
            let of_side = |side: &Side| {
                let input = reset_plan_states(Arc::clone(&inputs[*side as usize]))?;
                histogram(input, self.placed_rows(*side)?)
            };
            measured.iter().map(of_side).collect()
        };
        let grid = |side: Side| {
            let input = Arc::clone(&inputs[side as usize]);
            AxisGridExec::try_new(input, histograms()?, self.placed_rows(side)?, spec)
        };
        let (left, right) = (grid(Side::Left)?, grid(Side::Right)?);
        let build = match (self.join.need, &self.input) {
            (Need::Counts(Some(side)), _) => side.other(),
            (_, JoinInput::Two { build, .. }) => *build,
            (_, JoinInput::Itself { .. }) => Side::Right,
        };
        self.by_tile(left, right, build, JoinMode::Partitioned { keys: 1 }, reason)
    }

    /// Each pair of rows of one input with itself meets once: near rows in a task that gets each
    /// of them once, the others as left and right rows, in one of the two orders.
    pub(crate) fn repartitioned_once(self, reason: String) -> Result<Arc<dyn ExecutionPlan>> {
        let JoinInput::Itself { input, .. } = &self.input else {
            return internal_err!("pairs of two inputs have no order that says the other");
        };
        let grid = |side: Side, pairs: GridPairs| {
            let again = || reset_plan_states(Arc::clone(input));
            // One place for a row, whichever side it is sent as.
            let rows = PlacedRows { side, ..self.placed_rows(Side::Left)? };
            let histogram = histogram(again()?, self.placed_rows(Side::Left)?)?;
            AxisGridExec::try_new(again()?, vec![histogram], rows, self.spec(pairs))
        };
        let within = grid(Side::Left, GridPairs::Within)?;
        let (left, right) =
            (grid(Side::Left, GridPairs::Across)?, grid(Side::Right, GridPairs::Across)?);
        let mut join = over_tiles(self.join.clone(), [&within, &within])?;
        let tile = Arc::new(within.tile_column()) as PhysicalExprRef;
        join.on.insert(0, (Arc::clone(&tile), tile));
        let within = SetSimilarityJoinExec::try_new_in_mode(
            JoinInput::Itself { input: Arc::new(within), partitions: 1 },
            join,
            self.families,
            self.options.clone(),
            JoinMode::Partitioned { keys: 1 },
            Some(reason.clone()),
        )?;
        let build = match self.options.build_side {
            BuildSideChoice::Fixed(side) => side,
            _ => Side::Right,
        };
        let across = self.by_tile(left, right, build, JoinMode::Mirrored { keys: 1 }, reason)?;
        Ok(Arc::new(JoinPartsExec::try_new(vec![Arc::new(within), across])?))
    }

    /// The expressions that place the rows of a side.
    fn placed_rows(&self, side: Side) -> Result<PlacedRows> {
        let join = &self.join;
        let keys = join.on.iter().map(|(left, right)| match side {
            Side::Left => Arc::clone(left),
            Side::Right => Arc::clone(right),
        });
        Ok(PlacedRows {
            family: Arc::clone(self.families.get(self.join.predicate.family())?),
            predicate: join.predicate,
            side,
            argument: Arc::clone(join.argument(side)),
            keys: keys.collect(),
            null_equality: join.null_equality,
            filter: join.side_filter(side).cloned(),
        })
    }

    fn spec(&self, pairs: GridPairs) -> GridSpec {
        GridSpec {
            predicate: self.join.predicate,
            tasks: self.tasks,
            visits_once: SIDES.map(|side| self.lists_rows_of(side)),
            pairs,
        }
    }

    /// The join of the rows of either side that have the same tile.
    fn by_tile(
        self,
        left: AxisGridExec,
        right: AxisGridExec,
        build: Side,
        mode: JoinMode,
        reason: String,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut join = over_tiles(self.join, [&left, &right])?;
        join.on.insert(0, (Arc::new(left.tile_column()), Arc::new(right.tile_column())));
        Ok(Arc::new(SetSimilarityJoinExec::try_new_in_mode(
            JoinInput::Two { left: Arc::new(left), right: Arc::new(right), build, partitions: 1 },
            join,
            self.families,
            self.options.clone(),
            mode,
            Some(reason),
        )?))
    }
}

/// `join`, over the inputs of two grids, over what the grids give: the same columns and a tile
/// behind them.
fn over_tiles(join: SimilarityJoin, grids: [&AxisGridExec; 2]) -> Result<SimilarityJoin> {
    join.with_column_behind(grids.map(|grid| grid.input().schema().fields().len()))
}

/// The histogram of the rows of `input`, or of a sample of it, in one partition. Tasks have even
/// work where it is accurate. The answer is right with any histogram, provided that all readers get
/// the same one.
fn histogram(input: Arc<dyn ExecutionPlan>, rows: PlacedRows) -> Result<Arc<dyn ExecutionPlan>> {
    let (input, times) = sample(input)?;
    if rows.expressions().any(has_lambda) {
        // DataFusion 55 merges projections without moving the parameters of lambdas.
        return counted(AxisHistogramExec::try_new(input, rows, times)?);
    }
    // Its own columns only, so that the scan reads no others.
    let exprs = rows.expressions().enumerate().map(|(i, expr)| ProjectionExpr {
        expr: Arc::clone(expr),
        alias: format!("__simjoin_{i}"),
    });
    let column = |index: usize| {
        Arc::new(Column::new(&format!("__simjoin_{index}"), index)) as PhysicalExprRef
    };
    let projected = ProjectionExec::try_new(exprs.collect::<Vec<_>>(), input)?;
    let keys = rows.keys.len();
    let rows = PlacedRows {
        argument: column(0),
        keys: (1..=keys).map(column).collect(),
        filter: rows.filter.as_ref().map(|_| column(1 + keys)),
        ..rows
    };
    counted(AxisHistogramExec::try_new(Arc::new(projected), rows, times)?)
}

/// The histogram in one partition.
fn counted(histogram: AxisHistogramExec) -> Result<Arc<dyn ExecutionPlan>> {
    // The limit is never reached: it keeps the optimizer from removing the node where the input
    // has one partition, so that a cluster counts it in a stage of its own and not in each task.
    let whole = CoalescePartitionsExec::new(Arc::new(histogram));
    Ok(Arc::new(whole.with_fetch(Some(u32::MAX as usize))))
}

fn has_lambda(expr: &PhysicalExprRef) -> bool {
    expr.is::<LambdaExpr>() || expr.children().into_iter().any(has_lambda)
}
