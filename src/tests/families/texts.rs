//! Statements of every kind, held against DataFusion's nested loops.

use std::sync::Arc;

use arrow::array::StringArray;
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::catalog::TableProvider;
use datafusion::common::Result;
use datafusion::common::ScalarValue;
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::draw::{Kind, character, edited, rounds, seed, text};
use crate::SimJoinContextExt;
use crate::config::StrategyName;
use crate::emulator::gpu;
use crate::functions::all;
use crate::session::install;
use crate::strategies::of_strings;
use crate::tests::statements::{
    Drawn, Setup, Tally, Way, error, oracle, pick, plan_and_rows, sorted, statement, table,
};

const WAYS: [Way; 6] = Way::all(1600);

/// A session of DataFusion with the functions of this crate.
fn nested_loops() -> SessionContext {
    let context = oracle();
    all().into_iter().for_each(|function| context.register_udf(function.as_ref().clone()));
    context
}

/// A type of texts, dictionary-encoded or not.
fn text_type(rng: &mut StdRng) -> DataType {
    let encoded = |values| DataType::Dictionary(Box::new(DataType::Int32), Box::new(values));
    match rng.random_range(0..5) {
        0 => DataType::Utf8,
        1 => DataType::Utf8View,
        2 => DataType::LargeUtf8,
        3 => encoded(DataType::Utf8),
        _ => encoded(DataType::LargeUtf8),
    }
}

/// Two tables of rows of (id, s, k), some of them NULL, in two partitions; each has a type of texts of its own.
fn tables(
    rng: &mut StdRng,
    rows: [usize; 2],
    text: impl Fn(&mut StdRng) -> String,
) -> Result<[Arc<MemTable>; 2]> {
    let mut of_rows = |rows: usize| {
        let data_type = text_type(rng);
        table(rng, rows, "s", |rng, rows| {
            let text = |_| rng.random_bool(0.9).then(|| text(rng));
            let texts = (0..rows).map(text).collect::<StringArray>();
            Ok(cast(&texts, &data_type)?)
        })
    };
    Ok([of_rows(rows[0])?, of_rows(rows[1])?])
}

/// The statement with the `LargeUtf8` argument of each function before the other one, for all are symmetric:
/// DataFusion's `levenshtein` of a `Utf8` and then a `LargeUtf8` argument fails.
fn large_first(tables: &[Arc<MemTable>; 2], sql: String) -> String {
    let is_large = |table: &Arc<MemTable>| match table.schema().field(1).data_type() {
        DataType::Dictionary(_, values) => **values == DataType::LargeUtf8,
        data_type => *data_type == DataType::LargeUtf8,
    };
    match tables.each_ref().map(is_large) {
        [true, false] => sql.replace("(b.s, a.s)", "(a.s, b.s)"),
        [false, true] => sql.replace("(a.s, b.s)", "(b.s, a.s)"),
        _ => sql,
    }
}

/// A predicate, and what is selected beside it.
fn draw(rng: &mut StdRng, kind: Kind) -> Drawn {
    let most = match kind {
        Kind::Long => rng.random_range(0..14),
        _ => rng.random_range(0..5),
    };
    let least = pick(rng, &["0.25", "0.5", "0.6", "2.0 / 3", "0.8", "0.9", "1"]);
    let distance = pick(rng, &["levenshtein", "levenshtein", "damerau_levenshtein"]);
    let similarity = pick(
        rng,
        &[
            "levenshtein_similarity",
            "indel_similarity",
            "jaro_similarity",
            "jaro_winkler_similarity",
        ],
    );
    let predicate = match rng.random_range(0..9) {
        0 => format!("{distance}(a.s, b.s) < {}", most + 1),
        1 => format!("{most} >= {distance}(b.s, a.s)"),
        2 => format!("{distance}(a.s, b.s) BETWEEN 1 AND {most}"),
        3 => format!("{distance}(a.s, b.s) = {most}"),
        4 | 5 => format!("{similarity}(a.s, b.s) >= {least}"),
        6 => format!("{least} < {similarity}(b.s, a.s)"),
        7 => format!("CAST({similarity}(a.s, b.s) AS REAL) >= {least}"),
        _ => format!("{distance}(a.s, b.s) <= {most}"),
    };
    let scored = match rng.random_range(0..4) {
        0 => similarity.as_str(),
        1 => "levenshtein",
        _ if predicate.contains(&similarity) => similarity.as_str(),
        _ => distance.as_str(),
    };
    Drawn {
        predicate,
        residual: " AND (a.id + b.id) % 3 <> levenshtein(a.s, b.s)",
        score: format!("{scored}(a.s, b.s)"),
        column: "s",
    }
}

/// A text, or an edited copy of one of `bases`.
fn text_or_copy(rng: &mut StdRng, kind: Kind, bases: &[String]) -> String {
    match rng.random_range(0..3) {
        0 => text(rng, kind),
        _ => {
            let base = &bases[rng.random_range(0..bases.len())];
            let edits = [0, 1, 1, 2, 3, 5, 9][rng.random_range(0..7)];
            edited(rng, kind, base, edits)
        }
    }
}

/// The rows of a table, of texts of a kind: DataFusion takes some microseconds for a pair of long ones.
fn rows_of(kind: Kind, rows: usize) -> usize {
    if kind == Kind::Long { rows / 3 } else { rows }
}

/// A statement drawn for two tables of `rows` rows, in one of the ways, against the oracle.
async fn compare(
    rng: &mut StdRng,
    tally: &mut Tally,
    round: usize,
    rows: [usize; 2],
) -> Result<()> {
    let kind = Kind::ALL[round % Kind::ALL.len()];
    let rows = rows.map(|rows| rows_of(kind, rows));
    let bases: Vec<String> = (0..1 + rows[0] / 8).map(|_| text(rng, kind)).collect();
    let tables = tables(rng, rows, |rng| text_or_copy(rng, kind, &bases))?;
    let drawn = draw(rng, kind);
    run(rng, tally, round, tables, &drawn).await
}

/// A statement of what was drawn, in one of the ways, against the oracle.
async fn run(
    rng: &mut StdRng,
    tally: &mut Tally,
    round: usize,
    tables: [Arc<MemTable>; 2],
    drawn: &Drawn,
) -> Result<()> {
    run_in(rng, tally, round, tables, (drawn, WAYS[round / Kind::ALL.len() % WAYS.len()])).await
}

/// The same in a given way.
async fn run_in(
    rng: &mut StdRng,
    tally: &mut Tally,
    round: usize,
    tables: [Arc<MemTable>; 2],
    (drawn, way): (&Drawn, Way),
) -> Result<()> {
    let sql = large_first(&tables, statement(rng, drawn));
    let mut setup = Setup::draw(rng, way);
    let names = of_strings().into_iter().map(|strategy| StrategyName::new(strategy.name()));
    // Deletions serve up to two edits, and equal texts.
    let is_near =
        ["<= 0", "<= 1", "<= 2", "< 1", "< 2", "< 3", "AND 1", "AND 2", "= 0", "= 1", "= 2"];
    let is_near = drawn.predicate.starts_with("levenshtein(")
        && is_near.iter().any(|bound| drawn.predicate.ends_with(bound));
    let is_equal = drawn.predicate.starts_with("damerau_levenshtein(")
        && ["<= 0", "< 1", "= 0"].iter().any(|bound| drawn.predicate.ends_with(bound))
        || drawn.predicate.contains("_similarity(a.s, b.s) >= 1");
    let is_near = is_near || is_equal;
    let names = names.filter(|name| is_near || *name != StrategyName::new("deletions"));
    let names = names.filter(|name| way != Way::Device || *name == StrategyName::new("boxes"));
    let names: Vec<StrategyName> = std::iter::once(StrategyName::AUTO).chain(names).collect();
    setup.options.strategy = *names.choose(rng).unwrap();
    let what = (round, way, Kind::ALL[round % Kind::ALL.len()], setup.options.strategy);
    let sessions = [&nested_loops(), &setup.session(install)?];
    tally.compare(sessions, tables, &sql, what).await
}

/// Every way of the operator gives the rows of a nested loop, numbers bit for bit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_join_as_a_nested_loop_does() -> Result<()> {
    let mut rng = StdRng::seed_from_u64(seed(29));
    let mut tally = Tally::default();
    for round in 0..rounds(160) {
        compare(&mut rng, &mut tally, round, [90, 60]).await?;
    }
    let Tally { with_rows, grids, once } = tally;
    assert!(with_rows > 100 && grids > 5 && once > 1, "{with_rows} {grids} {once}");
    Ok(())
}

/// Texts enough of one length for several blocks of an index.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_texts_join_as_a_nested_loop_does() -> Result<()> {
    let mut rng = StdRng::seed_from_u64(seed(30));
    let mut tally = Tally::default();
    for round in 0..rounds(14) {
        compare(&mut rng, &mut tally, round, [400, 300]).await?;
    }
    assert!(tally.with_rows > 8, "{}", tally.with_rows);
    Ok(())
}

/// A device gives the rows of a nested loop, numbers bit for bit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_join_on_a_device_as_a_nested_loop_does() -> Result<()> {
    if gpu().is_none() {
        return Ok(());
    }
    let mut rng = StdRng::seed_from_u64(seed(31));
    let mut tally = Tally::default();
    for round in 0..rounds(48) {
        let kind = Kind::ALL[round % Kind::ALL.len()];
        let rows =
            [[90, 60], [300, 200]][round / Kind::ALL.len() % 2].map(|rows| rows_of(kind, rows));
        let bases: Vec<String> = (0..1 + rows[0] / 8).map(|_| text(&mut rng, kind)).collect();
        let tables = tables(&mut rng, rows, |rng| text_or_copy(rng, kind, &bases))?;
        let drawn = draw(&mut rng, kind);
        run_in(&mut rng, &mut tally, round, tables, (&drawn, Way::Device)).await?;
    }
    assert!(tally.with_rows > 24, "{}", tally.with_rows);
    Ok(())
}

/// A condition by `hamming`, and what is selected beside it.
fn draw_hamming(rng: &mut StdRng, len: usize) -> Drawn {
    let most = rng.random_range(0..=len.min(6));
    let predicate = match rng.random_range(0..5) {
        0 => format!("hamming(a.s, b.s) < {}", most + 1),
        1 => format!("{most} >= hamming(b.s, a.s)"),
        2 => format!("hamming(a.s, b.s) BETWEEN 1 AND {most}"),
        3 => format!("hamming(a.s, b.s) = {most}"),
        _ => format!("hamming(a.s, b.s) <= {most}"),
    };
    Drawn {
        predicate,
        residual: " AND (a.id + b.id) % 3 <> hamming(a.s, b.s)",
        score: "hamming(a.s, b.s)".to_string(),
        column: "s",
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_of_one_length_join_by_hamming_as_a_nested_loop_does() -> Result<()> {
    let mut rng = StdRng::seed_from_u64(seed(32));
    let mut tally = Tally::default();
    for round in 0..rounds(48) {
        let kind = Kind::ALL[round % Kind::ALL.len()];
        let rows = [90, 60].map(|rows| rows_of(kind, rows));
        let len = text(&mut rng, kind).chars().count();
        let scalars = |rng: &mut StdRng| (0..len).map(|_| character(rng, kind)).collect();
        let bases: Vec<Vec<char>> = (0..1 + rows[0] / 8).map(|_| scalars(&mut rng)).collect();
        let tables = tables(&mut rng, rows, |rng| {
            let mut copy = bases[rng.random_range(0..bases.len())].clone();
            let edits = if len == 0 { 0 } else { rng.random_range(0..6) };
            (0..edits).for_each(|_| copy[rng.random_range(0..len)] = character(rng, kind));
            copy.into_iter().collect()
        })?;
        let drawn = draw_hamming(&mut rng, len);
        run(&mut rng, &mut tally, round, tables, &drawn).await?;
    }
    assert!(tally.with_rows > 30, "{}", tally.with_rows);
    Ok(())
}

/// A session with a table `n` of names.
async fn names() -> Result<SessionContext> {
    let context = Setup::of(Way::Memory).session(install)?;
    let sql = "CREATE TABLE n AS VALUES (1, 'martha'), (2, 'marhta'), (3, 'marta'), (4, ''), \
               (5, 'jones'), (6, 'johnson'), (7, NULL), (8, 'a')";
    context.sql(sql).await?.collect().await?;
    Ok(context)
}

#[tokio::test]
async fn functions_mean_what_their_pages_say() -> Result<()> {
    let context = names().await?;
    for (call, expected) in [
        ("levenshtein('martha', 'marhta')", "2"),
        ("damerau_levenshtein('martha', 'marhta')", "1"),
        ("damerau_levenshtein('ca', 'abc')", "2"),
        ("hamming('karolin', 'kathrin')", "3"),
        ("hamming('', '')", "0"),
        ("levenshtein_similarity('four', 'fort') = 0.5", "true"),
        ("levenshtein_similarity('', '') = 1", "true"),
        ("indel_similarity('abcd', 'abxd') = 0.75", "true"),
        ("jaro_similarity('', '') = 1 AND jaro_similarity('a', '') = 0", "true"),
        ("jaro_winkler_similarity('martha', 'marhta') > 0.961", "true"),
        ("jaro_winkler_similarity('martha', 'marhta') < 0.962", "true"),
        ("jaro_similarity('né', 'ne') = (0.5 + 0.5 + 1.0) / 3", "true"),
        ("damerau_levenshtein(NULL, 'a')", "NULL"),
        ("jaro_similarity(arrow_cast('ab', 'Dictionary(Int32, Utf8)'), 'ab') = 1", "true"),
    ] {
        let (_, found) = plan_and_rows(&context, &format!("SELECT {call}")).await?;
        assert_eq!(found, [expected], "{call}");
    }
    for (call, part) in [
        ("hamming('a', 'ab')", "needs two texts of the same length, found \"a\" of 1"),
        ("jaro_similarity('a')", "takes two texts, found one argument (Utf8)"),
        ("jaro_similarity(1, 'a')", "expects text, found Int64; codes such as 01427 have lost"),
        ("hamming([1], 'a')", "array_to_string"),
        ("indel_similarity(X'00', 'a')", "reads bytes as text"),
    ] {
        let found = error(&context, &format!("SELECT {call}")).await;
        assert!(found.contains(part), "{call}: {found}");
    }
    Ok(())
}

#[tokio::test]
async fn simjoin_insists_and_names_what_is_wrong() -> Result<()> {
    let context = names().await?;
    let joined = "SELECT count(*) FROM n a SIMJOIN n b ON";
    let name = |call: &str| call.replace("$x", "a.column2").replace("$y", "b.column2");
    for (condition, expected) in [
        ("levenshtein($x, $y) <= 0", "7"),
        ("levenshtein($x, $y) <= 1", "13"),
        ("levenshtein($x, $y) <= -1", "0"),
        ("damerau_levenshtein($x, $y) <= 1", "15"),
        ("jaro_winkler_similarity($x, $y) >= 0.9", "13"),
        ("hamming($x, $y) <= 2 AND length($x) = length($y)", "9"),
        ("levenshtein(lower($x), lower($y)) <= 0", "7"),
        ("hamming($x, $y) <= 2 AND a.column1 = b.column1", "7"),
    ] {
        let (plan, found) =
            plan_and_rows(&context, &format!("{joined} {}", name(condition))).await?;
        assert_eq!(found, [expected], "{condition}\n{plan}");
    }
    for (condition, part) in [
        ("levenshtein($x, $y) >= 2", "bounds the distance from below only"),
        (
            "levenshtein($x, $y) <= 2 OR a.column1 = 1",
            "pairs that are similar in none of its parts",
        ),
        ("levenshtein($x, $y) < 99999999999", "the greatest distance satisfies it"),
        ("jaro_similarity($x, $y) >= 0", "whose similarity is 0"),
        ("hamming($x, $y) <= 2", "hamming needs two texts of the same length"),
        ("damerau_levenshtein(a.column1, $y) <= 2", "expects text, found Int64"),
    ] {
        let found = error(&context, &format!("{joined} {}", name(condition))).await;
        assert!(found.contains(part), "{condition}: {found}");
    }
    Ok(())
}

/// A probe text far longer than any build text has more residuals than could be looked up.
#[tokio::test]
async fn long_texts_meet_an_index_of_deletions() -> Result<()> {
    let context = names().await?;
    let sql = "CREATE TABLE long AS SELECT value AS id, repeat('ab', 30000 * (value % 2)) || 'martha' AS s \
               FROM generate_series(1, 4)";
    for sql in [sql, "SET simjoin.strategy = 'deletions'", "SET simjoin.build_side = 'left'"] {
        context.sql(sql).await?.collect().await?;
    }
    let sql =
        "SELECT a.column1, b.id FROM n a RIGHT SIMJOIN long b ON levenshtein(a.column2, b.s) <= 2";
    let (_, found) = plan_and_rows(&context, sql).await?;
    let expected = ["1 | 2", "1 | 4", "2 | 2", "2 | 4", "3 | 2", "3 | 4", "NULL | 1", "NULL | 3"];
    assert_eq!(found, expected);
    Ok(())
}

/// Parameters are bound, each pair of a self-join is met once, and counts make no pairs.
#[tokio::test]
async fn plans_say_how_texts_are_joined() -> Result<()> {
    let context = names().await?;
    let sql = "SELECT count(*) FROM n a SIMJOIN n b ON levenshtein(a.column2, b.column2) <= $1 \
               AND a.column1 < b.column1";
    let frame = context.simjoin_sql(sql).await?;
    let frame = frame.with_param_values(vec![ScalarValue::Int64(Some(1))])?;
    assert_eq!(sorted(&frame.collect().await?), ["3"]);
    let sql = "SELECT a.column1, levenshtein(a.column2, b.column2) d FROM n a SIMJOIN n b \
               ON levenshtein(a.column2, b.column2) <= 2 AND a.column1 < b.column1 ORDER BY d";
    let (plan, found) = plan_and_rows(&context, sql).await?;
    assert!(plan.contains("each pair once") && plan.contains("threshold=2"), "{plan}");
    assert_eq!(found.len(), 4, "{found:?}");
    Ok(())
}
