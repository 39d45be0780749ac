//! Joins with nearest rows by a score that is more than one function of a family.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, NullEquality, Result, internal_err, plan_err};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{Expr, ExprSchemable, UserDefinedLogicalNodeCore};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::ExecutionPlan;

use super::compile::Compiler;
use super::logical::score_type;
use super::recognise::nearest::{as_join, nearest_of, rest_of};
use super::recognise::necessary::{DrivenBy, Driver, RankedScore, ScoreRound};
use super::recognise::predicate::{Constants, JoinInputs, call_over};
use super::recognise::rest::{OtherConditions, output_of};
use super::relations::NearestNode;
use crate::exec::JoinInput;
use crate::families::Families;
use crate::spec::{Call, DriverKind, NearestJoin, Order, Search, SearchDriver, SearchRound, Side};

/// The join of a node, and its input.
pub(super) fn plan_ranked(
    node: &NearestNode,
    inputs: &[Arc<dyn ExecutionPlan>],
    compiler: Compiler<'_>,
    families: &Families,
) -> Result<(NearestJoin, JoinInput)> {
    let [left, right] = inputs else {
        return internal_err!("NearestJoin was planned with {} inputs", inputs.len());
    };
    let both = node.left.schema().join(node.right.schema())?;
    let score = RankedScore {
        score: &node.score,
        data_type: &node.score.get_type(&both)?,
        order: if node.words.is_distance { Order::Distance } else { Order::Similarity },
        sides: JoinInputs { left: node.left.schema(), right: node.right.schema(), families },
        constants: Constants {
            props: compiler.session.execution_props(),
            config: compiler.session.config().options(),
        },
        nan_is_null: node.words.insists,
    };
    let OtherConditions { on, side_filters, residual } = rest_of(node)?;
    let on = on
        .iter()
        .map(|(l, r)| Ok((compiler.compile(l, Side::Left)?, compiler.compile(r, Side::Right)?)));
    let strict = score.strict_columns();
    let filter = |side: Side| {
        let schema = compiler.schemas[side as usize];
        let of_side =
            |column: &&Expr| column.try_as_col().is_some_and(|column| schema.has_column(column));
        let there = strict.iter().filter(of_side).map(|column| column.clone().is_not_null());
        let filter = conjunction(side_filters[side as usize].iter().cloned().chain(there));
        filter.map(|filter| compiler.compile(&filter, side)).transpose()
    };
    let of_pair = |expr: &Expr| compiler.of_pair(expr, |_| Ok(None));
    let join = NearestJoin {
        nearest: nearest_of(node)?,
        order: score.order,
        text: node.score.clone().unalias().to_string(),
        join_type: node.join_type,
        score: Some(of_pair(&node.score)?),
        on: on.collect::<Result<_>>()?,
        null_equality: NullEquality::NullEqualsNothing,
        side_filters: [filter(Side::Left)?, filter(Side::Right)?],
        condition: residual.as_ref().map(of_pair).transpose()?,
        search: None,
        rounds: Rounds { node, compiler, families }.plan(score)?,
        output: output_of(&as_join(node)?),
        schema: Arc::clone(UserDefinedLogicalNodeCore::schema(node).inner()),
    };
    let (left, right) = (Arc::clone(left), Arc::clone(right));
    Ok((join, JoinInput::Two { left, right, build: Side::Right, partitions: 1 }))
}

/// The rounds of a node that are being planned.
struct Rounds<'a> {
    node: &'a NearestNode,
    compiler: Compiler<'a>,
    families: &'a Families,
}

impl Rounds<'_> {
    fn plan(&self, score: RankedScore<'_>) -> Result<Vec<SearchRound>> {
        let node = self.node;
        let conjuncts: Vec<&Expr> = node.condition.iter().flat_map(split_conjunction).collect();
        match score.rounds(&conjuncts) {
            Ok(rounds) => rounds.iter().map(|round| self.round(round)).collect(),
            Err(reason) if node.words.insists => plan_err!(
                "SIMJOIN … NEAREST cannot run: no bound follows from {}: {reason}; JOIN in place of SIMJOIN \
                 compares every pair",
                node.score.clone().unalias()
            ),
            Err(_) => Ok(vec![]),
        }
    }

    fn round(&self, round: &ScoreRound) -> Result<SearchRound> {
        let drivers = round.drivers.iter().map(|driver| self.driver(driver));
        Ok(SearchRound {
            threshold: round.threshold,
            drivers: drivers.collect::<Result<Vec<_>>>()?,
        })
    }

    fn driver(&self, driver: &Driver) -> Result<SearchDriver> {
        let Self { node, compiler, families } = self;
        let schemas = compiler.schemas;
        let of_sides = |[left, right]: &[Expr; 2]| -> Result<[PhysicalExprRef; 2]> {
            Ok([compiler.compile(left, Side::Left)?, compiler.compile(right, Side::Right)?])
        };
        let own = |expr: &Expr| -> Result<Option<(Call, DataType)>> {
            let DrivenBy::Bound { comparison, predicate, .. } = &driver.by else { return Ok(None) };
            let call = call_over(expr, &comparison.arguments, families);
            Ok(match call.filter(|call| *call == predicate.call) {
                Some(call) => {
                    let own = score_type(
                        call.function,
                        &comparison.arguments,
                        schemas.map(AsRef::as_ref),
                    )?;
                    Some((call, own))
                }
                None => None,
            })
        };
        let by = match &driver.by {
            DrivenBy::Bound { comparison, predicate, best } => {
                let arguments = of_sides(&comparison.arguments)?;
                let search = Search { predicate: *predicate, arguments, residual: None };
                let value = search.value_schema(schemas.map(|schema| schema.as_arrow()))?;
                let value = DFSchema::try_from(value)?;
                let best = best.as_ref().map(|best| {
                    let Compiler { planner, session, planning_ctx, .. } = compiler;
                    planner.create_physical_expr(best, &value, *session, planning_ctx)
                });
                DriverKind::Bound { search, best: best.transpose()? }
            }
            DrivenBy::Equality(equality) => {
                let [left, right] = of_sides(&equality.sides)?;
                DriverKind::Equality(left, right)
            }
        };
        Ok(SearchDriver {
            by,
            score: compiler.of_pair(&node.score, own)?,
            unmet: driver.unmet.as_ref().map(|unmet| compiler.of_pair(unmet, own)).transpose()?,
        })
    }
}
