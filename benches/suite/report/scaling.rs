//! The gain of more threads, beside a bare popcount loop in the same run.

use datafusion::common::Result;

use super::{Section, gather, middle, shown, times};
use crate::csv::CsvTable;
use crate::plot::{Axis, Plot, Series};

/// Points below this take too little to be cut.
const LEAST_SECONDS: f64 = 0.2;

/// The section on threads.
pub(super) fn report(table: &CsvTable) -> Result<Section> {
    let mut points = vec![];
    for row in table.rows() {
        if row.text("strategy")? == "auto" {
            let key = (
                row.text("data")?.to_string(),
                row.text("measure")?.to_string(),
                row.text("threshold")?.to_string(),
                row.text("simd")?.to_string(),
            );
            let value = (
                row.number("threads")?.unwrap_or(1.0),
                row.number("join_seconds")?.unwrap_or(f64::NAN),
                row.number("popcount_gain")?.unwrap_or(f64::NAN),
            );
            gather(&mut points, key, value);
        }
    }
    let mut section = Section::new("Threads");
    section.line(&format!(
        "Joins by `auto` that take over {} on one thread; index and join. The popcount loop \
         shares nothing: its gain is what the machine gives.\n",
        shown(LEAST_SECONDS)
    ));
    section.head(&[
        "data",
        "measure",
        "threshold",
        "threads",
        "1 thread",
        "time",
        "gain",
        "popcount",
        "share",
    ]);
    let mut series: Vec<Series> = vec![];
    let (mut reached, mut all) = (0, 0);
    for ((data, measure, threshold, simd), runs) in &points {
        let mut by_threads = vec![];
        for (threads, seconds, gain) in runs {
            gather(&mut by_threads, *threads, (*seconds, *gain));
        }
        let time = |runs: &[(f64, f64)]| middle(&runs.iter().map(|r| r.0).collect::<Vec<_>>());
        let Some((_, single)) = by_threads.iter().find(|(t, _)| *t == 1.0) else { continue };
        let single = time(single);
        if single < LEAST_SECONDS {
            continue;
        }
        let mut line = vec![(1.0, 1.0)];
        for (threads, runs) in by_threads.iter().filter(|(threads, _)| *threads > 1.0) {
            let (seconds, bare) = (time(runs), runs[0].1);
            let gain = single / seconds;
            all += 1;
            reached += usize::from(gain / bare >= 0.9);
            line.push((*threads, gain));
            section.line(&format!(
                "| {data} | {measure} | {threshold} | {simd} | {threads} | {} | {} | {} | {} | {:.0}% |",
                shown(single),
                shown(seconds),
                times(gain),
                times(bare),
                100.0 * gain / bare
            ));
            note(&mut series, "popcount loop", *threads, bare);
        }
        // One line a data set keeps the plot legible.
        if measure == "jaccard" && !series.iter().any(|s| s.name.starts_with(data.as_str())) {
            series.push(Series { name: format!("{data} {threshold}"), points: line, main: false });
        }
    }
    if all > 0 {
        section
            .line(&format!("\n{reached} of {all} points reach 90% of the popcount loop's gain."));
    }
    for line in &mut series {
        line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    section.plot(
        "cores",
        &Plot {
            title: "Speed-up with threads",
            x: Axis::linear("threads"),
            y: Axis::from_zero("times as fast as one thread"),
            series,
        },
    );
    Ok(section)
}

/// Keeps the greatest gain of the bare loop for each number of threads.
fn note(series: &mut Vec<Series>, name: &str, threads: f64, gain: f64) {
    if !series.iter().any(|s| s.name == name) {
        let points = vec![(1.0, 1.0)];
        series.insert(0, Series { name: name.to_string(), points, main: true });
    }
    let Some(line) = series.iter_mut().find(|s| s.name == name) else { return };
    match line.points.iter_mut().find(|p| p.0 == threads) {
        Some(point) => point.1 = point.1.max(gain),
        None => line.points.push((threads, gain)),
    }
}
