//! Pairs that a person has marked: rows that are the same, or are not.

use super::{Result, VerbError, VerbTable, quoted};

/// A table of marked pairs, as the page to review exports it.
#[derive(Debug, Clone, Copy)]
pub struct Labels<'a> {
    /// The columns `left`, `right` (which tell rows as other results do) and `label`: yes, no or unsure.
    pub table: &'a VerbTable,
}

impl<'a> Labels<'a> {
    /// Whether a table has a column of labels.
    pub(super) fn are_in(table: &VerbTable) -> bool {
        table.column("label").is_ok()
    }

    /// The query of the marked pairs.
    pub(super) fn told(self) -> Result<String> {
        let [left, right] = self.rows()?.map(quoted);
        Ok(format!("SELECT {left} AS l, {right} AS r, label FROM {}", self.table.quoted()))
    }

    /// The names of the columns that tell the rows: the first two.
    pub(super) fn rows(self) -> Result<[&'a str; 2]> {
        if !Self::are_in(self.table) {
            return Err(VerbError::with_hint(
                format!("{} has no column label", self.table.told_name()),
                "labels have the columns left, right and label, which is yes, no or unsure",
            ));
        }
        let mut names = self.table.names().filter(|name| *name != "label");
        match (names.next(), names.next()) {
            (Some(left), Some(right)) => Ok([left, right]),
            _ => Err(VerbError::new(format!(
                "{} has no two columns that tell the rows of a pair",
                self.table.told_name()
            ))),
        }
    }
}
