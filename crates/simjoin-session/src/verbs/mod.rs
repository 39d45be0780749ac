//! Verbs: near-duplicates, groups, links and neighbours of the rows of tables, as statements of SQL.
//!
//! ```text
//! words of the user ─► compared: columns, measures, weights ─┐
//! tables (their columns and types) ──────────────────────────┴─► condition ─► statements: SQL
//! ```
//!
//! A table has the columns of its source and, behind them, the [number](ROW) of each row. The statements name the
//! tables and columns as they are.

mod compared;
mod condition;
mod evaluate;
mod fold;
mod measures;
mod numbered;
mod statements;
mod table;
#[cfg(test)]
mod tests;
mod thresholds;

pub use compared::{ComparedColumn, Question, names};
pub use evaluate::{Evaluation, JUDGED};
pub use fold::Fold;
pub use numbered::number_rows;
pub use statements::{Direction, FOUND, How, Keep, Verb};
pub use table::VerbTable;
pub use thresholds::{AtThreshold, STEPS, suggestion};

/// The column of the number of a row, from 1 on.
pub const ROW: &str = "__simjoin_row";

/// The beginning of the names of columns that a verb adds to its tables.
const OWN: &str = "__simjoin_";

/// A mistake in the words of a verb, and what would work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerbError {
    /// The mistake.
    pub text: String,
    /// Advice.
    pub hint: Option<String>,
}

impl VerbError {
    fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), hint: None }
    }

    fn with_hint(text: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { text: text.into(), hint: Some(hint.into()) }
    }
}

/// The result of reading the words of a verb.
pub type Result<T> = std::result::Result<T, VerbError>;

/// A name as SQL has it.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
