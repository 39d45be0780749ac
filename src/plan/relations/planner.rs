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
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::{PairFunction, ScoreOrder, written};
use crate::functions::comparison_query;
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
        if let Some(query) = written_query(name, pairs, settings, context)? {
            let plan = context.plan(derived(query))?;
            let alias = alias.clone();
            return Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias))));
        }
        let pairs = plan_query(name, pairs, context)?;
        let settings = settings.iter().map(|setting| constant(name, setting, context));
        let function = function_of(name, settings.collect::<Result<Vec<_>>>()?)?;
        let plan = function.over(pairs)?;
        let alias = alias.clone();
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias))))
    }
}

/// The query that a function stands for; `None` of the others.
fn written_query(
    name: &str,
    pairs: &SqlExpr,
    settings: &[&SqlExpr],
    context: &mut dyn RelationPlannerContext,
) -> Result<Option<Box<Query>>> {
    let mut settings = settings;
    let mut inputs = vec![pairs];
    if !matches!(name, "thresholds" | "evaluate" | "compare") {
        return Ok(None);
    }
    if name == "evaluate" {
        let Some((truth, others)) = settings.split_first() else {
            return plan_err!("evaluate lacks the true pairs; {}", usage(name));
        };
        inputs.push(truth);
        settings = others;
    }
    let plans = inputs.iter().map(|input| plan_query(name, input, context));
    let plans = plans.collect::<Result<Vec<_>>>()?;
    let columns = |side: usize| plans.get(side).map_or(0, |plan| plan.schema().fields().len());
    let settings = settings.iter().map(|setting| constant(name, setting, context));
    let settings = settings.collect::<Result<Vec<_>>>()?;
    let text = match name {
        "compare" => {
            let way = match settings.as_slice() {
                [way] => way.try_as_str().flatten(),
                _ => None,
            };
            if way.is_none() && !settings.is_empty() {
                return plan_err!("compare takes one text behind the query; {}", usage(name));
            }
            let Some(plan) = plans.first() else { return plan_err!("compare lacks a query") };
            comparison_query(plan.schema().as_arrow(), way)?
        }
        _ => {
            let (thresholds, order) = thresholds_and_order(name, settings)?;
            match name {
                "evaluate" => {
                    let truth = plans.get(1).map(|plan| plan.schema().as_arrow());
                    let label = truth.and_then(|truth| truth.index_of("label").ok());
                    written::evaluate([columns(0), columns(1)], label, &thresholds, order)?
                }
                _ if thresholds.is_empty() => {
                    return plan_err!("thresholds lacks the list of thresholds; {}", usage(name));
                }
                _ => written::thresholds(columns(0), &thresholds, order)?,
            }
        }
    };
    let inputs = inputs.into_iter().map(query_of);
    written::query(&text, inputs.collect::<Result<_>>()?).map(Some)
}

/// The query of an argument, which is one or the name of a common table expression.
fn query_of(argument: &SqlExpr) -> Result<Query> {
    match argument {
        SqlExpr::Nested(inner) => query_of(inner),
        SqlExpr::Subquery(query) => Ok(query.as_ref().clone()),
        other => {
            let text = format!("SELECT * FROM {other}");
            let query = Parser::new(&GenericDialect {}).try_with_sql(&text)?.parse_query()?;
            Ok(*query)
        }
    }
}

fn usage(name: &str) -> String {
    match name {
        "thresholds" => "write thresholds((SELECT a.id, b.id, score FROM …), [0.9, 0.8, 0.7]), with 'distance' behind \
             them where less is better"
            .to_string(),
        "evaluate" => "write evaluate((SELECT left, right, score FROM links), (SELECT left, right FROM truth), \
             [0.9, 0.8]); without thresholds the links need no score"
            .to_string(),
        "compare" => "write compare((SELECT a.name, b.name FROM …)), or compare((SELECT …), 'words') for texts as sets of words"
            .to_string(),
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

/// The thresholds behind a query, the strictest first, and the order of scores.
fn thresholds_and_order(
    name: &str,
    mut settings: Vec<ScalarValue>,
) -> Result<(Vec<f64>, ScoreOrder)> {
    let order = order_of(name, &mut settings)?;
    let mut thresholds = vec![];
    if !settings.is_empty() {
        thresholds = thresholds_of(name, &settings.remove(0))?;
    }
    if let Some(setting) = settings.first() {
        return plan_err!("{name} takes no {setting} behind the query; {}", usage(name));
    }
    order.sort_strictest_first(name, &mut thresholds)?;
    Ok((thresholds, order))
}

/// The order of scores, which stands last; it is taken off the settings.
fn order_of(name: &str, settings: &mut Vec<ScalarValue>) -> Result<ScoreOrder> {
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
    Ok(order)
}

fn function_of(name: &str, mut settings: Vec<ScalarValue>) -> Result<PairFunction> {
    let order = order_of(name, &mut settings)?;
    let mut thresholds = vec![];
    if name == "connected_components" && !settings.is_empty() {
        thresholds = thresholds_of(name, &settings.remove(0))?;
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

fn thresholds_of(name: &str, value: &ScalarValue) -> Result<Vec<f64>> {
    let list = match value {
        ScalarValue::List(list) => list.values().clone(),
        other => other.to_array()?,
    };
    let numbers = datafusion::arrow::compute::cast(&list, &arrow::datatypes::DataType::Float64);
    let Ok(numbers) = numbers else {
        return plan_err!("the thresholds of {name} are numbers, not {value}; {}", usage(name));
    };
    let numbers = datafusion::common::cast::as_float64_array(&numbers)?;
    let thresholds: Vec<f64> = numbers.iter().flatten().collect();
    if thresholds.len() < numbers.len() || thresholds.is_empty() {
        return plan_err!("the thresholds of {name} are numbers, not {value}");
    }
    Ok(thresholds)
}
