//! The parts of a condition that can drive a join: functions of both sides, and equalities of the sides.

use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::utils::can_hash;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator};

use crate::plan::logical::score_type;
use crate::plan::recognise::predicate::{JoinInputs, side_of, similarity_call};
use crate::spec::{Function, Side};

/// A call of a function of a family.
#[derive(Debug, Clone)]
pub(super) struct MeasuredCall {
    /// The call as it stands in the condition.
    pub call: Expr,
    pub function: Function,
    pub data_type: DataType,
    /// Whether it compares the left with the right side.
    pub is_of_pair: bool,
    /// Whether its arguments are lists.
    pub reads_lists: bool,
}

/// An equality of an expression of the left side with one of the right side.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Equality {
    /// The equality as it stands in the condition.
    pub condition: Expr,
    /// The expressions by side.
    pub sides: [Expr; 2],
}

/// The parts of a condition, each once.
#[derive(Debug, Clone, Default)]
pub(super) struct Parts {
    pub measures: Vec<MeasuredCall>,
    pub equalities: Vec<Equality>,
}

impl Parts {
    /// The parts of a condition of a join.
    ///
    /// # Errors
    ///
    /// When an expression has no type.
    pub(super) fn of(condition: &Expr, sides: JoinInputs<'_>) -> Result<Self> {
        let mut parts = Self::default();
        condition.apply(|expr| {
            if let Some((function, first, second)) = similarity_call(expr, sides.families) {
                parts.add_measure(expr, (function, [first, second]), sides)?;
            } else if let Some(equality) = equality(expr, sides)?
                && parts.equality(expr).is_none()
            {
                parts.equalities.push(equality);
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(parts)
    }

    fn add_measure(
        &mut self,
        call: &Expr,
        (function, arguments): (Function, [&Expr; 2]),
        sides: JoinInputs<'_>,
    ) -> Result<()> {
        if call.is_volatile() || call.contains_outer() || self.measure(call).is_some() {
            return Ok(());
        }
        let JoinInputs { left, right, .. } = sides;
        let of_sides = arguments.map(|argument| side_of(argument, left, right));
        let schemas = of_sides.map(|side| if side == Some(Side::Left) { left } else { right });
        let is_of_pair = matches!(
            of_sides,
            [Some(Side::Left), Some(Side::Right)] | [Some(Side::Right), Some(Side::Left)]
        );
        let data_type = score_type(function, &arguments.map(Clone::clone), schemas)?;
        let reads_lists = arguments[0].get_type(schemas[0])?.is_nested();
        let call = call.clone();
        self.measures.push(MeasuredCall { call, function, data_type, is_of_pair, reads_lists });
        Ok(())
    }

    /// The place of a call among the measures.
    pub(super) fn measure(&self, call: &Expr) -> Option<usize> {
        self.measures.iter().position(|measure| measure.call == *call)
    }

    /// The place of a condition among the equalities.
    pub(super) fn equality(&self, condition: &Expr) -> Option<usize> {
        self.equalities.iter().position(|equality| equality.condition == *condition)
    }
}

/// A condition as an equality of the two sides that a hash join finds.
fn equality(condition: &Expr, sides: JoinInputs<'_>) -> Result<Option<Equality>> {
    let Expr::BinaryExpr(BinaryExpr { left: first, op: Operator::Eq, right: second }) = condition
    else {
        return Ok(None);
    };
    let JoinInputs { left, right, .. } = sides;
    let [first, second] = [first.as_ref(), second.as_ref()];
    let of_sides = match [first, second].map(|expr| side_of(expr, left, right)) {
        [Some(Side::Left), Some(Side::Right)] => [first, second],
        [Some(Side::Right), Some(Side::Left)] => [second, first],
        _ => return Ok(None),
    };
    let types = (of_sides[0].get_type(left)?, of_sides[1].get_type(right)?);
    let is_found = types.0 == types.1
        && can_hash(&types.0)
        && !condition.is_volatile()
        && !condition.contains_outer();
    let equality = || Equality { condition: condition.clone(), sides: of_sides.map(Clone::clone) };
    Ok(is_found.then(equality))
}
