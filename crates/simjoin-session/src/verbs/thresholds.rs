//! Pairs and groups at each of several thresholds, from one join by the weakest.

use super::condition::Condition;
use super::statements::{How, Verb};
use super::{ROW, Result, VerbError, VerbTable};

/// The table of the pairs within the weakest threshold.
pub(super) const PAIRS: &str = "__simjoin_pairs";
/// The table of what each threshold gives.
pub const STEPS: &str = "__simjoin_steps";
/// The number of thresholds between the weakest one and the best score, at least.
const LEAST_STEPS: f64 = 10.0;

/// The figures of one threshold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AtThreshold {
    /// The threshold.
    pub threshold: f64,
    /// The pairs that only this step adds.
    pub added: i64,
    /// The rows of the largest group.
    pub largest: i64,
}

impl Verb<'_> {
    /// The statements that make the table [`STEPS`], a row for each threshold: the pairs within it, those that only this step adds, the rows in groups of several, the
    /// groups, the largest one, and examples of the weakest of the added pairs.
    ///
    /// # Errors
    ///
    /// As of [`pairs`](Self::pairs); for a measure that has no best score.
    pub fn thresholds(&self, step: Option<f64>, is_one: bool) -> Result<Vec<String>> {
        let condition = self.condition(true)?;
        let thresholds = condition.thresholds(step)?;
        let list: Vec<String> = thresholds.iter().map(f64::to_string).collect();
        let value = condition.told(["a", "b"]);
        // Rows of the second table are other nodes than those of the first.
        let sign = if is_one { "" } else { "-1 - " };
        let find = format!(
            "CREATE TABLE {PAIRS} AS SELECT a.{ROW} AS l, {sign}b.{ROW} AS r, CAST({value} AS DOUBLE) AS score FROM {} \
             ON {}",
            self.from(How::Inner),
            condition.text(is_one.then(|| condition.once(ROW)))
        );
        let [left, right] = self.examples()?;
        let [ours, theirs] = self.tables.map(VerbTable::quoted);
        let tell = format!(
            "CREATE TABLE {STEPS} AS SELECT * FROM thresholds((SELECT p.l, p.r, p.score, concat({left}, ' ~ ', {right}) FROM \
             {PAIRS} p JOIN {ours} a ON a.{ROW} = p.l JOIN {theirs} b ON b.{ROW} = {sign}p.r), [{}]{})",
            list.join(", "),
            condition.order()
        );
        Ok(vec![find, tell])
    }
}

impl Condition {
    /// The thresholds from the strictest one to the bound.
    pub(super) fn thresholds(&self, step: Option<f64>) -> Result<Vec<f64>> {
        let Some(bound) = self.bound() else {
            return Err(VerbError::new(
                "a bound is missing: give the weakest threshold to look at",
            ));
        };
        let Some(best) = self.best() else {
            return Err(VerbError::with_hint(
                "the measure has no best score",
                "thresholds are looked at of similarities up to 1 and of distances",
            ));
        };
        let usual = match (self.is_distance(), (bound - best).abs()) {
            (true, way) if way <= 2.0 * LEAST_STEPS && bound.fract() == 0.0 => 1.0,
            (false, way) if best == 1.0 && way >= 0.25 => 0.05,
            (_, way) => way / LEAST_STEPS,
        };
        let step = step.unwrap_or(usual);
        let count = ((bound - best).abs() / step).floor();
        if !(step > 0.0 && count <= 200.0) {
            return Err(VerbError::with_hint(
                format!("steps of {step} are no steps to {bound}"),
                "the step is above 0, and there are 200 thresholds at most",
            ));
        }
        let sign = if self.is_distance() { 1.0 } else { -1.0 };
        // As they are written: 0.85, and not the sum of steps.
        let digits = |number: f64| format!("{number:.6}").parse().unwrap_or(number);
        let mut thresholds: Vec<f64> =
            (0..=count as usize).map(|place| digits(best + sign * step * place as f64)).collect();
        let is_stricter =
            |threshold: &f64| (*threshold - bound) * sign < 0.0 && (threshold - bound).abs() > 1e-9;
        thresholds.retain(is_stricter);
        thresholds.push(bound);
        Ok(thresholds)
    }
}

/// A threshold that may be the one, and why: the step below it makes one group of many, or adds many more pairs than the
/// one before.
pub fn suggestion(steps: &[AtThreshold]) -> Option<(f64, String)> {
    /// The rows of a group, and the pairs of a step, that count as many.
    const MANY: i64 = 10;
    let chains = |[kept, next]: &&[AtThreshold; 2]| {
        kept.largest > 1 && next.largest > 2 * kept.largest && next.largest >= MANY
    };
    let floods = |[kept, next]: &&[AtThreshold; 2]| {
        kept.added > 0 && next.added > 3 * kept.added && next.added >= MANY
    };
    let windows = || steps.array_windows::<2>();
    if let Some([kept, next]) = windows().find(chains) {
        let why = format!(
            "the step to {} makes one group of {} rows, where the largest had {}",
            next.threshold, next.largest, kept.largest
        );
        return Some((kept.threshold, why));
    }
    let [kept, next] = windows().find(floods)?;
    let why = format!(
        "the step to {} adds {} pairs, where the one before added {}",
        next.threshold, next.added, kept.added
    );
    Some((kept.threshold, why))
}
