//! A join by the clauses of a cover: a join for each clause, put together.
//!
//! Each pair comes from the first clause that it meets: a branch leaves out what earlier ones give. Rows without a
//! partner are those that none of the clauses has one for.
//!
//! ```text
//! INNER  branches            LEFT   branches, and left rows without a partner
//! SEMI   rows with a partner by one clause, and of the others those by the next one
//! ANTI   rows without a partner by one clause, and of these those by the next one
//! ```

use std::sync::Arc;

use datafusion::common::{JoinType, NullEquality, Result, ScalarValue, internal_err};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{Expr, Join, LogicalPlan, Projection, Union};

use super::necessary::Clause;
use super::parts::JoinPartsNode;
use super::rest::equality;
use crate::spec::Side;

/// A join, and the clauses of a cover of one of its conjuncts.
pub(super) struct JoinUnion<'a> {
    pub join: &'a Join,
    pub conjuncts: &'a [Expr],
    /// The place of the conjunct that is covered.
    pub covered: usize,
    pub clauses: &'a [Clause],
    /// By clause, whether the conjunct follows from it.
    pub implied: Vec<bool>,
    /// By clause, bounds that follow for pairs that no earlier clause meets.
    pub beside: Vec<Vec<Expr>>,
}

/// A cover whose clauses become joins.
pub(super) struct CoverOfJoin {
    /// Whether it is of a SIMJOIN.
    pub(super) insists: bool,
    /// Its clauses, for EXPLAIN.
    pub(super) text: String,
    /// The condition, from which no bound follows that would drive.
    pub(super) condition: Expr,
}

/// Converts a join.
type Convert<'c> = dyn FnMut(Join) -> Result<LogicalPlan> + 'c;

impl JoinUnion<'_> {
    /// The joins as one plan.
    ///
    /// # Errors
    ///
    /// The errors of building and of converting a join.
    pub(super) fn plan(&self, convert: &mut Convert<'_>) -> Result<LogicalPlan> {
        let mut parts = vec![];
        match self.join.join_type {
            JoinType::Inner => self.pairs(convert, &mut parts)?,
            JoinType::Left | JoinType::Right | JoinType::Full => {
                self.pairs(convert, &mut parts)?;
                for side in [Side::Left, Side::Right] {
                    let other = [JoinType::Right, JoinType::Left][side as usize];
                    if self.join.join_type != other {
                        let alone = self.alone(side, convert)?;
                        parts.push(self.padded(side, alone)?);
                    }
                }
            }
            JoinType::LeftAnti => return self.alone(Side::Left, convert),
            JoinType::RightAnti => return self.alone(Side::Right, convert),
            JoinType::LeftSemi => self.partnered(Side::Left, convert, &mut parts)?,
            JoinType::RightSemi => self.partnered(Side::Right, convert, &mut parts)?,
            other => return internal_err!("a {other} join by several clauses"),
        }
        let inputs = parts.into_iter().map(Arc::new).collect();
        let union = Union { inputs, schema: Arc::clone(&self.join.schema) };
        Ok(JoinPartsNode::plan_over(LogicalPlan::Union(union)))
    }

    /// The pairs of each clause that earlier ones leave.
    fn pairs(&self, convert: &mut Convert<'_>, to: &mut Vec<LogicalPlan>) -> Result<()> {
        for place in 0..self.clauses.len() {
            let (left, right) = (&self.join.left, &self.join.right);
            let before = self.clauses[..place].iter();
            let before = before.map(|clause| clause.condition().clone().is_not_true()).collect();
            let branch = self.branch([left, right], place, before, JoinType::Inner)?;
            to.push(convert(branch)?);
        }
        Ok(())
    }

    /// The rows of a side without a partner.
    fn alone(&self, side: Side, convert: &mut Convert<'_>) -> Result<LogicalPlan> {
        let mut rows = Arc::clone(self.input(side));
        for place in 0..self.clauses.len() {
            rows = Arc::new(convert(self.of_rows(side, &rows, place, false)?)?);
        }
        Ok(Arc::unwrap_or_clone(rows))
    }

    /// The rows of a side with a partner: by each clause, of those that earlier ones leave.
    fn partnered(
        &self,
        side: Side,
        convert: &mut Convert<'_>,
        to: &mut Vec<LogicalPlan>,
    ) -> Result<()> {
        let mut rows = Arc::clone(self.input(side));
        for place in 0..self.clauses.len() {
            to.push(convert(self.of_rows(side, &rows, place, true)?)?);
            if place + 1 < self.clauses.len() {
                rows = Arc::new(convert(self.of_rows(side, &rows, place, false)?)?);
            }
        }
        Ok(())
    }

    fn input(&self, side: Side) -> &Arc<LogicalPlan> {
        match side {
            Side::Left => &self.join.left,
            Side::Right => &self.join.right,
        }
    }

    /// The join that leaves of some rows of a side those that have a partner by a clause, or those that have none.
    fn of_rows(
        &self,
        side: Side,
        rows: &Arc<LogicalPlan>,
        place: usize,
        have_one: bool,
    ) -> Result<Join> {
        let (inputs, join_type) = match (side, have_one) {
            (Side::Left, true) => ([rows, &self.join.right], JoinType::LeftSemi),
            (Side::Left, false) => ([rows, &self.join.right], JoinType::LeftAnti),
            (Side::Right, true) => ([&self.join.left, rows], JoinType::RightSemi),
            (Side::Right, false) => ([&self.join.left, rows], JoinType::RightAnti),
        };
        self.branch(inputs, place, vec![], join_type)
    }

    /// The join of two inputs by the clause at a place, the condition, and what else it must meet.
    fn branch(
        &self,
        [left, right]: [&Arc<LogicalPlan>; 2],
        place: usize,
        others: Vec<Expr>,
        join_type: JoinType,
    ) -> Result<Join> {
        let (mut on, mut conjuncts) = (self.join.on.clone(), vec![]);
        match &self.clauses[place] {
            Clause::Bound { condition, .. } => conjuncts.push(condition.clone()),
            Clause::Equal(equality) => {
                let [left, right] = &equality.sides;
                on.push((left.clone(), right.clone()));
            }
            Clause::Alternative(condition) => {
                let keys_match_null = self.join.null_equality == NullEquality::NullEqualsNull;
                for conjunct in split_conjunction(condition) {
                    match equality(conjunct, self.join)?.filter(|_| !keys_match_null) {
                        Some(pair) => on.push(pair),
                        None => conjuncts.push(conjunct.clone()),
                    }
                }
            }
        }
        conjuncts.extend(self.beside[place].iter().cloned());
        let all = self.conjuncts.iter().enumerate();
        let asked = all.filter(|(at, _)| *at != self.covered || !self.implied[place]);
        conjuncts.extend(asked.map(|(_, conjunct)| conjunct.clone()).chain(others));
        Join::try_new(
            Arc::clone(left),
            Arc::clone(right),
            on,
            conjunction(conjuncts),
            join_type,
            self.join.join_constraint,
            self.join.null_equality,
            false,
        )
    }

    /// Rows of a side with NULL in the columns of the other one.
    fn padded(&self, side: Side, rows: LogicalPlan) -> Result<LogicalPlan> {
        let columns = |of: Side| -> Result<Vec<Expr>> {
            let columns = self.input(of).schema().columns();
            if of == side {
                return Ok(columns.into_iter().map(Expr::Column).collect());
            }
            let types = self.input(of).schema().fields().iter();
            let typed = columns.into_iter().zip(types).map(|(column, field)| {
                let null = Expr::Literal(ScalarValue::try_from(field.data_type())?, None);
                Ok(null.alias_qualified(column.relation, column.name))
            });
            typed.collect()
        };
        let all = [columns(Side::Left)?, columns(Side::Right)?].concat();
        let schema = Arc::clone(&self.join.schema);
        Ok(LogicalPlan::Projection(Projection::try_new_with_schema(all, Arc::new(rows), schema)?))
    }
}
