//! Links held against the truth: precision, recall and F1 at each threshold.

use super::{Result, VerbError, VerbTable, quoted};

/// The table of the links, and whether each is true.
pub const JUDGED: &str = "__simjoin_judged";
/// The table of the true pairs.
const TRUTH: &str = "__simjoin_truth";

/// Links and true pairs, whose first two columns tell the rows.
#[derive(Debug)]
pub struct Evaluation<'a> {
    /// The links: two columns that tell rows, and perhaps one named `score`.
    pub links: &'a VerbTable,
    /// The true pairs.
    pub truth: &'a VerbTable,
    /// Whether a pair is the same in both orders, as of one table.
    pub is_unordered: bool,
}

impl Evaluation<'_> {
    /// Whether links have scores.
    pub fn has_scores(&self) -> bool {
        self.links.column("score").is_ok()
    }

    fn pair(&self, table: &VerbTable) -> Result<String> {
        let mut names = table.names();
        let (Some(left), Some(right)) = (names.next(), names.next()) else {
            return Err(VerbError::with_hint(
                format!("{} has one column", table.name()),
                "the first two columns tell the rows of a pair",
            ));
        };
        let [left, right] = [left, right].map(|name| format!("CAST({} AS VARCHAR)", quoted(name)));
        Ok(match self.is_unordered {
            true => format!("least({left}, {right}) AS l, greatest({left}, {right}) AS r"),
            false => format!("{left} AS l, {right} AS r"),
        })
    }

    /// The statements that judge the links.
    ///
    /// # Errors
    ///
    /// When a table has one column.
    pub fn judge(&self) -> Result<Vec<String>> {
        let score = if self.has_scores() { "max(CAST(score AS DOUBLE))" } else { "NULL::double" };
        let (links, truth) = (self.pair(self.links)?, self.pair(self.truth)?);
        Ok(vec![
            format!(
                "CREATE TABLE {TRUTH} AS SELECT DISTINCT l, r FROM (SELECT {truth} FROM {}) WHERE l IS NOT NULL \
                 AND r IS NOT NULL",
                self.truth.quoted()
            ),
            format!(
                "CREATE TABLE {JUDGED} AS SELECT k.*, t.l IS NOT NULL AS is_true FROM (SELECT l, r, {score} AS \
                 score FROM (SELECT {links}{} FROM {}) WHERE l IS NOT NULL AND r IS NOT NULL GROUP BY l, r) k \
                 LEFT JOIN {TRUTH} t ON t.l = k.l AND t.r = k.r",
                if self.has_scores() { ", score" } else { "" },
                self.links.quoted()
            ),
        ])
    }

    /// The statement that tells of the links at thresholds of their scores; without thresholds of all.
    pub fn told(thresholds: &[f64]) -> String {
        let share = |part: &str, whole: &str| {
            format!("CASE WHEN {whole} > 0 THEN {part} / CAST({whole} AS DOUBLE) END")
        };
        let (precision, recall) = (share("found", "links"), share("found", "t.pairs"));
        let f1 = share("2.0 * found", "links + t.pairs");
        let list: Vec<String> = thresholds.iter().map(|t| format!("{t:?}")).collect();
        let (columns, links) = match thresholds.is_empty() {
            true => (
                "",
                format!(
                    "SELECT count(*) AS links, count(*) FILTER (WHERE is_true) AS found FROM {JUDGED}"
                ),
            ),
            false => (
                "threshold, ",
                format!(
                    "SELECT g.threshold, count(j.l) AS links, count(*) FILTER (WHERE j.is_true) AS found FROM \
                     (SELECT unnest([{}]) AS threshold) g LEFT JOIN {JUDGED} j ON j.score >= g.threshold \
                     GROUP BY g.threshold",
                    list.join(", ")
                ),
            ),
        };
        let order = if thresholds.is_empty() { "" } else { " ORDER BY threshold DESC" };
        format!(
            "SELECT {columns}links, found AS true_links, t.pairs AS true_pairs, {precision} AS precision, \
             {recall} AS recall, {f1} AS f1 FROM ({links}) k CROSS JOIN (SELECT count(*) AS pairs FROM {TRUTH}) t\
             {order}"
        )
    }

    /// Thresholds between the least and the greatest score.
    pub fn thresholds(least: f64, greatest: f64) -> Vec<f64> {
        /// Numbers from which one is the step: the first that makes few enough.
        const STEPS: [f64; 8] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0];
        const MOST: f64 = 24.0;
        let way = greatest - least;
        if !way.is_finite() || way <= 0.0 {
            return vec![least];
        }
        let step = STEPS.into_iter().find(|step| way / step <= MOST).unwrap_or(way / MOST);
        let first = (least / step).ceil();
        let count = ((greatest / step).floor() - first).max(0.0) as usize;
        let digits = |number: f64| format!("{number:.6}").parse().unwrap_or(number);
        let mut all: Vec<f64> =
            (0..=count).map(|place| digits((first + place as f64) * step)).collect();
        if all.first() != Some(&least) {
            all.insert(0, least);
        }
        all
    }
}
