//! The engine beside competitors.

use datafusion::common::Result;

use super::{Section, gather, geometric_mean, middle, shown, times};
use crate::csv::CsvTable;
use crate::data::STATED;
use crate::plot::{Axis, Plot, Series};

/// The thresholds over which means are stated.
const GOAL: &[f64] = &[0.5, 0.6, 0.7, 0.75, 0.85, 0.95];

/// A system's runs of one point.
struct Entry {
    system: String,
    chosen: String,
    seconds: f64,
    /// `None` where it was stopped.
    pairs: Option<u64>,
}

struct PointOf {
    data: String,
    threshold: f64,
    entries: Vec<Entry>,
}

impl PointOf {
    fn own(&self) -> Option<&Entry> {
        let named = |name: &str| self.entries.iter().find(|e| e.system == name);
        named("simjoin-auto").or_else(|| self.entries.iter().find(|e| is_own(&e.system)))
    }

    /// The fastest of Mann's algorithms; where all were stopped, the time limit, which is then a
    /// lower bound.
    fn best_mann(&self) -> Option<&Entry> {
        let mann = || self.entries.iter().filter(|e| e.system.starts_with("mann-"));
        let faster = |a: &&Entry, b: &&Entry| a.seconds.total_cmp(&b.seconds);
        mann().filter(|e| e.pairs.is_some()).min_by(faster).or_else(|| mann().min_by(faster))
    }

    /// How many times faster the engine is; at least, where the competitor was stopped.
    fn ratio(&self) -> Option<f64> {
        Some(self.best_mann()?.seconds / self.own()?.seconds)
    }
}

fn is_own(system: &str) -> bool {
    system.starts_with("simjoin-")
}

fn points(table: &CsvTable) -> Result<Vec<PointOf>> {
    let mut runs = vec![];
    for row in table.rows() {
        let threshold = row.number("threshold")?.unwrap_or(f64::NAN);
        let key = (row.text("data")?.to_string(), threshold, row.text("system")?.to_string());
        let seconds = row.number("seconds")?.unwrap_or(f64::NAN);
        let pairs = row.text("pairs")?.parse::<u64>().ok();
        gather(&mut runs, key, (seconds, pairs, row.text("chosen")?.to_string()));
    }
    let mut by_point = vec![];
    for ((data, threshold, system), runs) in runs {
        let seconds: Vec<f64> = runs.iter().map(|r| r.0).collect();
        let (_, pairs, chosen) = runs[0].clone();
        let entry = Entry { system, chosen, seconds: middle(&seconds), pairs };
        gather(&mut by_point, (data, threshold), entry);
    }
    let mut points: Vec<PointOf> = by_point
        .into_iter()
        .map(|((data, threshold), entries)| PointOf { data, threshold, entries })
        .collect();
    // Stable: data sets stay in their order.
    let mut order: Vec<String> = vec![];
    for point in &points {
        if !order.contains(&point.data) {
            order.push(point.data.clone());
        }
    }
    points.sort_by(|a, b| {
        let place = |p: &PointOf| order.iter().position(|name| *name == p.data);
        place(a).cmp(&place(b)).then(a.threshold.total_cmp(&b.threshold))
    });
    Ok(points)
}

/// The section on competitors.
pub(super) fn report(table: &CsvTable) -> Result<Section> {
    let points = points(table)?;
    let mut section = Section::new("Beside other engines, one thread");
    section.line(
        "Processor time of index and join, without reading, tokenising and encoding; medians. The ratio is that of \
         the best of Mann's algorithms to `simjoin-auto`; `>` where all of them were stopped by \
         the time limit.\n",
    );
    means(&points, &mut section);
    overview(&points, &mut section);
    missed(&points, &mut section);
    let mut systems: Vec<&str> = vec![];
    for entry in points.iter().flat_map(|p| &p.entries) {
        if !systems.contains(&entry.system.as_str()) {
            systems.push(&entry.system);
        }
    }
    let mut by_data: Vec<(&str, Vec<&PointOf>)> = vec![];
    for point in &points {
        gather(&mut by_data, point.data.as_str(), point);
    }
    for (data, points) in by_data {
        section.line(&format!("### {data}\n"));
        let present =
            |system: &&&str| points.iter().any(|p| p.entries.iter().any(|e| e.system == **system));
        let systems: Vec<&str> = systems.iter().filter(present).copied().collect();
        let columns = [&["threshold", "pairs", "chosen"], systems.as_slice(), &["ratio"]].concat();
        section.head(&columns);
        for point in &points {
            let Some(own) = point.own() else { continue };
            let time = |system: &&str| match point.entries.iter().find(|e| e.system == *system) {
                Some(Entry { seconds, pairs: None, .. }) => format!("> {}", shown(*seconds)),
                Some(entry) => shown(entry.seconds),
                None => "–".to_string(),
            };
            let mut fields = vec![
                point.threshold.to_string(),
                own.pairs.map_or(String::new(), |p| p.to_string()),
                own.chosen.clone(),
            ];
            fields.extend(systems.iter().map(time));
            fields.push(point.ratio().map_or(String::new(), |ratio| ratio_of(point, ratio)));
            section.line(&format!("| {} |", fields.join(" | ")));
        }
        let series = systems.iter().map(|system| Series {
            name: system.to_string(),
            points: points
                .iter()
                .filter_map(|p| {
                    let entry = p.entries.iter().find(|e| e.system == *system)?;
                    entry.pairs.map(|_| (p.threshold, entry.seconds))
                })
                .collect(),
            main: *system == "simjoin-auto",
        });
        section.plot(
            &format!("versus-{}", data.replace(['@', '/'], "-")),
            &Plot {
                title: &format!("{data}: time against threshold, one thread"),
                x: Axis::linear("Jaccard threshold"),
                y: Axis::logarithmic("seconds"),
                series: series.collect(),
            },
        );
    }
    Ok(section)
}

fn ratio_of(point: &PointOf, ratio: f64) -> String {
    let stopped = point.best_mann().is_some_and(|best| best.pairs.is_none());
    format!("{}{}", if stopped { "> " } else { "" }, times(ratio))
}

/// Geometric means, and the points at which the engine is behind.
fn means(points: &[PointOf], section: &mut Section) {
    let stated = |p: &&PointOf| STATED.contains(&p.data.as_str()) && GOAL.contains(&p.threshold);
    let ratios: Vec<f64> = points.iter().filter(stated).filter_map(PointOf::ratio).collect();
    if ratios.is_empty() {
        return;
    }
    section.line(&format!(
        "Geometric mean of the ratios over the {} stated points: **{}**.",
        ratios.len(),
        times(geometric_mean(&ratios))
    ));
    let slow = |p: &&PointOf| {
        let (Some(ratio), Some(best)) = (p.ratio(), p.best_mann()) else { return false };
        ratio < if best.seconds > 0.05 { 1.0 } else { 1.0 / 1.1 }
    };
    let slow: Vec<String> = points
        .iter()
        .filter(stated)
        .filter(slow)
        .map(|p| {
            let (own, best) = (p.own().map_or(0.0, |e| e.seconds), p.best_mann());
            let best = best.map_or(0.0, |e| e.seconds);
            format!("{} at {} ({} against {})", p.data, p.threshold, shown(own), shown(best))
        })
        .collect();
    section.line(&match slow.is_empty() {
        true => "At no stated point is the engine slower than the best of Mann's algorithms above \
                 50 ms, or over 1.1 times slower below.\n"
            .to_string(),
        false => format!(
            "Behind (above 50 ms slower, below that over 1.1 times): {}.\n",
            slow.join("; ")
        ),
    });
    let mut by_threshold: Vec<(f64, Vec<f64>)> = vec![];
    for point in points.iter().filter(|p| STATED.contains(&p.data.as_str())) {
        if let Some(ratio) = point.ratio() {
            gather(&mut by_threshold, point.threshold, ratio);
        }
    }
    section.head(&["threshold", "points", "geometric mean", "least", "greatest"]);
    for (threshold, ratios) in by_threshold {
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let greatest = ratios.iter().copied().fold(0.0, f64::max);
        section.line(&format!(
            "| {threshold} | {} | {} | {} | {} |",
            ratios.len(),
            times(geometric_mean(&ratios)),
            times(least),
            times(greatest)
        ));
    }
    section.line("");
}

/// All points in one table: the engine's time, and how many times faster it is.
fn overview(points: &[PointOf], section: &mut Section) {
    let mut thresholds: Vec<f64> = points.iter().map(|p| p.threshold).collect();
    thresholds.sort_by(f64::total_cmp);
    thresholds.dedup();
    let shown_thresholds: Vec<String> = thresholds.iter().map(f64::to_string).collect();
    let mut columns = vec!["data"];
    columns.extend(shown_thresholds.iter().map(String::as_str));
    section.head(&columns);
    let mut by_data: Vec<(&str, Vec<&PointOf>)> = vec![];
    for point in points {
        gather(&mut by_data, point.data.as_str(), point);
    }
    for (data, points) in by_data {
        let fields = thresholds.iter().map(|threshold| {
            let point = points.iter().find(|p| p.threshold == *threshold);
            match point.and_then(|p| Some((p, p.own()?.seconds, p.ratio()?))) {
                Some((point, own, ratio)) => format!("{}, {}", shown(own), ratio_of(point, ratio)),
                None => "–".to_string(),
            }
        });
        section.line(&format!("| {data} | {} |", fields.collect::<Vec<_>>().join(" | ")));
    }
    section.line("");
}

/// Where the counts differ.
fn missed(points: &[PointOf], section: &mut Section) {
    let mut rows = vec![];
    for point in points {
        let Some(own) = point.own().and_then(|own| own.pairs) else { continue };
        for entry in &point.entries {
            if let Some(pairs) = entry.pairs.filter(|pairs| *pairs != own) {
                rows.push((point, entry, own as i64 - pairs as i64));
            }
        }
    }
    if rows.is_empty() {
        section.line("All systems counted the same pairs at every point.\n");
        return;
    }
    section.line("Pairs that others miss (negative: report too many):\n");
    section.head(&["data", "threshold", "system", "missed", "of"]);
    for (point, entry, missed) in rows {
        let own = point.own().and_then(|own| own.pairs).unwrap_or_default();
        section.line(&format!(
            "| {} | {} | {} | {missed} | {own} |",
            point.data, point.threshold, entry.system
        ));
    }
    section.line("");
}
