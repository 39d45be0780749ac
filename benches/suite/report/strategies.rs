//! Strategies beside each other, and what `auto` makes of them.

use datafusion::common::Result;

use super::{Section, gather, middle, shown, times};
use crate::csv::CsvTable;

/// `auto` is held to this ratio to the best fixed strategy.
const TOLERANCE: f64 = 1.15;

/// The times of one strategy at one point.
struct Entry {
    strategy: String,
    chosen: String,
    seconds: f64,
}

/// The section on strategies.
pub(super) fn report(table: &CsvTable) -> Result<Section> {
    let mut runs = vec![];
    for row in table.rows() {
        if row.number("threads")? == Some(1.0) {
            let key = (
                row.text("data")?.to_string(),
                row.text("measure")?.to_string(),
                row.text("threshold")?.to_string(),
                row.text("simd")?.to_string(),
                row.text("strategy")?.to_string(),
                row.text("chosen")?.to_string(),
            );
            gather(&mut runs, key, row.number("processor_seconds")?.unwrap_or(f64::NAN));
        }
    }
    let mut points = vec![];
    for ((data, measure, threshold, simd, strategy, chosen), seconds) in runs {
        let entry = Entry { strategy, chosen, seconds: middle(&seconds) };
        gather(&mut points, (data, measure, threshold, simd), entry);
    }
    let mut section = Section::new("Strategies, one thread");
    section.line("Processor time of index and join; medians.\n");
    let mut strategies: Vec<&str> = vec![];
    for entry in points.iter().flat_map(|(_, entries)| entries) {
        if !strategies.contains(&entry.strategy.as_str()) && entry.strategy != "auto" {
            strategies.push(&entry.strategy);
        }
    }
    let mut rows = vec![];
    let (mut close, mut compared) = (0, 0);
    let mut wins: Vec<(&str, usize)> = strategies.iter().map(|s| (*s, 0)).collect();
    for ((data, measure, threshold, simd), entries) in &points {
        let of = |name: &str| entries.iter().find(|e| e.strategy == name);
        let fixed = entries.iter().filter(|e| e.strategy != "auto");
        let Some(best) = fixed.min_by(|a, b| a.seconds.total_cmp(&b.seconds)) else { continue };
        if let Some((_, won)) = wins.iter_mut().find(|(name, _)| *name == best.strategy) {
            *won += 1;
        }
        let mut fields = vec![data.clone(), measure.clone(), threshold.clone(), simd.clone()];
        fields.extend(strategies.iter().map(|name| match of(name) {
            Some(entry) if entry.strategy == best.strategy => {
                format!("**{}**", shown(entry.seconds))
            }
            Some(entry) => shown(entry.seconds),
            None => "–".to_string(),
        }));
        if let Some(auto) = of("auto") {
            let ratio = auto.seconds / best.seconds;
            compared += 1;
            close += usize::from(ratio <= TOLERANCE);
            fields.extend([shown(auto.seconds), auto.chosen.clone(), times(ratio)]);
        } else {
            fields.extend(std::iter::repeat_n("–".to_string(), 3));
        }
        rows.push(format!("| {} |", fields.join(" | ")));
    }
    if compared > 0 {
        section.line(&format!(
            "`auto` is within {:.0}% of the best fixed strategy at {close} of {compared} points \
             ({:.0}%).",
            (TOLERANCE - 1.0) * 100.0,
            100.0 * close as f64 / compared as f64
        ));
    }
    let wins = wins.iter().map(|(name, won)| format!("{name} {won}")).collect::<Vec<_>>();
    section.line(&format!("Points at which each is the fastest: {}.\n", wins.join(", ")));
    let columns = [
        &["data", "measure", "threshold", "kernels"],
        strategies.as_slice(),
        &["auto", "chosen", "auto to best"],
    ];
    section.head(&columns.concat());
    rows.iter().for_each(|row| section.line(row));
    Ok(section)
}
