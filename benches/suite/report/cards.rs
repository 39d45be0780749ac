//! The gain of more cards.

use datafusion::common::Result;

use super::{Section, gather, middle, shown, times};
use crate::csv::{CsvRow, CsvTable};
use crate::plot::{Axis, Plot, Series};

/// The number of cards that a run names; `None` where it names none by their numbers.
fn cards_of(row: CsvRow<'_>) -> Option<usize> {
    let device = row.text("device").ok()?;
    device.strip_prefix("cuda:").map(|ordinals| ordinals.split('+').count())
}

/// Whether a table has runs on several cards.
pub(super) fn has_several(table: &CsvTable) -> bool {
    table.rows().any(|row| cards_of(row).is_some_and(|cards| cards > 1))
}

/// A run: the number of cards, the seconds until the first probe, of the join, and of kernels.
type Run = (usize, [f64; 3]);

/// The section on cards, of several tables of joins.
pub(super) fn report(tables: &[&CsvTable]) -> Result<Section> {
    let mut points: Vec<((String, String), Vec<Run>)> = vec![];
    for row in tables.iter().flat_map(|table| table.rows()) {
        // The first run opens the cards, and copies what is joined.
        let (Some(cards), true) = (cards_of(row), row.number("run")? > Some(0.0)) else { continue };
        let key = (row.text("data")?.to_string(), row.text("threshold")?.to_string());
        let names = ["prepare_seconds", "join_seconds", "kernel_seconds"];
        let [before, join, kernels] = names.map(|name| row.number(name));
        let unknown = |seconds: Option<f64>| seconds.unwrap_or(f64::NAN);
        gather(&mut points, key, (cards, [unknown(before?), unknown(join?), unknown(kernels?)]));
    }
    let mut section = Section::new("Cards");
    section.line("Medians of the runs after the first. Kernels are those of all cards, by card.\n");
    section.head(&[
        "data",
        "threshold",
        "cards",
        "join",
        "before probing",
        "kernels",
        "gain",
        "a card",
    ]);
    let mut series = vec![];
    for ((data, threshold), runs) in &points {
        let mut by_cards: Vec<(usize, Vec<[f64; 3]>)> = vec![];
        for (cards, run) in runs {
            gather(&mut by_cards, *cards, *run);
        }
        by_cards.sort_by_key(|(cards, _)| *cards);
        let of = |runs: &[[f64; 3]], place: usize| {
            middle(&runs.iter().map(|run| run[place]).collect::<Vec<_>>())
        };
        let Some((1, single)) = by_cards.first() else { continue };
        let single = of(single, 1);
        let mut line = vec![];
        for (cards, runs) in &by_cards {
            let (count, seconds) = (*cards as f64, of(runs, 1));
            line.push((count, seconds));
            section.line(&format!(
                "| {data} | {threshold:.9} | {cards} | {} | {} | {} | {} | {:.2} |",
                shown(seconds),
                shown(of(runs, 0)),
                shown(of(runs, 2) / count),
                times(single / seconds),
                single / seconds / count,
            ));
        }
        let name = format!("{data} {threshold:.5}");
        series.push(Series { name, points: line, main: false });
    }
    section.plot(
        "cards",
        &Plot {
            title: "Time with cards",
            x: Axis::logarithmic("cards"),
            y: Axis::logarithmic("seconds"),
            series,
        },
    );
    Ok(section)
}
