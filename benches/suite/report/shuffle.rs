//! What distributed plans send and do, and how many bands rows visit out of core.

use datafusion::common::Result;

use super::{Section, gather};
use crate::csv::{CsvRow, CsvTable};

/// The numbers of tasks for which copies are shown, and for which the greatest task is.
const TASKS: [&str; 4] = ["16", "64", "256", "1024"];
const SHOWN: &str = "256";
/// The plan of the grid: files of older runs have `grid` of strips, which no code makes any more.
const GRID: &str = "tiles";
const BANDS: [&str; 3] = ["5", "10", "20"];

struct Point {
    plan: String,
    tasks: String,
    copies: f64,
    bytes: f64,
    /// Greatest task to the mean.
    tokens: f64,
    /// Seconds of the greatest task, by signatures and by a prefix filter.
    bitmap: (f64, f64),
    prefix: (f64, f64),
}

impl Point {
    fn read(row: CsvRow<'_>) -> Result<Self> {
        let number = |column| row.number(column).map(|n| n.unwrap_or(f64::NAN));
        let greatest = |mean, skew| -> Result<(f64, f64)> {
            let skew = number(skew)?;
            Ok((number(mean)? * skew, skew))
        };
        Ok(Self {
            plan: row.text("plan")?.to_string(),
            tasks: row.text("tasks")?.to_string(),
            copies: number("copies")?,
            bytes: number("sent_bytes")?,
            tokens: number("tokens_skew")?,
            bitmap: greatest("bitmap_seconds_mean", "bitmap_seconds_skew")?,
            prefix: greatest("prefix_seconds_mean", "prefix_seconds_skew")?,
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
    let mut section = Section::new("Distributed plans");
    section.line(
        "Counted, not run. Copies: rows sent for each row of the input, by 16, 64, 256 and 1,024 \
         tasks; a broadcast sends one for each task. `from`: the least number of tasks from which \
         on hashing prefix tokens sends fewer bytes than the grid. Greatest task to the mean one, \
         by 256 tasks: tokens, and estimated time of signatures (grid) or of a prefix filter \
         (prefix). Last, the time of the greatest task with the strategy that is \
         faster, grid to prefix: above 1 the grid's is longer.\n",
    );
    section.head(&[
        "data",
        "join",
        "measure",
        "threshold",
        "grid",
        "prefix",
        "from",
        "tokens: grid",
        "prefix",
        "time: grid",
        "prefix",
        "grid to prefix",
    ]);
    for (key, points) in &groups {
        let find = |plan: &str, tasks: &str| {
            points.iter().find(|point| point.plan == plan && point.tasks == tasks)
        };
        let copies = |plan: &str| {
            let of = |tasks| find(plan, tasks).map_or("–".into(), |p| format!("{:.1}", p.copies));
            TASKS.map(of).join(", ")
        };
        let mut from = "–".to_string();
        for tasks in ["1024", "256", "64", "16", "4", "2"] {
            match (find(GRID, tasks), find("prefix", tasks)) {
                (Some(grid), Some(prefix)) if prefix.bytes < grid.bytes => from = tasks.into(),
                _ => break,
            }
        }
        let plans = [GRID, "prefix"].map(|plan| find(plan, SHOWN));
        let [Some(grid), Some(prefix)] = plans else { continue };
        let of_grids = grid.bitmap.0.min(grid.prefix.0);
        section.line(&format!(
            "| {} | {} | {} | {from} | {:.1} | {:.1} | {:.1} | {:.1} | {:.2} |",
            key.join(" | "),
            copies(GRID),
            copies("prefix"),
            grid.tokens,
            prefix.tokens,
            grid.bitmap.1,
            prefix.prefix.1,
            of_grids / prefix.prefix.0.min(prefix.bitmap.0),
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
