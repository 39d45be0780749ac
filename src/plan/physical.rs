//! From a [`SetSimilarityJoin`] and its planned inputs to a [`SetSimilarityJoinExec`].

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{Field, FieldRef, Schema};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{
    Column, DFSchema, DFSchemaRef, Result, TableReference, internal_datafusion_err, internal_err,
};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};

use super::columns::{column_at, fresh_name, map_columns};
use super::distribute::{ClusterPlanning, Distribution};
use super::logical::SetSimilarityJoin;
use super::readings::{are_deterministic, is_exact};
use super::sources::take_calls;
use crate::config::{BuildSideChoice, SimJoinOptions};
use crate::engine::Families;
use crate::exec::expected;
use crate::exec::{JoinInput, SetSimilarityJoinExec};
use crate::plan::recognise::cost;
use crate::plan::recognise::declined::{DeclinedNode, SimilarityJoinDeclinedExec};
use crate::plan::recognise::predicate::call_over;
use crate::plan::relations::{PairsNode, plan_pairs};
use crate::spec::{Call, Need, Residual, ResidualColumn, Side, SimilarityJoin};

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
            let families = &self.families;
            let compiler = Compiler { node, families, planner, session, planning_ctx };
            return compiler.plan(physical_inputs).map(Some);
        }
        if let Some(node) = node.as_any().downcast_ref::<PairsNode>() {
            let is_cluster = ClusterPlanning::tasks_of(session.config()).is_some();
            return plan_pairs(node, physical_inputs, is_cluster).map(Some);
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

struct Compiler<'a> {
    node: &'a SetSimilarityJoin,
    families: &'a Families,
    planner: &'a dyn PhysicalPlanner,
    session: &'a dyn Session,
    planning_ctx: &'a PhysicalPlanningContext,
}

impl Compiler<'_> {
    fn plan(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Arc<dyn ExecutionPlan>> {
        let node = self.node;
        let options = SimJoinOptions::of(self.session.config_options());
        let on = node
            .on
            .iter()
            .map(|(l, r)| Ok((self.compile(l, Side::Left)?, self.compile(r, Side::Right)?)))
            .collect::<Result<Vec<_>>>()?;
        let side_filter = |side: Side| {
            node.side_filters[side as usize].as_ref().map(|e| self.compile(e, side)).transpose()
        };
        let output = node
            .output
            .iter()
            .map(|column| {
                Ok(match column.source() {
                    Some((side, index)) => column.with_source(self.input_index(side, index)?),
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
                self.compile(node.argument(Side::Left), Side::Left)?,
                self.compile(node.argument(Side::Right), Side::Right)?,
            ],
            on,
            null_equality: node.null_equality,
            side_filters: [side_filter(Side::Left)?, side_filter(Side::Right)?],
            residual: node.residual.as_ref().map(|e| self.residual(e)).transpose()?,
            need: node.need,
            output,
            schema: Arc::clone(node.schema.inner()),
        };
        let mut input = self.join_input(inputs, &options)?;
        let family = self.families.get(node.predicate.family())?;
        take_calls(&mut input, &mut join, family.as_ref())?;
        if let Some(tasks) = ClusterPlanning::tasks_of(self.session.config()) {
            let repeatable = are_deterministic(node)?;
            let family = Arc::clone(family);
            let options = &options;
            let exact = is_exact(&node.left)? && is_exact(&node.right)?;
            return Distribution { input, join, family, options, tasks, repeatable, exact }.plan();
        }
        Ok(Arc::new(SetSimilarityJoinExec::try_new(input, join, self.families, options)?))
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

    /// How many partitions share the rows of `probe`: one for a batch or less.
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

    /// Where a column of `side` is in the plan that gives it.
    fn input_index(&self, side: Side, index: usize) -> Result<usize> {
        match &self.node.shared {
            None => Ok(index),
            Some(shared) => shared.columns[side as usize].get(index).copied().ok_or_else(|| {
                internal_datafusion_err!("the shared input has no column {index} of {side}")
            }),
        }
    }

    /// Compiles an expression of one side over the input that gives it.
    fn compile(&self, expr: &Expr, side: Side) -> Result<PhysicalExprRef> {
        let own = self.node.input(side).schema();
        let given = match &self.node.shared {
            Some(shared) => shared.plan.schema(),
            None => own,
        };
        let schema = Numbered::of(given.fields())?;
        let over_given = map_columns(expr, |column| {
            let index = self.input_index(side, own.maybe_index_of_column(column)?).ok()?;
            Some(schema.column(index))
        })?;
        match over_given {
            Some(expr) => self.physical(&expr, &schema),
            None => internal_err!("the {side} input of a similarity join lacks a column of {expr}"),
        }
    }

    fn physical(&self, expr: &Expr, schema: &Numbered) -> Result<PhysicalExprRef> {
        self.planner.create_physical_expr(expr, &schema.0, self.session, self.planning_ctx)
    }

    /// A call over the arguments of the join whose value follows from a match.
    fn own_call(&self, expr: &Expr) -> Option<Call> {
        let call = call_over(expr, &self.node.arguments, self.families)?;
        self.node.predicate.tells(call.function).then_some(call)
    }

    /// Compiles the residual over the columns that it reads, with scores taken from the match.
    fn residual(&self, residual: &Expr) -> Result<Residual> {
        let mut fields: Vec<FieldRef> = vec![];
        let mut columns = vec![];
        let mut calls: Vec<Call> = vec![];
        let expression = residual
            .clone()
            .transform_down(|e| {
                let Some(call) = self.own_call(&e) else {
                    return Ok(Transformed::no(e));
                };
                if !calls.contains(&call) {
                    calls.push(call);
                }
                let name = self.residual_score(call);
                Ok(Transformed::yes(Expr::Column(Column::new_unqualified(name))))
            })
            .data()?;
        for call in &calls {
            let name = self.residual_score(*call);
            fields.push(Arc::new(Field::new(name, self.node.score_type(*call)?, true)));
            columns.push(ResidualColumn::Score(*call));
        }
        // The number of each column of an input that is read.
        let mut numbers: [HashMap<usize, usize>; 2] = Default::default();
        let read = expression.column_refs();
        for side in [Side::Left, Side::Right] {
            let schema: &DFSchemaRef = self.node.input(side).schema();
            let mut indices: Vec<usize> =
                read.iter().filter_map(|c| schema.maybe_index_of_column(c)).collect();
            indices.sort_unstable();
            indices.dedup();
            for index in indices {
                numbers[side as usize].insert(index, fields.len());
                fields.push(Arc::clone(&schema.fields()[index]));
                columns.push(ResidualColumn::Input(side, self.input_index(side, index)?));
            }
        }
        let numbered = Numbered::of(&fields)?;
        let number = |column: &Column| {
            let of_score =
                || calls.iter().position(|call| self.residual_score(*call) == column.name);
            let of_side = |side: Side| {
                let index = self.node.input(side).schema().maybe_index_of_column(column)?;
                numbers[side as usize].get(&index).copied()
            };
            let score = if column.relation.is_none() { of_score() } else { None };
            score.or_else(|| of_side(Side::Left)).or_else(|| of_side(Side::Right))
        };
        let over_read =
            map_columns(&expression, |column| number(column).map(|n| numbered.column(n)))?;
        let Some(expression) = over_read else {
            return internal_err!("the inputs of a similarity join lack a column of {residual}");
        };
        Ok(Residual {
            expression: self.physical(&expression, &numbered)?,
            columns,
            schema: Arc::new(Schema::new(fields)),
        })
    }

    /// The name of a score of the match in the schema of the residual: that of no column of the
    /// inputs, which may have scores of joins below, and columns of any name.
    fn residual_score(&self, call: Call) -> String {
        let name = format!("__simjoin_match_{}_{}", call.function, call.first);
        fresh_name(&name, &[self.node.left.schema(), self.node.right.schema()])
    }
}

/// A schema whose columns have a qualifier each, so that any names go together, also with those of
/// the parameters of lambdas.
struct Numbered(DFSchema);

impl Numbered {
    fn of<'a>(fields: impl IntoIterator<Item = &'a FieldRef>) -> Result<Self> {
        let qualified = fields.into_iter().enumerate();
        let qualified = qualified.map(|(i, field)| (Some(Self::qualifier(i)), Arc::clone(field)));
        let schema = DFSchema::new_with_metadata(qualified.collect(), Default::default())?;
        Ok(Self(schema))
    }

    fn qualifier(index: usize) -> TableReference {
        TableReference::bare(format!("__simjoin_{index}"))
    }

    /// The column of this number.
    fn column(&self, index: usize) -> Expr {
        Expr::Column(column_at(&self.0, index))
    }
}
