//! One pair of rows: what both have, what differs, and which part of the condition fails.

use super::condition::Condition;
use super::measures::{EQUAL, NamedMeasure};
use super::statements::Verb;
use super::{Result, VerbError, quoted, text};

/// The tables of the two rows that are compared.
pub const COMPARED: [&str; 2] = ["__simjoin_left", "__simjoin_right"];

/// A line of the answer, in expressions of SQL over the rows `a` and `b`.
struct ComparisonLine {
    /// The compared column or the key.
    part: String,
    what: String,
    left: String,
    right: String,
    value: String,
    /// Whether a part of the condition holds; `NULL` of what is no part of it.
    holds: String,
}

const NOTHING: &str = "NULL";

impl ComparisonLine {
    fn new(part: &str, what: impl Into<String>) -> Self {
        let nothing = || NOTHING.to_string();
        let (part, what) = (part.to_string(), what.into());
        Self { part, what, left: nothing(), right: nothing(), value: nothing(), holds: nothing() }
    }

    fn sides(self, [left, right]: [String; 2]) -> Self {
        Self { left, right, ..self }
    }

    fn value(self, value: impl Into<String>) -> Self {
        Self { value: value.into(), ..self }
    }

    fn holds(self, holds: impl Into<String>) -> Self {
        Self { holds: format!("coalesce({}, false)", holds.into()), ..self }
    }
}

/// A key of two rows.
struct Key<'a> {
    names: [&'a str; 2],
}

impl Key<'_> {
    fn name(&self) -> String {
        match self.names {
            [left, right] if left == right => left.to_string(),
            [left, right] => format!("{left} = {right}"),
        }
    }

    fn sides(&self, [a, b]: [&str; 2]) -> [String; 2] {
        [format!("{a}.{}", quoted(self.names[0])), format!("{b}.{}", quoted(self.names[1]))]
    }
}

impl Verb<'_> {
    /// The statements that pick the rows to compare, [`COMPARED`]; rows are told as in other results.
    ///
    /// # Errors
    ///
    /// An error for a row that is no number, where numbers tell rows.
    pub fn pick(&self, rows: [&str; 2]) -> Result<Vec<String>> {
        let mut statements = vec![];
        for (side, row) in rows.into_iter().enumerate() {
            if self.id.is_none() && row.parse::<u64>().is_err() {
                return Err(VerbError::with_hint(
                    format!("{row} is no number of a row"),
                    "rows are told by their numbers, from 1 on, or by a column: --id COLUMN",
                ));
            }
            statements.push(format!(
                "CREATE TABLE {} AS SELECT * FROM {} t WHERE {}",
                COMPARED[side],
                self.tables[side].quoted(),
                self.is_row(side, "t", &text(row))?
            ));
        }
        Ok(statements)
    }

    /// The statement that compares the two rows of [`COMPARED`]: a line for each part of the condition, and for what tells
    /// of the values besides.
    ///
    /// # Errors
    ///
    /// When the question does not fit the tables.
    pub fn compare(&self) -> Result<String> {
        // Without a bound, and without a usual one, there is only to tell what the values are.
        let condition = self.condition(true).or_else(|error| match self.question.has_bound() {
            true => Err(error),
            false => self.condition(false),
        })?;
        let keys = self.question.keys.iter().map(|names| {
            let names = [self.tables[0].column(&names[0])?.0, self.tables[1].column(&names[1])?.0];
            Ok(Key { names })
        });
        let keys = keys.collect::<Result<Vec<_>>>()?;
        let mut lines = vec![ComparisonLine::new("", "similar").value(verdict(&condition, &keys))];
        for key in &keys {
            let [left, right] = key.sides(["a", "b"]);
            let line = ComparisonLine::new(&key.name(), "key").holds(format!("{left} = {right}"));
            lines.push(line.sides([left, right]).value(key.told(["a", "b"])));
        }
        lines.extend(condition.lines()?);
        let list = |of: &dyn Fn(&ComparisonLine) -> String| {
            format!("[{}]", lines.iter().map(of).collect::<Vec<_>>().join(", "))
        };
        let texts = |of: &dyn Fn(&ComparisonLine) -> &str| {
            list(&|line| format!("CAST({} AS VARCHAR)", of(line)))
        };
        // One row of lists, as one of many statements would take long to plan.
        Ok(format!(
            "SELECT unnest({}) AS part, unnest({}) AS what, unnest({}) AS \"left\", unnest({}) AS \"right\", \
             unnest({}) AS value, unnest({}) AS holds FROM {} a CROSS JOIN {} b",
            list(&|line| text(&line.part)),
            list(&|line| text(&line.what)),
            texts(&|line| &line.left),
            texts(&|line| &line.right),
            texts(&|line| &line.value),
            list(&|line| format!("CAST({} AS BOOLEAN)", line.holds)),
            COMPARED[0],
            COMPARED[1]
        ))
    }
}

impl Key<'_> {
    /// Whether the keys of two rows are equal, in words.
    fn told(&self, tables: [&str; 2]) -> String {
        let [left, right] = self.sides(tables);
        format!(
            "CASE WHEN {left} IS NULL OR {right} IS NULL THEN 'missing' WHEN {left} = {right} THEN 'equal' ELSE \
             'different' END"
        )
    }
}

/// Why the rows `a` and `b` are no pair, between semicolons; NULL of a pair.
pub(super) fn reasons(condition: &Condition, keys: &[[&str; 2]], tables: [&str; 2]) -> String {
    let keys: Vec<Key<'_>> = keys.iter().map(|names| Key { names: *names }).collect();
    nothing_for_pairs(&faults(condition, &keys, tables))
}

/// Expressions each of which is a reason, or NULL.
fn faults(condition: &Condition, keys: &[Key<'_>], tables: [&str; 2]) -> Vec<String> {
    let mut faults = vec![];
    for key in keys {
        let [left, right] = key.sides(tables);
        let name = key.name();
        faults.push(format!(
            "CASE WHEN {left} IS NULL OR {right} IS NULL THEN {} WHEN {left} <> {right} THEN {} END",
            text(&format!("{name} is missing")),
            text(&format!("{name} differs"))
        ));
    }
    faults.extend(condition.fault(tables));
    faults
}

fn nothing_for_pairs(faults: &[String]) -> String {
    match faults {
        [] => "CAST(NULL AS VARCHAR)".to_string(),
        faults => format!("nullif(concat_ws('; ', {}), '')", faults.join(", ")),
    }
}

fn verdict(condition: &Condition, keys: &[Key<'_>]) -> String {
    if condition.bound().is_none() {
        return "'no threshold is given'".to_string();
    }
    let reasons = nothing_for_pairs(&faults(condition, keys, ["a", "b"]));
    format!("coalesce('no: ' || {reasons}, 'yes')")
}

impl Condition {
    /// The reason why a pair of rows is not within the bound, or NULL.
    fn fault(&self, tables: [&str; 2]) -> Option<String> {
        let bound = self.bound()?;
        let value = self.checked(tables);
        let within = if self.is_distance() { "<=" } else { ">=" };
        let what = match self.only() {
            Some((name, measure)) => format!("{measure} of {name}"),
            None => "the weighted sum".to_string(),
        };
        let side = if self.is_distance() { "above" } else { "below" };
        Some(format!(
            "CASE WHEN {value} IS NULL THEN {} WHEN NOT ({value} {within} {bound}) THEN concat({}, {value}, {}) END",
            text(&format!("{what} is missing")),
            text(&format!("{what} is ")),
            text(&format!(", {side} {bound}"))
        ))
    }

    /// The lines on the compared values.
    fn lines(&self) -> Result<Vec<ComparisonLine>> {
        let mut lines = vec![];
        let within = if self.is_distance() { "<=" } else { ">=" };
        let sum = self.value(["a", "b"]);
        if self.only().is_none() {
            let line = ComparisonLine::new("", "weighted sum").value(sum.clone());
            lines.push(match self.bound() {
                Some(bound) => ComparisonLine {
                    what: format!("weighted sum {within} {bound}"),
                    ..line.holds(format!("{sum} {within} {bound}"))
                },
                None => line,
            });
        }
        for score in self.scores() {
            let part = score.name();
            lines.push(ComparisonLine::new(part, "value").sides(score.shown(["a", "b"])));
            if let Some(folded) = score.folded(["a", "b"]) {
                lines.push(ComparisonLine::new(part, "compared as").sides(folded));
            }
            let value = score.checked(["a", "b"]);
            let asked = match (self.only(), self.bound()) {
                (Some(_), Some(bound)) => {
                    ComparisonLine::new(part, format!("{} {within} {bound}", score.measure_name()))
                        .value(value.clone())
                        .holds(format!("{value} {within} {bound}"))
                }
                (Some(_), None) => {
                    ComparisonLine::new(part, score.measure_name()).value(value.clone())
                }
                (None, _) => {
                    let weight = score.weight().unwrap_or_default();
                    ComparisonLine::new(part, format!("{}, weight {weight}", score.measure_name()))
                        .value(value.clone())
                }
            };
            lines.push(asked);
            if let Some(share) = score.share(["a", "b"]) {
                lines.push(ComparisonLine::new(part, "part of the sum").value(share));
            }
            if score.measure() != &EQUAL {
                lines.extend(score_lines(score)?);
            }
        }
        Ok(lines)
    }
}

/// The lines that tell of the values of a column beside its score.
fn score_lines(score: &super::condition::Score) -> Result<Vec<ComparisonLine>> {
    let part = score.name();
    let mut lines = vec![];
    if let Some([left, right]) = score.sets(["a", "b"])? {
        let list = |list: String| {
            format!(
                "CASE WHEN array_length({list}) > 0 THEN concat('\"', array_to_string(array_sort({list}), '\" \"'), \
                 '\"') END"
            )
        };
        let count = |list: &str| format!("coalesce(array_length({list}), 0)");
        let both = format!("array_intersect({left}, {right})");
        let [only_left, only_right] =
            [format!("array_except({left}, {right})"), format!("array_except({right}, {left})")];
        let shared = list(both.clone());
        lines.push(
            ComparisonLine::new(part, "elements of both")
                .sides([shared.clone(), shared])
                .value(count(&both)),
        );
        let counts = format!("{} + {}", count(&only_left), count(&only_right));
        let lists = [list(only_left), list(only_right)];
        lines.push(ComparisonLine::new(part, "elements of one alone").sides(lists).value(counts));
    }
    if let Some([left, right]) = score.texts(["a", "b"]) {
        let script = format!("edit_script({left}, {right})");
        lines.push(ComparisonLine::new(part, "changes from left to right").value(script));
    }
    for measure in NamedMeasure::others(score.kind(), score.measure()) {
        if let Some(value) = score.value_of(measure, ["a", "b"])? {
            lines.push(ComparisonLine::new(part, measure.name).value(value));
        }
    }
    Ok(lines)
}
