//! Verification on a GPU.

use datafusion::common::Result;

use super::{Section, gather, middle, shown};
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
        "The filter's candidates, the bitmap filter off. Pairs a second of all threads of the CPU, in \
         kernels alone, and with packing and transfers; the best size of blocks of each layout in \
         brackets. Touched: tokens that a merge reads until the decision, over the time in kernels.\n",
    );
    section.head(&[
        "data",
        "filter",
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
    let key = |row: &CsvRow<'_>| -> Result<[String; 4]> {
        let text = |column| row.text(column).map(str::to_string);
        Ok([text("data")?, text("filter")?, text("threshold")?, text("need")?])
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

/// The section on whole joins by device.
pub(super) fn report_joins(table: &CsvTable) -> Result<Section> {
    let mut points: Vec<([String; 4], Vec<Join>)> = vec![];
    for row in table.rows() {
        let key = [
            row.text("data")?.to_string(),
            row.text("strategy")?.to_string(),
            row.text("threshold")?.to_string(),
            row.text("threads")?.to_string(),
        ];
        let join = Join {
            device: row.text("device")?.to_string(),
            seconds: row.number("join_seconds")?.unwrap_or(f64::NAN),
            on_device: row.number("device_candidates")?.is_some_and(|n| n > 0.0),
        };
        gather(&mut points, key, join);
    }
    let mut section = Section::new("Joins by device");
    section.line(
        "Medians, index and join. Auto: on the CPU, or with verification on the GPU (marked GPU).\n",
    );
    section.head(&[
        "data",
        "strategy",
        "threshold",
        "threads",
        "cpu",
        "auto",
        "auto to cpu",
        "cuda",
        "cuda to cpu",
    ]);
    for (key, joins) in &points {
        let of = |device: &str| {
            let seconds = joins.iter().filter(|j| j.device == device).map(|j| j.seconds);
            middle(&seconds.collect::<Vec<_>>())
        };
        let (cpu, auto, cuda) = (of("cpu"), of("auto"), of("cuda"));
        let gpu = joins.iter().any(|j| j.device == "auto" && j.on_device);
        section.line(&format!(
            "| {} | {} | {}{} | {:.2} | {} | {:.2} |",
            key.join(" | "),
            shown(cpu),
            shown(auto),
            if gpu { " (GPU)" } else { "" },
            auto / cpu,
            shown(cuda),
            cuda / cpu,
        ));
    }
    Ok(section)
}

struct Join {
    device: String,
    seconds: f64,
    on_device: bool,
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
