//! The way of a measure's call down to the similarity join that knows its value.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, JoinType, Result};
use datafusion::logical_expr::expr_rewriter::unalias;
use datafusion::logical_expr::{Expr, Join, LogicalPlan, Projection, SubqueryAlias, Window};

use crate::families::Families;
use crate::plan::columns::{
    canonical, column_at, fresh_name, index_map, is_null_of_nulls, map_columns, reaches_outside,
};
use crate::plan::logical::SetSimilarityJoin;
use crate::spec::{Call, Function, Need, OutputColumn, Preserved, Side};

/// A function of a family over two expressions of the rows of some plan.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ScoreCall {
    function: Function,
    arguments: [Expr; 2],
}

impl ScoreCall {
    pub(crate) fn of(expr: &Expr, families: &Families) -> Result<Option<Self>> {
        let Expr::ScalarFunction(function) = expr else {
            return Ok(None);
        };
        let [first, second] = function.args.as_slice() else {
            return Ok(None);
        };
        let Some(joined_by) = families.function_of(&function.func) else {
            return Ok(None);
        };
        for argument in [first, second] {
            if !argument.any_column_refs() || argument.is_volatile() || reaches_outside(argument)? {
                return Ok(None);
            }
        }
        Ok(Some(Self { function: joined_by, arguments: [first.clone(), second.clone()] }))
    }

    /// The call over another plan's columns; `None` if `replacement` lacks one of them.
    fn map(&self, mut replacement: impl FnMut(&Column) -> Option<Expr>) -> Result<Option<Self>> {
        let [first, second] = &self.arguments;
        let Some(first) = map_columns(first, &mut replacement)? else {
            return Ok(None);
        };
        let Some(second) = map_columns(second, &mut replacement)? else {
            return Ok(None);
        };
        if first.is_volatile() || second.is_volatile() {
            return Ok(None);
        }
        Ok(Some(Self { function: self.function, arguments: [first, second] }))
    }

    pub(crate) fn is_over(&self, schema: &DFSchema) -> bool {
        let mut columns = HashSet::new();
        self.arguments.iter().for_each(|argument| argument.add_column_refs(&mut columns));
        columns.into_iter().all(|column| schema.has_column(column))
    }

    /// Whether the call is NULL where a join pads all columns of `schema`.
    fn is_null_of_nulls(&self, schema: &DFSchema) -> bool {
        self.arguments.iter().any(|argument| is_null_of_nulls(argument, schema))
    }
}

/// A plan with the columns of the original and, anywhere among them, the score.
pub(crate) struct Pushed {
    pub(crate) plan: LogicalPlan,
    pub(crate) column: Column,
}

impl Pushed {
    /// Renames the score if one of `others`, whose columns will stand beside it, has its name.
    pub(crate) fn beside(self, others: &[&DFSchema]) -> Result<Self> {
        let Self { plan, column } = self;
        if fresh_name(&column.name, others) == column.name {
            return Ok(Self { plan, column });
        }
        let taken: Vec<_> = others.iter().copied().chain([plan.schema().as_ref()]).collect();
        let name = fresh_name(&column.name, &taken);
        let exprs = plan.schema().columns().into_iter().map(|other| {
            let is_score = other == column;
            let expr = Expr::Column(other);
            if is_score { expr.alias(&name) } else { expr }
        });
        let projection = Projection::try_new(exprs.collect(), Arc::new(plan.clone()))?;
        let column = Column::new_unqualified(name);
        Ok(Self { plan: LogicalPlan::Projection(projection), column })
    }
}

/// Adds the score of `call`, written over the columns of `plan`, to these columns.
pub(crate) fn push(plan: &LogicalPlan, call: &ScoreCall) -> Result<Option<Pushed>> {
    if let Some(node) = SetSimilarityJoin::of(plan) {
        return match own_score(node, call)? {
            Some(score) => Ok(add_score(node, score)?),
            None => push_below_node(node, call),
        };
    }
    match plan {
        LogicalPlan::Projection(projection) => push_below_projection(projection, call),
        LogicalPlan::SubqueryAlias(alias) => push_below_alias(alias, call),
        LogicalPlan::Join(join) => push_below_join(join, call),
        LogicalPlan::Window(window) => {
            if !call.is_over(window.input.schema()) {
                return Ok(None);
            }
            let Some(Pushed { plan, column }) = push(&window.input, call)? else {
                return Ok(None);
            };
            let window = Window::try_new(window.window_expr.clone(), Arc::new(plan))?;
            Ok(Some(Pushed { plan: LogicalPlan::Window(window), column }))
        }
        // These have the schema of their input.
        LogicalPlan::Filter(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Repartition(_) => {
            let Some(input) = plan.inputs().first().copied() else {
                return Ok(None);
            };
            let Some(Pushed { plan: new_input, column }) = push(input, call)? else {
                return Ok(None);
            };
            Ok(Some(Pushed { plan: with_input(plan, new_input)?, column }))
        }
        _ => Ok(None),
    }
}

/// `plan`, a node of one input, over another input.
pub(super) fn with_input(plan: &LogicalPlan, input: LogicalPlan) -> Result<LogicalPlan> {
    let mut input = Some(input);
    let plan =
        plan.clone().map_children(|old| Ok(Transformed::yes(input.take().unwrap_or(old))))?;
    Ok(plan.data)
}

fn push_below_projection(projection: &Projection, call: &ScoreCall) -> Result<Option<Pushed>> {
    let schema = &projection.schema;
    let Some(below) = call.map(|column| {
        let index = schema.maybe_index_of_column(column)?;
        Some(unalias(projection.expr[index].clone()))
    })?
    else {
        return Ok(None);
    };
    let Some(Pushed { plan, column }) = push(&projection.input, &below)? else {
        return Ok(None);
    };
    let score = Expr::Column(column.clone());
    let present = projection.expr.iter().position(|expr| unalias(expr.clone()) == score);
    let mut exprs = projection.expr.clone();
    if present.is_none() {
        let name = fresh_name(&column.name, &[schema]);
        exprs.push(if name == column.name { score } else { score.alias(name) });
    }
    let index = present.unwrap_or(exprs.len() - 1);
    let projection = Projection::try_new(exprs, Arc::new(plan))?;
    let column = column_at(&projection.schema, index);
    Ok(Some(Pushed { plan: LogicalPlan::Projection(projection), column }))
}

fn push_below_alias(alias: &SubqueryAlias, call: &ScoreCall) -> Result<Option<Pushed>> {
    let Some(below) = call.map(|column| {
        let index = alias.schema.maybe_index_of_column(column)?;
        Some(Expr::Column(column_at(alias.input.schema(), index)))
    })?
    else {
        return Ok(None);
    };
    let Some(Pushed { plan, column }) = push(&alias.input, &below)? else {
        return Ok(None);
    };
    let index = plan.schema().index_of_column(&column)?;
    let alias = SubqueryAlias::try_new(Arc::new(plan), alias.alias.clone())?;
    let column = column_at(&alias.schema, index);
    Ok(Some(Pushed { plan: LogicalPlan::SubqueryAlias(alias), column }))
}

fn push_below_join(join: &Join, call: &ScoreCall) -> Result<Option<Pushed>> {
    for side in [Side::Left, Side::Right] {
        let (input, sibling) = match side {
            Side::Left => (&join.left, &join.right),
            Side::Right => (&join.right, &join.left),
        };
        if !is_visible(side, join.join_type) || !call.is_over(input.schema()) {
            continue;
        }
        if side.other().is_preserved(join.join_type) && !call.is_null_of_nulls(input.schema()) {
            return Ok(None);
        }
        let Some(pushed) = push(input, call)? else {
            continue;
        };
        let Pushed { plan, column } = pushed.beside(&[sibling.schema()])?;
        let plan = Arc::new(plan);
        let (left, right) = match side {
            Side::Left => (plan, Arc::clone(sibling)),
            Side::Right => (Arc::clone(sibling), plan),
        };
        return Ok(Some(Pushed { plan: rejoin(join, left, right, None)?, column }));
    }
    Ok(None)
}

/// Whether the rows of a join hold the columns of `side`.
fn is_visible(side: Side, join_type: JoinType) -> bool {
    use JoinType::*;
    match side {
        Side::Left => !matches!(join_type, RightSemi | RightAnti | RightMark),
        Side::Right => !matches!(join_type, LeftSemi | LeftAnti | LeftMark),
    }
}

/// The conditions of a join: equalities and filter.
pub(crate) type Conditions = (Vec<(Expr, Expr)>, Option<Expr>);

pub(crate) fn rejoin(
    join: &Join,
    left: Arc<LogicalPlan>,
    right: Arc<LogicalPlan>,
    conditions: Option<Conditions>,
) -> Result<LogicalPlan> {
    let (on, filter) = conditions.unwrap_or_else(|| (join.on.clone(), join.filter.clone()));
    let join = Join::try_new(
        left,
        right,
        on,
        filter,
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    Ok(LogicalPlan::Join(join))
}

/// The score that `call` computes, if `call` is over the arguments of `node` and every output row
/// has the score.
fn own_score(node: &SetSimilarityJoin, call: &ScoreCall) -> Result<Option<Call>> {
    let is_known = match node.need {
        Need::Rows => node.predicate.tells(call.function),
        // Ranks keep the score that they rank by.
        Need::Nearest(_) => node.predicate.call.function == call.function,
        Need::Best(_) | Need::Connections | Need::Firsts | Need::Counts(_) => false,
    };
    if !is_known || !is_pairs(node.join_type) {
        return Ok(None);
    }
    let mut sides = [Side::Left; 2];
    for (argument, argument_side) in call.arguments.iter().zip(&mut sides) {
        let mut found = None;
        let mut mixed = false;
        let over_input = map_columns(argument, |column| {
            let (side, index) = node.input_column(column)?;
            mixed |= found.replace(side).is_some_and(|other| other != side);
            Some(Expr::Column(column_at(node.input(side).schema(), index)))
        })?;
        let (Some(argument), Some(side), false) = (over_input, found, mixed) else {
            return Ok(None);
        };
        let schema = node.input(side).schema();
        if canonical(&argument, schema)? != canonical(node.argument(side), schema)? {
            return Ok(None);
        }
        *argument_side = side;
    }
    let [first, second] = sides;
    let padded_is_null = [Side::Left, Side::Right].into_iter().all(|side| {
        !side.other().is_preserved(node.join_type)
            || is_null_of_nulls(node.argument(side), node.input(side).schema())
    });
    if first == second || !padded_is_null {
        return Ok(None);
    }
    let first = if call.function.is_ordered() { first } else { Side::Left };
    let score = Call { function: call.function, first };
    let is_ranked = matches!(node.need, Need::Nearest(_));
    Ok((!is_ranked || score == node.predicate.call).then_some(score))
}

/// Whether rows of the join stand for pairs, not for rows of one side.
fn is_pairs(join_type: JoinType) -> bool {
    matches!(join_type, JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full)
}

fn add_score(node: &SetSimilarityJoin, score: Call) -> Result<Option<Pushed>> {
    let output = OutputColumn::Score(score);
    let mut node = node.clone();
    let index = match node.output.iter().position(|column| *column == output) {
        Some(index) => index,
        None => {
            node.output.push(output);
            // A column of the user's may have the very name.
            if node.recompute_schema().is_err() {
                return Ok(None);
            }
            node.output.len() - 1
        }
    };
    let column = column_at(&node.schema, index);
    Ok(Some(Pushed { plan: node.into_plan(), column }))
}

/// Takes a score that one input of `node` can give through `node`.
fn push_below_node(node: &SetSimilarityJoin, call: &ScoreCall) -> Result<Option<Pushed>> {
    if !matches!(node.need, Need::Rows | Need::Nearest(_)) {
        return Ok(None);
    }
    for side in [Side::Left, Side::Right] {
        let input = node.input(side);
        let Some(below) = call.map(|column| {
            let (of, index) = node.input_column(column)?;
            (of == side).then(|| Expr::Column(column_at(input.schema(), index)))
        })?
        else {
            continue;
        };
        if side.other().is_preserved(node.join_type) && !below.is_null_of_nulls(input.schema()) {
            return Ok(None);
        }
        let Some(pushed) = push(input, &below)? else {
            continue;
        };
        let present = input.schema().columns().iter().position(|own| *own == pushed.column);
        let carried =
            present.is_some_and(|index| node.output.contains(&OutputColumn::Input(side, index)));
        let sibling = node.input(side.other()).schema();
        let Pushed { plan, column } = match carried {
            true => pushed,
            false => pushed.beside(&[&node.schema, sibling])?,
        };
        let mut node = node.clone();
        replace_input(&mut node, side, Arc::new(plan));
        let output = OutputColumn::Input(side, node.input(side).schema().index_of_column(&column)?);
        if !node.output.contains(&output) {
            node.output.push(output);
        }
        node.recompute_schema()?;
        return Ok(Some(Pushed { plan: node.into_plan(), column }));
    }
    Ok(None)
}

/// Gives `node` an input that has the columns of the old one, perhaps at other positions.
pub(crate) fn replace_input(node: &mut SetSimilarityJoin, side: Side, input: Arc<LogicalPlan>) {
    let map = index_map(node.input(side).schema(), input.schema());
    for column in &mut node.output {
        if let Some((of, index)) = column.source()
            && of == side
            && let Some(new) = map.get(&index)
        {
            *column = column.with_source(*new);
        }
    }
    match side {
        Side::Left => node.left = input,
        Side::Right => node.right = input,
    }
}
