//! The statements of each verb.

use std::fmt;

use arrow::datatypes::DataType;

use super::compared::{Question, unquoted};
use super::condition::Condition;
use super::kinds::ColumnKind;
use super::labels::Labels;
use super::table::VerbTable;
use super::weighing::told_size;
use super::{ROW, Result, VerbError, quoted};

/// The row that stays of similar ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keep {
    /// The first one.
    First,
    /// The last one.
    Last,
    /// The row with the longest compared text or list.
    Longest,
    /// The row with the shortest one.
    Shortest,
    /// The row with the greatest value of a column.
    Max(String),
    /// The row with the least value of a column.
    Min(String),
}

impl std::str::FromStr for Keep {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        Ok(match text.split_once(':') {
            Some(("max", column)) if !column.is_empty() => Self::Max(unquoted(column)),
            Some(("min", column)) if !column.is_empty() => Self::Min(unquoted(column)),
            None if text == "first" => Self::First,
            None if text == "last" => Self::Last,
            None if text == "longest" => Self::Longest,
            None if text == "shortest" => Self::Shortest,
            _ => {
                return Err("it is first, last, longest, shortest, max:COLUMN or min:COLUMN".into());
            }
        })
    }
}

/// The rows without a partner that a result has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// None.
    Inner,
    /// Rows of the first table.
    Left,
    /// Rows of the second table.
    Right,
    /// Rows of both.
    Full,
    /// Rows of the first table with a partner, and nothing of the second.
    Semi,
    /// Rows of the first table without a partner.
    Anti,
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Inner => "",
            Self::Left => "LEFT ",
            Self::Right => "RIGHT ",
            Self::Full => "FULL ",
            Self::Semi => "LEFT SEMI ",
            Self::Anti => "LEFT ANTI ",
        })
    }
}

/// The table of the dropped and the kept rows of a deduplication.
pub const FOUND: &str = "__simjoin_found";
pub(super) const RANKED: &str = "__simjoin_ranked";
const PLACE: &str = "__simjoin_place";

/// A verb: what is asked of which tables, and what of the rows is told.
#[derive(Debug)]
pub struct Verb<'a> {
    /// The rows that are similar.
    pub question: &'a Question,
    /// The tables; one that is compared with itself twice.
    pub tables: [&'a VerbTable; 2],
    /// The columns that tell rows, of each table; `None` for their numbers.
    pub id: Option<&'a [String; 2]>,
    /// The columns of both rows that are given; `None` for the compared ones.
    pub show: Option<&'a [String]>,
    /// Pairs of one table that a person has marked.
    pub labels: Option<Labels<'a>>,
}

/// The direction of what a row has found: whether one table is compared with itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Rows of one table.
    Within,
    /// Rows of two tables.
    Across,
}

impl Verb<'_> {
    pub(super) fn condition(&self, is_needed: bool) -> Result<Condition> {
        Condition::of(self.question, self.tables, is_needed)
    }

    /// The compared values of two rows `a` and `b`, as arguments of `concat`.
    pub(super) fn examples(&self) -> Result<[String; 2]> {
        let side = |side: usize, rows: &str| -> Result<String> {
            let columns = self
                .question
                .on
                .iter()
                .map(|column| self.tables[side].column(column.of_side(side)));
            let values = columns.map(|column| {
                let (name, data_type) = column?;
                let value = format!("{rows}.{}", quoted(name));
                Ok(match data_type {
                    sets if ColumnKind::of(sets) == ColumnKind::Weighted => told_size(&value),
                    lists if lists.is_nested() => format!("array_to_string({value}, ' ')"),
                    _ => value,
                })
            });
            Ok(values.collect::<Result<Vec<_>>>()?.join(", ' | ', "))
        };
        Ok([side(0, "a")?, side(1, "b")?])
    }

    pub(super) fn from(&self, how: How) -> String {
        let [left, right] = self.tables.map(VerbTable::quoted);
        format!("{left} a {how}SIMJOIN {right} b")
    }

    /// The column that tells the rows of a side.
    pub(super) fn id(&self, side: usize) -> Result<String> {
        match self.id {
            Some(names) => Ok(quoted(self.tables[side].column(&names[side])?.0)),
            None => Ok(ROW.to_string()),
        }
    }

    /// The condition that `value` tells the row `row` of a side: by the type of what tells rows, as 1.50 is 1.5 where they
    /// are numbers, and 1.5 alone where they are texts.
    pub(super) fn is_row(&self, side: usize, row: &str, value: &str) -> Result<String> {
        let data_type = match self.id {
            Some(names) => self.tables[side].column(&names[side])?.1.clone(),
            None => DataType::Int64,
        };
        let id = format!("{row}.{}", self.id(side)?);
        let text = format!("CAST({value} AS VARCHAR)");
        let of_type =
            |name: &str| Ok(format!("CAST({id} AS {name}) = TRY_CAST(trim({text}) AS {name})"));
        match data_type {
            DataType::UInt64 => of_type("DECIMAL(20, 0)"),
            other if other.is_integer() => of_type("BIGINT"),
            other if other.is_floating() => of_type("DOUBLE"),
            DataType::Boolean => of_type("BOOLEAN"),
            DataType::Date32 | DataType::Date64 => of_type("DATE"),
            DataType::Timestamp(..) => of_type("TIMESTAMP"),
            _ => Ok(format!("CAST({id} AS VARCHAR) = {text}")),
        }
    }

    /// The columns that tell two rows, and those that are shown of them; `names` are of the tables, and of what
    /// tells the rows of each.
    fn told(&self, tables: [&str; 2], names: [&str; 2]) -> Result<(Vec<String>, Vec<String>)> {
        let mut told = vec![];
        for side in [0, 1] {
            told.push(format!("{}.{} AS {}", tables[side], self.id(side)?, quoted(names[side])));
        }
        let mut shown = vec![];
        let of_question = |side: usize| -> Vec<String> {
            let columns = self.question.on.iter();
            columns.map(|c| if side == 0 { &c.left } else { &c.right }).cloned().collect()
        };
        for side in [0, 1] {
            let columns = self.show.map_or_else(|| of_question(side), <[String]>::to_vec);
            for column in columns {
                let found = self.tables[side].column(&column);
                // A column of one table alone is shown of that.
                if found.is_err() && self.tables[1 - side].column(&column).is_ok() {
                    continue;
                }
                let name = quoted(&format!("{column}_{}", names[side]));
                let column = format!("{}.{} AS {name}", tables[side], quoted(found?.0));
                if !shown.contains(&column) {
                    shown.push(column);
                }
            }
        }
        Ok((told, shown))
    }

    /// The columns that tell of a pair of rows `a` and `b`: who they are, the score, and others.
    fn pair(&self, condition: &Condition, how: How) -> Result<String> {
        let (told, shown) = self.told(["a", "b"], ["left", "right"])?;
        let scores = self.scores(condition, how).into_iter();
        let scores = scores.map(|(score, name)| format!("{score} AS {}", quoted(&name)));
        Ok(told.into_iter().chain(scores).chain(shown).collect::<Vec<_>>().join(", "))
    }

    /// The score of a pair of rows `a` and `b`, and the scores of columns, with their names.
    pub(super) fn scores(&self, condition: &Condition, how: How) -> Vec<(String, String)> {
        let mut value = condition.told(["a", "b"]);
        if how != How::Inner {
            // A row without a partner has no score.
            value =
                format!("CASE WHEN a.{ROW} IS NOT NULL AND b.{ROW} IS NOT NULL THEN {value} END");
        }
        let parts = condition.parts(["a", "b"]);
        [(value, "score".to_string())].into_iter().chain(parts).collect()
    }

    /// The pairs of similar rows of a table, each once.
    ///
    /// # Errors
    ///
    /// When the question does not fit the tables.
    pub fn pairs(&self) -> Result<String> {
        let condition = self.condition(true)?;
        Ok(format!(
            "SELECT {} FROM {} ON {} ORDER BY a.{ROW}, b.{ROW}",
            self.pair(&condition, How::Inner)?,
            self.from(How::Inner),
            condition.text([condition.once(ROW)])
        ))
    }

    /// The pairs of similar rows of two tables.
    ///
    /// # Errors
    ///
    /// As of [`pairs`](Self::pairs).
    pub fn link(&self, how: How) -> Result<String> {
        let condition = self.condition(true)?;
        if matches!(how, How::Semi | How::Anti) {
            return Ok(format!(
                "SELECT a.{} AS \"left\" FROM {} ON {} ORDER BY a.{ROW}",
                self.id(0)?,
                self.from(how),
                condition.text([])
            ));
        }
        Ok(format!(
            "SELECT {} FROM {} ON {} ORDER BY a.{ROW} NULLS LAST, b.{ROW}",
            self.pair(&condition, how)?,
            self.from(how),
            condition.text([])
        ))
    }

    /// The pairs of two tables in which each row is once.
    ///
    /// # Errors
    ///
    /// As of [`pairs`](Self::pairs).
    pub fn matched(&self) -> Result<String> {
        let condition = self.condition(true)?;
        let [left, right] = self.tables.map(VerbTable::quoted);
        Ok(format!(
            "SELECT {} FROM one_to_one((SELECT a.{ROW}, b.{ROW}, {} FROM {} ON {}){}) r \
             JOIN {left} a ON a.{ROW} = r.\"left\" JOIN {right} b ON b.{ROW} = r.\"right\" \
             ORDER BY a.{ROW}",
            self.pair(&condition, How::Inner)?,
            condition.told(["a", "b"]),
            self.from(How::Inner),
            condition.text([]),
            condition.order()
        ))
    }

    /// The nearest rows of each row, the nearest first.
    ///
    /// # Errors
    ///
    /// As of [`pairs`](Self::pairs).
    pub fn nearest(
        &self,
        count: usize,
        with_ties: bool,
        how: How,
        direction: Direction,
    ) -> Result<String> {
        let condition = self.condition(false)?;
        let value = condition.value(["a", "b"]);
        let mut others = vec![];
        if self.question.is_weighted() && condition.within_bound().is_none() {
            others.push(format!("{value} > 0"));
        }
        if direction == Direction::Within {
            others.push(format!("a.{ROW} <> b.{ROW}"));
        }
        let on = condition.text(others);
        let on = if on.is_empty() { on } else { format!(" ON {on}") };
        let (ties, order) = (if with_ties { " WITH TIES" } else { "" }, condition.is_distance());
        Ok(format!(
            "SELECT {} FROM {} NEAREST {count}{ties} BY {} {value}{on} ORDER BY a.{ROW}, score{}, b.{ROW}",
            self.pair(&condition, how)?,
            self.from(how),
            if order { "DISTANCE" } else { "SIMILARITY" },
            if order { "" } else { " DESC" },
        ))
    }

    /// The statements whose last one gives the rows of a table with the group of each: the number of its first row, and
    /// its size. With `grouped` those of groups of several rows alone, the largest group first.
    ///
    /// # Errors
    ///
    /// As of [`pairs`](Self::pairs).
    pub fn clusters(&self, grouped: bool) -> Result<Vec<String>> {
        let condition = self.condition(true)?;
        let [table, _] = self.tables;
        for name in ["cluster", "cluster_size"] {
            if table.column(name).is_ok() {
                return Err(VerbError::new(format!(
                    "{} has a column {name}, which the result would have twice: rename it",
                    table.told_name()
                )));
            }
        }
        let columns: Vec<String> =
            table.names().map(|name| format!("t.{}", quoted(name))).collect();
        let order = match grouped {
            true => format!("WHERE c.size > 1 ORDER BY c.size DESC, c.component, t.{ROW}"),
            false => format!("ORDER BY t.{ROW}"),
        };
        let name = table.quoted();
        let answer = format!(
            "SELECT {}, c.component AS cluster, c.size AS cluster_size FROM connected_components(({})) c \
             JOIN {name} t ON t.{ROW} = c.node {order}",
            columns.join(", "),
            self.marked_pairs(&condition, &name, ROW, false),
        );
        Ok(self.mark(&name, ROW)?.into_iter().chain([answer]).collect())
    }

    /// The statements whose last one gives the group of each row by its number: the number of its first row, and its size.
    ///
    /// # Errors
    ///
    /// As of [`pairs`](Self::pairs).
    pub fn groups(&self) -> Result<Vec<String>> {
        let condition = self.condition(true)?;
        let name = self.tables[0].quoted();
        let answer = format!(
            "SELECT node AS row, component AS cluster, size AS cluster_size FROM connected_components(({})) ORDER BY row",
            self.marked_pairs(&condition, &name, ROW, false)
        );
        Ok(self.mark(&name, ROW)?.into_iter().chain([answer]).collect())
    }

    /// The statements that find which rows stay, [`FOUND`] in the end.
    ///
    /// # Errors
    ///
    /// As of [`pairs`](Self::pairs); for rows that are kept by the length of several columns.
    pub fn deduplicate(&self, keep: &Keep) -> Result<Vec<String>> {
        let condition = self.condition(true)?;
        let [table, _] = self.tables;
        let by = self.order_of(keep)?;
        let (ranked, place) = match by {
            None => (table.quoted(), ROW),
            Some(_) => (RANKED.to_string(), PLACE),
        };
        let rank = by.map(|by| {
            format!(
                "CREATE TABLE {RANKED} AS SELECT *, row_number() OVER (ORDER BY {by}) AS {PLACE} FROM {}",
                table.quoted()
            )
        });
        let parts = condition.parts(["d", "k"]).into_iter().zip(condition.parts(["k", "d"]));
        let value = condition.told(["d", "k"]);
        let parts = parts.map(|((part, name), (other, _))| match condition.is_symmetric() {
            true => format!(", {part} AS {}", quoted(&name)),
            false => {
                format!(
                    ", CASE WHEN {value} = r.score THEN {part} ELSE {other} END AS {}",
                    quoted(&name)
                )
            }
        });
        let find = format!(
            "CREATE TABLE {FOUND} AS SELECT d.{ROW} AS dropped_row, k.{ROW} AS kept_row, r.kept AS is_kept, \
             r.score AS score{} FROM representatives(({}){}) r \
             JOIN {ranked} d ON d.{place} = r.node JOIN {ranked} k ON k.{place} = r.representative",
            parts.collect::<String>(),
            self.marked_pairs(&condition, &ranked, place, true),
            condition.order(),
        );
        let mark = self.mark(&ranked, place)?;
        Ok(rank.into_iter().chain(mark).chain([find]).collect())
    }

    /// The order of rows that are kept; `None` for that of the table.
    fn order_of(&self, keep: &Keep) -> Result<Option<String>> {
        let [table, _] = self.tables;
        let length = || -> Result<String> {
            let [only] = self.question.on.as_slice() else {
                return Err(VerbError::with_hint(
                    "the longest and the shortest are by the compared column, and several are compared",
                    "--keep first, last, max:COLUMN or min:COLUMN",
                ));
            };
            let (name, data_type) = table.column(&only.left)?;
            let function = if data_type.is_nested() { "array_length" } else { "length" };
            Ok(format!("{function}({})", quoted(name)))
        };
        let column = |name: &String| table.column(name).map(|(name, _)| quoted(name));
        Ok(match keep {
            Keep::First => None,
            Keep::Last => Some(format!("{ROW} DESC")),
            Keep::Longest => Some(format!("{} DESC NULLS LAST, {ROW}", length()?)),
            Keep::Shortest => Some(format!("{} NULLS LAST, {ROW}", length()?)),
            Keep::Max(name) => Some(format!("{} DESC NULLS LAST, {ROW}", column(name)?)),
            Keep::Min(name) => Some(format!("{} NULLS LAST, {ROW}", column(name)?)),
        })
    }

    /// The rows of the table that stay, in its order.
    pub fn kept(&self) -> String {
        let [table, _] = self.tables;
        let columns: Vec<String> =
            table.names().map(|name| format!("t.{}", quoted(name))).collect();
        format!(
            "SELECT {} FROM {} t JOIN {FOUND} f ON f.dropped_row = t.{ROW} WHERE f.is_kept ORDER BY t.{ROW}",
            columns.join(", "),
            table.quoted()
        )
    }

    /// The rows that were dropped, each with the most similar one that stays.
    ///
    /// # Errors
    ///
    /// When a column is unknown.
    pub fn audit(&self) -> Result<String> {
        let (told, shown) = self.told(["d", "k"], ["dropped", "kept"])?;
        let parts = self.condition(true)?.parts(["d", "k"]);
        let parts = parts.into_iter().map(|(_, name)| format!("f.{}", quoted(&name)));
        let all = told.into_iter().chain(["f.score".to_string()]).chain(parts).chain(shown);
        let table = self.tables[0].quoted();
        Ok(format!(
            "SELECT {} FROM {FOUND} f JOIN {table} d ON d.{ROW} = f.dropped_row \
             JOIN {table} k ON k.{ROW} = f.kept_row WHERE NOT f.is_kept ORDER BY d.{ROW}",
            all.collect::<Vec<_>>().join(", ")
        ))
    }
}
