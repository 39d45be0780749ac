//! Weights of the tokens of compared columns, by the rarity of each token among all rows that take part.
//!
//! Rows of two tables are weighed by one window over both, so that a token weighs the same on either side.

use super::condition::Score;
use super::weighing::Weighing;
use super::{OWN, Question, ROW, Result, VerbTable, quoted};

/// The tables of a verb with the weighted sets that its measures compare.
#[derive(Debug)]
pub struct WeighedTables {
    /// The statements that make them.
    pub statements: Vec<String>,
    /// The tables, in place of those that the verb was asked about.
    pub tables: [VerbTable; 2],
    /// The names of the tables that the statements make.
    pub made: Vec<String>,
}

impl WeighedTables {
    /// The tables with weighted sets; `None` where no measure needs any.
    ///
    /// # Errors
    ///
    /// When the question does not fit the tables.
    pub fn of(question: &Question, tables: [&VerbTable; 2]) -> Result<Option<Self>> {
        let scores = Score::of_question(question, tables)?;
        let all: Vec<&Weighing> = scores.iter().filter_map(Score::weighing).collect();
        if all.is_empty() {
            return Ok(None);
        }
        let (alone, together): (Vec<&Weighing>, Vec<_>) =
            all.into_iter().partition(|weighing| weighing.is_one);
        let shared = format!("{OWN}weights_of_{}", tables[0].name());
        let (mut statements, mut made) = (vec![], vec![]);
        if !together.is_empty() {
            statements.push(weigh_both(&together, tables, &shared));
            made.push(shared.clone());
        }
        let is_one_table = tables[0].name() == tables[1].name();
        let sides: &[&[usize]] = if is_one_table { &[&[0, 1]] } else { &[&[0], &[1]] };
        let weighed = tables.map(|table| table.named(format!("{OWN}weighed_{}", table.name())));
        for of_table in sides {
            let side = of_table[0];
            let columns = columns_of(&alone, &together, of_table);
            let joins: String = of_table
                .iter()
                .filter(|_| !together.is_empty())
                .map(|side| {
                    let shared = quoted(&shared);
                    format!(
                        " JOIN {shared} s{side} ON s{side}.side = {side} AND s{side}.row = t.{ROW}"
                    )
                })
                .collect();
            statements.push(format!(
                "CREATE TABLE {} AS SELECT t.*{columns} FROM {} t{joins} ORDER BY t.{ROW}",
                weighed[side].quoted(),
                tables[side].quoted()
            ));
            made.push(weighed[side].name().to_string());
        }
        if !together.is_empty() {
            statements.push(format!("DROP TABLE {}", quoted(&shared)));
        }
        Ok(Some(Self { statements, tables: weighed, made }))
    }
}

/// The statement that weighs the rows of both sides by one window for each column.
fn weigh_both(weighings: &[&Weighing], tables: [&VerbTable; 2], shared: &str) -> String {
    let weights: String =
        weighings.iter().map(|w| format!(", tfidf(t{0}) OVER () AS w{0}", w.place)).collect();
    let rows = [0, 1].map(|side| {
        let tokens: String = weighings
            .iter()
            .map(|w| format!(", {} AS t{}", w.tokens[side].replacen("{}", "t", 1), w.place))
            .collect();
        format!("SELECT {side} AS side, t.{ROW} AS row{tokens} FROM {} t", tables[side].quoted())
    });
    format!(
        "CREATE TABLE {} AS SELECT side, row{weights} FROM ({})",
        quoted(shared),
        rows.join(" UNION ALL ")
    )
}

/// The columns of weighted sets that a table gets, of the sides that it stands on.
fn columns_of(alone: &[&Weighing], together: &[&Weighing], sides: &[usize]) -> String {
    let own = alone.iter().map(|weighing| {
        let tokens = weighing.tokens[0].replacen("{}", "t", 1);
        format!(", tfidf({tokens}) OVER () AS {}", quoted(&weighing.names[0]))
    });
    let of_both = together.iter().flat_map(|weighing| {
        sides.iter().map(|&side| {
            format!(", s{side}.w{} AS {}", weighing.place, quoted(&weighing.names[side]))
        })
    });
    own.chain(of_both).collect()
}
