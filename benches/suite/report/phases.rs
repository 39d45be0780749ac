//! Phases, and queries end to end.

use datafusion::common::Result;

use super::{Section, gather, middle, shown};
use crate::csv::CsvTable;

/// The section on phases.
pub(super) fn report(table: &CsvTable) -> Result<Section> {
    let mut section = Section::new("Phases");
    section.line("Units per second of busy cores: time of one core, or of all cores summed.\n");
    section.head(&[
        "phase",
        "data",
        "variant",
        "threshold",
        "cores",
        "amount",
        "time",
        "per second",
    ]);
    for row in table.rows() {
        section.line(&format!(
            "| {} | {} | {} | {} | {} | {} {} | {} | {} M |",
            row.text("phase")?,
            row.text("data")?,
            row.text("variant")?,
            row.text("threshold")?,
            row.text("cores")?,
            row.text("amount")?,
            row.text("unit")?,
            shown(row.number("seconds")?.unwrap_or(f64::NAN)),
            row.text("million_per_second")?,
        ));
    }
    Ok(section)
}

/// The section on queries.
pub(super) fn report_sql(table: &CsvTable) -> Result<Section> {
    let mut groups = vec![];
    for row in table.rows() {
        let key = [
            row.text("data")?.to_string(),
            row.text("threshold")?.to_string(),
            row.text("query")?.to_string(),
            row.text("strategy")?.to_string(),
            row.text("partitions")?.to_string(),
        ];
        let seconds = row.number("seconds")?.unwrap_or(f64::NAN);
        gather(&mut groups, key, (seconds, row.text("answer")?.to_string()));
    }
    let mut section = Section::new("Queries end to end");
    section.line("Reading, tokenising, encoding, join and output; medians.\n");
    section.head(&["data", "threshold", "query", "strategy", "partitions", "answer", "time"]);
    for (key, runs) in &groups {
        let seconds: Vec<f64> = runs.iter().map(|run| run.0).collect();
        section.line(&format!(
            "| {} | {} | {} |",
            key.join(" | "),
            runs[0].1,
            shown(middle(&seconds))
        ));
    }
    Ok(section)
}
