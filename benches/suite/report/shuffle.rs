//! Rows that the tiles of a cluster send and join, and bands that a row visits out of core.

use datafusion::common::Result;

use super::{Section, gather};
use crate::csv::{CsvRow, CsvTable};

/// The numbers of tasks for which copies are shown, and for which the greatest task is.
const TASKS: [&str; 4] = ["16", "64", "256", "1024"];
const SHOWN: &str = "256";
/// The product's plan. Files of older runs have others, which no code makes any more.
const TILES: &str = "tiles";
const BANDS: [&str; 3] = ["5", "10", "20"];

struct Point {
    plan: String,
    tasks: String,
    copies: f64,
    /// Greatest task to the mean one.
    tokens: f64,
    seconds: f64,
}

impl Point {
    fn read(row: CsvRow<'_>) -> Result<Self> {
        let number = |column| row.number(column).map(|n| n.unwrap_or(f64::NAN));
        Ok(Self {
            plan: row.text("plan")?.to_string(),
            tasks: row.text("tasks")?.to_string(),
            copies: number("copies")?,
            tokens: number("tokens_skew")?,
            seconds: number("bitmap_seconds_skew")?,
        })
    }
}

/// The section on plans.
pub(super) fn report(table: &CsvTable) -> Result<Section> {
    let mut groups = vec![];
    for row in table.rows() {
        let key = ["data", "join", "measure", "threshold"]
            .into_iter()
            .map(|column| Ok(row.text(column)?.to_string()))
            .collect::<Result<Vec<String>>>()?;
        gather(&mut groups, key, Point::read(row)?);
    }
    let mut section = Section::new("The tiles of a cluster");
    section.line(
        "Counted, not run. Copies: rows sent for each row of the input, by 16, 64, 256 and 1,024 \
         tasks. Greatest task to the mean one, by 256 tasks: tokens, and estimated time of \
         signatures.\n",
    );
    section.head(&["data", "join", "measure", "threshold", "copies", "tokens", "time"]);
    for (key, points) in &groups {
        let find = |tasks: &str| points.iter().find(|p| p.plan == TILES && p.tasks == tasks);
        let Some(shown) = find(SHOWN) else { continue };
        let of = |tasks| find(tasks).map_or("–".into(), |p: &Point| format!("{:.1}", p.copies));
        section.line(&format!(
            "| {} | {} | {:.1} | {:.1} |",
            key.join(" | "),
            TASKS.map(of).join(", "),
            shown.tokens,
            shown.seconds,
        ));
    }
    Ok(section)
}

/// The section on bands.
pub(super) fn report_bands(table: &CsvTable) -> Result<Section> {
    let mut groups = vec![];
    for row in table.rows() {
        if row.text("cuts")? == "anywhere" && row.text("threshold")? == "0.8" {
            let key = (row.text("data")?.to_string(), row.text("sizes")?.to_string());
            let point = ["join", "measure", "bands", "visits"]
                .into_iter()
                .map(|column| Ok(row.text(column)?.to_string()))
                .collect::<Result<Vec<String>>>()?;
            gather(&mut groups, key, point);
        }
    }
    let mut section = Section::new("Bands of set sizes");
    section.line(
        "How many of 5, 10 and 20 bands of equal tokens a row visits at 0.8, a size cut into blocks \
         where it is too large; in a self-join, its own band and those of larger sets.\n",
    );
    let columns = [
        ("self", "jaccard"),
        ("self", "dice"),
        ("self", "set_cosine"),
        ("halves", "jaccard"),
        ("halves", "dice"),
        ("halves", "set_cosine"),
    ];
    let names = columns.map(|(join, measure)| match join {
        "self" => format!("self-join, {measure}"),
        _ => format!("two-sided, {measure}"),
    });
    let head: Vec<&str> =
        ["data", "sizes"].into_iter().chain(names.iter().map(String::as_str)).collect();
    section.head(&head);
    for ((data, sizes), points) in &groups {
        let cells = columns.map(|(join, measure)| {
            let of = |bands: &str| {
                let found =
                    points.iter().find(|p| p[0] == join && p[1] == measure && p[2] == bands);
                let visits = found.and_then(|p| p[3].parse::<f64>().ok());
                visits.map_or("–".to_string(), |visits| format!("{visits:.1}"))
            };
            BANDS.map(of).join(", ")
        });
        section.line(&format!("| {data} | {sizes} | {} |", cells.join(" | ")));
    }
    Ok(section)
}
