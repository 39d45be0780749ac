//! The columns of both rows of each pair.

use super::statements::{How, Verb};
use super::{ROW, Result, VerbError, quoted};

impl Verb<'_> {
    /// The pairs of two tables with the columns of both, those of the second one that the first has too with `_right`
    /// behind their names, and the score; of semi and anti joins the columns of the first.
    ///
    /// # Errors
    ///
    /// As of [`pairs`](Self::pairs), and where two columns would have one name.
    pub fn joined(&self, how: How) -> Result<String> {
        let condition = self.condition(true)?;
        let [left, right] = self.tables;
        let mut names: Vec<String> = left.names().map(str::to_string).collect();
        let mut columns: Vec<String> =
            names.iter().map(|name| format!("a.{}", quoted(name))).collect();
        if !matches!(how, How::Semi | How::Anti) {
            for own in right.names() {
                let name = match names.iter().any(|name| name == own) {
                    true => format!("{own}_right"),
                    false => own.to_string(),
                };
                columns.push(format!("b.{} AS {}", quoted(own), quoted(&name)));
                names.push(name);
            }
            for (score, name) in self.scores(&condition, how) {
                columns.push(format!("{score} AS {}", quoted(&name)));
                names.push(name);
            }
        }
        let mut sorted = names.clone();
        sorted.sort_unstable();
        if let Some([twice, _]) = sorted.array_windows().find(|[a, b]| a == b) {
            return Err(VerbError::with_hint(
                format!("the result would have two columns {twice}"),
                "rename one, or take link with --show",
            ));
        }
        let order = match how {
            How::Semi | How::Anti => format!("a.{ROW}"),
            _ => format!("a.{ROW} NULLS LAST, b.{ROW}"),
        };
        Ok(format!(
            "SELECT {} FROM {} ON {} ORDER BY {order}",
            columns.join(", "),
            self.from(how),
            condition.text([])
        ))
    }
}
