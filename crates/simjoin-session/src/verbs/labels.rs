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
        Self::column_of(table).is_some()
    }

    /// The column of the labels, in any case of letters.
    pub(super) fn column_of(table: &VerbTable) -> Option<&str> {
        table.names().find(|name| name.eq_ignore_ascii_case("label"))
    }

    /// The query of the marked pairs.
    pub(super) fn told(self) -> Result<String> {
        let [left, right] = self.rows()?.map(quoted);
        let label = quoted(Self::column_of(self.table).unwrap_or("label"));
        Ok(format!(
            "SELECT {left} AS l, {right} AS r, lower(trim(CAST({label} AS VARCHAR))) AS label FROM {}",
            self.table.quoted()
        ))
    }

    /// The names of the columns that tell the rows: the first two.
    pub(super) fn rows(self) -> Result<[&'a str; 2]> {
        if !Self::are_in(self.table) {
            return Err(VerbError::with_hint(
                format!("{} has no column label", self.table.told_name()),
                "labels have the columns left, right and label, which is yes, no or unsure",
            ));
        }
        let mut names = self.table.names().filter(|name| !name.eq_ignore_ascii_case("label"));
        match (names.next(), names.next()) {
            (Some(left), Some(right)) => Ok([left, right]),
            _ => Err(VerbError::new(format!(
                "{} has no two columns that tell the rows of a pair",
                self.table.told_name()
            ))),
        }
    }
}
