//! Notes behind the answer of a statement: rows whose vectors have NaN.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use indicatif::HumanCount;

use super::operator::sum;
use super::warnings::without_types;
use crate::exec::{JoinInput, NanRows, SetSimilarityJoinExec};
use crate::nearest::{BestPairsExec, NearestJoinExec};
use crate::spec::{NanScore, Side};

/// Says of each join by a distance of vectors that has run how many of its rows have a vector with NaN, and
/// what came of them.
pub(super) fn notes(plan: &Arc<dyn ExecutionPlan>) -> Vec<String> {
    let mut notes = vec![];
    collect(plan, &mut notes);
    notes.dedup();
    notes
}

/// A join as far as notes need it: its score or condition, its input, and what NaN does.
fn of_plan(plan: &dyn ExecutionPlan) -> Option<(&str, &JoinInput, &'static str)> {
    let best = plan.downcast_ref::<BestPairsExec>().map(BestPairsExec::plain);
    if let Some(exec) = best.or_else(|| plan.downcast_ref::<SetSimilarityJoinExec>()) {
        let effect = match exec.join().predicate.nan {
            NanScore::Null => "such a row matches nothing",
            NanScore::Ordered => {
                "in a plain JOIN NaN compares as in ORDER BY, less or greater than every number by its \
                 sign; in a SIMJOIN such a row matches nothing"
            }
        };
        return Some((&exec.join().text, exec.input(), effect));
    }
    let exec = plan.downcast_ref::<NearestJoinExec>()?;
    Some((&exec.join().text, exec.input(), "such a row does not rank"))
}

fn collect(plan: &Arc<dyn ExecutionPlan>, notes: &mut Vec<String>) {
    let counts = of_plan(plan.as_ref()).and_then(|of| Some((of, plan.metrics()?)));
    if let Some(((text, input, effect), metrics)) = counts {
        for side in [Side::Left, Side::Right] {
            let Some(rows) = sum(&metrics, NanRows::NAMES[side as usize]) else { continue };
            let of_side = match input {
                JoinInput::Two { .. } => format!(" of the {side} side"),
                JoinInput::Itself { .. } => String::new(),
            };
            let (rows, have) = match rows {
                1 => ("1 row".to_string(), "has a vector"),
                rows => (format!("{} rows", HumanCount(rows)), "have vectors"),
            };
            notes.push(format!(
                "{}: {rows}{of_side} {have} with NaN: {effect}",
                without_types(text)
            ));
        }
    }
    for child in plan.children() {
        collect(child, notes);
    }
}
