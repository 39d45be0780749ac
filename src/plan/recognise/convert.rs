//! From joins with a similarity predicate to [`SetSimilarityJoin`]s, on the optimized logical plan.
//!
//! Converting this late means that no extension node ever stands in a plan that the optimizer
//! works on or that is serialised, and that filters and projections have reached the scans as
//! they would without the operator.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinType, NullEquality, Result, plan_err};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{BinaryExpr, Expr, Filter, Join, LogicalPlan, Operator};

use crate::families::Families;
use crate::plan::logical::SetSimilarityJoin;
use crate::plan::recognise::bands::block_by_bands;
use crate::plan::recognise::conjuncts::{Candidate, Conjuncts};
use crate::plan::recognise::context::Context;
use crate::plan::recognise::cost::OperatorChoice;
use crate::plan::recognise::declined::DeclinedNode;
use crate::plan::recognise::marker::{EXAMPLE, is_marked, refuse, unwrap};
use crate::plan::recognise::nearest::{as_similarity_join, filter_left_rows};
use crate::plan::recognise::predicate::{
    Comparison, ConjunctShape, JoinInputs, call_over, mentions_similarity, side_of, similarity_call,
};
use crate::plan::recognise::rest::{OtherConditions, output_of};
use crate::plan::recognise::unanalyzed::UnanalyzedNode;
use crate::plan::recognise::union::CoverOfJoin;
use crate::plan::relations::NearestNode;
use crate::spec::Need;

/// Whether `plan` holds anything for [`convert`].
pub(crate) fn concerns(plan: &LogicalPlan, families: &Families) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        use datafusion::common::tree_node::TreeNodeRecursion::{Continue, Stop};
        if UnanalyzedNode::is_in(node) {
            return not_analyzed();
        }
        node.apply_expressions(|e| {
            found |= mentions_similarity(e, families) || is_marked(e);
            Ok(if found { Stop } else { Continue })
        })
    })?;
    Ok(found)
}

/// Outcome of one conversion.
#[derive(Debug)]
pub(crate) struct Converted {
    pub plan: LogicalPlan,
    /// Plain joins with equality conjuncts that were left as they are because `choices` has no
    /// entry for them: with one, conversion can run again.
    pub undecided: Vec<Join>,
}

/// Converts every join of `plan` that the operator runs.
///
/// # Errors
///
/// A plan error when a SIMJOIN cannot be run by the operator.
pub(crate) fn convert(
    plan: LogicalPlan,
    context: Context<'_>,
    choices: &HashMap<Join, OperatorChoice>,
) -> Result<Converted> {
    let mut converter = Converter {
        context,
        choices,
        undecided: vec![],
        cover: None,
        inputs_read_once: 0,
        converted: HashSet::new(),
        refused: HashMap::new(),
    };
    let plan = plan.transform_up_with_subqueries(|plan| converter.visit(plan)).data()?;
    let Converter { undecided, converted, refused, .. } = converter;
    if !undecided.is_empty() {
        return Ok(Converted { plan, undecided });
    }
    let plan = release(plan, context.families, &converted, &refused)?;
    Ok(Converted { plan, undecided })
}

/// Removes the wrappers that the optimizer copied from joins which the operator runs, and fails
/// for any other: a SIMJOIN never falls to another join silently.
fn release(
    plan: LogicalPlan,
    families: &Families,
    converted: &HashSet<i64>,
    refused: &HashMap<i64, Vec<String>>,
) -> Result<LogicalPlan> {
    let release_expr = |expr: Expr| {
        if !is_marked(&expr) {
            return Ok(Transformed::no(expr));
        }
        expr.transform_up(|e| match unwrap(&e) {
            Some(wrapped) if converted.contains(&wrapped.join) => {
                Ok(Transformed::yes(wrapped.conjunct.clone()))
            }
            Some(wrapped) => {
                let function = similarity_call(wrapped.measured, families).map(|call| call.0);
                let misplaced = || {
                    let conjunct = wrapped.conjunct;
                    vec![format!("the optimizer left {conjunct} where no join can evaluate it")]
                };
                refuse(refused.get(&wrapped.join).unwrap_or(&misplaced()), function)
            }
            None if is_marked(&e) => not_analyzed(),
            None => Ok(Transformed::no(e)),
        })
    };
    plan.transform_up_with_subqueries(|plan| plan.map_expressions(release_expr)).data()
}

fn not_analyzed<T>() -> Result<T> {
    plan_err!(
        "the session has not analyzed a SIMJOIN: install the analyzer rules RestoreUnanalyzed and \
         MarkSimilarityJoins with the query planner; a SIMJOIN reads: {EXAMPLE}"
    )
}

pub(super) struct Converter<'a> {
    pub(super) context: Context<'a>,
    choices: &'a HashMap<Join, OperatorChoice>,
    undecided: Vec<Join>,
    /// The cover of whose clauses joins are converted; `None` for other joins.
    pub(super) cover: Option<CoverOfJoin>,
    /// The inputs so far that joins of a cover share.
    pub(super) inputs_read_once: usize,
    /// The numbers of the SIMJOINs that became nodes.
    converted: HashSet<i64>,
    /// Why other SIMJOINs did not.
    refused: HashMap<i64, Vec<String>>,
}

/// The outcome for a join.
pub(super) enum Conversion {
    Node(Box<SetSimilarityJoin>),
    /// Joins by several bounds, put together.
    Plan(LogicalPlan),
    /// A similarity join that stays as it is, and why.
    Declined(String),
    /// No similarity join, or one to be decided later.
    Unchanged,
}

impl Converter<'_> {
    fn visit(&mut self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Join(join) => match self.convert_join(&join)? {
                Conversion::Node(node) => Ok(Transformed::yes(node.into_plan())),
                Conversion::Plan(plan) => Ok(Transformed::yes(plan)),
                Conversion::Declined(reason) if self.context.explain => {
                    let plan = LogicalPlan::Join(join);
                    Ok(Transformed::yes(DeclinedNode::new(plan, reason).into_plan()))
                }
                Conversion::Declined(_) | Conversion::Unchanged => {
                    Ok(Transformed::no(LogicalPlan::Join(join)))
                }
            },
            LogicalPlan::Filter(filter) => self.convert_filter(filter),
            LogicalPlan::Extension(_) => {
                let Context { families, constants, .. } = self.context;
                let node = match NearestNode::of(&plan) {
                    Some(node) => as_similarity_join(node, families, constants)?,
                    None => None,
                };
                Ok(match node {
                    Some(node) => Transformed::yes(node.into_plan()),
                    None => Transformed::no(plan),
                })
            }
            other => Ok(Transformed::no(other)),
        }
    }

    /// A similarity predicate that the optimizer left in a filter right above an inner join.
    fn convert_filter(&mut self, filter: Filter) -> Result<Transformed<LogicalPlan>> {
        if let Some(plan) = filter_left_rows(&filter)? {
            return Ok(Transformed::yes(plan));
        }
        let unchanged = |filter| Ok(Transformed::no(LogicalPlan::Filter(filter)));
        let input = DeclinedNode::seen_through(&filter.input);
        let LogicalPlan::Join(join) = input else { return unchanged(filter) };
        if join.join_type != JoinType::Inner {
            return unchanged(filter);
        }
        let sides = self.context.sides(join);
        let is_similarity = |conjunct: &&Expr| match unwrap(conjunct) {
            Some(wrapped) => reads_both_sides(wrapped.measured, sides),
            None => matches!(Comparison::find(conjunct, sides), ConjunctShape::Comparison(_)),
        };
        let (similarities, rest): (Vec<&Expr>, Vec<&Expr>) =
            split_conjunction(&filter.predicate).into_iter().partition(is_similarity);
        if similarities.is_empty() {
            // The optimizer keeps a volatile conjunct above the join.
            let declined = rest.iter().find_map(|c| match Comparison::find(c, sides) {
                ConjunctShape::Declined(reason) => Some(format!("{c}: {reason}")),
                _ => None,
            });
            return match declined {
                Some(reason) if self.context.explain => {
                    let plan = LogicalPlan::Filter(filter);
                    Ok(Transformed::yes(DeclinedNode::new(plan, reason).into_plan()))
                }
                _ => unchanged(filter),
            };
        }
        let mut pushed = join.clone();
        pushed.filter =
            conjunction(pushed.filter.into_iter().chain(similarities.into_iter().cloned()));
        let plan = match self.convert_join(&pushed)? {
            Conversion::Node(node) => node.into_plan(),
            Conversion::Plan(plan) => plan,
            Conversion::Declined(reason) if self.context.explain => {
                // One reason for both: the reason of all conjuncts.
                let input = Arc::new(input.clone());
                let plan = LogicalPlan::Filter(Filter::try_new(filter.predicate, input)?);
                return Ok(Transformed::yes(DeclinedNode::new(plan, reason).into_plan()));
            }
            Conversion::Declined(_) | Conversion::Unchanged => return unchanged(filter),
        };
        let plan = match conjunction(rest.into_iter().cloned()) {
            Some(predicate) => LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(plan))?),
            None => plan,
        };
        Ok(Transformed::yes(plan))
    }

    pub(super) fn convert_join(&mut self, join: &Join) -> Result<Conversion> {
        let without_nulls = as_anti_join(join);
        let join = without_nulls.as_ref().unwrap_or(join);
        let Some(filter) = &join.filter else { return Ok(Conversion::Unchanged) };
        if !mentions_similarity(filter, self.context.families) && !is_marked(filter) {
            return Ok(Conversion::Unchanged);
        }
        let covered = self.cover.as_ref().map(|cover| &cover.condition);
        let conjuncts = Conjuncts::read(join, filter, covered, self.context)?;
        let joins = conjuncts.joins.clone();
        let insists = !joins.is_empty() || self.cover.as_ref().is_some_and(|cover| cover.insists);
        let outcome = match unsupported(join) {
            Some(_) if conjuncts.has_no_similarity() => return Ok(Conversion::Unchanged),
            Some(reason) => Conversion::Declined(reason.to_string()),
            None if conjuncts.has_no_similarity() && !insists => return Ok(Conversion::Unchanged),
            None if !insists && !self.context.options.recognize_joins => {
                Conversion::Declined("simjoin.recognize_joins is false".to_string())
            }
            None if conjuncts.candidates.is_empty() => self.covered(join, conjuncts, insists)?,
            None => match self.strong_cover(join, &conjuncts, insists)? {
                Some(found) => self.joined_by(join, &conjuncts.all, found, insists)?,
                None => self.build(join, conjuncts, insists)?,
            },
        };
        match &outcome {
            Conversion::Node(_) | Conversion::Plan(_) => self.converted.extend(joins),
            Conversion::Declined(reason) => {
                for number in joins {
                    self.refused.entry(number).or_default().push(reason.clone());
                }
            }
            Conversion::Unchanged => {}
        }
        Ok(outcome)
    }

    fn build(&mut self, join: &Join, conjuncts: Conjuncts, insists: bool) -> Result<Conversion> {
        let Conjuncts { all: conjuncts, mut candidates, .. } = conjuncts;
        // The first of the best, so that the plan does not depend on the order of equals.
        let mut keys = vec![];
        for candidate in &candidates {
            let family = self.context.families.get(candidate.predicate.family())?;
            keys.push((family.selectivity(&candidate.predicate), candidate.position));
        }
        let best = |&a: &usize, &b: &usize| {
            let (([a1, a2], a), ([b1, b2], b)) = (keys[a], keys[b]);
            a1.total_cmp(&b1).then(a2.total_cmp(&b2)).then(b.cmp(&a))
        };
        let Some(mut driver) =
            (0..candidates.len()).max_by(best).map(|i| candidates.swap_remove(i))
        else {
            return Ok(Conversion::Unchanged);
        };
        let mut numbers: Vec<Expr> = vec![];
        for candidate in &candidates {
            let Some(is_number) = candidate.without_nan() else { continue };
            if candidate.bounds_the_same(&driver) {
                driver.predicate = driver.predicate.without_nan();
            } else if !numbers.contains(&is_number) {
                numbers.push(is_number);
            }
        }
        // Weaker bounds on the same similarity say nothing new.
        let implied = |c: &Candidate| {
            c.is_exact && c.arguments == driver.arguments && driver.predicate.implies(&c.predicate)
        };
        let mut decided: HashSet<usize> =
            candidates.iter().filter(|c| implied(c)).map(|c| c.position).collect();
        if driver.is_exact {
            decided.insert(driver.position);
        }
        // A match has a score.
        let has_score = |conjunct: &Expr| match conjunct {
            Expr::IsNotNull(score) => call_over(score, &driver.arguments, self.context.families)
                .is_some_and(|call| call.function == driver.predicate.call.function),
            _ => false,
        };
        let scored = conjuncts.iter().enumerate().filter(|(_, conjunct)| has_score(conjunct));
        decided.extend(scored.map(|(position, _)| position));
        let conjunct = conjuncts[driver.position].clone();
        let rest = conjuncts
            .into_iter()
            .enumerate()
            .filter(|(i, _)| !decided.contains(i))
            .map(|(_, conjunct)| conjunct)
            .chain(numbers);
        let rest = match OtherConditions::split(join, rest)? {
            Ok(rest) => rest,
            Err(reason) => return Ok(Conversion::Declined(reason)),
        };
        let note = if insists || rest.on.is_empty() {
            None
        } else {
            match self.choices.get(join) {
                None => {
                    self.undecided.push(join.clone());
                    return Ok(Conversion::Unchanged);
                }
                Some(OperatorChoice::HashJoin(reason)) => {
                    return Ok(Conversion::Declined(reason.clone()));
                }
                Some(OperatorChoice::Operator(reason)) => Some(reason.clone()),
            }
        };
        let node = block_by_bands(SetSimilarityJoin {
            left: Arc::clone(&join.left),
            right: Arc::clone(&join.right),
            shared: None,
            predicate: driver.predicate,
            conjunct,
            note: self.notes([driver.derivation(), note]),
            join_type: join.join_type,
            arguments: driver.arguments,
            on: rest.on,
            null_equality: join.null_equality,
            side_filters: rest.side_filters,
            residual: rest.residual,
            need: Need::Rows,
            output: output_of(join),
            schema: Arc::clone(&join.schema),
        })?;
        Ok(Conversion::Node(Box::new(node)))
    }
}

/// Why the operator does not run such joins, whatever their condition.
fn unsupported(join: &Join) -> Option<&'static str> {
    match join.join_type {
        JoinType::Inner
        | JoinType::Left
        | JoinType::Right
        | JoinType::Full
        | JoinType::LeftSemi
        | JoinType::RightSemi
        | JoinType::LeftAnti
        | JoinType::RightAnti => join.null_aware.then_some("it is a null-aware anti join (NOT IN)"),
        JoinType::LeftMark | JoinType::RightMark => {
            Some("it is a mark join (a subquery under OR or in the select list)")
        }
    }
}

/// `x NOT IN (SELECT y … WHERE <condition>)` as an anti join: of the rows that satisfy the condition,
/// one that has `y = x`, or NULL in its place, is enough to refuse a row. `None` for other joins, and
/// where it is not plain which equality is that of NOT IN.
///
/// DataFusion 55 lets every NULL of the subquery refuse all rows, before it looks at the condition.
fn as_anti_join(join: &Join) -> Option<Join> {
    let [(x, y)] = join.on.as_slice() else { return None };
    let filter = join.filter.as_ref().filter(|_| join.null_aware)?;
    let equates = |conjunct: &&Expr| {
        matches!(conjunct, Expr::BinaryExpr(BinaryExpr { op: Operator::Eq, .. }))
    };
    if join.join_type != JoinType::LeftAnti
        || join.null_equality != NullEquality::NullEqualsNothing
        || split_conjunction(filter).iter().any(equates)
    {
        return None;
    }
    let refuses = Expr::IsNotFalse(Box::new(x.clone().eq(y.clone())));
    let filter = Some(filter.clone().and(refuses));
    Some(Join { on: vec![], filter, null_aware: false, ..join.clone() })
}

fn reads_both_sides(expr: &Expr, sides: JoinInputs<'_>) -> bool {
    let JoinInputs { left, right, families } = sides;
    similarity_call(expr, families).is_some_and(|(_, first, second)| {
        match (side_of(first, left, right), side_of(second, left, right)) {
            (Some(a), Some(b)) => a != b,
            _ => false,
        }
    })
}
