//! Joins of one table in which marked pairs are as they are marked.

use datafusion_simjoin::plan::label_is;

use super::condition::Condition;
use super::labels::Labels;
use super::statements::{How, Verb};
use super::{ROW, Result, quoted};

/// The table of the marked pairs of one table: its rows, the lesser first, and the label.
pub const MARKED: &str = "__simjoin_marked";

impl Verb<'_> {
    /// The statement that finds the marked pairs among the rows of `ranked`, which `place` numbers; `None` without
    /// labels.
    pub(super) fn mark(&self, ranked: &str, place: &str) -> Result<Option<String>> {
        let Some(labels) = self.labels else { return Ok(None) };
        let [left, right] = labels.rows()?.map(|name| format!("x.{}", quoted(name)));
        let label = format!("x.{}", quoted(Labels::column_of(labels.table).unwrap_or("label")));
        let [yes, no] = ["yes", "no"].map(|mark| label_is(&label, mark));
        Ok(Some(format!(
            "CREATE TABLE {MARKED} AS SELECT least(a.{place}, b.{place}) AS l, greatest(a.{place}, b.{place}) AS r, \
             bool_and({yes}) AS is_same FROM {} x JOIN {ranked} a ON {} JOIN {ranked} b ON {} \
             WHERE ({yes} OR {no}) AND a.{ROW} <> b.{ROW} GROUP BY 1, 2",
            labels.table.quoted(),
            self.is_row(0, "a", &left)?,
            self.is_row(0, "b", &right)?
        )))
    }

    /// The query of the pairs of rows of `ranked`, and of rows without a partner: marked pairs are as they are marked.
    pub(super) fn marked_pairs(
        &self,
        condition: &Condition,
        ranked: &str,
        place: &str,
        has_score: bool,
    ) -> String {
        let value = match has_score {
            true => format!(", {} AS score", condition.told(["a", "b"])),
            false => String::new(),
        };
        let on = condition.text([condition.once(place)]);
        let pairs = format!(
            "SELECT a.{place} AS l, b.{place} AS r{value} FROM {ranked} a {}SIMJOIN {ranked} b ON {on}",
            How::Left
        );
        if self.labels.is_none() {
            return pairs;
        }
        let (score, none) = match has_score {
            true => (", p.score", ", CAST(NULL AS DOUBLE)"),
            false => ("", ""),
        };
        format!(
            "SELECT p.l, CASE WHEN m.is_same IS NOT false THEN p.r END AS r{score} FROM ({pairs}) p LEFT JOIN {MARKED} m \
             ON m.l = least(p.l, p.r) AND m.r = greatest(p.l, p.r) UNION ALL SELECT l, r{none} FROM {MARKED} WHERE is_same"
        )
    }
}
