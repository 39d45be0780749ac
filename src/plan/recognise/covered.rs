//! Joins by the clauses of a cover.

use std::sync::Arc;

use datafusion::common::{NullEquality, Result, internal_err};
use datafusion::logical_expr::{Expr, Join, LogicalPlan};

use super::conjuncts::{Candidate, Conjuncts};
use super::convert::{Conversion, Converter};
use super::necessary::{Clause, cover, strong_cover};
use super::read_once::ReadOnceNode;
use super::union::{CoverOfJoin, JoinUnion};

impl Converter<'_> {
    /// The joins by the clauses of a cover of one of the conjuncts.
    pub(super) fn covered(
        &mut self,
        join: &Join,
        conjuncts: Conjuncts,
        insists: bool,
    ) -> Result<Conversion> {
        let Conjuncts { all, others, mut reasons, .. } = conjuncts;
        // A join by one clause alone: an equality, by which a hash join runs.
        if self.cover.is_some() {
            return Ok(Conversion::Declined(reasons.join("; ")));
        }
        let found = others.iter().find_map(|position| {
            let condition = self.context.condition(join, &all[*position], insists)?;
            // The last reason tells most.
            let clauses = cover(&condition).map_err(|why| reasons.insert(0, why)).ok()?;
            Some((*position, clauses))
        });
        match found {
            None => Ok(Conversion::Declined(reasons.join("; "))),
            Some(found) => match self.runs_once_alone(join, &all)? {
                Some(reason) => Ok(Conversion::Declined(reason.to_string())),
                None => self.joined_by(join, &all, found, insists),
            },
        }
    }

    /// Clauses of a conjunct that leave out more pairs than the bounds that follow from it, where these are weak.
    pub(super) fn strong_cover(
        &self,
        join: &Join,
        conjuncts: &Conjuncts,
        insists: bool,
    ) -> Result<Option<(usize, Vec<Clause>)>> {
        let Conjuncts { all, candidates, .. } = conjuncts;
        let are_weak = candidates.iter().all(Candidate::is_weak);
        if self.cover.is_some() || !are_weak || self.runs_once_alone(join, all)?.is_some() {
            return Ok(None);
        }
        Ok(candidates.iter().find_map(|candidate| {
            let position = candidate.position;
            let condition = self.context.condition(join, &all[position], insists)?;
            strong_cover(&condition).map(|clauses| (position, clauses))
        }))
    }

    /// Why a join cannot be run as several.
    fn runs_once_alone(&self, join: &Join, all: &[Expr]) -> Result<Option<&'static str>> {
        let is_deterministic = self.context.is_deterministic;
        let are_repeatable = is_deterministic(&join.left)? && is_deterministic(&join.right)?;
        if !are_repeatable && !self.context.reads_once {
            return Ok(Some(
                "its alternatives read both inputs several times, and one of these may give other rows \
                 each time: put them into a table first",
            ));
        }
        Ok(all.iter().any(Expr::is_volatile).then_some(
            "a condition beside its alternatives is volatile: they evaluate it several times",
        ))
    }

    /// The join over inputs that give the same rows each time: those that may not are read once.
    fn over_repeatable(&mut self, join: &Join) -> Result<Join> {
        let mut join = join.clone();
        for input in [&mut join.left, &mut join.right] {
            if !(self.context.is_deterministic)(input)? {
                self.inputs_read_once += 1;
                *input =
                    Arc::new(ReadOnceNode::plan_over(Arc::clone(input), self.inputs_read_once));
            }
        }
        Ok(join)
    }

    /// The joins by the clauses of a conjunct.
    pub(super) fn joined_by(
        &mut self,
        join: &Join,
        all: &[Expr],
        (covered, clauses): (usize, Vec<Clause>),
        insists: bool,
    ) -> Result<Conversion> {
        let Some(condition) = self.context.condition(join, &all[covered], insists) else {
            return internal_err!("a cover of a condition without similarities");
        };
        // Where the keys of the join take NULL as a value, so does a clause that becomes one.
        let is_kept = |clause: &Clause| {
            matches!(clause, Clause::Equal(_)) && join.null_equality == NullEquality::NullEqualsNull
        };
        let implies = |clause| !is_kept(clause) && condition.follows_from(clause);
        let implied: Vec<bool> = clauses.iter().map(implies).collect();
        let beside = |place: usize| match implied[place] {
            true => vec![],
            false => condition.necessary_beside(&clauses[..place]),
        };
        let beside = (0..clauses.len()).map(beside).collect();
        let clauses = &clauses;
        let join = &self.over_repeatable(join)?;
        let union = JoinUnion { join, conjuncts: all, covered, clauses, implied, beside };
        let text = clauses.iter().map(|clause| clause.condition().to_string());
        let text = format!("cover: {}", text.collect::<Vec<_>>().join(" | "));
        self.cover = Some(CoverOfJoin { insists, text, condition: all[covered].clone() });
        let mut declined = None;
        let plan = union.plan(&mut |branch| {
            let is_hashed = branch.on.len() > join.on.len();
            Ok(match self.convert_join(&branch)? {
                Conversion::Node(node) => node.into_plan(),
                Conversion::Plan(plan) => plan,
                Conversion::Declined(reason) => {
                    declined = declined.take().or(Some(reason).filter(|_| !is_hashed));
                    LogicalPlan::Join(branch)
                }
                Conversion::Unchanged => LogicalPlan::Join(branch),
            })
        });
        self.cover = None;
        let plan = plan?;
        Ok(match declined {
            Some(reason) => Conversion::Declined(reason),
            None => Conversion::Plan(plan),
        })
    }

    /// The notes of a join, and that of the cover that it is of.
    pub(super) fn notes(&self, notes: [Option<String>; 2]) -> Option<String> {
        let cover = self.cover.as_ref().map(|cover| cover.text.clone());
        let notes: Vec<String> = notes.into_iter().flatten().chain(cover).collect();
        (!notes.is_empty()).then(|| notes.join("; "))
    }
}
