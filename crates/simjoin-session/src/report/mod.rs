//! A page to review the pairs of a join: one file of HTML, which needs no network.
//!
//! ```text
//! statements of a verb ─► pairs and their rows ─► data (JSON) ─┐
//! page: html, css, js ─────────────────────────────────────────┴─► one file
//! ```

mod data;
#[cfg(test)]
mod tests;

use datafusion::common::Result;
use datafusion::prelude::SessionContext;

use crate::verbs::ReportStatements;

const HTML: &str = include_str!("page/page.html");
const CSS: &str = include_str!("page/page.css");
const JS: &str = include_str!("page/page.js");

/// The title, the inputs and the origin of a page.
#[derive(Debug, Clone, Default)]
pub struct PageWords {
    /// The title, such as the name of the file.
    pub title: String,
    /// The names of the inputs, one for each table.
    pub inputs: Vec<String>,
    /// The command or the call.
    pub command: String,
    /// The statements.
    pub sql: String,
    /// The word for rows that no column tells: "row" for numbers from 1 on, "place" for places from 0 on.
    pub rows: &'static str,
}

/// The page of the pairs of a report whose first statements have run.
///
/// # Errors
///
/// When a statement fails.
pub async fn page(
    ctx: &SessionContext,
    report: &ReportStatements,
    words: &PageWords,
) -> Result<String> {
    let data = data::of(ctx, report, words).await?;
    Ok(assembled(&data.to_string()))
}

/// The page with data, in which nothing ends the script that holds them.
fn assembled(data: &str) -> String {
    let mut safe = String::with_capacity(data.len() + data.len() / 16);
    for character in data.chars() {
        match character {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                safe.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            other => safe.push(other),
        }
    }
    // In one pass: data may have the marks of places.
    let places = [("/*{css}*/", CSS), ("{data}", safe.as_str()), ("/*{js}*/", JS)];
    let (mut page, mut rest) =
        (String::with_capacity(HTML.len() + CSS.len() + JS.len() + safe.len()), HTML);
    while let Some((at, place, text)) =
        places.iter().filter_map(|(place, text)| Some((rest.find(place)?, place, text))).min()
    {
        page.push_str(&rest[..at]);
        page.push_str(text);
        rest = &rest[at + place.len()..];
    }
    page.push_str(rest);
    page
}
