//! The logical node of a similarity join. It lives only inside the query planner, between
//! conversion and physical planning: optimizer rules never see it.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{
    Column, DFSchema, DFSchemaRef, JoinType, NullEquality, Result, TableReference, internal_err,
};
use datafusion::logical_expr::{
    Expr, ExprSchemable, Extension, LogicalPlan, UserDefinedLogicalNodeCore,
};

use crate::spec::{Call, CountOf, Function, Need, OutputColumn, Predicate, Preserved, Side};

/// Both sides of a self-join, read once.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Hash)]
pub struct SharedInput {
    /// Gives every column that either side uses.
    pub plan: Arc<LogicalPlan>,
    /// Per side, for each column of that side's schema its index in the schema of `plan`.
    pub columns: [Vec<usize>; 2],
}

/// A join on a similarity predicate.
///
/// `left` and `right` define the schemas over which `arguments`, `on`, `side_filters`, `residual`
/// and the indices of `output` are written. With `shared`, the one plan to run is `shared.plan`.
#[derive(Debug, Clone)]
pub struct SetSimilarityJoin {
    /// The left input.
    pub left: Arc<LogicalPlan>,
    /// The right input.
    pub right: Arc<LogicalPlan>,
    /// The one plan that gives the rows of both sides, in a self-join.
    pub shared: Option<SharedInput>,
    /// The similarity predicate.
    pub predicate: Predicate,
    /// The similarity conjunct as the optimizer left it, for EXPLAIN.
    pub conjunct: Expr,
    /// Why the operator was chosen where a hash join could have run as well, for EXPLAIN.
    pub note: Option<String>,
    /// The type of the join.
    pub join_type: JoinType,
    /// The argument of each side, over that side's schema.
    pub arguments: [Expr; 2],
    /// Equalities, left over the left schema and right over the right schema.
    pub on: Vec<(Expr, Expr)>,
    /// Whether NULL keys of `on` are equal.
    pub null_equality: NullEquality,
    /// Per side, what a row must pass to match anything.
    pub side_filters: [Option<Expr>; 2],
    /// The condition that only a matched pair can decide, over both schemas. Calls of a function of the
    /// family over the two `arguments` in it are taken from the match.
    pub residual: Option<Expr>,
    /// Rows or their multiplicities.
    pub need: Need,
    /// The columns of the output.
    pub output: Vec<OutputColumn>,
    /// The schema of `output`; see [`SetSimilarityJoin::recompute_schema`].
    pub schema: DFSchemaRef,
}

impl SetSimilarityJoin {
    /// The input of a side.
    pub fn input(&self, side: Side) -> &Arc<LogicalPlan> {
        match side {
            Side::Left => &self.left,
            Side::Right => &self.right,
        }
    }

    /// The argument of a side.
    pub fn argument(&self, side: Side) -> &Expr {
        &self.arguments[side as usize]
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

    /// Sets `schema` to what `output` gives.
    ///
    /// Input columns keep their qualifiers and are nullable when the join type may pad them.
    /// Score and count columns are unqualified, named by [`column_name`]; in a chain of joins the
    /// name of a score ends in the number of joins below it.
    pub fn recompute_schema(&mut self) -> Result<()> {
        let fields = self
            .output
            .iter()
            .map(|column| self.output_field(column))
            .collect::<Result<Vec<_>>>()?;
        self.schema = Arc::new(DFSchema::new_with_metadata(fields, Default::default())?);
        Ok(())
    }

    /// The type of a function's value over the arguments of the join.
    pub(crate) fn score_type(&self, call: Call) -> Result<DataType> {
        let schemas = [self.left.schema().as_ref(), self.right.schema().as_ref()];
        score_type(call.function, &self.arguments, schemas)
    }

    /// The side and index of the input column that `column` of the output is.
    pub(crate) fn input_column(&self, column: &Column) -> Option<(Side, usize)> {
        let index = self.schema.maybe_index_of_column(column)?;
        match self.output.get(index)? {
            OutputColumn::Input(side, index) => Some((*side, *index)),
            OutputColumn::Score(_) | OutputColumn::Count(_) => None,
        }
    }

    fn output_field(&self, column: &OutputColumn) -> Result<(Option<TableReference>, FieldRef)> {
        Ok(match column {
            OutputColumn::Input(side, index) => {
                let schema = self.input(*side).schema();
                if *index >= schema.fields().len() {
                    return internal_err!(
                        "the {side} side of the similarity join has no column {index}"
                    );
                }
                let (qualifier, field) = schema.qualified_field(*index);
                let padded = side.other().is_preserved(self.join_type);
                let field = if padded && !field.is_nullable() {
                    Arc::new(field.as_ref().clone().with_nullable(true))
                } else {
                    Arc::clone(field)
                };
                (qualifier.cloned(), field)
            }
            OutputColumn::Score(call) => {
                // A chain of joins may carry the scores of several of them side by side.
                let name = match self.joins_below()? {
                    0 => column_name(column),
                    below => format!("{}_{below}", column_name(column)),
                };
                (None, Arc::new(Field::new(name, self.score_type(*call)?, true)))
            }
            OutputColumn::Count(_) => {
                (None, Arc::new(Field::new(column_name(column), DataType::Int64, false)))
            }
        })
    }

    /// The number of similarity joins in the inputs: part of the score columns' names, because it
    /// stays the same while passes add and remove columns.
    fn joins_below(&self) -> Result<usize> {
        let mut count = 0;
        for input in [&self.left, &self.right] {
            input.apply(|plan| {
                count += usize::from(SetSimilarityJoin::of(plan).is_some());
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        Ok(count)
    }

    /// The parts by which two nodes are told apart. Each expression keeps its slot: a blocking key
    /// and a side filter that read the same columns are two different conditions.
    ///
    /// `conjunct` and `note` are texts for EXPLAIN, `schema` follows from the rest.
    fn key(&self) -> impl Eq + Hash + '_ {
        let Self {
            left,
            right,
            shared,
            predicate,
            conjunct: _,
            note: _,
            join_type,
            arguments,
            on,
            null_equality,
            side_filters,
            residual,
            need,
            output,
            schema: _,
        } = self;
        (
            (left, right, shared),
            (predicate.call, predicate.bound.to_bits(), predicate.nan, join_type),
            (arguments, on, null_equality, side_filters, residual),
            (need, output),
        )
    }
}

/// The name of a score or count column.
pub fn column_name(column: &OutputColumn) -> String {
    match column {
        OutputColumn::Input(side, index) => format!("{side}_{index}"),
        OutputColumn::Score(call) => format!("__simjoin_{}_{}", call.function, call.first),
        OutputColumn::Count(CountOf::Rows) => "__simjoin_count".to_string(),
        OutputColumn::Count(CountOf::Matched(side)) => format!("__simjoin_count_{side}"),
        OutputColumn::Count(CountOf::NonNull(side, index)) => {
            format!("__simjoin_count_{side}_{index}")
        }
    }
}

/// The type of a function's value for the arguments of two sides, each over its side's schema.
pub(crate) fn score_type(
    function: Function,
    arguments: &[Expr; 2],
    schemas: [&DFSchema; 2],
) -> Result<DataType> {
    let [left, right] = arguments;
    let (left, right) = (left.get_type(schemas[0])?, right.get_type(schemas[1])?);
    Ok(function.data_type([&left, &right]))
}

impl PartialEq for SetSimilarityJoin {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for SetSimilarityJoin {}

impl Hash for SetSimilarityJoin {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl PartialOrd for SetSimilarityJoin {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for SetSimilarityJoin {
    fn name(&self) -> &str {
        "SetSimilarityJoin"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        match &self.shared {
            Some(shared) => vec![&shared.plan],
            None => vec![&self.left, &self.right],
        }
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        let mut all = self.arguments.to_vec();
        all.extend(self.on.iter().flat_map(|(l, r)| [l.clone(), r.clone()]));
        all.extend(self.side_filters.iter().flatten().cloned());
        all.extend(self.residual.clone());
        all
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SetSimilarityJoin: {} {}", self.join_type, self.conjunct)?;
        match &self.note {
            Some(note) => write!(f, " ({note})"),
            None => Ok(()),
        }
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        if exprs.len() != self.expressions().len() || inputs.len() != self.inputs().len() {
            return internal_err!(
                "SetSimilarityJoin got {} expressions and {} inputs",
                exprs.len(),
                inputs.len()
            );
        }
        let mut node = self.clone();
        let mut exprs = exprs.into_iter();
        let mut next = |slot: &mut Expr| {
            if let Some(expr) = exprs.next() {
                *slot = expr;
            }
        };
        node.arguments.iter_mut().for_each(&mut next);
        for (left, right) in &mut node.on {
            next(left);
            next(right);
        }
        node.side_filters.iter_mut().flatten().for_each(&mut next);
        node.residual.iter_mut().for_each(&mut next);
        let mut inputs = inputs.into_iter().map(Arc::new);
        match &mut node.shared {
            Some(shared) => shared.plan = inputs.next().unwrap_or_else(|| Arc::clone(&shared.plan)),
            None => {
                for side in [&mut node.left, &mut node.right] {
                    if let Some(input) = inputs.next() {
                        *side = input;
                    }
                }
            }
        }
        Ok(node)
    }
}
