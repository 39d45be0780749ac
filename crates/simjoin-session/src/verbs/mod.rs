//! Verbs: near-duplicates, groups, links and neighbours of the rows of tables, as statements of SQL.
//!
//! ```text
//! words of the user ─► compared: columns, measures, weights ─┐
//! tables (their columns and types) ──────────────────────────┴─► condition ─► statements: SQL
//!                                                                    └─► weights: tables with weighted sets
//! ```
//!
//! A table has the columns of its source and, behind them, the [number](ROW) of each row. The statements name the
//! tables and columns as they are.

mod answers;
mod compare;
mod compared;
mod condition;
mod evaluate;
mod fold;
mod joined;
mod kinds;
mod labels;
mod marked;
mod measures;
mod numbered;
mod report;
mod statements;
mod table;
#[cfg(test)]
mod tests;
mod thresholds;
mod values;
mod weighing;
mod weights;

pub use answers::{best_f1, have_common_rows, suggestion_of, thresholds_of_links};
pub use compare::COMPARED;
pub use compared::{ComparedColumn, Question, names};
pub use evaluate::{Evaluation, JUDGED};
use evaluate::{KNOWN, LINKS, TRUTH};
pub use fold::Fold;
pub use kinds::family;
pub use labels::Labels;
pub use marked::MARKED;
pub use measures::{MeasureWords, measures};
pub use numbered::number_rows;
pub use report::ReportStatements;
use report::{REPORTED, SHOWN};
use statements::RANKED;
pub use statements::{Direction, FOUND, How, Keep, Verb};
pub use table::VerbTable;
use thresholds::PAIRS;
pub use thresholds::{AtThreshold, STEPS, suggestion};
pub use values::count_of;
pub use weights::WeighedTables;

use datafusion::prelude::SessionContext;

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

/// Drops the tables that the statements of verbs have made.
///
/// # Errors
///
/// When the session has no such schema.
pub fn drop_made(ctx: &SessionContext) -> datafusion::common::Result<()> {
    const MADE: [&str; 13] = [
        FOUND,
        RANKED,
        PAIRS,
        STEPS,
        COMPARED[0],
        COMPARED[1],
        MARKED,
        KNOWN,
        LINKS,
        TRUTH,
        JUDGED,
        REPORTED,
        SHOWN,
    ];
    MADE.into_iter().try_for_each(|name| ctx.deregister_table(name).map(drop))
}

/// A name as SQL has it.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text as SQL has it.
pub fn text(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}
