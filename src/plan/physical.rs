//! From a [`SetSimilarityJoin`] and its planned inputs to a [`SetSimilarityJoinExec`].

use std::sync::Arc;

use arrow::datatypes::DataType;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::stats::Precision;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};

use super::compile::Compiler;
use super::distribute::{ClusterPlanning, Distribution};
use super::logical::SetSimilarityJoin;
use super::ranked::plan_ranked;
use super::readings::{are_deterministic, is_deterministic, is_exact};
use super::sources::take_calls;
use crate::config::{BuildSideChoice, SimJoinOptions};
use crate::exec::expected;
use crate::exec::{JoinInput, JoinPartsExec, ReadOnceExec, SetSimilarityJoinExec};
use crate::families::Families;
use crate::nearest::{BestPairsExec, NearestJoinExec};
use crate::plan::recognise::cost;
use crate::plan::recognise::declined::{DeclinedNode, SimilarityJoinDeclinedExec};
use crate::plan::recognise::parts::JoinPartsNode;
use crate::plan::recognise::predicate::call_over;
use crate::plan::recognise::read_once::ReadOnceNode;
use crate::plan::relations::{NearestNode, PairsNode, plan_pairs};
use crate::spec::{Call, Nearest, NearestJoin, Need, Residual, Search, Side, SimilarityJoin};

/// Plans the crate's own logical nodes.
#[derive(Debug)]
pub struct SimJoinPlanner {
    families: Families,
}

impl SimJoinPlanner {
    /// A planner of joins by functions of `families`.
    pub fn new(families: Families) -> Self {
        Self { families }
    }
}

#[async_trait]
impl ExtensionPlanner for SimJoinPlanner {
    async fn plan_extension(
        &self,
        planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        physical_inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        planning_ctx: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if let Some(node) = node.as_any().downcast_ref::<SetSimilarityJoin>() {
            let compiler = Compiler {
                schemas: [node.left.schema(), node.right.schema()],
                shared: node.shared.as_ref(),
                planner,
                session,
                planning_ctx,
            };
            let planning = Planning { node, families: &self.families, compiler, session };
            return planning.plan(physical_inputs).map(Some);
        }
        if let Some(node) = node.as_any().downcast_ref::<NearestNode>() {
            let schemas = [node.left.schema(), node.right.schema()];
            let compiler = Compiler { schemas, shared: None, planner, session, planning_ctx };
            let options = SimJoinOptions::of(session.config_options()).clone();
            let (join, input) = plan_ranked(node, physical_inputs, compiler, &self.families)?;
            let exec = NearestJoinExec::try_new(input, join, &self.families, options)?;
            let exec = match shares_left_rows(session) && is_deterministic(&node.right)? {
                true => exec.with_shared_left_rows()?,
                false => exec,
            };
            return Ok(Some(Arc::new(exec)));
        }
        if let Some(node) = node.as_any().downcast_ref::<PairsNode>() {
            let is_cluster = ClusterPlanning::tasks_of(session.config()).is_some();
            return plan_pairs(node, physical_inputs, is_cluster).map(Some);
        }
        if node.as_any().is::<JoinPartsNode>() {
            let [union] = physical_inputs else {
                return internal_err!("JoinParts has one input");
            };
            return Ok(Some(Arc::new(JoinPartsExec::over(Arc::clone(union)))));
        }
        if let Some(node) = node.as_any().downcast_ref::<ReadOnceNode>() {
            let [input] = physical_inputs else {
                return internal_err!("ReadOnce has one input");
            };
            return Ok(Some(Arc::new(ReadOnceExec::new(Arc::clone(input), node.number))));
        }
        if let Some(node) = node.as_any().downcast_ref::<DeclinedNode>() {
            let [input] = physical_inputs else {
                return internal_err!("SimilarityJoinDeclined has one input");
            };
            let reason = node.reason().to_string();
            return Ok(Some(Arc::new(SimilarityJoinDeclinedExec::new(Arc::clone(input), reason))));
        }
        Ok(None)
    }
}

/// A similarity join that is being planned.
struct Planning<'a> {
    node: &'a SetSimilarityJoin,
    families: &'a Families,
    compiler: Compiler<'a>,
    session: &'a dyn Session,
}

impl Planning<'_> {
    fn plan(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Arc<dyn ExecutionPlan>> {
        let node = self.node;
        let options = SimJoinOptions::of(self.session.config_options());
        let on = node
            .on
            .iter()
            .map(|(l, r)| {
                Ok((self.compiler.compile(l, Side::Left)?, self.compiler.compile(r, Side::Right)?))
            })
            .collect::<Result<Vec<_>>>()?;
        let side_filter = |side: Side| {
            let filter = node.side_filters[side as usize].as_ref();
            filter.map(|e| self.compiler.compile(e, side)).transpose()
        };
        let output = node
            .output
            .iter()
            .map(|column| {
                Ok(match column.source() {
                    Some((side, index)) => {
                        column.with_source(self.compiler.input_index(side, index)?)
                    }
                    None => *column,
                })
            })
            .collect::<Result<Vec<_>>>()?;
        let text = match &node.note {
            Some(note) => format!("{} ({note})", node.conjunct),
            None => node.conjunct.to_string(),
        };
        let mut join = SimilarityJoin {
            predicate: node.predicate,
            text,
            join_type: node.join_type,
            arguments: [
                self.compiler.compile(node.argument(Side::Left), Side::Left)?,
                self.compiler.compile(node.argument(Side::Right), Side::Right)?,
            ],
            on,
            null_equality: node.null_equality,
            side_filters: [side_filter(Side::Left)?, side_filter(Side::Right)?],
            residual: node.residual.as_ref().map(|e| self.residual(e)).transpose()?,
            need: match node.need {
                Need::Best(_) => Need::Rows,
                need => need,
            },
            output,
            schema: Arc::clone(node.schema.inner()),
        };
        let mut input = self.join_input(inputs, &options)?;
        take_calls(&mut input, &mut join, self.families)?;
        if let Need::Nearest(nearest) = node.need {
            let join = self.nearest(join, nearest)?;
            let exec = NearestJoinExec::try_new(input, join, self.families, options)?;
            // Each task reads the right side; where both sides are one input, it is read twice.
            let [left, right] = are_deterministic(node)?;
            let repeatable = right && (left || node.shared.is_none());
            return Ok(Arc::new(match repeatable && shares_left_rows(self.session) {
                true => exec.with_shared_left_rows()?,
                false => exec,
            }));
        }
        if let Some(tasks) = ClusterPlanning::tasks_of(self.session.config()) {
            let repeatable = are_deterministic(node)?;
            let options = &options;
            let exact = is_exact(&node.left)? && is_exact(&node.right)?;
            let families = self.families;
            let distribution =
                Distribution { input, join, families, options, tasks, repeatable, exact };
            return match node.need {
                Need::Best(best) => distribution.plan_best(best),
                _ => distribution.plan(),
            };
        }
        let plain = SetSimilarityJoinExec::try_new(input, join, self.families, options)?;
        Ok(match node.need {
            Need::Best(best) if BestPairsExec::serves(&plain, best) => {
                Arc::new(BestPairsExec::try_new(plain, best, self.families)?)
            }
            _ => Arc::new(plain),
        })
    }

    fn join_input(
        &self,
        inputs: &[Arc<dyn ExecutionPlan>],
        options: &SimJoinOptions,
    ) -> Result<JoinInput> {
        match (inputs, &self.node.shared) {
            ([input], Some(_)) => Ok(JoinInput::Itself {
                input: Arc::clone(input),
                partitions: self.session.config().target_partitions(),
            }),
            ([left, right], None) => {
                let build = self.build_side(left, right, options);
                let probe = if build == Side::Left { right } else { left };
                Ok(JoinInput::Two {
                    left: Arc::clone(left),
                    right: Arc::clone(right),
                    build,
                    partitions: self.partitions(probe),
                })
            }
            _ => internal_err!("SetSimilarityJoin was planned with {} inputs", inputs.len()),
        }
    }

    /// The number of partitions that share the rows of `probe`: one for a batch or less.
    fn partitions(&self, probe: &Arc<dyn ExecutionPlan>) -> usize {
        let config = self.session.config();
        match expected::statistics(probe).map(|statistics| statistics.num_rows) {
            Some(Precision::Exact(rows)) if rows <= config.batch_size() => 1,
            _ => config.target_partitions(),
        }
    }

    /// The side to collect and index.
    fn build_side(
        &self,
        left: &Arc<dyn ExecutionPlan>,
        right: &Arc<dyn ExecutionPlan>,
        options: &SimJoinOptions,
    ) -> Side {
        // Counts for each row of a side are complete once that row has been probed.
        if let Need::Counts(Some(side)) = self.node.need {
            return side.other();
        }
        match options.build_side {
            BuildSideChoice::Fixed(side) => side,
            BuildSideChoice::Auto => {
                let (l, r) = (expected::statistics(left), expected::statistics(right));
                match cost::left_is_smaller(l.as_deref(), r.as_deref()) {
                    Some(false) => Side::Right,
                    Some(true) | None => Side::Left,
                }
            }
        }
    }

    /// A call over the arguments of the join whose value follows from a match.
    fn own_call(&self, expr: &Expr) -> Result<Option<(Call, DataType)>> {
        let call = call_over(expr, &self.node.arguments, self.families);
        match call.filter(|call| self.node.predicate.tells(call.function)) {
            Some(call) => Ok(Some((call, self.node.score_type(call)?))),
            None => Ok(None),
        }
    }

    /// Compiles the residual, with scores taken from the match.
    fn residual(&self, residual: &Expr) -> Result<Residual> {
        self.compiler.of_pair(residual, |expr| self.own_call(expr))
    }

    /// `join` as a search for nearest rows.
    fn nearest(&self, join: SimilarityJoin, nearest: Nearest) -> Result<NearestJoin> {
        let function = join.predicate.call.function;
        let (widest, is_complete) = function.widest_bound();
        // Pairs that no bound gives are scored one by one.
        let finds_all = is_complete || join.predicate.bound != widest;
        let of_pair = |expr: &Expr| self.compiler.of_pair(expr, |_| Ok(None));
        let score = match finds_all {
            true => None,
            false => Some(of_pair(&self.node.conjunct)?),
        };
        let condition = match (&score, &self.node.residual) {
            (Some(_), Some(residual)) => Some(of_pair(residual)?),
            _ => None,
        };
        let SimilarityJoin { predicate, arguments, residual, .. } = join;
        Ok(NearestJoin {
            nearest,
            order: function.info().order,
            text: join.text,
            join_type: join.join_type,
            score,
            on: join.on,
            null_equality: join.null_equality,
            side_filters: join.side_filters,
            condition,
            search: Some(Search { predicate, arguments, residual }),
            rounds: vec![],
            output: join.output,
            schema: join.schema,
        })
    }
}

/// Whether tasks of a cluster share the left rows of joins with nearest rows.
fn shares_left_rows(session: &dyn Session) -> bool {
    ClusterPlanning::tasks_of(session.config()).is_some_and(|tasks| tasks > 1)
}
