//! Verification on a GPU.

use datafusion::common::Result;

use super::{Section, shown};
use crate::csv::{CsvRow, CsvTable};

/// Pairs a second, in the unit that fits.
fn rate(pairs: f64) -> String {
    match pairs {
        p if p >= 1e9 => format!("{:.1} G", p / 1e9),
        p => format!("{:.0} M", p / 1e6),
    }
}

struct Kernel<'a> {
    layout: &'a str,
    block: &'a str,
    seconds: f64,
    kernel: f64,
}

/// The section on kernels: for each stream of candidates the CPU, what `auto` takes, the best fixed
/// kernel of each layout.
pub(super) fn report_verify(table: &CsvTable) -> Result<Section> {
    let mut section = Section::new("Kernels over a fixed stream of candidates");
    section.line(
        "AllPairs' candidates, the bitmap filter off. Pairs a second of all threads of the CPU, in \
         kernels alone, and with packing and transfers; the best size of blocks of each layout in \
         brackets. Touched: tokens that a merge reads until the decision, over the time in kernels.\n",
    );
    section.head(&[
        "data",
        "threshold",
        "need",
        "candidates",
        "CPU",
        "auto",
        "times the CPU",
        "with transfers",
        "times the CPU",
        "auto over the best",
        "touched GB/s",
        "a",
        "b",
        "c",
        "d4",
        "d8",
        "d16",
        "d32",
    ]);
    let rows: Vec<CsvRow<'_>> = table.rows().collect();
    let key = |row: &CsvRow<'_>| -> Result<[String; 3]> {
        let text = |column| row.text(column).map(str::to_string);
        Ok([text("data")?, text("threshold")?, text("need")?])
    };
    let mut at = 0;
    while at < rows.len() {
        let stream = key(&rows[at])?;
        let mut end = at;
        let mut kernels = vec![];
        while end < rows.len() && key(&rows[end])? == stream {
            let number =
                |column: &str| -> Result<f64> { Ok(rows[end].number(column)?.unwrap_or(f64::NAN)) };
            kernels.push(Kernel {
                layout: rows[end].text("layout")?,
                block: rows[end].text("block")?,
                seconds: number("seconds")?,
                kernel: number("kernel_seconds")?,
            });
            end += 1;
        }
        let candidates = rows[at].number("candidates")?.unwrap_or(f64::NAN);
        let bytes = rows[at].number("touched_bytes")?.unwrap_or(f64::NAN);
        at = end;
        let best_of = |layout: &str| {
            let of = kernels.iter().filter(|k| k.layout == layout);
            of.min_by(|a, b| a.kernel.total_cmp(&b.kernel))
        };
        let (Some(cpu), Some(auto)) = (best_of("cpu"), best_of("auto")) else { continue };
        let fixed = kernels.iter().filter(|k| k.layout != "cpu" && k.layout != "auto");
        let best = fixed.map(|k| k.kernel).fold(f64::INFINITY, f64::min);
        let mut cells = vec![
            stream.join(" | "),
            format!("{:.1} M", candidates / 1e6),
            rate(candidates / cpu.seconds),
            rate(candidates / auto.kernel),
            format!("{:.1}", cpu.seconds / auto.kernel),
            rate(candidates / auto.seconds),
            format!("{:.1}", cpu.seconds / auto.seconds),
            format!("{:.2}", auto.kernel / best),
            format!("{:.0}", bytes / auto.kernel / 1e9),
        ];
        for layout in ["a", "b", "c", "d4", "d8", "d16", "d32"] {
            cells.push(match best_of(layout) {
                Some(k) => format!("{} ({})", rate(candidates / k.kernel), k.block),
                None => "–".to_string(),
            });
        }
        section.line(&format!("| {} |", cells.join(" | ")));
    }
    Ok(section)
}

/// The section on the pipeline.
pub(super) fn report_pipeline(table: &CsvTable) -> Result<Section> {
    let mut section = Section::new("Filter, copies and kernels together");
    section.line(
        "AllPairs joins. Filter: alone, on all threads; pack: packing and taking matches, of a \
         thread; copy, kernel: the device's; over the longest: the join over the longest stage \
         alone; CPU: the same join with verification on the CPU.\n",
    );
    section.head(&[
        "data",
        "threshold",
        "threads",
        "M_c",
        "candidates",
        "matches",
        "filter",
        "pack",
        "copy",
        "kernel",
        "join",
        "over the longest",
        "CPU",
    ]);
    for row in table.rows() {
        let time =
            |column: &str| -> Result<String> { Ok(shown(row.number(column)?.unwrap_or(f64::NAN))) };
        let memory = row.number("candidate_memory")?.unwrap_or(f64::NAN);
        section.line(&format!(
            "| {} | {} | {} | {} KiB | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            row.text("data")?,
            row.text("threshold")?,
            row.text("threads")?,
            memory / 1024.0,
            row.text("candidates")?,
            row.text("matches")?,
            time("filter")?,
            time("pack_threads")?,
            time("copy")?,
            time("kernel")?,
            time("join")?,
            row.text("over_longest")?,
            time("cpu_join")?,
        ));
    }
    Ok(section)
}
