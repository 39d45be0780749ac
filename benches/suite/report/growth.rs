//! Time and memory against size.

use datafusion::common::Result;

use super::{Section, gather, shown};
use crate::csv::CsvTable;
use crate::plot::{Axis, Plot, Series};

struct Size {
    scale: String,
    rows: f64,
    seconds: f64,
    pairs: String,
    chosen: String,
    csr: f64,
    reserved: f64,
    peak: f64,
}

/// The section on growth.
pub(super) fn report(table: &CsvTable) -> Result<Section> {
    let mut groups = vec![];
    for row in table.rows() {
        let number = |column| row.number(column).map(|n| n.unwrap_or(f64::NAN));
        let size = Size {
            scale: row.text("scale")?.to_string(),
            rows: number("rows")?,
            seconds: number("seconds")?,
            pairs: row.text("row_pairs")?.to_string(),
            chosen: row.text("chosen")?.to_string(),
            csr: number("csr_bytes")?,
            reserved: number("collection_bytes")? + number("join_bytes")?,
            peak: number("encode_peak_bytes")?,
        };
        let key = (row.text("collection")?.to_string(), row.text("threshold")?.to_string());
        gather(&mut groups, key, size);
    }
    let mut section = Section::new("Growth");
    section.line(
        "Generated data; the exponent is the slope of log time over log rows (least squares). \
         `reserved` is what collection, index, signatures and cursors hold during the join, \
         `encoding` the most before; both as multiples of the CSR form (4 bytes a token, 8 a \
         set).\n",
    );
    section.head(&[
        "collection",
        "threshold",
        "scale",
        "rows",
        "time",
        "pairs",
        "chosen",
        "exponent",
        "CSR",
        "reserved",
        "encoding",
    ]);
    let (mut times, mut bytes) = (vec![], vec![]);
    for ((collection, threshold), sizes) in &groups {
        let points: Vec<(f64, f64)> = sizes.iter().map(|s| (s.rows, s.seconds)).collect();
        let exponent = slope(&points).map_or("–".to_string(), |slope| format!("{slope:.2}"));
        for size in sizes {
            section.line(&format!(
                "| {collection} | {threshold} | {} | {} | {} | {} | {} | {exponent} | {:.1} MB | {:.2} | {:.2} |",
                size.scale,
                size.rows,
                shown(size.seconds),
                size.pairs,
                size.chosen,
                size.csr / 1e6,
                size.reserved / size.csr,
                size.peak / size.csr,
            ));
        }
        times.push(Series {
            name: format!("{collection} {threshold}: {exponent}"),
            points,
            main: false,
        });
        bytes.push(Series {
            name: format!("{collection} {threshold}"),
            points: sizes.iter().map(|s| (s.rows, s.reserved / s.csr)).collect(),
            main: false,
        });
    }
    section.plot(
        "growth-time",
        &Plot {
            title: "Time against size; the legend gives exponents",
            x: Axis::logarithmic("rows"),
            y: Axis::logarithmic("seconds"),
            series: times,
        },
    );
    section.plot(
        "growth-bytes",
        &Plot {
            title: "Bytes reserved during the join, in multiples of CSR",
            x: Axis::logarithmic("rows"),
            y: Axis::from_zero("times CSR"),
            series: bytes,
        },
    );
    Ok(section)
}

/// The slope of the line through the logarithms, by least squares.
fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let logs: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let n = logs.len() as f64;
    let (mean_x, mean_y) =
        (logs.iter().map(|p| p.0).sum::<f64>() / n, logs.iter().map(|p| p.1).sum::<f64>() / n);
    let covariance: f64 = logs.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let variance: f64 = logs.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    (logs.len() >= 2 && variance > 0.0).then(|| covariance / variance)
}
