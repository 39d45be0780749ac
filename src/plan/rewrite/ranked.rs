//! Filters of the rank of rows: `QUALIFY rank() OVER (PARTITION BY … ORDER BY score) <= k`.

use std::num::NonZeroUsize;

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::SortExpr;
use datafusion::logical_expr::expr::{WindowFunction, WindowFunctionDefinition};
use datafusion::logical_expr::expr_rewriter::unalias;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Filter, LogicalPlan, Operator, Window};

/// The window below a filter that keeps the first rows of each of its groups.
#[derive(Debug)]
pub(super) struct RankingWindow<'a> {
    pub window: &'a Window,
    /// The greatest rank that is kept.
    pub count: NonZeroUsize,
    /// The first key by which rows rank.
    pub score: &'a Expr,
    pub is_ascending: bool,
    /// The expressions that make the groups.
    pub groups: &'a [Expr],
    /// The further keys, where they decide among rows of equal scores: of rows with equal keys any will do. `None`
    /// where all such rows are kept.
    pub further: Option<&'a [SortExpr]>,
}

/// The window of a filter that bounds its only function, which gives a row the number of those before it,
/// and one more.
pub(super) fn ranked_below(filter: &Filter) -> Option<RankingWindow<'_>> {
    let conjuncts = split_conjunction(&filter.predicate);
    conjuncts.into_iter().find_map(|conjunct| {
        let (column, count) = upper_bound(conjunct)?;
        let Expr::Column(column) = column else { return None };
        let index = filter.input.schema().maybe_index_of_column(column)?;
        let (window, index) = window_of(&filter.input, index)?;
        let [function] = window.window_expr.as_slice() else { return None };
        // The columns of the input stand in front of it.
        if index != window.input.schema().fields().len() {
            return None;
        }
        let function = match function {
            Expr::Alias(alias) => alias.expr.as_ref(),
            other => other,
        };
        let Expr::WindowFunction(function) = function else { return None };
        let WindowFunction { fun: WindowFunctionDefinition::WindowUDF(name), params } =
            function.as_ref()
        else {
            return None;
        };
        let (key, further) = params.order_by.split_first()?;
        let counts = matches!(name.name(), "rank" | "row_number") && params.filter.is_none();
        (counts && !params.partition_by.iter().any(Expr::is_volatile)).then_some(RankingWindow {
            window,
            count,
            score: &key.expr,
            is_ascending: key.asc,
            groups: &params.partition_by,
            further: (name.name() == "row_number").then_some(further),
        })
    })
}

/// The expression that a conjunct bounds by a positive number from above, and the number.
fn upper_bound(conjunct: &Expr) -> Option<(&Expr, NonZeroUsize)> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = conjunct else { return None };
    let (expr, op, literal) = match (left.as_ref(), right.as_ref()) {
        (expr, Expr::Literal(literal, _)) => (expr, *op, literal),
        (Expr::Literal(literal, _), expr) => (expr, op.swap()?, literal),
        _ => return None,
    };
    if !literal.data_type().is_integer() {
        return None;
    }
    let Ok(ScalarValue::UInt64(Some(number))) = literal.cast_to(&DataType::UInt64) else {
        return None;
    };
    let number = match op {
        Operator::LtEq | Operator::Eq => number,
        Operator::Lt => number.checked_sub(1)?,
        _ => return None,
    };
    Some((expr, NonZeroUsize::new(usize::try_from(number).ok()?)?))
}

/// The window below projections of columns and aliases, and the place in it of a column above.
fn window_of(plan: &LogicalPlan, index: usize) -> Option<(&Window, usize)> {
    match plan {
        LogicalPlan::Window(window) => Some((window, index)),
        LogicalPlan::SubqueryAlias(alias) => window_of(&alias.input, index),
        LogicalPlan::Projection(projection) => match unalias(projection.expr.get(index)?.clone()) {
            Expr::Column(column) => {
                let index = projection.input.schema().maybe_index_of_column(&column)?;
                window_of(&projection.input, index)
            }
            _ => None,
        },
        _ => None,
    }
}
