//! Links held against the truth: precision, recall and F1 at each threshold, and the pairs that were missed.

use datafusion_simjoin::plan::label_is;

use super::compare::reasons;
use super::labels::Labels;
use super::statements::Verb;
use super::{ROW, Result, VerbError, VerbTable, quoted};

/// The table of the links, and whether each is true.
pub const JUDGED: &str = "__simjoin_judged";
/// The table of the links.
pub(super) const LINKS: &str = "__simjoin_links";
/// The table of the pairs of which it is known whether they are true.
pub(super) const KNOWN: &str = "__simjoin_known";
/// The table of the true pairs.
pub(super) const TRUTH: &str = "__simjoin_truth";

/// Links and true pairs, whose first two columns tell the rows.
#[derive(Debug)]
pub struct Evaluation<'a> {
    /// The links: two columns that tell rows, and perhaps one named `score`.
    pub links: &'a VerbTable,
    /// The true pairs.
    pub truth: &'a VerbTable,
    /// Whether a pair is the same in both orders, as of one table.
    pub is_unordered: bool,
    /// Whether lesser scores are better.
    pub is_distance: bool,
    /// Whether the links, and whether the truth, are groups: a column that tells rows, and one of their groups.
    pub are_groups: [bool; 2],
}

impl Evaluation<'_> {
    /// Whether links have scores.
    pub fn has_scores(&self) -> bool {
        self.links.column("score").is_ok()
    }

    /// The query of the pairs of a table, as `l` and `r`, with `others` of its columns.
    fn pairs(&self, table: &VerbTable, are_groups: bool, others: &str) -> Result<String> {
        let mut names = table.names();
        let (Some(left), Some(right)) = (names.next(), names.next()) else {
            return Err(VerbError::with_hint(
                format!("{} has one column", table.told_name()),
                "the first two columns tell the rows of a pair, or a row and its group",
            ));
        };
        let from = table.quoted();
        if are_groups {
            // As `clusters` gives them.
            let group = quoted(table.column("cluster").map_or(right, |(name, _)| name));
            let row = format!("CAST({} AS VARCHAR)", quoted(left));
            let rows = format!("SELECT {row} AS row, {group} AS grp FROM {from}");
            return Ok(format!(
                "SELECT x.row AS l, y.row AS r{others} FROM ({rows}) x JOIN ({rows}) y ON x.grp = y.grp AND x.row < y.row"
            ));
        }
        let [left, right] = [left, right].map(|name| format!("CAST({} AS VARCHAR)", quoted(name)));
        let whole = format!("WHERE {left} IS NOT NULL AND {right} IS NOT NULL");
        let pair = match self.is_unordered() {
            true => format!("least({left}, {right}) AS l, greatest({left}, {right}) AS r"),
            false => format!("{left} AS l, {right} AS r"),
        };
        Ok(format!("SELECT {pair}{others} FROM {from} {whole}"))
    }

    /// Whether pairs have no order: those of groups have none.
    fn is_unordered(&self) -> bool {
        self.is_unordered || self.are_groups.contains(&true)
    }

    /// The statements that judge the links.
    ///
    /// # Errors
    ///
    /// When a table has one column.
    pub fn judge(&self) -> Result<Vec<String>> {
        let has_scores = self.has_scores() && !self.are_groups[0];
        let best = if self.is_distance { "min" } else { "max" };
        // Without NaN, which is greater than any number.
        let score = match has_scores {
            true => format!("{best}(CASE WHEN score <= CAST('Infinity' AS DOUBLE) THEN score END)"),
            false => "NULL::double".to_string(),
        };
        let others = if has_scores { ", CAST(score AS DOUBLE) AS score" } else { "" };
        let are_labels = Labels::are_in(self.truth) && !self.are_groups[1];
        let links = self.pairs(self.links, self.are_groups[0], others)?;
        let label = Labels::column_of(self.truth).filter(|_| are_labels);
        let label = label.map(|name| format!(", {} AS label", quoted(name))).unwrap_or_default();
        let truth = self.pairs(self.truth, self.are_groups[1], &label)?;
        let [yes, no] = ["yes", "no"].map(|mark| label_is("label", mark));
        let is_true = if are_labels { yes.clone() } else { "true".to_string() };
        // Of pairs that nobody has marked nothing is known.
        let (known, join) = match are_labels {
            true => (format!(" AND ({yes} OR {no})"), "JOIN"),
            false => (String::new(), "LEFT JOIN"),
        };
        Ok(vec![
            format!(
                "CREATE TABLE {KNOWN} AS SELECT l, r, bool_and({is_true}) AS is_true FROM ({truth}) \
                 WHERE l IS NOT NULL AND r IS NOT NULL{known} GROUP BY l, r"
            ),
            format!("CREATE TABLE {TRUTH} AS SELECT l, r FROM {KNOWN} WHERE is_true"),
            format!(
                "CREATE TABLE {LINKS} AS SELECT l, r, {score} AS score FROM ({links}) WHERE l IS NOT NULL AND r IS NOT NULL \
                 GROUP BY l, r"
            ),
            format!(
                "CREATE TABLE {JUDGED} AS SELECT k.*, coalesce(t.is_true, false) AS is_true FROM {LINKS} k \
                 {join} {KNOWN} t ON t.l = k.l AND t.r = k.r"
            ),
        ])
    }

    /// The statement that gives the true pairs that are no links, each with the reason. `asked` is the question that the
    /// links answer, and the tables of their rows.
    ///
    /// # Errors
    ///
    /// When the question does not fit the tables.
    pub fn missed(asked: Option<&Verb<'_>>) -> Result<String> {
        let missed = format!(
            "SELECT t.l, t.r FROM {TRUTH} t LEFT ANTI JOIN {JUDGED} j ON j.l = t.l AND j.r = t.r"
        );
        let Some(verb) = asked else {
            return Ok(format!(
                "SELECT l AS \"left\", r AS \"right\", 'no link' AS reason FROM ({missed}) ORDER BY l, r"
            ));
        };
        let condition = verb.condition(true)?;
        let keys = verb.question.keys.iter().map(|[left, right]| {
            Ok([verb.tables[0].column(left)?.0, verb.tables[1].column(right)?.0])
        });
        let keys = keys.collect::<Result<Vec<_>>>()?;
        let reasons = reasons(&condition, &keys, ["a", "b"]);
        let [ours, theirs] = verb.tables;
        let [of_left, of_right] = verb.examples()?;
        let [ours_name, theirs_name] =
            [ours, theirs].map(|table| super::text(&format!("no row of {}", table.told_name())));
        // One of several rows with an id, the most similar one.
        let best = if condition.is_distance() { "" } else { " DESC" };
        Ok(format!(
            "SELECT \"left\", \"right\", reason, score, left_value, right_value FROM (SELECT *, row_number() OVER (PARTITION BY \
             \"left\", \"right\" ORDER BY score{best} NULLS LAST, reason NULLS FIRST) AS place FROM (\
             SELECT m.l AS \"left\", m.r AS \"right\", CASE WHEN a.{ROW} IS NULL THEN {ours_name} WHEN b.{ROW} IS NULL THEN \
             {theirs_name} ELSE coalesce({reasons}, 'similar, but no link') END AS reason, \
             CASE WHEN a.{ROW} IS NOT NULL AND b.{ROW} IS NOT NULL THEN {} END AS score, concat({of_left}) AS left_value, \
             concat({of_right}) AS right_value FROM ({missed}) m LEFT JOIN {} a ON {} LEFT JOIN {} b ON {})) WHERE place = 1 ORDER BY \"left\", \"right\"",
            condition.checked(["a", "b"]),
            ours.quoted(),
            verb.is_row(0, "a", "m.l")?,
            theirs.quoted(),
            verb.is_row(1, "b", "m.r")?
        ))
    }

    /// The statement that tells of the links at thresholds of their scores; without thresholds of all.
    pub fn told(thresholds: &[f64], is_distance: bool) -> String {
        let list: Vec<String> = thresholds.iter().map(|t| format!("{t:?}")).collect();
        let (behind, order) = match thresholds.is_empty() {
            true => (String::new(), ""),
            false if is_distance => {
                (format!(", [{}], 'distance'", list.join(", ")), " ORDER BY threshold")
            }
            false => (format!(", [{}]", list.join(", ")), " ORDER BY threshold DESC"),
        };
        format!(
            "SELECT * FROM evaluate((SELECT l, r, score FROM {JUDGED}), (SELECT l, r FROM {TRUTH}){behind}){order}"
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
