//! Joins with nearest rows.
//!
//! The nested loop joins each left row, with a number of its own, with its candidates, and ranks them.

use rand::Rng;
use rand::seq::IndexedRandom;

use super::conditions::{Text, of_both, of_one};
use super::joins::{Family, Generator, MEASURES, sides};
use super::statements::Statement;
use super::vectors::is_number;
use crate::vector_oracle::Metric;

/// The score of a pair.
struct Score {
    text: Text,
    is_distance: bool,
    /// Whether pairs of score 0 are no neighbours.
    zero_is_far: bool,
    /// Whether no family knows it.
    is_foreign: bool,
}

impl Score {
    fn draw(generator: &mut Generator<'_>, family: Family, [first, second]: &[Text; 2]) -> Self {
        let call = |function: &str| Text {
            ours: format!("{function}({}, {})", first.ours, second.ours),
            oracle: format!("{function}({}, {})", first.oracle, second.oracle),
        };
        match family {
            Family::Sets => {
                let text = call(MEASURES.choose(&mut generator.rng).unwrap());
                Self { text, is_distance: false, zero_is_far: true, is_foreign: false }
            }
            Family::Vectors => {
                let metric = Metric::ALL.choose(&mut generator.rng).unwrap().sql();
                let is_distance = metric.contains("distance");
                Self { text: call(metric), is_distance, zero_is_far: false, is_foreign: false }
            }
        }
    }

    /// A score that no family knows.
    fn foreign(generator: &mut Generator<'_>, a: &str, b: &str) -> Self {
        let texts = [
            format!("abs({a}.w - {b}.w)"),
            format!("{a}.f - {b}.f"),
            format!("{b}.id % 5 + 0 * {a}.id"),
            format!("CAST({a}.flag AS INT) + {b}.w / 2.0"),
        ];
        let text = Text::same(texts.choose(&mut generator.rng).unwrap());
        let is_distance = generator.rng.random();
        Self { text, is_distance, zero_is_far: false, is_foreign: true }
    }
}

/// Draws a statement.
pub fn draw(generator: &mut Generator<'_>) -> Statement {
    let depth = [1, 1, 1, 2][generator.rng.random_range(0..4)];
    let [mut left, mut right] = sides(generator, depth);
    let family = Family::draw(generator);
    let choice = generator.pick(12);
    let mut arguments = [
        family.argument(generator, &mut left, choice),
        family.argument(generator, &mut right, choice),
    ];
    if generator.rng.random_bool(0.2) {
        arguments.reverse();
    }
    let (a, b) = (left.alias.clone(), right.alias.clone());
    let score = match generator.rng.random_range(0..8) {
        0 => Score::foreign(generator, &a, &b),
        _ => Score::draw(generator, family, &arguments),
    };
    let mut conditions = vec![];
    for _ in 0..generator.rng.random_range(0..3) {
        conditions.push(match generator.rng.random_range(0..8) {
            0..4 => of_both(generator, &mut left, &mut right),
            4 => of_one(generator, &mut left),
            5 => of_one(generator, &mut right),
            _ => family.similarity(generator, false, &arguments[0], &arguments[1]),
        });
    }
    let all = |text: fn(&Text) -> &String| {
        conditions.iter().map(|c| text(c).as_str()).collect::<Vec<_>>().join(" AND ")
    };
    let count = *[1, 1, 2, 3, 5, 40].choose(&mut generator.rng).unwrap();
    let with_ties = generator.rng.random_bool(0.6);
    let outer = if generator.rng.random_bool(0.3) { "LEFT " } else { "" };
    let word = match !score.is_foreign && generator.rng.random() {
        true => "SIMJOIN",
        false => "JOIN",
    };
    let (left, right) = (left.from(), right.from());
    let of_score = &score.text;
    // Which of several rows in a tie is a neighbour is not specified.
    let partner = if with_ties { format!(", {b}.id AS y, {b}.k AS l") } else { String::new() };
    let columns = |score: &str| format!("{a}.id AS x, {a}.w AS w{partner}, {score} AS s");
    let ours = {
        let ties = if with_ties { " WITH TIES" } else { "" };
        let order = if score.is_distance { "DISTANCE" } else { "SIMILARITY" };
        let on = match conditions.is_empty() {
            true => String::new(),
            false => format!(" ON {}", all(|c| &c.ours)),
        };
        let columns = columns(&of_score.ours);
        format!(
            "SELECT {columns} FROM {} {outer}{word} {} NEAREST {count}{ties} BY {order} {}{on}",
            left.ours, right.ours, of_score.ours
        )
    };
    let oracle = {
        let ranked = &of_score.oracle;
        let rank = if with_ties { "rank" } else { "row_number" };
        let order = if score.is_distance { "" } else { " DESC" };
        let far = if score.zero_is_far { format!(" AND {ranked} > 0") } else { String::new() };
        let on = match conditions.is_empty() {
            true => String::new(),
            false => format!(" AND {}", all(|c| &c.oracle)),
        };
        let partner = if with_ties { ", y, l" } else { "" };
        format!(
            "SELECT x, w{partner}, s FROM (SELECT {}, {rank}() OVER (PARTITION BY {a}.number ORDER BY \
             {ranked}{order}) AS r FROM (SELECT *, row_number() OVER () AS number FROM {}) AS {a} \
             {outer}JOIN {} ON {}{far}{on}) WHERE r <= {count}",
            columns(ranked),
            left.oracle,
            right.oracle,
            is_number(ranked)
        )
    };
    // Above the ranking: of the partners every row that ties is there, or none is read.
    let filters = ["", "", "w > 1", "x % 2 = 0", "l = 1", "y % 3 > 0", "x < y"];
    let some = if with_ties { filters.len() } else { 4 };
    match filters[generator.pick(some)] {
        "" => Statement { ours, oracle },
        filter => Statement {
            ours: format!("SELECT * FROM ({ours}) AS ranked WHERE {filter}"),
            oracle: format!("SELECT * FROM ({oracle}) AS ranked WHERE {filter}"),
        },
    }
}
