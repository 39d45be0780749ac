//! The session and the statement.

use datafusion::common::Result;
use datafusion::logical_expr::{Expr, Join, LogicalPlan};

use super::necessary::Condition;
use super::predicate::{Constants, JoinInputs};
use crate::config::SimJoinOptions;
use crate::families::Families;

/// The session and the statement, as far as conversion needs them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context<'a> {
    pub options: &'a SimJoinOptions,
    pub families: &'a Families,
    pub constants: Constants<'a>,
    /// Whether the plan is shown: declined joins then say why in a node above them.
    pub explain: bool,
    /// Whether two readings of a plan give the same rows.
    pub is_deterministic: fn(&LogicalPlan) -> Result<bool>,
    /// Whether one process runs the statement, whose joins may share what one of them has read.
    pub reads_once: bool,
}

impl<'a> Context<'a> {
    /// The inputs of a join.
    pub(super) fn sides<'j>(self, join: &'j Join) -> JoinInputs<'j>
    where
        'a: 'j,
    {
        let (left, right) = (join.left.schema(), join.right.schema());
        JoinInputs { left, right, families: self.families }
    }

    /// A conjunct from which bounds may follow.
    pub(super) fn condition<'j>(
        self,
        join: &'j Join,
        conjunct: &'j Expr,
        insists: bool,
    ) -> Option<Condition<'j>>
    where
        'a: 'j,
    {
        Condition::read(conjunct, self.sides(join), self.constants, insists)
    }
}
