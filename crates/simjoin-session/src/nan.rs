//! Notes behind the answer of a statement: rows whose vectors have NaN.

use std::sync::Arc;

use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::{CastExpr, Column};
use datafusion::physical_plan::ExecutionPlan;
use indicatif::HumanCount;

use super::operator::sum;
use datafusion_simjoin::exec::{JoinInput, JoinPartsExec, NanRows, SetSimilarityJoinExec};
use datafusion_simjoin::nearest::{BestPairsExec, NearestJoinExec};
use datafusion_simjoin::spec::{Function, NanScore, Side};

/// Says of each join by a function of vectors that has run how many of its rows have a vector with NaN, and
/// what that means.
pub fn notes(plan: &Arc<dyn ExecutionPlan>) -> Vec<String> {
    let mut notes = vec![];
    collect(plan, false, &mut notes);
    notes.dedup();
    notes
}

/// The effect of NaN.
#[derive(Debug, Clone, Copy)]
enum Effect {
    /// As in a plain join.
    Compares,
    MatchesNothing,
    DoesNotRank,
}

/// A join as far as notes need it.
struct Noted<'a> {
    function: Function,
    arguments: &'a [PhysicalExprRef; 2],
    input: &'a JoinInput,
    effect: Effect,
}

impl<'a> Noted<'a> {
    fn of(plan: &'a dyn ExecutionPlan) -> Option<Self> {
        let best = plan.downcast_ref::<BestPairsExec>().map(BestPairsExec::plain);
        if let Some(exec) = best.or_else(|| plan.downcast_ref::<SetSimilarityJoinExec>()) {
            let join = exec.join();
            let effect = match join.predicate.nan {
                NanScore::Null => Effect::MatchesNothing,
                NanScore::Ordered => Effect::Compares,
            };
            let function = join.predicate.call.function;
            return Some(Self {
                function,
                arguments: &join.arguments,
                input: exec.input(),
                effect,
            });
        }
        let exec = plan.downcast_ref::<NearestJoinExec>()?;
        let search = exec.join().search.as_ref()?;
        Some(Self {
            function: search.predicate.call.function,
            arguments: &search.arguments,
            input: exec.input(),
            effect: Effect::DoesNotRank,
        })
    }

    fn note(&self, side: Side, rows: u64) -> String {
        let Self { function, arguments, input, effect } = self;
        let of_side = match input {
            JoinInput::Two { .. } => format!(" of the {side} side"),
            JoinInput::Itself { .. } => String::new(),
        };
        let column = column_of(&arguments[side as usize]).unwrap_or("a vector");
        let (rows, have, they) = match rows {
            1 => ("1 row".to_string(), "has", "it"),
            rows => (format!("{} rows", HumanCount(rows)), "have", "they"),
        };
        let effect = match (effect, they) {
            (Effect::MatchesNothing, "it") => ", so that it matches nothing",
            (Effect::MatchesNothing, _) => ", so that they match nothing",
            (Effect::DoesNotRank, "it") => ", so that it does not rank",
            (Effect::DoesNotRank, _) => ", so that they do not rank",
            (Effect::Compares, _) => {
                ", which a plain JOIN compares as ORDER BY does: below or above every number by its sign. \
                 SIMJOIN leaves it out"
            }
        };
        format!("{rows}{of_side} {have} NaN in {column}: {function} gives NaN there{effect}")
    }
}

/// The column that an argument is, or is a cast of.
fn column_of(argument: &PhysicalExprRef) -> Option<&str> {
    match argument.downcast_ref::<CastExpr>() {
        Some(cast) => column_of(cast.expr()),
        None => argument.downcast_ref::<Column>().map(Column::name),
    }
}

/// Collects the notes of a plan. A join that is an alternative of a condition (`is_part`) has no note of what a plain join
/// compares: the whole condition decides.
fn collect(plan: &Arc<dyn ExecutionPlan>, is_part: bool, notes: &mut Vec<String>) {
    if let Some(noted) = Noted::of(plan.as_ref())
        && !(is_part && matches!(noted.effect, Effect::Compares))
        && let Some(metrics) = plan.metrics()
    {
        for side in [Side::Left, Side::Right] {
            let rows = sum(&metrics, NanRows::NAMES[side as usize]);
            notes.extend(rows.map(|rows| noted.note(side, rows)));
        }
    }
    let is_part = is_part || plan.is::<JoinPartsExec>();
    for child in plan.children() {
        collect(child, is_part, notes);
    }
}
