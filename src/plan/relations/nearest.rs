//! The logical node of a join with nearest rows.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use datafusion::common::{DFSchemaRef, JoinType, Result, internal_err};
use datafusion::logical_expr::{
    Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore, build_join_schema,
};

/// The words of a NEAREST clause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClauseWords {
    /// SIMJOIN: a family has to know the score.
    pub insists: bool,
    /// WITH TIES: ties of the last neighbour are neighbours.
    pub with_ties: bool,
    /// BY DISTANCE: lesser scores are better.
    pub is_distance: bool,
}

/// A join of each left row with its nearest right rows, from the analyzer on. The optimizer moves no
/// conditions below it, nor those of its own out of it: they say which pairs are ranked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NearestNode {
    /// The left input.
    pub left: Arc<LogicalPlan>,
    /// The right input.
    pub right: Arc<LogicalPlan>,
    /// `Inner` or `Left`.
    pub join_type: JoinType,
    /// The words of the clause.
    pub words: ClauseWords,
    /// The number of neighbours, an integer once parameters have values.
    pub count: Expr,
    /// The score, over both schemas.
    pub score: Expr,
    /// The condition by which a pair is a candidate, over both schemas.
    pub condition: Option<Expr>,
    schema: DFSchemaRef,
}

impl NearestNode {
    /// A node of these parts.
    ///
    /// # Errors
    ///
    /// A plan error where both inputs have a column of one name.
    pub fn try_new(
        inputs: [Arc<LogicalPlan>; 2],
        join_type: JoinType,
        words: ClauseWords,
        count: Expr,
        score: Expr,
        condition: Option<Expr>,
    ) -> Result<Self> {
        let [left, right] = inputs;
        let schema = Arc::new(build_join_schema(left.schema(), right.schema(), &join_type)?);
        Ok(Self { left, right, join_type, words, count, score, condition, schema })
    }

    /// Whether the optimizer has moved a condition without columns (`random() < 0.1`) from above to both
    /// inputs. The left input alone keeps it, so that it holds once for a pair.
    fn is_pushed(&self, left: &LogicalPlan, right: &LogicalPlan) -> bool {
        let (LogicalPlan::Filter(of_left), LogicalPlan::Filter(of_right)) = (left, right) else {
            return false;
        };
        of_left.predicate == of_right.predicate
            && of_left.input == self.left
            && of_right.input == self.right
    }

    /// The node as a logical plan.
    pub fn into_plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(self) })
    }

    /// The node inside `plan`, if it is one.
    pub fn of(plan: &LogicalPlan) -> Option<&Self> {
        match plan {
            LogicalPlan::Extension(extension) => extension.node.as_any().downcast_ref(),
            _ => None,
        }
    }
}

impl PartialOrd for NearestNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for NearestNode {
    fn name(&self) -> &str {
        "NearestJoin"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.left, &self.right]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        let all = [self.count.clone(), self.score.clone()].into_iter();
        all.chain(self.condition.clone()).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ties = if self.words.with_ties { " with ties" } else { "" };
        let order = if self.words.is_distance { "distance" } else { "similarity" };
        let Self { join_type, count, score, .. } = self;
        write!(f, "NearestJoin: {join_type} nearest {count}{ties} by {order} {score}")?;
        match &self.condition {
            Some(condition) => write!(f, " on {condition}"),
            None => Ok(()),
        }
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let mut inputs = inputs.into_iter().map(Arc::new);
        let mut exprs = exprs.into_iter();
        let (left, right) = (inputs.next(), inputs.next());
        let (count, score) = (exprs.next(), exprs.next());
        let (Some(left), Some(right), Some(count), Some(score)) = (left, right, count, score)
        else {
            return internal_err!("NearestJoin has two inputs, a number and a score");
        };
        let right = if self.is_pushed(&left, &right) { Arc::clone(&self.right) } else { right };
        Self::try_new([left, right], self.join_type, self.words, count, score, exprs.next())
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let width = self.left.schema().fields().len();
        let (left, right): (Vec<usize>, Vec<usize>) =
            output_columns.iter().partition(|index| **index < width);
        Some(vec![left, right.into_iter().map(|index| index - width).collect()])
    }
}
