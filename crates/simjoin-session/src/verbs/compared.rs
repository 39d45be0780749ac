//! The words that say what is similar: columns, measures, weights, thresholds.

use super::{Fold, Result, VerbError};

/// A column of each table, compared with the other one.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparedColumn {
    /// The column of the first table.
    pub left: String,
    /// The column of the second table.
    pub right: String,
    /// The measure of this column.
    pub measure: Option<String>,
    /// The tokenizer of this column.
    pub tokenizer: Option<String>,
    /// The weight in the sum; `None` for the only column.
    pub weight: Option<f64>,
}

/// The rows that are similar.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Question {
    /// The compared columns.
    pub on: Vec<ComparedColumn>,
    /// The least similarity, or the least sum.
    pub at_least: Option<f64>,
    /// The greatest distance.
    pub at_most: Option<f64>,
    /// Columns that similar rows have in common, of each table.
    pub keys: Vec<[String; 2]>,
    /// Differences of spellings that do not count where texts are compared.
    pub fold: Vec<Fold>,
    /// Whether a threshold is taken that no rows, or all, are within.
    pub any_bound: bool,
}

const FORMS: &str = "write COLUMN, COLUMN,WEIGHT, COLUMN,MEASURE,WEIGHT or COLUMN,MEASURE,WEIGHT,TOKENIZER; \
                     COLUMN=OTHER where the second table has another name for it, and \"a name\" for names with \
                     commas";

impl ComparedColumn {
    /// The column that a text names: `name`, `name=label`, `name,0.5`, `name,jaro_winkler,0.5` or
    /// `name,dice,0.5,words`.
    ///
    /// # Errors
    ///
    /// When the text is none of these.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |what: &str| VerbError::with_hint(format!("--on {text}: {what}"), FORMS);
        let parts = split(text, ',').ok_or_else(|| wrong("a double quote is not closed"))?;
        let (measure, weight, tokenizer) = match parts.as_slice() {
            [_] => (None, None, None),
            [_, weight] => (None, Some(weight), None),
            [_, measure, weight] => (Some(measure.clone()), Some(weight), None),
            [_, measure, weight, tokenizer] => {
                (Some(measure.clone()), Some(weight), Some(tokenizer.clone()))
            }
            _ => return Err(wrong("there are more than four parts")),
        };
        let [left, right] = pair(&parts[0]).ok_or_else(|| wrong("a column has no name"))?;
        let weight = weight.map(|weight| match weight.parse::<f64>() {
            Ok(number) if number > 0.0 && number.is_finite() => Ok(number),
            Ok(number) => Err(wrong(&format!("the weight {number} is not above 0"))),
            Err(_) => Err(wrong(&format!("the weight {weight:?} is no number"))),
        });
        Ok(Self { left, right, measure, tokenizer, weight: weight.transpose()? })
    }

    /// The column of a table.
    pub(super) fn of_side(&self, side: usize) -> &str {
        if side == 0 { &self.left } else { &self.right }
    }

    /// The name of the column, or those of both.
    pub(super) fn name(&self) -> String {
        match self.left == self.right {
            true => self.left.clone(),
            false => format!("{}_{}", self.left, self.right),
        }
    }
}

impl Question {
    /// A question of the columns that texts name. `measure` and `tokenizer` are those of the only column.
    ///
    /// # Errors
    ///
    /// When a text names no column, or the texts do not go together.
    pub fn parse(
        on: &[String],
        measure: Option<&str>,
        tokenizer: Option<&str>,
        keys: &[String],
    ) -> Result<Self> {
        let mut on =
            on.iter().map(|text| ComparedColumn::parse(text)).collect::<Result<Vec<_>>>()?;
        if let [only] = on.as_mut_slice()
            && only.weight.is_none()
        {
            only.measure = measure.map(str::to_string);
            only.tokenizer = tokenizer.map(str::to_string);
        } else {
            if let Some(lacks) = on.iter().find(|column| column.weight.is_none()) {
                let share = format!("{:.2}", 1.0 / on.len() as f64);
                return Err(VerbError::with_hint(
                    format!("{} columns are compared, and {} has no weight", on.len(), lacks.left),
                    format!(
                        "--on {},{share} says how much of the score it is; --key names columns that are equal \
                         in both rows",
                        lacks.left
                    ),
                ));
            }
            let given = [("--measure", measure), ("--tokenizer", tokenizer)];
            if let Some((flag, Some(value))) = given.into_iter().find(|(_, value)| value.is_some())
            {
                return Err(VerbError::with_hint(
                    format!("{flag} {value} is for one column without a weight"),
                    FORMS,
                ));
            }
        }
        let key = |text: &String| {
            pair(text).ok_or_else(|| VerbError::new(format!("--key {text}: a column has no name")))
        };
        let keys = keys.iter().map(key).collect::<Result<Vec<_>>>()?;
        Ok(Self { on, keys, ..Self::default() })
    }

    /// Tells whether the user has given a threshold.
    pub(super) fn has_bound(&self) -> bool {
        self.at_least.is_some() || self.at_most.is_some()
    }

    /// Whether the score of two rows is a weighted sum of those of columns.
    pub(super) fn is_weighted(&self) -> bool {
        self.on.iter().any(|column| column.weight.is_some())
    }
}

/// The parts of a text between separators that stand outside of double quotes; `None` where one is not closed.
fn split(text: &str, separator: char) -> Option<Vec<String>> {
    let (mut parts, mut part, mut is_quoted) = (vec![], String::new(), false);
    for character in text.chars() {
        match character {
            '"' => {
                is_quoted = !is_quoted;
                part.push(character);
            }
            other if other == separator && !is_quoted => parts.push(std::mem::take(&mut part)),
            other => part.push(other),
        }
    }
    parts.push(part);
    (!is_quoted).then_some(parts)
}

/// The names of a column in both tables.
fn pair(text: &str) -> Option<[String; 2]> {
    let name = |text: &String| Some(unquoted(text)).filter(|name| !name.is_empty());
    match split(text, '=')?.as_slice() {
        [both] => name(both).map(|both| [both.clone(), both]),
        [left, right] => Some([name(left)?, name(right)?]),
        _ => None,
    }
}

/// A name without the double quotes around it, inside of which two stand for one.
pub(super) fn unquoted(text: &str) -> String {
    let text = text.trim();
    match text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        Some(inner) => inner.replace("\"\"", "\""),
        None => text.to_string(),
    }
}

/// The names of columns between commas that stand outside of double quotes.
///
/// # Errors
///
/// When a double quote is not closed.
pub fn names(text: &str) -> Result<Vec<String>> {
    match split(text, ',') {
        Some(names) => Ok(names.iter().map(|name| unquoted(name)).collect()),
        None => Err(VerbError::new(format!("{text}: a double quote is not closed"))),
    }
}
