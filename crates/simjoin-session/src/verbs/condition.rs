//! The condition that makes two rows similar, as SQL over the tables `a` and `b`.

use arrow::datatypes::DataType;

use super::compared::{ComparedColumn, Question};
use super::kinds::{ColumnKind, is_text};
use super::measures::{EQUAL, NamedMeasure, USUAL_TOKENIZER, Values, tokens_of};
use super::table::{VerbTable, folded_name};
use super::weighing::{Weighing, check_lists, told_size, weights_name};
use super::{Result, VerbError, quoted};

/// The score of a compared column.
#[derive(Debug)]
pub(super) struct Score {
    measure: &'static NamedMeasure,
    kind: ColumnKind,
    /// The values of both sides that are compared, before texts become sets; a table stands for `{}`.
    values: [String; 2],
    /// The values of both sides that the measure's function takes.
    sides: [String; 2],
    /// The weights of the tokens, where the values have none of their own.
    weighing: Option<Weighing>,
    /// The tokenizer, where texts become sets or may do so.
    tokenizer: Option<String>,
    is_folded: bool,
    weight: Option<f64>,
    name: String,
    columns: [String; 2],
}

/// The condition of two rows.
#[derive(Debug)]
pub(super) struct Condition {
    scores: Vec<Score>,
    keys: Vec<String>,
    bound: Option<f64>,
}

impl Condition {
    /// The condition that a question asks of the rows of two tables. A weighted sum has no bound where none `is_needed`.
    pub(super) fn of(
        question: &Question,
        [left, right]: [&VerbTable; 2],
        is_needed: bool,
    ) -> Result<Self> {
        let scores = Score::of_question(question, [left, right])?;
        if scores.iter().all(|score| score.measure == &EQUAL) {
            return Err(VerbError::with_hint(
                "no column is compared by a similarity",
                "--key names columns that are equal in both rows; one of --on has a similarity at least",
            ));
        }
        let key = |[of_left, of_right]: &[String; 2]| {
            let (of_left, of_right) = (left.column(of_left)?, right.column(of_right)?);
            if of_left.1.is_string() != of_right.1.is_string() {
                return Err(VerbError::with_hint(
                    format!(
                        "the keys {} ({}) and {} ({}) do not compare",
                        of_left.0, of_left.1, of_right.0, of_right.1
                    ),
                    "both are texts, or neither is",
                ));
            }
            Ok(format!("a.{} = b.{}", quoted(of_left.0), quoted(of_right.0)))
        };
        let keys = question.keys.iter().map(key).collect::<Result<Vec<_>>>()?;
        let mut this = Self { scores, keys, bound: None };
        this.bound = this.bound_of(question, is_needed)?;
        Ok(this)
    }

    fn bound_of(&self, question: &Question, is_needed: bool) -> Result<Option<f64>> {
        let Question { at_least, at_most, .. } = question;
        let [only] = self.scores.as_slice() else { return self.bound_of_sum(question, is_needed) };
        if only.weight.is_some() {
            return self.bound_of_sum(question, is_needed);
        }
        let (name, is_distance) = (only.measure.name, only.measure.is_distance);
        let (own, other) = if is_distance { (at_most, at_least) } else { (at_least, at_most) };
        let (flag, wrong) = match is_distance {
            true => ("--at-most", "--at-least"),
            false => ("--at-least", "--at-most"),
        };
        if other.is_some() {
            let what = if is_distance { "a distance" } else { "a similarity" };
            let hint = only.measure.similarity.filter(|_| is_distance);
            let hint = hint.map(|hint| format!("--measure {hint} takes {wrong}"));
            let text = format!("{name} is {what}: give {flag}, not {wrong}");
            return Err(VerbError { text, hint });
        }
        let is_in_range = |bound: f64| match (is_distance, only.measure.threshold) {
            _ if question.any_bound => true,
            (true, _) => bound >= 0.0,
            (false, None) if only.measure.values == Values::Vectors => true,
            // Of 0 every row is a partner of every row.
            (false, Some(_)) => bound > 0.0 && bound <= 1.0,
            (false, None) => bound > 0.0,
        };
        if let Some(bound) = own.filter(|bound| !is_in_range(*bound)) {
            return Err(VerbError::with_hint(
                format!("{flag} {bound} is no bound of {name}"),
                match (is_distance, only.measure.threshold) {
                    (true, _) => "distances are numbers from 0 on".to_string(),
                    (false, Some(usual)) => {
                        format!("similarities are above 0, up to 1: {flag} {usual}")
                    }
                    (false, None) if only.measure.values == Values::Weighted => {
                        format!("{name} adds products of weights: {flag} is above 0")
                    }
                    (false, None) => format!("{name} counts common elements: {flag} 1 and more"),
                },
            ));
        }
        match own.or(only.measure.threshold) {
            Some(bound) if is_needed || own.is_some() => Ok(Some(bound)),
            None if is_needed => Err(VerbError::with_hint(
                format!("{name} has no default threshold"),
                match only.measure.similarity {
                    Some(similarity) if only.measure.values == Values::Weighted => format!(
                        "it adds products of weights, which is for nearest rows; --measure {similarity} is at most 1"
                    ),
                    _ => format!("give {flag}, such as {flag} 2"),
                },
            )),
            _ => Ok(None),
        }
    }

    fn bound_of_sum(&self, question: &Question, is_needed: bool) -> Result<Option<f64>> {
        if question.at_most.is_some() {
            return Err(VerbError::new(
                "a weighted sum is a similarity: give --at-least, not --at-most",
            ));
        }
        let greatest = self.scores.iter().filter_map(|score| score.weight);
        let greatest = greatest.reduce(|sum, weight| sum + weight).unwrap_or_default();
        match question.at_least {
            None if is_needed => Err(VerbError::with_hint(
                "--at-least is missing: weights have no default threshold",
                format!(
                    "--at-least {:.2} is one; the weights add up to {greatest}",
                    0.8 * greatest
                ),
            )),
            Some(bound) if !(question.any_bound || bound > 0.0 && bound <= greatest) => {
                Err(VerbError::with_hint(
                    format!("--at-least {bound} is no sum that rows can reach"),
                    format!("the weights add up to {greatest}"),
                ))
            }
            bound => Ok(bound),
        }
    }

    pub(super) fn bound(&self) -> Option<f64> {
        self.bound
    }

    /// The condition with another bound.
    pub(super) fn with_bound(self, bound: f64) -> Self {
        Self { bound: Some(bound), ..self }
    }

    pub(super) fn scores(&self) -> &[Score] {
        &self.scores
    }

    /// The names of the compared column and of its measure, where there is one without a weight.
    pub(super) fn only(&self) -> Option<(&str, &'static str)> {
        match self.scores.as_slice() {
            [only] if only.weight.is_none() => Some((&only.name, only.measure.name)),
            _ => None,
        }
    }

    /// The best score that rows can have; `None` where there is none.
    pub(super) fn best(&self) -> Option<f64> {
        match self.scores.as_slice() {
            [only] if only.weight.is_none() => match only.measure.is_distance {
                true => Some(0.0),
                false => only.measure.threshold.map(|_| 1.0),
            },
            several => several.iter().filter_map(|score| score.weight).reduce(|sum, own| sum + own),
        }
    }

    pub(super) fn is_distance(&self) -> bool {
        matches!(self.scores.as_slice(), [only] if only.measure.is_distance)
    }

    pub(super) fn is_symmetric(&self) -> bool {
        self.scores.iter().all(|score| score.measure.is_symmetric)
    }

    /// The score of the rows, which the bound is of.
    pub(super) fn value(&self, tables: [&str; 2]) -> String {
        let parts = self.scores.iter().map(|score| match score.weight {
            Some(weight) => score.weighted(weight, &score.value(tables), tables),
            None => score.value(tables),
        });
        parts.collect::<Vec<_>>().join(" + ")
    }

    /// The score of any two rows, NULL where they have none.
    pub(super) fn checked(&self, tables: [&str; 2]) -> String {
        match self.scores.as_slice() {
            [only] if only.weight.is_none() => only.checked(tables),
            _ => self.told(tables),
        }
    }

    /// The score that results have of two similar rows. A part of a sum that is NaN counts as a missing value, as joins
    /// take it.
    pub(super) fn told(&self, tables: [&str; 2]) -> String {
        let parts = self.scores.iter().map(|score| match score.weight {
            Some(weight) => score.weighted(weight, &score.told(tables), tables),
            None => score.value(tables),
        });
        parts.collect::<Vec<_>>().join(" + ")
    }

    /// The score within its bound; `None` without one.
    pub(super) fn within_bound(&self) -> Option<String> {
        let op = if self.is_distance() { "<=" } else { ">=" };
        let is_cosine =
            self.scores.iter().all(|score| score.measure.function == "cosine_similarity");
        // A join takes no infinite bound of the difference that the function is.
        let bound = self.bound.map(|bound| if is_cosine { bound.clamp(-2.0, 2.0) } else { bound });
        bound.map(|bound| format!("{} {op} {}", self.value(["a", "b"]), number(bound)))
    }

    /// The condition, with others that all have to hold.
    pub(super) fn text(&self, others: impl IntoIterator<Item = String>) -> String {
        let all = self.within_bound().into_iter().chain(self.keys.iter().cloned()).chain(others);
        all.collect::<Vec<_>>().join(" AND ")
    }

    /// The condition by which a pair of rows of one table comes once.
    pub(super) fn once(&self, row: &str) -> String {
        let op = if self.is_symmetric() { "<" } else { "<>" };
        format!("a.{row} {op} b.{row}")
    }

    /// The scores of the columns of a weighted sum, each with its name.
    pub(super) fn parts(&self, tables: [&str; 2]) -> Vec<(String, String)> {
        let weighted = self.scores.iter().filter(|score| score.weight.is_some());
        let scores: Vec<&Score> = weighted.collect();
        let part = |(place, score): (usize, &&Score)| {
            // A column may be compared by several measures.
            let count = scores[..place].iter().filter(|other| other.name == score.name).count();
            let end = if count == 0 { String::new() } else { format!("_{}", count + 1) };
            (score.told(tables), format!("{}_score{end}", score.name))
        };
        scores.iter().enumerate().map(part).collect()
    }

    /// The last argument of the functions that prefer one score to another.
    pub(super) fn order(&self) -> &'static str {
        if self.is_distance() { ", 'distance'" } else { "" }
    }
}

impl Score {
    /// The scores of the columns that a question compares.
    pub(super) fn of_question(question: &Question, tables: [&VerbTable; 2]) -> Result<Vec<Self>> {
        let numbered = question.on.iter().enumerate();
        numbered.map(|(place, column)| Self::of(question, (place, column), tables)).collect()
    }

    fn of(
        question: &Question,
        (place, column): (usize, &ComparedColumn),
        tables: [&VerbTable; 2],
    ) -> Result<Self> {
        let (is_weighted, is_folded) = (question.is_weighted(), !question.fold.is_empty());
        let [left, right] = tables;
        let (of_left, of_right) = (left.column(&column.left)?, right.column(&column.right)?);
        let kinds = [of_left, of_right].map(|(_, data_type)| ColumnKind::of(data_type));
        let name = column.measure.as_deref();
        let are_texts = kinds.map(|kind| kind == ColumnKind::Text);
        let are_weighted = kinds.map(|kind| kind == ColumnKind::Weighted);
        let way = match () {
            () if are_texts[0] != are_texts[1] => Some("both are texts, or both are lists"),
            () if are_weighted[0] != are_weighted[1] => Some(
                "both are weighted sets, or neither is; tfidf(list) OVER () weighs the tokens of lists",
            ),
            () => None,
        };
        if let Some(way) = way.filter(|_| name != Some(EQUAL.name)) {
            return Err(VerbError::with_hint(
                format!(
                    "the columns {} ({}) and {} ({}) do not compare",
                    column.left, of_left.1, column.right, of_right.1
                ),
                way,
            ));
        }
        let kind = match kinds.contains(&ColumnKind::Vector) {
            true => ColumnKind::Vector,
            false => kinds[0],
        };
        let measure = NamedMeasure::find(name, kind, &column.left, is_weighted)?;
        let cuts = measure.values.are_of_sets() && kind == ColumnKind::Text;
        if let Some(tokenizer) = &column.tokenizer
            && !cuts
        {
            return Err(VerbError::new(format!(
                "{} compares the values of {} as they are: it takes no tokenizer {tokenizer}",
                measure.name, column.left
            )));
        }
        let value = |(name, data_type): (&str, &DataType)| match is_folded && is_text(data_type) {
            true => format!("{{}}.{}", quoted(&folded_name(name))),
            false => format!("{{}}.{}", quoted(name)),
        };
        let values = [value(of_left), value(of_right)];
        let side = |value: &String| match cuts {
            true => tokens_of(column.tokenizer.as_deref(), value),
            false => Ok(value.clone()),
        };
        let mut sides = [side(&values[0])?, side(&values[1])?];
        let mut weighing = None;
        if measure.values.are_weighted() && kind != ColumnKind::Weighted {
            let is_one = left.name() == right.name() && of_left.0 == of_right.0;
            if !cuts {
                check_lists(measure, of_left, of_right)?;
            }
            let names = [0, 1].map(|side| weights_name(place, side, is_one));
            let tokens = std::mem::replace(
                &mut sides,
                [0, 1].map(|side| format!("{{}}.{}", quoted(&names[side]))),
            );
            weighing = Some(Weighing { place, tokens, names, is_one });
        }
        Ok(Self {
            measure,
            kind,
            sides,
            weighing,
            values,
            tokenizer: column.tokenizer.clone(),
            is_folded: is_folded && kind == ColumnKind::Text,
            weight: column.weight,
            name: column.name(),
            columns: [of_left.0, of_right.0].map(str::to_string),
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn kind(&self) -> ColumnKind {
        self.kind
    }

    pub(super) fn measure(&self) -> &'static NamedMeasure {
        self.measure
    }

    /// The name of the measure, with the tokenizer of texts.
    pub(super) fn measure_name(&self) -> String {
        let name = self.measure.name;
        match self.measure.values.are_of_sets() && self.kind == ColumnKind::Text {
            true => format!("{name} of {}", self.tokenizer.as_deref().unwrap_or(USUAL_TOKENIZER)),
            false => name.to_string(),
        }
    }

    pub(super) fn weight(&self) -> Option<f64> {
        self.weight
    }

    /// The values of the columns as they are, as texts.
    pub(super) fn shown(&self, tables: [&str; 2]) -> [String; 2] {
        [0, 1].map(|side| {
            let column = format!("{}.{}", tables[side], quoted(&self.columns[side]));
            match self.kind {
                ColumnKind::Text | ColumnKind::Other => column,
                ColumnKind::Weighted => told_size(&column),
                _ => format!("array_to_string({column}, ' ')"),
            }
        })
    }

    fn of_tables(values: &[String; 2], tables: [&str; 2]) -> [String; 2] {
        [0, 1].map(|side| values[side].replacen("{}", tables[side], 1))
    }

    /// The texts, of columns of texts.
    pub(super) fn texts(&self, tables: [&str; 2]) -> Option<[String; 2]> {
        (self.kind == ColumnKind::Text).then(|| Self::of_tables(&self.values, tables))
    }

    /// The texts without the differences of spellings that do not count.
    pub(super) fn folded(&self, tables: [&str; 2]) -> Option<[String; 2]> {
        self.texts(tables).filter(|_| self.is_folded)
    }

    /// The sets, of texts and of lists that are sets.
    pub(super) fn sets(&self, tables: [&str; 2]) -> Result<Option<[String; 2]>> {
        let [left, right] = Self::of_tables(&self.values, tables);
        Ok(match self.kind {
            ColumnKind::Text => {
                let tokens = |value: &str| tokens_of(self.tokenizer.as_deref(), value);
                Some([tokens(&left)?, tokens(&right)?])
            }
            ColumnKind::Set => Some([left, right]),
            ColumnKind::Integers | ColumnKind::IntegerVector
                if self.measure.values.are_of_sets() =>
            {
                Some([left, right])
            }
            _ => None,
        })
    }

    /// The value of another measure of the same columns, where it has one.
    pub(super) fn value_of(
        &self,
        measure: &NamedMeasure,
        tables: [&str; 2],
    ) -> Result<Option<String>> {
        let sides = match measure.values {
            Values::Sets => self.sets(tables)?,
            Values::Texts => self.texts(tables),
            Values::Vectors if self.measure.values == Values::Vectors => Some(self.sides(tables)),
            Values::Weighted | Values::Rarity if self.measure.values.are_weighted() => {
                Some(self.sides(tables))
            }
            _ => None,
        };
        Ok(sides.map(|[left, right]| {
            let value = format!("{}({left}, {right})", measure.function);
            match measure.name {
                // Texts of several lengths have none.
                "hamming" => {
                    format!("CASE WHEN length({left}) = length({right}) THEN {value} END")
                }
                _ => value,
            }
        }))
    }

    /// The weights of the tokens, where the verb has to find them.
    pub(super) fn weighing(&self) -> Option<&Weighing> {
        self.weighing.as_ref()
    }

    fn sides(&self, tables: [&str; 2]) -> [String; 2] {
        Self::of_tables(&self.sides, tables)
    }

    pub(super) fn value(&self, tables: [&str; 2]) -> String {
        let [left, right] = self.sides(tables);
        match self.measure == &EQUAL {
            true => {
                format!("CASE WHEN {left} = {right} THEN 1.0 WHEN {left} <> {right} THEN 0.0 END")
            }
            false => format!("{}({left}, {right})", self.measure.function),
        }
    }

    /// The value of any two rows: texts of two lengths have no Hamming distance.
    pub(super) fn checked(&self, tables: [&str; 2]) -> String {
        let value = self.value(tables);
        let [left, right] = self.sides(tables);
        match self.measure.name {
            "hamming" => format!("CASE WHEN length({left}) = length({right}) THEN {value} END"),
            _ => value,
        }
    }

    /// The part of the weighted sum; `None` without a weight.
    pub(super) fn share(&self, tables: [&str; 2]) -> Option<String> {
        self.weight.map(|weight| self.weighted(weight, &self.told(tables), tables))
    }

    /// The value, or NULL where it is NaN.
    fn told(&self, tables: [&str; 2]) -> String {
        let value = self.value(tables);
        match self.measure.values {
            Values::Vectors => format!("nullif({value}, CAST('NaN' AS DOUBLE))"),
            _ => value,
        }
    }

    /// The part of a weighted sum, in which a missing value counts as 0.
    fn weighted(&self, weight: f64, value: &str, tables: [&str; 2]) -> String {
        let [left, right] = self.sides(tables);
        match self.measure == &EQUAL {
            true => format!("CASE WHEN {left} = {right} THEN {weight:?} ELSE 0.0 END"),
            false => format!("{weight:?} * coalesce({value}, 0.0)"),
        }
    }
}

/// A number as SQL has it.
fn number(value: f64) -> String {
    match value {
        value if value.is_nan() => "CAST('NaN' AS DOUBLE)".to_string(),
        value if value.is_infinite() => {
            let sign = if value > 0.0 { "" } else { "-" };
            format!("CAST('{sign}Infinity' AS DOUBLE)")
        }
        // Without a hundred digits.
        value if value != 0.0 && !(1e-5..1e15).contains(&value.abs()) => format!("{value:e}"),
        value => value.to_string(),
    }
}
