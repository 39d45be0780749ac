//! From the CSV files of a run to `summary.md` and plots.
//!
//! Medians of the runs of a point, ratios of medians, geometric means of ratios. Whatever file is
//! there is reported; the others are left out.

mod cards;
mod gpu;
mod growth;
mod phases;
mod rivals;
mod scaling;
mod shuffle;
mod strategies;

use std::path::PathBuf;

use datafusion::common::{Result, exec_err};

use crate::csv::{CsvRow, CsvTable, median};
use crate::plot::Plot;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Folder of the figures; the summary and the plots are written beside them
    #[arg(value_name = "DIR", default_value = "target/bench-runs")]
    folder: PathBuf,
}

/// A part of the summary and the plots that go with it, by file name.
struct Section {
    text: String,
    plots: Vec<(String, String)>,
}

impl Section {
    fn new(title: &str) -> Self {
        Self { text: format!("## {title}\n\n"), plots: vec![] }
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// The head of a table.
    fn head(&mut self, columns: &[&str]) {
        self.line(&format!("| {} |", columns.join(" | ")));
        self.line(&format!("|{}", "---|".repeat(columns.len())));
    }

    fn plot(&mut self, file: &str, plot: &Plot<'_>) {
        if let Some(svg) = plot.to_svg() {
            self.plots.push((format!("{file}.svg"), svg));
            self.line(&format!("\n![{}]({file}.svg)\n", plot.title));
        }
    }
}

/// Writes the summary of a run.
///
/// # Errors
///
/// When the folder holds none of the files, or one has other columns.
pub fn run(arguments: &Arguments) -> Result<()> {
    let folder = &arguments.folder;
    let read = |file: &str| CsvTable::read(&folder.join(file));
    let mut sections = vec![];
    if let Some(table) = read("versus.csv")? {
        sections.push(rivals::report(&table)?);
    }
    if let Some(table) = read("joins.csv")? {
        let one_threaded = |row: CsvRow<'_>| row.text("threads").is_ok_and(|n| n == "1");
        if table.rows().any(one_threaded) {
            sections.push(strategies::report(&table)?);
            sections.push(scaling::report(&table)?);
        }
        // Runs made before there were devices have no such column. Runs on cards alone are told below.
        let on = |wanted: &'static str| {
            move |row: CsvRow<'_>| row.text("device").is_ok_and(|device| device == wanted)
        };
        if table.rows().any(on("cpu")) && !table.rows().all(on("cpu")) {
            sections.push(gpu::report_joins(&table)?);
        }
    }
    let joins = [read("joins.csv")?, read("vectors.csv")?];
    let joins: Vec<_> = joins.iter().flatten().filter(|table| cards::has_several(table)).collect();
    if !joins.is_empty() {
        sections.push(cards::report(&joins)?);
    }
    if let Some(table) = read("growth.csv")? {
        sections.push(growth::report(&table)?);
    }
    if let Some(table) = read("phases.csv")? {
        sections.push(phases::report(&table)?);
    }
    if let Some(table) = read("sql.csv")? {
        sections.push(phases::report_sql(&table)?);
    }
    if let Some(table) = read("verify.csv")? {
        sections.push(gpu::report_verify(&table)?);
    }
    if let Some(table) = read("pipeline.csv")? {
        sections.push(gpu::report_pipeline(&table)?);
    }
    if let Some(table) = read("shuffle.csv")? {
        sections.push(shuffle::report(&table)?);
    }
    if let Some(table) = read("bands.csv")? {
        sections.push(shuffle::report_bands(&table)?);
    }
    if sections.is_empty() {
        return exec_err!(
            "{} holds no versus.csv, joins.csv, growth.csv, phases.csv, sql.csv, verify.csv, \
             pipeline.csv, shuffle.csv or bands.csv",
            folder.display()
        );
    }
    let mut summary =
        String::from("# Summary\n\nMade by `suite report` from the CSV files here.\n\n");
    if let Ok(machine) = std::fs::read_to_string(folder.join("machine.txt")) {
        summary.push_str(&format!("```text\n{machine}```\n\n"));
    }
    for section in &sections {
        summary.push_str(&section.text);
        summary.push('\n');
        for (file, svg) in &section.plots {
            std::fs::write(folder.join(file), svg)?;
        }
    }
    std::fs::write(folder.join("summary.md"), summary)?;
    println!("{}", folder.join("summary.md").display());
    Ok(())
}

/// Adds a value to the group of its key, groups in the order in which they first appear.
fn gather<K: PartialEq, V>(groups: &mut Vec<(K, Vec<V>)>, key: K, value: V) {
    match groups.iter_mut().find(|(k, _)| *k == key) {
        Some((_, values)) => values.push(value),
        None => groups.push((key, vec![value])),
    }
}

fn middle(values: &[f64]) -> f64 {
    median(values).unwrap_or(f64::NAN)
}

/// The geometric mean; NaN of nothing.
fn geometric_mean(values: &[f64]) -> f64 {
    (values.iter().map(|v| v.ln()).sum::<f64>() / values.len() as f64).exp()
}

/// Seconds in three digits.
fn shown(seconds: f64) -> String {
    match seconds {
        s if !s.is_finite() => "–".to_string(),
        s if s >= 100.0 => format!("{s:.0} s"),
        s if s >= 10.0 => format!("{s:.1} s"),
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 0.1 => format!("{:.0} ms", s * 1e3),
        s if s >= 0.01 => format!("{:.1} ms", s * 1e3),
        s => format!("{:.2} ms", s * 1e3),
    }
}

/// A ratio in three digits.
fn times(ratio: f64) -> String {
    match ratio {
        r if !r.is_finite() => "–".to_string(),
        r if r >= 10.0 => format!("{r:.0}×"),
        r if r >= 3.0 => format!("{r:.1}×"),
        r => format!("{r:.2}×"),
    }
}
