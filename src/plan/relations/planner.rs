//! Table functions over pairs in SQL.
//!
//! DataFusion's planner refuses a query of several columns as an argument of a table function. It hands
//! each table of FROM to relation planners first, which may plan what it contains.

use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, FunctionArg, FunctionArgExpr, Ident, ObjectName, Query, TableFactor,
};

use super::{PairFunction, ScoreOrder};
use crate::sql::PAIR_FUNCTIONS;

/// Plans [`PairFunction`]s.
#[derive(Debug, Default)]
pub struct PairFunctionPlanner;

impl RelationPlanner for PairFunctionPlanner {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let TableFactor::Table { name, args: Some(args), alias, .. } = &relation else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let Some(name) = function_named(name, context) else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let arguments = args.args.iter().map(|argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) => Ok(argument),
            other => plan_err!("{name} has no argument {other}; {}", usage(name)),
        });
        let arguments = arguments.collect::<Result<Vec<_>>>()?;
        let Some((pairs, settings)) = arguments.split_first() else {
            return plan_err!("{name} reads the pairs of a query; {}", usage(name));
        };
        let pairs = plan_query(name, pairs, context)?;
        let settings = settings.iter().map(|setting| constant(name, setting, context));
        let function = function_of(name, settings.collect::<Result<Vec<_>>>()?)?;
        let plan = function.over(pairs)?;
        let alias = alias.clone();
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias))))
    }
}

fn usage(name: &str) -> String {
    match name {
        "connected_components" => "write connected_components((SELECT a.id, b.id FROM …)), or, for \
             several thresholds, connected_components((SELECT a.id, b.id, score FROM …), [0.9, 0.8])"
            .to_string(),
        _ => format!(
            "write {name}((SELECT a.id, b.id, score FROM …)), with 'distance' behind the query where \
             less is better"
        ),
    }
}

fn function_named(name: &ObjectName, context: &dyn RelationPlannerContext) -> Option<&'static str> {
    let [part] = name.0.as_slice() else { return None };
    let given = context.normalize_ident(part.as_ident()?.clone());
    PAIR_FUNCTIONS.into_iter().find(|name| *name == given)
}

/// Plans the query of an argument, or a common table expression by its name.
fn plan_query(
    name: &str,
    argument: &SqlExpr,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let mut argument = argument;
    while let SqlExpr::Nested(inner) = argument {
        argument = inner;
    }
    let relation = match argument {
        SqlExpr::Subquery(query) => derived(query.clone()),
        // The rewriting of the text has made a query of the name of a table. In a text that was not rewritten,
        // only the name of a common table expression is known here.
        SqlExpr::Identifier(table) => {
            let named = context.plan(table_named(table.clone()));
            return named.map_err(|error| {
                error.context(format!(
                    "{name} reads a table by its name in texts that simjoin_sql plans, and a query in all: write \
                     {name}((SELECT * FROM {table}))"
                ))
            });
        }
        other => {
            return plan_err!("{name} reads the pairs of a query, not of {other}; {}", usage(name));
        }
    };
    context.plan(relation)
}

fn derived(subquery: Box<Query>) -> TableFactor {
    TableFactor::Derived { lateral: false, subquery, alias: None, sample: None }
}

fn table_named(table: Ident) -> TableFactor {
    TableFactor::Table {
        name: ObjectName::from(vec![table]),
        alias: None,
        args: None,
        with_hints: vec![],
        version: None,
        with_ordinality: false,
        partitions: vec![],
        json_path: None,
        sample: None,
        index_hints: vec![],
    }
}

/// The value of a setting behind the query.
fn constant(
    name: &str,
    setting: &SqlExpr,
    context: &mut dyn RelationPlannerContext,
) -> Result<ScalarValue> {
    let expression = context.sql_to_expr(setting.clone(), &DFSchema::empty())?;
    let simplifier = ExprSimplifier::new(SimplifyContext::builder().build());
    // A list may have numbers of several types.
    let expression = simplifier.coerce(expression, &DFSchema::empty())?;
    match simplifier.simplify(expression)? {
        Expr::Literal(value, _) => Ok(value),
        _ => plan_err!("{name} takes constants behind the query, not {setting}; {}", usage(name)),
    }
}

fn function_of(name: &str, mut settings: Vec<ScalarValue>) -> Result<PairFunction> {
    let mut order = ScoreOrder::default();
    if let Some(text) = settings.last().and_then(ScalarValue::try_as_str) {
        let Some(text) = text else {
            return plan_err!("{name} takes no NULL behind the query; {}", usage(name));
        };
        order = match ScoreOrder::of(text) {
            Some(order) => order,
            None => {
                return plan_err!("{name} knows 'similarity' and 'distance', not '{text}'");
            }
        };
        settings.pop();
    }
    let mut thresholds = vec![];
    if name == "connected_components" && !settings.is_empty() {
        thresholds = thresholds_of(&settings.remove(0))?;
    }
    if let Some(setting) = settings.first() {
        return plan_err!("{name} takes no {setting} behind the query; {}", usage(name));
    }
    Ok(match name {
        "connected_components" => PairFunction::ConnectedComponents { thresholds, order },
        "representatives" => PairFunction::Representatives { order },
        _ => PairFunction::OneToOne { order },
    })
}

fn thresholds_of(value: &ScalarValue) -> Result<Vec<f64>> {
    let list = match value {
        ScalarValue::List(list) => list.values().clone(),
        other => other.to_array()?,
    };
    let numbers = datafusion::arrow::compute::cast(&list, &arrow::datatypes::DataType::Float64);
    let Ok(numbers) = numbers else {
        return plan_err!(
            "the thresholds of connected_components are numbers, not {value}; {}",
            usage("connected_components")
        );
    };
    let numbers = datafusion::common::cast::as_float64_array(&numbers)?;
    let thresholds: Vec<f64> = numbers.iter().flatten().collect();
    if thresholds.len() < numbers.len() || thresholds.is_empty() {
        return plan_err!("the thresholds of connected_components are numbers, not {value}");
    }
    Ok(thresholds)
}
