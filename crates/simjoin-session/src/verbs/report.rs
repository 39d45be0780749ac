//! The statements of a page to review: the pairs down to a weaker threshold than the one that is asked for.

use super::condition::Condition;
use super::labels::Labels;
use super::statements::{How, Verb};
use super::{ROW, Result, VerbError, quoted};

/// The table of all pairs down to the weakest threshold.
pub(super) const REPORTED: &str = "__simjoin_reported";
/// The table of the best of them.
pub(super) const SHOWN: &str = "__simjoin_shown";

/// The statements of a page to review, and what the page says of them.
#[derive(Debug)]
pub struct ReportStatements {
    /// Statements to run first.
    pub before: Vec<String>,
    /// The pairs, the best first: the numbers of their rows, the score, and the scores of columns.
    pub pairs: String,
    /// The number of all pairs.
    pub count: String,
    /// Two queries for each table: the rows in pairs (number, id, columns) in the order of the table, and the count of all
    /// its rows.
    pub rows: Vec<[String; 2]>,
    /// The marked pairs: left, right and label.
    pub labels: Option<String>,
    /// The column that tells the rows of the first table; `None` for their numbers.
    pub id: Option<String>,
    /// The names of the columns of each table.
    pub columns: Vec<Vec<String>>,
    /// The places of the compared columns among them.
    pub compared: Vec<Vec<usize>>,
    /// The names of the scores of columns.
    pub parts: Vec<String>,
    /// The question in words.
    pub question: String,
    /// The threshold that is asked for.
    pub at: f64,
    /// The weakest threshold of the pairs.
    pub weakest: f64,
    /// The best score that rows can have.
    pub best: Option<f64>,
    /// Whether lesser scores are better.
    pub is_distance: bool,
    /// Thresholds from the strictest to the weakest.
    pub steps: Vec<f64>,
}

impl Verb<'_> {
    /// The statements of a page with the pairs down to `weakest`, `most` of them at most. `is_one` says that both
    /// tables are one.
    ///
    /// # Errors
    ///
    /// As of [`pairs`](Self::pairs).
    pub fn report(
        &self,
        weakest: Option<f64>,
        most: usize,
        is_one: bool,
    ) -> Result<ReportStatements> {
        let asked = self.condition(true)?;
        let Some(at) = asked.bound() else {
            return Err(VerbError::new("a bound is missing: give --at-least or --at-most"));
        };
        let weakest = asked.weaker(at, weakest)?;
        let question = asked.words(&self.question.keys);
        let condition = asked.with_bound(weakest);
        let order = if condition.is_distance() { "" } else { " DESC" };
        let parts = condition.parts(["a", "b"]);
        let select: String =
            parts.iter().map(|(part, name)| format!(", {part} AS {}", quoted(name))).collect();
        let once = is_one.then(|| condition.once(ROW));
        let find = format!(
            "CREATE TABLE {REPORTED} AS SELECT a.{ROW} AS l, b.{ROW} AS r, CAST({} AS DOUBLE) AS score{select} FROM {} ON {}",
            condition.told(["a", "b"]),
            self.from(How::Inner),
            condition.text(once)
        );
        let best = format!(
            "CREATE TABLE {SHOWN} AS SELECT * FROM {REPORTED} ORDER BY score{order}, l, r LIMIT {most}"
        );
        let sides: &[usize] = if is_one { &[0] } else { &[0, 1] };
        let (mut rows, mut columns, mut compared) = (vec![], vec![], vec![]);
        for side in sides.iter().copied() {
            let names = self.reported_columns(side)?;
            let places =
                self.question.on.iter().filter_map(|column| {
                    names.iter().position(|name| name == column.of_side(side))
                });
            compared.push(places.collect());
            rows.push(self.reported_rows(side, is_one, &names)?);
            columns.push(names);
        }
        Ok(ReportStatements {
            before: vec![find, best],
            pairs: format!("SELECT * FROM {SHOWN} ORDER BY score{order}, l, r"),
            count: format!("SELECT count(*) FROM {REPORTED}"),
            rows,
            labels: self.labels.map(Labels::told).transpose()?,
            id: self.id.map(|[id, _]| id.clone()),
            columns,
            compared,
            parts: parts.into_iter().map(|(_, name)| name).collect(),
            question,
            at,
            weakest,
            best: condition.best(),
            is_distance: condition.is_distance(),
            steps: match condition.best() {
                Some(_) => condition.thresholds(None)?,
                None => vec![],
            },
        })
    }

    /// The columns of a side that the page has: the compared ones and those that are asked for, otherwise all.
    fn reported_columns(&self, side: usize) -> Result<Vec<String>> {
        let table = self.tables[side];
        let Some(show) = self.show else { return Ok(table.names().map(str::to_string).collect()) };
        let compared = self.question.on.iter().map(|column| column.of_side(side));
        let mut names: Vec<String> = vec![];
        for name in compared.chain(show.iter().map(String::as_str)) {
            let found = table.column(name);
            // A column of one table alone is shown of that.
            if found.is_err() && self.tables[1 - side].column(name).is_ok() {
                continue;
            }
            let name = found?.0.to_string();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn reported_rows(&self, side: usize, is_one: bool, names: &[String]) -> Result<[String; 2]> {
        let table = self.tables[side].quoted();
        let of_pairs = match (is_one, side) {
            (true, _) => format!("SELECT l FROM {SHOWN} UNION SELECT r FROM {SHOWN}"),
            (false, 0) => format!("SELECT l FROM {SHOWN}"),
            (false, _) => format!("SELECT r FROM {SHOWN}"),
        };
        let columns: String = names.iter().map(|name| format!(", {}", quoted(name))).collect();
        let rows = format!(
            "SELECT {ROW} AS __simjoin_number, {} AS __simjoin_id{columns} FROM {table} WHERE {ROW} IN ({of_pairs}) \
             ORDER BY {ROW}",
            self.id(side)?
        );
        Ok([rows, format!("SELECT count(*) FROM {table}")])
    }
}

impl Condition {
    /// The threshold down to which pairs are looked at: the one given, or one somewhat weaker than `at`.
    fn weaker(&self, at: f64, given: Option<f64>) -> Result<f64> {
        let is_distance = self.is_distance();
        if let Some(given) = given {
            let is_weaker = if is_distance { given >= at } else { given <= at && given > 0.0 };
            return match is_weaker && given.is_finite() {
                true => Ok(given),
                false => Err(VerbError::with_hint(
                    format!("--down-to {given} is not weaker than the threshold {at}"),
                    match is_distance {
                        true => "of distances it is a greater one",
                        false => "of similarities it is a lesser one above 0",
                    },
                )),
            };
        }
        /// The part of the best score below the threshold that is looked at.
        const BELOW: f64 = 0.15;
        let digits = |number: f64| format!("{number:.6}").parse().unwrap_or(number);
        Ok(match (is_distance, self.best()) {
            (true, _) if at.fract() == 0.0 => at + (at / 2.0).ceil().max(1.0),
            (true, _) => digits(at * 1.5),
            (false, Some(best)) => digits((at - BELOW * best).max(at / 2.0)),
            (false, None) => (at - 1.0).max(1.0).min(at),
        })
    }

    /// The condition in words.
    fn words(&self, keys: &[[String; 2]]) -> String {
        let bound = self.bound().map(|bound| match self.is_distance() {
            true => format!("at most {bound}"),
            false => format!("at least {bound}"),
        });
        let mut words: Vec<String> = match self.only() {
            Some((name, _)) => {
                let measure = self.scores().iter().map(|score| score.measure_name());
                let measure: String = measure.collect();
                vec![format!("{name}: {measure}")]
            }
            None => {
                let part = |score: &super::condition::Score| {
                    let weight = score.weight().unwrap_or_default();
                    format!("{weight} × {} of {}", score.measure_name(), score.name())
                };
                vec![self.scores().iter().map(part).collect::<Vec<_>>().join(" + ")]
            }
        };
        words.extend(bound);
        for [left, right] in keys {
            words.push(match left == right {
                true => format!("the same {left}"),
                false => format!("{left} is {right}"),
            });
        }
        words.join(", ")
    }
}
