//! Nearest sets at once.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Builder, ListBuilder, StringArray};
use datafusion::common::Result;
use rand::Rng;
use rand::rngs::StdRng;

use super::{Outcomes, compare, compare_by};
use crate::engine::StrategyName;
use crate::nearest::tests::{Drawn, rounds, source};
use crate::tests::statements::{Way, pick};

/// How often tokens repeat.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Tokens {
    /// Few that are in most sets, and many that are in few.
    Skewed,
    /// All are in few sets: most pairs share none.
    Rare,
    /// All are in many sets.
    Common,
    /// Sets that differ from others by a token or two, and sets that are equal.
    Copies,
    /// Words of texts.
    Words,
}

const ALL: [Tokens; 5] =
    [Tokens::Skewed, Tokens::Rare, Tokens::Common, Tokens::Copies, Tokens::Words];

impl Tokens {
    fn token(self, rng: &mut StdRng) -> i64 {
        let skewed = |rng: &mut StdRng, most: f64| most.powf(rng.random::<f64>()) as i64;
        match self {
            Self::Rare => rng.random_range(0..2000),
            Self::Common => rng.random_range(0..25),
            Self::Skewed | Self::Copies | Self::Words => skewed(rng, 400.0),
        }
    }

    /// The tokens of some rows, of which some are NULL.
    fn lists(self, rng: &mut StdRng, rows: usize) -> Vec<Option<Vec<i64>>> {
        let most = [3, 8, 40][rng.random_range(0..3)];
        let mut lists: Vec<Option<Vec<i64>>> = vec![];
        for row in 0..rows {
            let mut list: Vec<i64> =
                (0..rng.random_range(0..=most)).map(|_| self.token(rng)).collect();
            if self == Self::Copies && row > 0 && rng.random_bool(0.7) {
                list = lists[rng.random_range(0..row)].clone().unwrap_or_default();
                for _ in 0..rng.random_range(0..3) {
                    let token = self.token(rng);
                    match list.len() {
                        0 => list.push(token),
                        len => list[rng.random_range(0..len)] = token,
                    }
                }
            }
            lists.push(Some(list).filter(|_| rng.random_bool(0.97)));
        }
        lists
    }

    fn column(self, rng: &mut StdRng, rows: usize) -> ArrayRef {
        let lists = self.lists(rng, rows);
        if self == Self::Words {
            let text = |list: Vec<i64>| {
                list.into_iter().map(|token| format!("w{token}")).collect::<Vec<_>>().join(" ")
            };
            let texts = lists.into_iter().map(|list| list.map(text));
            return Arc::new(texts.collect::<StringArray>());
        }
        let mut column = ListBuilder::new(Int64Builder::new());
        for list in lists {
            for token in list.iter().flatten() {
                column.values().append_option((*token != 1).then_some(*token));
            }
            column.append(list.is_some());
        }
        Arc::new(column.finish())
    }

    fn drawn(self, rng: &mut StdRng) -> Drawn {
        const NAMES: [&str; 6] =
            ["jaccard", "dice", "set_cosine", "overlap", "overlap_coefficient", "containment"];
        let name = NAMES[rng.random_range(0..NAMES.len())];
        let arguments = match self {
            Self::Words => "word_tokens(a.s), word_tokens(b.s)",
            _ => &pick(rng, &["a.s, b.s", "b.s, a.s"]),
        };
        let score = format!("{name}({arguments})");
        let bound = if name == "overlap" { "2" } else { "0.3" };
        let condition = match rng.random_range(0..8) {
            0 | 1 => Some("a.id <> b.id".to_string()),
            2 => Some("a.id % 3 <> 0 AND b.id % 4 <> 1".to_string()),
            3 => Some(format!("{score} >= {bound} AND (a.id + b.id) % 3 <> 1")),
            4 => Some(format!("{score} > {bound}")),
            _ => None,
        };
        Drawn {
            right: pick(rng, &["b", "a b"]),
            count: [1, 2, 3, 10][rng.random_range(0..4)],
            with_ties: rng.random(),
            is_outer: rng.random_range(0..3) == 0,
            score,
            is_distance: false,
            is_foreign: false,
            zero_is_far: true,
            condition,
            filter: String::new(),
        }
    }
}

/// Every measure over tokens that are rare or frequent, in memory and with memory for few sets.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nearest_sets_are_found_at_once() -> Result<()> {
    let mut rng = source(21);
    let mut outcomes = Outcomes::default();
    for round in 0..rounds(32) {
        let tokens = ALL[round % ALL.len()];
        let most = [20, 150, 300][round % 3];
        let sizes = [rng.random_range(1..most), rng.random_range(1..most)];
        let way = if round % 10 == 9 { Way::Limit(1 << 11) } else { Way::Memory };
        let drawn = (tokens.drawn(&mut rng), sizes);
        let column = |rng: &mut StdRng, rows| tokens.column(rng, rows);
        compare(&mut rng, drawn, column, (way, &mut outcomes)).await?;
    }
    assert!(outcomes.found >= rounds(32) / 3, "{outcomes:?}");
    Ok(())
}

/// Sets of one blocking key alone are neighbours: keys that one side lacks, NULL keys, keys that are computed. A join
/// that names the strategy finds all neighbours by it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nearest_sets_of_a_blocking_key_are_found_at_once() -> Result<()> {
    let mut rng = source(22);
    let mut outcomes = Outcomes::default();
    for round in 0..rounds(32) {
        let tokens = ALL[round % ALL.len()];
        let most = [20, 150, 300][round % 3];
        let sizes = [rng.random_range(1..most), rng.random_range(1..most)];
        let way = if round % 10 == 9 { Way::Limit(1 << 11) } else { Way::Memory };
        let named = round % 3 == 1 && round % 10 != 9;
        let strategy = if named { StrategyName::new("rising") } else { StrategyName::AUTO };
        let keys = &[
            "a.k = b.k",
            "a.k = b.k AND a.id <> b.id",
            "a.k IS NOT DISTINCT FROM b.k",
            "a.k = b.k AND (a.id + b.id) % 3 <> 1",
            "a.k % 2 = b.k % 2 AND a.id % 3 <> 0 AND b.id % 4 <> 1",
        ];
        let condition = match named && rng.random_bool(0.3) {
            true => None,
            false => Some(pick(&mut rng, keys)),
        };
        let drawn = (Drawn { condition, ..tokens.drawn(&mut rng) }, sizes);
        let column = |rng: &mut StdRng, rows| tokens.column(rng, rows);
        compare_by(&mut rng, drawn, column, (way, strategy, &mut outcomes)).await?;
    }
    // With a condition that rejects many pairs there are rounds.
    assert!(outcomes.found >= rounds(32) / 3, "{outcomes:?}");
    Ok(())
}
