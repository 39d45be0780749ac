//! Weighted sets of every kind, held against DataFusion's nested loops with the scalar functions.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, Int32Array, Int64Array, ListArray, StringArray, StructArray, UInt32Array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::Result;
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::draw::{rounds, seed};
use crate::config::StrategyName;
use crate::functions::all;
use crate::session::install;
use crate::strategies::of_weighted_sets;
use crate::tests::statements::{
    Drawn, Setup, Tally, Way, error, oracle, pick, plan_and_rows, statement, table,
};
use crate::weighted::{PairValues, WeightedMeasure};

/// Ways for few rows, and for many, whose pieces and buffers take more.
const WAYS: [[Way; 6]; 2] = [Way::all(1600), Way::all(16_000)];

/// A session of DataFusion with the functions of this crate.
fn nested_loops() -> SessionContext {
    let context = oracle();
    all().into_iter().for_each(|function| context.register_udf(function.as_ref().clone()));
    context
}

/// The weights of a table.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Weights {
    /// 0 to 4.
    Few,
    /// All alike.
    Equal,
    /// By the token, times a count.
    OfTokens,
    /// As large as a product of two sums of them allows.
    Large,
    /// One token weighs nearly all.
    OneGiant,
    /// The greatest weight there is; no product of two is added.
    Greatest,
}

impl Weights {
    const ALL: [Self; 6] =
        [Self::Few, Self::Equal, Self::OfTokens, Self::Large, Self::OneGiant, Self::Greatest];

    fn draw(self, rng: &mut StdRng, token: i64) -> u32 {
        match self {
            Self::Few => rng.random_range(0..5),
            Self::Equal => 7,
            Self::OfTokens => (1000 + 37 * token as u32) * rng.random_range(1..3),
            Self::Large => rng.random_range(0..1 << 28),
            Self::OneGiant if token == 0 => 3_000_000_000,
            Self::OneGiant => rng.random_range(1..50),
            Self::Greatest => *[u32::MAX, u32::MAX, 1, 0].choose(rng).unwrap(),
        }
    }

    /// Whether tokens may be repeated: sums of weights fit 32 bits.
    fn may_repeat(self) -> bool {
        !matches!(self, Self::OneGiant | Self::Greatest)
    }
}

/// The tokens and weights of a row.
type Row = Vec<(Option<i64>, Option<u32>)>;

fn row(rng: &mut StdRng, weights: Weights, vocabulary: i64, bases: &[Row]) -> Row {
    let mut row = match bases.choose(rng) {
        Some(base) if rng.random_bool(0.6) => base.clone(),
        _ => {
            let len = [0, 1, 3, 8, 20][rng.random_range(0..5)];
            let element = |_| {
                let (a, b) = (rng.random_range(0..vocabulary), rng.random_range(0..vocabulary));
                let token = a.min(b);
                (Some(token), Some(weights.draw(rng, token)))
            };
            (0..len).map(element).collect()
        }
    };
    for _ in 0..rng.random_range(0..3) {
        let token = rng.random_range(0..vocabulary);
        let weight = (!rng.random_bool(0.1)).then(|| weights.draw(rng, token));
        let element = ((!rng.random_bool(0.1)).then_some(token), weight);
        match rng.random_range(0..row.len() + 1) {
            place if place < row.len() => row[place] = element,
            _ => row.push(element),
        }
    }
    if !weights.may_repeat() {
        row.sort_unstable();
        row.dedup_by_key(|(token, _)| *token);
    }
    row
}

/// The types of tokens that meet each other.
const TEXTS: [DataType; 3] = [DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View];
const INTEGERS: [DataType; 3] = [DataType::Int64, DataType::UInt8, DataType::Int32];

/// Rows as a column, of a random layout.
fn column(rows: &[Option<Row>], tokens: &DataType, layout: u8) -> Result<ArrayRef> {
    let elements: Row = rows.iter().flatten().flatten().copied().collect();
    let values = elements.iter().map(|(token, _)| *token);
    let values: ArrayRef = match tokens.is_integer() {
        true => Arc::new(values.collect::<Int64Array>()),
        // Texts of several lengths, some longer than a word.
        false => Arc::new(
            values
                .map(|token| {
                    token.map(|token| format!("{}{token}", "token-".repeat(token as usize % 3)))
                })
                .collect::<StringArray>(),
        ),
    };
    let mut values = cast(&values, tokens)?;
    if layout % 2 == 1 {
        let encoded = DataType::Dictionary(Box::new(DataType::UInt32), Box::new(tokens.clone()));
        values = cast(&values, &encoded)?;
    }
    let weights: UInt32Array = elements.iter().map(|(_, weight)| *weight).collect();
    let weights = cast(&weights, if layout == 0 { &DataType::Int64 } else { &DataType::UInt32 })?;
    let fields: Fields = [("token", values.data_type()), ("weight", weights.data_type())]
        .into_iter()
        .map(|(name, data_type)| Field::new(name, data_type.clone(), true))
        .collect();
    let pairs = StructArray::try_new(fields.clone(), vec![values, weights], None)?;
    let lengths = rows.iter().map(|row| row.as_ref().map_or(0, Vec::len));
    let nulls: NullBuffer = rows.iter().map(Option::is_some).collect();
    let field = Arc::new(Field::new_list_field(DataType::Struct(fields), true));
    let lists = ListArray::try_new(
        Arc::clone(&field),
        OffsetBuffer::from_lengths(lengths),
        Arc::new(pairs),
        Some(nulls),
    )?;
    Ok(match layout / 2 {
        0 => Arc::new(lists),
        1 => cast(&lists, &DataType::LargeList(field))?,
        _ => cast(&lists, &DataType::ListView(field))?,
    })
}

/// Two tables of rows of (id, w, k), some of them NULL, in two partitions; each has a type of its own.
fn tables(rng: &mut StdRng, rows: [usize; 2], weights: Weights) -> Result<[Arc<MemTable>; 2]> {
    let vocabulary = [6, 30, 200][rng.random_range(0..3)];
    let bases: Vec<Row> =
        (0..1 + rows[0] / 8).map(|_| row(rng, weights, vocabulary, &[])).collect();
    let family = if rng.random() { TEXTS } else { INTEGERS };
    let mut of_rows = |rows: usize| {
        let (tokens, layout) = (family.choose(rng).unwrap().clone(), rng.random_range(0..6));
        table(rng, rows, "w", |rng, rows| {
            let value = |_| rng.random_bool(0.9).then(|| row(rng, weights, vocabulary, &bases));
            let values: Vec<Option<Row>> = (0..rows).map(value).collect();
            column(&values, &tokens, layout)
        })
    };
    Ok([of_rows(rows[0])?, of_rows(rows[1])?])
}

/// The value of a random pair of rows, which is a threshold that pairs lie on.
fn value_of_a_pair(rng: &mut StdRng, measure: WeightedMeasure, tables: &[Arc<MemTable>; 2]) -> f64 {
    let columns = tables.each_ref().map(|table| {
        let batches = table.batches[0].try_read().unwrap();
        Arc::clone(batches[0].column(1))
    });
    let mut values =
        PairValues::try_new(measure, [columns[0].as_ref(), columns[1].as_ref()]).unwrap();
    let pairs: Vec<f64> = (0..60)
        .filter_map(|_| {
            let pair = columns.each_ref().map(|column| rng.random_range(0..column.len()));
            values.of(pair).unwrap().filter(|value| *value > 0.0)
        })
        .collect();
    pairs.choose(rng).copied().unwrap_or(0.5)
}

fn draw(rng: &mut StdRng, measure: WeightedMeasure, tables: &[Arc<MemTable>; 2]) -> Drawn {
    let least = match rng.random_range(0..3) {
        0 => format!("{:?}", value_of_a_pair(rng, measure, tables)),
        _ => pick(rng, &["0.1", "0.3", "0.5", "2.0 / 3", "0.75", "0.8", "0.9", "1"]),
    };
    let name = measure.name();
    let predicate = match rng.random_range(0..6) {
        0 => format!("{name}(a.w, b.w) > {least}"),
        1 => format!("{least} <= {name}(b.w, a.w)"),
        2 => format!("{name}(a.w, b.w) BETWEEN {least} AND {least} + 0.2"),
        3 => format!("{name}(b.w, a.w) = {least}"),
        _ => format!("{name}(a.w, b.w) >= {least}"),
    };
    let scored = match rng.random_range(0..3) {
        0 => "weighted_jaccard",
        1 => "weighted_containment",
        _ => name,
    };
    Drawn {
        predicate,
        residual: " AND (a.id + b.id) % 3 > 2 * weighted_dice(a.w, b.w)",
        score: format!("{scored}(a.w, b.w)"),
        column: "w",
    }
}

/// A measure that the weights allow.
fn measure(rng: &mut StdRng, weights: Weights) -> WeightedMeasure {
    let sums = [WeightedMeasure::Jaccard, WeightedMeasure::Dice, WeightedMeasure::Containment];
    match weights {
        Weights::Greatest => *sums.choose(rng).unwrap(),
        _ => *WeightedMeasure::ALL.choose(rng).unwrap(),
    }
}

async fn compare(
    rng: &mut StdRng,
    tally: &mut Tally,
    round: usize,
    rows: [usize; 2],
) -> Result<()> {
    let weights = Weights::ALL[round % Weights::ALL.len()];
    let tables = tables(rng, rows, weights)?;
    let measure = measure(rng, weights);
    let drawn = draw(rng, measure, &tables);
    let ways = WAYS[usize::from(rows[0] > 100)];
    let way = ways[round / Weights::ALL.len() % ways.len()];
    let mut setup = Setup::draw(rng, way);
    let names = of_weighted_sets().into_iter().map(|strategy| StrategyName::new(strategy.name()));
    setup.options.strategy =
        *names.chain([StrategyName::AUTO]).collect::<Vec<_>>().choose(rng).unwrap();
    let sql = statement(rng, &drawn);
    let what = (round, weights, setup.clone());
    tally.compare([&nested_loops(), &setup.session(install)?], tables, &sql, what).await
}

/// Every way and strategy gives the rows of a nested loop.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn weighted_sets_join_as_a_nested_loop_does() -> Result<()> {
    let mut rng = StdRng::seed_from_u64(seed(53));
    let (mut tally, rounds) = (Tally::default(), rounds(400));
    for round in 0..rounds {
        compare(&mut rng, &mut tally, round, [60, 45]).await?;
    }
    let Tally { with_rows, grids, once } = tally;
    assert!(
        3 * with_rows > rounds && 20 * grids > rounds && once > 0,
        "{with_rows} {grids} {once}"
    );
    Ok(())
}

/// Sides of many rows: lists of postings that fill groups, batches and pieces.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_weighted_sets_join_as_a_nested_loop_does() -> Result<()> {
    let mut rng = StdRng::seed_from_u64(seed(54));
    let mut tally = Tally::default();
    for round in 0..rounds(18) {
        compare(&mut rng, &mut tally, 7 * round, [900, 700]).await?;
    }
    assert!(tally.with_rows > 0);
    Ok(())
}

/// The nearest rows are those that a window function finds among all pairs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nearest_weighted_sets_are_those_of_a_window_function() -> Result<()> {
    let mut rng = StdRng::seed_from_u64(seed(55));
    for round in 0..rounds(90) {
        let weights = Weights::ALL[round % Weights::ALL.len()];
        let tables = tables(&mut rng, [40, 60], weights)?;
        let score = format!("{}(a.w, b.w)", measure(&mut rng, weights).name());
        let way = WAYS[0][round % WAYS[0].len()];
        let (oracle, operator) = (nested_loops(), Setup::draw(&mut rng, way).session(install)?);
        for (name, table) in ["a", "b"].into_iter().zip(tables) {
            oracle.register_table(name, Arc::clone(&table) as _)?;
            operator.register_table(name, table)?;
        }
        let count = [1, 2, 5, 100][rng.random_range(0..4)];
        let (ties, rank) = [(" WITH TIES", "rank"), ("", "row_number")][rng.random_range(0..2)];
        let partner = if ties.is_empty() { "" } else { ", b.id" };
        let outer = pick(&mut rng, &["", "LEFT "]);
        let on = pick(&mut rng, &["true", "a.k = b.k", "a.id <> b.id"]);
        let sql = format!(
            "SELECT a.id, {score}{partner} FROM a {outer}SIMJOIN b NEAREST {count}{ties} BY SIMILARITY {score} ON {on}"
        );
        let pairs = format!(
            "SELECT a.id AS x, b.id AS id, {score} AS s FROM a CROSS JOIN b WHERE {score} > 0 AND {on}"
        );
        let of_all = format!(
            "SELECT a.id, b.s{partner} FROM a {outer}JOIN (SELECT * FROM (SELECT *, {rank}() OVER \
             (PARTITION BY x ORDER BY s DESC) AS r FROM ({pairs})) WHERE r <= {count}) b ON a.id = b.x"
        );
        let (_, expected) = plan_and_rows(&oracle, &of_all).await?;
        let (plan, found) = plan_and_rows(&operator, &sql).await?;
        assert_eq!(found, expected, "{round} {weights:?} {way:?}\n{sql}\n{plan}");
    }
    Ok(())
}

/// Errors name the function, what was found and what would work.
#[tokio::test]
async fn errors_name_the_function_and_the_row() -> Result<()> {
    let context = Setup::of(Way::Memory).session(install)?;
    let rows: Vec<Option<Row>> = (0..4)
        .map(|row| Some(vec![(Some(1), Some(1 << 20)), (Some(row), Some(u32::MAX))]))
        .collect();
    let batch = arrow::array::RecordBatch::try_from_iter_with_nullable([
        ("id", Arc::new(Int32Array::from_iter_values(0..4)) as ArrayRef, false),
        ("w", column(&rows, &DataType::Utf8, 0)?, true),
        ("n", column(&rows, &DataType::Int64, 0)?, true),
    ])?;
    context.register_table("t", Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?))?;
    for (condition, reason) in [
        ("weighted_dice(a.w, b.n) >= 0.5", "tokens can be equal, found text and integer tokens"),
        (
            "weighted_cosine(a.id, b.id) >= 0.5",
            "weighted_cosine expects weighted sets, found Int32",
        ),
        ("weighted_jaccard(['a'], ['b']) >= 0.5", "token_counts(list) counts"),
        ("weighted_jaccard('a', 'b') >= 0.5", "tfidf(word_tokens(text)) OVER ()"),
        ("weighted_jaccard(a.w) >= 0.5", "takes two weighted sets, found one argument"),
        ("weighted_jaccard(a.w, b.w) >= 0", "sets without a common token"),
        ("weighted_jaccard(a.w, b.w) >= 0.5", "row 1 of a batch repeats add up to 4294967296"),
    ] {
        let found = error(&context, &format!("SELECT 1 FROM t a SIMJOIN t b ON {condition}")).await;
        assert!(found.contains(reason), "{condition}: {found}");
    }
    let of_three = "SELECT 1 FROM t a SIMJOIN t b ON weighted_cosine(a.w, b.w) >= 0.5 AND a.id = 2 AND b.id = 2";
    let found = error(&context, of_three).await;
    assert!(found.contains("weighted_cosine: the squares of the 2 weights of row 0"), "{found}");
    Ok(())
}

/// Literals, whose weights are signed, are weighted sets, too.
#[tokio::test]
async fn literals_are_weighted_sets() -> Result<()> {
    let context = Setup::of(Way::Memory).session(install)?;
    let set = "[{token: 'ann', weight: 2}, {token: 'lee', weight: 1}, {token: NULL, weight: 9}]";
    let other = "[{token: 'ann', weight: 1}, {token: 'ann', weight: 2}, {token: 'b', weight: 0}]";
    for (name, value) in [
        ("weighted_jaccard", "0.5"),
        ("weighted_dice", "0.6666666666666666"),
        ("weighted_cosine", "0.894427190999"),
        ("weighted_containment", "0.6666666666666666"),
        ("weighted_overlap", "6"),
    ] {
        let sql = format!("SELECT {name}({set}, {other})");
        let (_, rows) = plan_and_rows(&context, &sql).await?;
        assert!(rows[0].starts_with(value), "{name} {rows:?}");
    }
    let negative = error(&context, "SELECT weighted_jaccard([{token: 'a', weight: -1}], [])").await;
    assert!(negative.contains("-1"), "{negative}");
    let float = error(&context, "SELECT weighted_jaccard([{token: 'a', weight: 0.5}], [])").await;
    assert!(float.contains("whole numbers for weights, found Float64"), "{float}");
    Ok(())
}
