//! Pairs that a person has marked: rows that are the same, or are not.

use datafusion::prelude::SessionContext;

use super::values::text_of;
use super::{Result, VerbError, VerbTable, quoted, text};

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

    /// Checks that labels are yes, no or unsure, and that the rows are told by `told_by`: the column of the id, or "row" for
    /// numbers and "place" for places.
    ///
    /// # Errors
    ///
    /// When they are not; a statement that fails.
    pub async fn check(
        self,
        ctx: &SessionContext,
        told_by: &str,
    ) -> datafusion::common::Result<Result<()>> {
        if let Err(error) = self.rows() {
            return Ok(Err(error));
        }
        let name = self.table.told_name();
        let label = quoted(Self::column_of(self.table).unwrap_or("label"));
        let plain = format!("lower(trim(CAST({label} AS VARCHAR)))");
        let from = self.table.quoted();
        let other =
            format!("SELECT min({plain}) FROM {from} WHERE {plain} NOT IN ('yes', 'no', 'unsure')");
        if let Some(other) = text_of(ctx, &other).await? {
            return Ok(Err(VerbError::with_hint(
                format!("{name} has the label {other}"),
                "labels are yes, no and unsure",
            )));
        }
        if self.table.column("told_by").is_err() {
            return Ok(Ok(()));
        }
        let own = format!(
            "SELECT min(CAST(told_by AS VARCHAR)) FROM {from} WHERE CAST(told_by AS VARCHAR) <> {}",
            text(told_by)
        );
        let Some(own) = text_of(ctx, &own).await? else { return Ok(Ok(())) };
        let words = |told: &str| match told {
            "row" => "the numbers of rows, from 1 on".to_string(),
            "place" => "the places of rows, from 0 on".to_string(),
            column => format!("the column {column}"),
        };
        Ok(Err(VerbError::with_hint(
            format!("{name} tells rows by {}, and here {} tells them", words(&own), words(told_by)),
            match own.as_str() {
                "row" => "leave out --id".to_string(),
                "place" => {
                    "they are of a page made in Python, whose deduplicate and clusters take labels"
                        .to_string()
                }
                column => format!("--id {column} tells rows by it"),
            },
        )))
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
