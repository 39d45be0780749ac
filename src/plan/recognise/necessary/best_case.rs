//! The best case of a condition: an expression that is true wherever the condition may be.
//!
//! Each part of the condition is [given](Given), or takes whatever value is best. Arithmetic stays as it is,
//! over the best values of its operands: rounding keeps their order. An expression of which nothing is known
//! makes the comparison true that it stands in. The best case is monotone in the values that are given, as each
//! of them stands only where a more similar value is no worse.

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::functions::core::expr_fn::{greatest, least};
use datafusion::logical_expr::expr::{Between, InList, ScalarFunction};
use datafusion::logical_expr::{BinaryExpr, Case, Cast, Expr, Operator, TryCast, cast, lit, when};
use datafusion::prelude::ident;

use super::constants::{is_constant, is_false, is_true, may_be_zero, number};
use super::parts::{MeasuredCall, Parts};
use crate::plan::numbers::is_number;
use crate::plan::recognise::predicate::SCORE;
use crate::spec::Order;

/// The value of a measure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Given {
    /// Any value, or NULL.
    Any,
    /// The value of the column [`SCORE`], which is not NULL.
    Score,
    /// The value of the column [`SCORE`], or NULL.
    ScoreOrNull,
    /// A value that is no more similar, or NULL.
    AtMost(f64),
    /// NULL.
    Null,
    /// NaN, of this sign.
    Nan(f64),
}

/// The end of a range of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Least,
    Greatest,
}

impl End {
    fn other(self) -> Self {
        match self {
            Self::Least => Self::Greatest,
            Self::Greatest => Self::Least,
        }
    }
}

/// A bound of an expression.
struct Bound {
    value: Expr,
    /// Whether the expression may be NULL.
    may_be_null: bool,
}

/// A condition with the values of its parts.
#[derive(Debug, Clone)]
pub(super) struct BestCase<'a> {
    pub parts: &'a Parts,
    /// By measure.
    pub given: Vec<Given>,
    /// By equality, whether it is not met.
    pub is_unmet: Vec<bool>,
    /// Whether a NaN stands for NULL.
    pub nan_is_null: bool,
    /// By measure, the expressions that are NULL only where it is.
    pub null_with: &'a [Vec<Expr>],
}

/// The reason why an expression has no bound, for messages.
type Unbounded = String;

impl BestCase<'_> {
    /// An expression that is true where the condition may be true.
    pub(super) fn truth(&self, condition: &Expr) -> Expr {
        match condition {
            Expr::Alias(alias) => self.truth(&alias.expr),
            Expr::Not(inner) | Expr::IsNotTrue(inner) | Expr::IsFalse(inner) => self.untruth(inner),
            Expr::IsTrue(inner) => self.truth(inner),
            Expr::IsNull(inner) => lit(self.may_be_null(inner)),
            Expr::IsNotNull(inner) => lit(!self.is_null(inner)),
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                self.operator(condition, [left, right], *op)
            }
            Expr::Between(Between { expr, negated: false, low, high }) => self
                .compare([expr, low], Operator::GtEq)
                .and(self.compare([expr, high], Operator::LtEq)),
            Expr::InList(InList { expr, list, negated: false }) => list
                .iter()
                .map(|value| self.equal([expr, value]))
                .reduce(Expr::or)
                .unwrap_or(lit(true)),
            other if is_constant(other) => other.clone(),
            _ => lit(true),
        }
    }

    /// The reason why a comparison in the condition counts as true, if one does.
    pub(super) fn unbounded(&self, condition: &Expr) -> Option<String> {
        let mut found = None;
        let of = |expr: &Expr| [End::Least, End::Greatest].map(|end| self.bound(expr, end).err());
        let searched = condition.apply(|expr| {
            if let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr
                && op.negate().is_some()
                && self.parts.equality(expr).is_none()
            {
                found = of(left).into_iter().chain(of(right)).flatten().next();
            }
            let is_found = found.is_some();
            Ok(if is_found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        });
        // `apply` fails only when its closure does.
        searched.ok().and(found)
    }

    /// The best value of a score.
    ///
    /// # Errors
    ///
    /// The reason why there is none.
    pub(super) fn best(&self, score: &Expr, order: Order) -> Result<Expr, Unbounded> {
        let end = match order {
            Order::Similarity => End::Greatest,
            Order::Distance => End::Least,
        };
        self.bound(score, end).map(|bound| bound.value)
    }

    fn equal(&self, sides: [&Expr; 2]) -> Expr {
        self.compare(sides, Operator::GtEq).and(self.compare(sides, Operator::LtEq))
    }

    fn operator(&self, condition: &Expr, [left, right]: [&Expr; 2], op: Operator) -> Expr {
        match op {
            Operator::And => self.truth(left).and(self.truth(right)),
            Operator::Or => self.truth(left).or(self.truth(right)),
            Operator::Eq => match self.parts.equality(condition) {
                Some(place) => lit(!self.is_unmet[place]),
                None => self.equal([left, right]),
            },
            Operator::GtEq | Operator::Gt | Operator::LtEq | Operator::Lt => {
                self.compare([left, right], op)
            }
            // Forms of IS TRUE, IS FALSE and IS NOT TRUE.
            Operator::IsNotDistinctFrom if is_true(right) => self.truth(left),
            Operator::IsNotDistinctFrom if is_false(right) => self.untruth(left),
            Operator::IsDistinctFrom if is_true(right) => self.untruth(left),
            _ if is_constant(condition) => condition.clone(),
            _ => lit(true),
        }
    }

    /// An expression that is true where the condition may be false or NULL.
    fn untruth(&self, condition: &Expr) -> Expr {
        match condition {
            Expr::Alias(alias) => self.untruth(&alias.expr),
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
                Operator::And => self.untruth(left).or(self.untruth(right)),
                Operator::Or => self.untruth(left).and(self.untruth(right)),
                Operator::GtEq | Operator::Gt | Operator::LtEq | Operator::Lt => {
                    let may_be_null = self.may_be_null(left) || self.may_be_null(right);
                    match self.ends([left, right], *op, End::Least) {
                        Some((holds, is_nan)) if !may_be_null => holds.is_not_true().or(is_nan),
                        _ => lit(true),
                    }
                }
                _ => lit(true),
            },
            Expr::IsNull(inner) => lit(!self.is_null(inner)),
            Expr::IsNotNull(inner) => lit(self.may_be_null(inner)),
            other if is_constant(other) => other.clone().is_not_true(),
            _ => lit(true),
        }
    }

    /// Whether a comparison may be true.
    fn compare(&self, sides: [&Expr; 2], op: Operator) -> Expr {
        match self.ends(sides, op, End::Greatest) {
            Some((holds, is_nan)) => holds.or(is_nan),
            None => lit(true),
        }
    }

    /// The comparison of the ends of two ranges, where it is most likely true (`Greatest`) or least, and whether one of
    /// them is NaN, of which nothing is known; `None` where they have none.
    fn ends(&self, [left, right]: [&Expr; 2], op: Operator, end: End) -> Option<(Expr, Expr)> {
        let end = if matches!(op, Operator::GtEq | Operator::Gt) { end } else { end.other() };
        let (left, right) = (self.bound(left, end).ok()?, self.bound(right, end.other()).ok()?);
        let is_nan =
            |bound: &Bound| is_number(cast(bound.value.clone(), DataType::Float64)).is_false();
        let is_nan = is_nan(&left).or(is_nan(&right));
        let (left, right) = (Box::new(left.value), Box::new(right.value));
        Some((Expr::BinaryExpr(BinaryExpr::new(left, op, right)), is_nan))
    }

    /// The case in which a NaN stands for NULL.
    fn without_nan(&self) -> Self {
        let mut case = Self { nan_is_null: true, ..self.clone() };
        for given in &mut case.given {
            if matches!(given, Given::Nan(_)) {
                *given = Given::Null;
            }
        }
        case
    }

    /// The measure that an expression is.
    fn measure_of(&self, expr: &Expr) -> Option<(&MeasuredCall, Given)> {
        let place = self.parts.measure(expr)?;
        Some((&self.parts.measures[place], self.given[place]))
    }

    fn is_null(&self, expr: &Expr) -> bool {
        self.measure_of(expr).is_some_and(|(_, given)| given == Given::Null)
    }

    fn may_be_null(&self, expr: &Expr) -> bool {
        let is_there = |(given, null_with): (&Given, &Vec<Expr>)| {
            matches!(given, Given::Score | Given::Nan(_)) && null_with.contains(expr)
        };
        match self.bound(expr, End::Greatest) {
            Ok(bound) => bound.may_be_null,
            Err(_) => !self.given.iter().zip(self.null_with).any(is_there),
        }
    }

    /// The end of the range of an expression.
    fn bound(&self, expr: &Expr, end: End) -> Result<Bound, Unbounded> {
        if let Some((measure, given)) = self.measure_of(expr) {
            return self.of_measure(measure, given, end);
        }
        match expr {
            Expr::Alias(alias) => self.bound(&alias.expr, end),
            other if is_constant(other) => {
                let is_null = matches!(other, Expr::Literal(value, _) if value.is_null());
                Ok(Bound { value: other.clone(), may_be_null: is_null })
            }
            Expr::Negative(inner) => {
                let Bound { value, may_be_null } = self.bound(inner, end.other())?;
                Ok(Bound { value: Expr::Negative(Box::new(value)), may_be_null })
            }
            Expr::Cast(Cast { expr: inner, field })
            | Expr::TryCast(TryCast { expr: inner, field }) => {
                if !field.data_type().is_numeric() {
                    let cast = field.data_type();
                    return Err(format!("a cast to {cast} does not keep the order of values"));
                }
                let Bound { value, may_be_null } = match is_condition(inner) {
                    true => self.of_condition(inner, end),
                    false => self.bound(inner, end)?,
                };
                // A TRY_CAST gives NULL where the CAST fails.
                let may_be_null = may_be_null || matches!(expr, Expr::TryCast(_));
                let value = Expr::Cast(Cast { expr: Box::new(value), field: field.clone() });
                Ok(Bound { value, may_be_null })
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                self.of_arithmetic([left, right], *op, end)
            }
            Expr::Case(case) => self.of_case(case, end),
            Expr::ScalarFunction(function) => self.of_function(function, end),
            other => Err(format!("nothing is known of {other}")),
        }
    }

    fn of_measure(
        &self,
        measure: &MeasuredCall,
        given: Given,
        end: End,
    ) -> Result<Bound, Unbounded> {
        let MeasuredCall { function, data_type, .. } = measure;
        if given == Given::Any && function.may_be_nan() && !self.nan_is_null {
            return Err(format!("{} may be NaN", measure.call));
        }
        let literal = |value| lit(score(value, data_type));
        let [least, greatest] = function.info().range;
        let extreme = match end {
            End::Least if least.is_nan() => f64::NEG_INFINITY,
            End::Greatest if greatest.is_nan() => f64::INFINITY,
            End::Least => least,
            End::Greatest => greatest,
        };
        // More similar values are better at one end alone.
        let improves = match function.info().order {
            Order::Similarity => end == End::Greatest,
            Order::Distance => end == End::Least,
        };
        let most = match given {
            Given::AtMost(value) if improves && function.info().order == Order::Similarity => value,
            Given::Score | Given::ScoreOrNull | Given::AtMost(_) if improves => 0.0,
            Given::Any | Given::Score | Given::ScoreOrNull | Given::AtMost(_) => extreme,
            Given::Null | Given::Nan(_) => 0.0,
        };
        // Sums of integers wrap. No text is as far from another one as the greatest distance.
        if data_type.is_integer() && most.abs() >= f64::from(i32::MAX) {
            return Err(format!("{} has no end", measure.call));
        }
        let (value, may_be_null) = match given {
            Given::Null => (lit(null(data_type)), true),
            Given::Nan(value) => (literal(value), false),
            Given::Score if improves => (ident(SCORE), false),
            Given::ScoreOrNull if improves => (ident(SCORE), true),
            Given::Score => (literal(extreme), false),
            Given::AtMost(value) if improves => (literal(value), true),
            Given::ScoreOrNull | Given::AtMost(_) | Given::Any => (literal(extreme), true),
        };
        Ok(Bound { value, may_be_null })
    }

    fn of_arithmetic(
        &self,
        [left, right]: [&Expr; 2],
        op: Operator,
        end: End,
    ) -> Result<Bound, Unbounded> {
        let ends = match op {
            Operator::Plus => [end, end],
            Operator::Minus => [end, end.other()],
            Operator::Multiply if is_constant(right) => [sign_of(right)?.of(end), end],
            Operator::Multiply if is_constant(left) => [end, sign_of(left)?.of(end)],
            Operator::Multiply if self.is_positive(left) && self.is_positive(right) => [end, end],
            Operator::Divide if is_constant(right) && !may_be_zero(right) => {
                [sign_of(right)?.of(end), end]
            }
            Operator::Divide if self.is_positive(left) && self.is_above_zero(right) => {
                [end, end.other()]
            }
            _ => return Err(format!("nothing is known of {left} {op} {right}")),
        };
        let (left, right) = (self.bound(left, ends[0])?, self.bound(right, ends[1])?);
        let may_be_null = left.may_be_null || right.may_be_null;
        let (left, right) = (Box::new(left.value), Box::new(right.value));
        Ok(Bound { value: Expr::BinaryExpr(BinaryExpr::new(left, op, right)), may_be_null })
    }

    /// Whether an expression is never negative, by its form.
    fn is_positive(&self, expr: &Expr) -> bool {
        if let Some((measure, _)) = self.measure_of(expr) {
            let is_number = self.nan_is_null || !measure.function.may_be_nan();
            return is_number && measure.function.info().range[0] >= 0.0;
        }
        match expr {
            Expr::Alias(alias) => self.is_positive(&alias.expr),
            Expr::Cast(Cast { expr, field }) => {
                field.data_type().is_numeric() && self.is_positive(expr)
            }
            other if is_constant(other) => sign_of(other) == Ok(Sign::Positive),
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                matches!(op, Operator::Plus | Operator::Multiply | Operator::Divide)
                    && self.is_positive(left)
                    && self.is_positive(right)
            }
            Expr::ScalarFunction(ScalarFunction { func, args }) => match func.name() {
                "greatest" | "least" | "coalesce" => args.iter().all(|arg| self.is_positive(arg)),
                "sqrt" => args.iter().all(|arg| self.is_positive(arg)),
                _ => false,
            },
            _ => false,
        }
    }

    /// Whether an expression is above 0, by its form.
    fn is_above_zero(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Alias(alias) => self.is_above_zero(&alias.expr),
            Expr::Cast(Cast { expr, field }) => {
                field.data_type().is_floating() && self.is_above_zero(expr)
            }
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Plus, right }) => {
                self.is_positive(left)
                    && self.is_positive(right)
                    && (self.is_above_zero(left) || self.is_above_zero(right))
            }
            other => sign_of(other) == Ok(Sign::Positive) && !may_be_zero(other),
        }
    }

    fn of_function(&self, call: &ScalarFunction, end: End) -> Result<Bound, Unbounded> {
        let ScalarFunction { func, args } = call;
        let of_args = |args: &[Expr]| {
            args.iter().map(|arg| self.bound(arg, end)).collect::<Result<Vec<_>, _>>()
        };
        match (func.name(), args.as_slice()) {
            ("greatest" | "least", [_, ..]) => {
                let is_greatest = func.name() == "greatest";
                Ok(extreme_of(of_args(args)?, is_greatest == (end == End::Greatest), end))
            }
            ("coalesce", [_, ..]) => {
                let mut bounds = vec![];
                let mut may_be_null = true;
                for arg in args {
                    if !may_be_null {
                        break;
                    }
                    let bound = self.bound(arg, end)?;
                    may_be_null = bound.may_be_null;
                    bounds.push(bound.value);
                }
                Ok(Bound { value: end_of(bounds, end), may_be_null })
            }
            ("nvl" | "ifnull", [_, _]) => {
                let call = ScalarFunction {
                    func: datafusion::functions::core::coalesce(),
                    args: args.clone(),
                };
                self.of_function(&call, end)
            }
            ("nanvl", [value, Expr::Literal(other, _)]) if other.is_null() => {
                let Bound { value, .. } = self.without_nan().bound(value, end)?;
                Ok(Bound { value, may_be_null: true })
            }
            ("nullif", [value, other]) if is_constant(other) => {
                Ok(Bound { may_be_null: true, ..self.bound(value, end)? })
            }
            ("round" | "trunc", [value, digits]) if is_constant(digits) => {
                let Bound { value, may_be_null } = self.bound(value, end)?;
                let args = vec![value, digits.clone()];
                let call = ScalarFunction { func: func.clone(), args };
                Ok(Bound { value: Expr::ScalarFunction(call), may_be_null })
            }
            ("round" | "trunc" | "floor" | "ceil" | "sqrt", [value])
                if func.name() != "sqrt" || self.is_positive(value) =>
            {
                let Bound { value, may_be_null } = self.bound(value, end)?;
                let call = ScalarFunction { func: func.clone(), args: vec![value] };
                Ok(Bound { value: Expr::ScalarFunction(call), may_be_null })
            }
            (name, _) => Err(format!("{name}(…) is no function that keeps the order of values")),
        }
    }

    /// The best value among those of the branches that may be taken.
    fn of_case(&self, case: &Case, end: End) -> Result<Bound, Unbounded> {
        let mut reached = lit(true);
        let mut values = vec![];
        let mut may_be_null = case.else_expr.is_none();
        let mut add = |reached: Expr, value: &Expr| -> Result<(), Unbounded> {
            if let Expr::Literal(value, _) = value
                && value.is_null()
            {
                may_be_null = true;
                return Ok(());
            }
            let bound = self.bound(value, end)?;
            may_be_null |= bound.may_be_null;
            match when(reached, bound.value).end() {
                Ok(value) => values.push(value),
                Err(error) => return Err(error.strip_backtrace()),
            }
            Ok(())
        };
        for (condition, value) in &case.when_then_expr {
            let compared;
            let condition = match &case.expr {
                Some(operand) => {
                    compared = operand.as_ref().clone().eq(condition.as_ref().clone());
                    &compared
                }
                None => condition.as_ref(),
            };
            add(reached.clone().and(self.truth(condition)), value)?;
            reached = reached.and(self.untruth(condition));
        }
        if let Some(value) = &case.else_expr {
            add(reached, value)?;
        }
        match values.is_empty() {
            true => Err("a CASE without a value".to_string()),
            false => Ok(Bound { value: end_of(values, end), may_be_null }),
        }
    }

    /// The end of the range of a condition that is cast to a number.
    fn of_condition(&self, condition: &Expr, end: End) -> Bound {
        let value = match end {
            End::Greatest => self.truth(condition).is_true(),
            End::Least => self.untruth(condition).is_not_true(),
        };
        Bound { value, may_be_null: true }
    }
}

/// Whether an expression is a condition by its form.
fn is_condition(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::BinaryExpr(BinaryExpr {
            op: Operator::Eq
                | Operator::GtEq
                | Operator::Gt
                | Operator::LtEq
                | Operator::Lt
                | Operator::And
                | Operator::Or,
            ..
        }) | Expr::IsNull(_)
            | Expr::IsNotNull(_)
            | Expr::IsTrue(_)
            | Expr::IsNotTrue(_)
            | Expr::Not(_)
    )
}

/// The bound of `greatest` or `least`, which leave out NULL. With `is_of_any` any of the values may be that end.
fn extreme_of(bounds: Vec<Bound>, is_of_any: bool, end: End) -> Bound {
    let may_be_null = bounds.iter().all(|bound| bound.may_be_null);
    let values = |bounds: Vec<Bound>| bounds.into_iter().map(|bound| bound.value).collect();
    if is_of_any || may_be_null {
        return Bound { value: end_of(values(bounds), end), may_be_null };
    }
    // A value that is always there holds the others back.
    let there = bounds.into_iter().filter(|bound| !bound.may_be_null).collect();
    Bound { value: end_of(values(there), end.other()), may_be_null }
}

/// The least or the greatest of some values.
fn end_of(values: Vec<Expr>, end: End) -> Expr {
    match end {
        End::Least => least(values),
        End::Greatest => greatest(values),
    }
}

/// The sign of a factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    Positive,
    Negative,
}

impl Sign {
    fn of(self, end: End) -> End {
        match self {
            Self::Positive => end,
            Self::Negative => end.other(),
        }
    }
}

/// The sign of a constant: 0 counts as positive.
fn sign_of(expr: &Expr) -> Result<Sign, Unbounded> {
    match number(expr) {
        Some(number) if number >= 0.0 => Ok(Sign::Positive),
        Some(number) if number < 0.0 => Ok(Sign::Negative),
        _ => Err(format!("the sign of {expr} is not known")),
    }
}

/// A value of a measure of a type.
pub(super) fn score(value: f64, data_type: &DataType) -> ScalarValue {
    match data_type {
        DataType::Int32 => ScalarValue::Int32(Some(value as i32)),
        DataType::Int64 => ScalarValue::Int64(Some(value as i64)),
        _ => ScalarValue::Float64(Some(value)),
    }
}

fn null(data_type: &DataType) -> ScalarValue {
    match data_type {
        DataType::Int32 => ScalarValue::Int32(None),
        DataType::Int64 => ScalarValue::Int64(None),
        _ => ScalarValue::Float64(None),
    }
}
