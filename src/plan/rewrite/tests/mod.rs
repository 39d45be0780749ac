//! Tests of the passes over converted plans: what they do to the plans of real statements, and
//! where they must decline.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, Result};
use datafusion::datasource::MemTable;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Join, LogicalPlan, Operator};
use datafusion::prelude::SessionContext;

mod counts;
mod scores;
mod self_join;

use crate::functions::{measure_of, similarity_udf};
use crate::plan::logical::SetSimilarityJoin;
use crate::set::Measure;
use crate::spec::{Call, Need, OutputColumn, Predicate, Side};

/// A session with the tables `t` and `u`: `(id BIGINT NOT NULL, toks INT[], name VARCHAR)`.
pub(crate) fn context() -> Result<SessionContext> {
    let ctx = SessionContext::new();
    for measure in Measure::ALL {
        ctx.register_udf(similarity_udf(measure).as_ref().clone());
    }
    for table in ["t", "u"] {
        ctx.register_table(table, Arc::new(table_of_sets()?))?;
    }
    Ok(ctx)
}

pub(crate) fn table_of_sets() -> Result<MemTable> {
    let schema = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new_list("toks", Field::new_list_field(DataType::Int32, true), true),
        Field::new("name", DataType::Utf8, true),
    ]));
    let batch = RecordBatch::new_empty(Arc::clone(&schema));
    MemTable::try_new(schema, vec![vec![batch]])
}

/// The optimized plan of `sql` with its similarity joins converted.
pub(crate) async fn converted(sql: &str) -> Result<LogicalPlan> {
    converted_in(&context()?, sql).await
}

pub(crate) async fn converted_in(ctx: &SessionContext, sql: &str) -> Result<LogicalPlan> {
    let plan = ctx.sql(sql).await?.into_optimized_plan()?;
    let plan = plan.transform_up_with_subqueries(|plan| {
        let node = match &plan {
            LogicalPlan::Join(join) => convert(join)?,
            _ => None,
        };
        Ok(match node {
            Some(node) => Transformed::yes(node.into_plan()),
            None => Transformed::no(plan),
        })
    })?;
    Ok(plan.data)
}

/// A conversion that knows `measure(left, right) >= literal` only.
fn convert(join: &Join) -> Result<Option<SetSimilarityJoin>> {
    let mut driving = None;
    let mut residual = vec![];
    for conjunct in join.filter.clone().map(split_conjunction_owned).unwrap_or_default() {
        match similarity(&conjunct) {
            Some(found) if driving.is_none() => driving = Some((found, conjunct)),
            _ => residual.push(conjunct),
        }
    }
    let Some(((measure, arguments), conjunct)) = driving else {
        return Ok(None);
    };
    let columns = |side: Side, input: &LogicalPlan| {
        (0..input.schema().fields().len())
            .map(|index| OutputColumn::Input(side, index))
            .collect::<Vec<_>>()
    };
    let mut output = columns(Side::Left, &join.left);
    output.extend(columns(Side::Right, &join.right));
    output.retain(|column| {
        let OutputColumn::Input(side, index) = column else { return true };
        let input = if *side == Side::Left { &join.left } else { &join.right };
        join.schema.has_column(&Column::from(input.schema().qualified_field(*index)))
    });
    let [first, second] = arguments;
    let first_is_left = first.column_refs().iter().all(|c| join.left.schema().has_column(c));
    let (first, arguments) = match first_is_left {
        true => (Side::Left, [first, second]),
        false => (Side::Right, [second, first]),
    };
    let mut node = SetSimilarityJoin {
        left: Arc::clone(&join.left),
        right: Arc::clone(&join.right),
        shared: None,
        predicate: Predicate::new(Call { function: measure.function(), first }, 0.8),
        conjunct,
        note: None,
        join_type: join.join_type,
        arguments,
        on: join.on.clone(),
        null_equality: join.null_equality,
        side_filters: [None, None],
        residual: conjunction(residual),
        need: Need::Rows,
        output,
        schema: Arc::clone(&join.schema),
    };
    node.recompute_schema()?;
    Ok(Some(node))
}

fn similarity(expr: &Expr) -> Option<(Measure, [Expr; 2])> {
    let Expr::BinaryExpr(binary) = expr else { return None };
    match (binary.op, binary.left.as_ref(), binary.right.as_ref()) {
        (Operator::GtEq, Expr::ScalarFunction(call), Expr::Literal(..)) => {
            let [first, second] = call.args.as_slice() else { return None };
            Some((measure_of(&call.func)?, [first.clone(), second.clone()]))
        }
        _ => None,
    }
}

/// The plan as text, with what each similarity join gives and shares.
pub(crate) fn text(plan: &LogicalPlan) -> String {
    let mut lines = vec![];
    describe(plan, 0, &mut lines);
    lines.join("\n")
}

fn describe(plan: &LogicalPlan, depth: usize, lines: &mut Vec<String>) {
    let indent = "  ".repeat(depth);
    if let Some(scan) = scan(plan) {
        lines.push(format!("{indent}{scan}"));
        return;
    }
    let inputs = plan.inputs();
    let Some(node) = SetSimilarityJoin::of(plan) else {
        lines.push(format!("{indent}{}", plan.display()));
        inputs.into_iter().for_each(|input| describe(input, depth + 1, lines));
        return;
    };
    let output: Vec<_> = node.schema.columns().iter().map(Column::flat_name).collect();
    let need = match node.need {
        Need::Connections => " connections".to_string(),
        Need::Firsts => " firsts".to_string(),
        Need::Nearest(nearest) => format!(" nearest {}", nearest.count),
        Need::Rows => String::new(),
        Need::Counts(Some(side)) => format!(" counts by {side}"),
        Need::Counts(None) => " counts".to_string(),
        Need::Best(best) => format!(" best {best}"),
    };
    let shared = match &node.shared {
        Some(shared) => format!(" shared {:?}", shared.columns),
        None => String::new(),
    };
    let residual = match &node.residual {
        Some(residual) => format!(" residual {residual}"),
        None => String::new(),
    };
    // Scans stand behind their join.
    let scans: Option<Vec<String>> = inputs.iter().map(|input| scan(input)).collect();
    let over = scans.as_ref().map_or(String::new(), |scans| format!(" over {}", scans.join(", ")));
    lines.push(format!(
        "{indent}SimJoin {}{need}{shared}{residual}: [{}]{over}",
        node.join_type,
        output.join(", ")
    ));
    if scans.is_none() {
        inputs.into_iter().for_each(|input| describe(input, depth + 1, lines));
    }
}

/// A scan with its alias and columns; `None` for another plan.
fn scan(plan: &LogicalPlan) -> Option<String> {
    match plan {
        LogicalPlan::TableScan(_) => {
            let text = plan.display().to_string();
            Some(text.strip_prefix("TableScan: ")?.replacen(" projection=", " ", 1))
        }
        LogicalPlan::SubqueryAlias(alias) => match alias.input.as_ref() {
            input @ LogicalPlan::TableScan(_) => {
                Some(scan(input)?.replacen(' ', &format!(" AS {} ", alias.alias), 1))
            }
            _ => None,
        },
        _ => None,
    }
}
