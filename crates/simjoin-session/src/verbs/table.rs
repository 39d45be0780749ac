//! The tables of a verb, by their columns.

use arrow::datatypes::{DataType, Schema};
use datafusion_simjoin::config::nearest;

use super::kinds::is_text;
use super::{Fold, OWN, Question, Result, VerbError, quoted};

/// A table of a verb.
#[derive(Debug, Clone)]
pub struct VerbTable {
    name: String,
    /// The name in messages.
    told: String,
    columns: Vec<(String, DataType)>,
}

impl VerbTable {
    /// A table of that name, by its schema.
    pub fn new(name: impl Into<String>, schema: &Schema) -> Self {
        let column =
            |field: &arrow::datatypes::FieldRef| (field.name().clone(), field.data_type().clone());
        let columns = schema.fields().iter().map(column).filter(|(name, _)| !name.starts_with(OWN));
        let name = name.into();
        Self { told: name.clone(), name, columns: columns.collect() }
    }

    /// The table with another name in messages.
    pub fn told(self, told: impl Into<String>) -> Self {
        Self { told: told.into(), ..self }
    }

    /// The table with further columns, which has another name.
    pub(super) fn named(&self, name: String) -> Self {
        Self { name, ..self.clone() }
    }

    /// The name in messages.
    pub(super) fn told_name(&self) -> &str {
        &self.told
    }

    /// The name of the table.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A column by its name.
    pub(super) fn column(&self, name: &str) -> Result<(&str, &DataType)> {
        if let Some((name, data_type)) = self.columns.iter().find(|(own, _)| own == name) {
            return Ok((name, data_type));
        }
        let names = || self.columns.iter().map(|(name, _)| name.as_str());
        let meant = nearest(name, names()).map(|meant| format!("did you mean {meant}? "));
        Err(VerbError::with_hint(
            format!("{} has no column {name}", self.told),
            format!(
                "{}its columns are {}",
                meant.unwrap_or_default(),
                names().collect::<Vec<_>>().join(", ")
            ),
        ))
    }

    /// The columns of folded texts that a question needs behind those of the table, as expressions of SQL with their
    /// names; the table is that of a side.
    ///
    /// # Errors
    ///
    /// When a column is unknown.
    pub fn folded(&self, question: &Question, side: usize) -> Result<Vec<String>> {
        let mut columns = vec![];
        for compared in question.on.iter().filter(|_| !question.fold.is_empty()) {
            let (name, data_type) = self.column(compared.of_side(side))?;
            let text = match data_type.is_string() {
                true => quoted(name),
                // Of a dictionary.
                false => format!("CAST({} AS VARCHAR)", quoted(name)),
            };
            let folded = Fold::apply(&question.fold, &text);
            let folded = format!("{folded} AS {}", quoted(&folded_name(name)));
            if is_text(data_type) && !columns.contains(&folded) {
                columns.push(folded);
            }
        }
        Ok(columns)
    }

    pub(super) fn quoted(&self) -> String {
        quoted(&self.name)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|(name, _)| name.as_str())
    }
}

/// The name of the column of the folded texts of a column.
pub(super) fn folded_name(name: &str) -> String {
    format!("{OWN}folded_{name}")
}
