//! Bands of numbers, dates and times beside similarities, drawn at random and held against nested loops.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array, Int64Array,
    RecordBatch, StringArray, TimestampMicrosecondArray,
};
use datafusion::common::Result;
use datafusion::datasource::MemTable;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::draw::{Kind, edited, rounds, seed, text};
use super::several::nested_loops;
use crate::session::install;
use crate::tests::statements::{Setup, Way, pick, plan_and_rows, sorted};

/// Rows of (id, s, x, f, n, i, c, d, t): a text, a double, a float, integers of 64 and 8 bits, cents, a date and a time.
fn table(rng: &mut StdRng, rows: usize, bases: &[String]) -> Result<Arc<MemTable>> {
    let texts: StringArray = (0..rows)
        .map(|_| {
            let base = &bases[rng.random_range(0..bases.len())];
            let edits = rng.random_range(0..2);
            rng.random_bool(0.9).then(|| edited(rng, Kind::Words, base, edits))
        })
        .collect();
    let mut numbers = |most: i64| -> Vec<Option<i64>> {
        (0..rows).map(|_| rng.random_bool(0.9).then(|| rng.random_range(0..most))).collect()
    };
    let (cents, days, hours, small) = (numbers(60), numbers(40), numbers(100), numbers(256));
    let special = [f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e17, -0.0];
    let doubles: Vec<Option<f64>> = numbers(70)
        .into_iter()
        .map(|number| {
            number.map(|n| special.get(n as usize).copied().unwrap_or((n - 30) as f64 / 100.0))
        })
        .collect();
    let ends = [i64::MIN, i64::MIN + 3, i64::MAX, i64::MAX - 2, 1 << 62, -(1 << 62) + 1];
    let large = numbers(40)
        .into_iter()
        .map(|number| number.map(|n| ends.get(n as usize).copied().unwrap_or(n - 20)));
    let floats: Float32Array = doubles.iter().map(|x| x.map(|x| x as f32)).collect();
    let small: Int8Array = small.iter().map(|n| n.map(|n| (n - 128) as i8)).collect();
    let decimals: Decimal128Array = cents.iter().map(|n| n.map(i128::from)).collect();
    let dates: Date32Array = days.iter().map(|n| n.map(|n| n as i32 + 19_000)).collect();
    let times = hours.iter().map(|n| n.map(|n| (n * 1_800 + 1_600_000_000) * 1_000_000));
    let times: TimestampMicrosecondArray = times.collect();
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("id", Arc::new(Int64Array::from_iter_values(0..rows as i64)) as ArrayRef, false),
        ("s", Arc::new(texts) as _, true),
        ("x", Arc::new(Float64Array::from(doubles)) as _, true),
        ("f", Arc::new(floats) as _, true),
        ("n", Arc::new(large.collect::<Int64Array>()) as _, true),
        ("i", Arc::new(small) as _, true),
        ("c", Arc::new(decimals.with_precision_and_scale(12, 2)?) as _, true),
        ("d", Arc::new(dates) as _, true),
        ("t", Arc::new(times) as _, true),
    ])?;
    Ok(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?))
}

/// A condition by which two values are near.
fn near(rng: &mut StdRng) -> String {
    let column = pick(rng, &["x", "f", "n", "i", "c"]);
    let width = match column.as_str() {
        "n" | "i" => pick(rng, &["1", "3", "7"]),
        _ => pick(rng, &["0.01", "0.03", "0.1"]),
    };
    match rng.random_range(0..18) {
        0..3 => format!("abs(a.{column} - b.{column}) <= {width}"),
        3 => format!("{width} > abs(b.{column} - a.{column})"),
        4 => format!("a.{column} BETWEEN b.{column} - {width} AND b.{column} + {width}"),
        5 => format!("b.{column} - a.{column} BETWEEN -{width} AND {width}"),
        6 => format!("a.{column} >= b.{column} AND a.{column} < b.{column} + {width}"),
        7 => format!("a.{column} + {width} >= b.{column} AND b.{column} >= a.{column} - {width}"),
        12 => format!("a.{column} - b.{column} <= {width} AND b.{column} - a.{column} <= {width}"),
        17 => format!("a.x + 1e17 - 1e17 + {width} >= b.x AND a.x + 1e17 - 1e17 - {width} <= b.x"),
        15 => format!("a.n + {width} >= b.x AND b.x >= a.n - {width}"),
        16 => format!("abs(a.x - b.c) <= {width}"),
        13 => "a.d + INTERVAL '12 hours' + INTERVAL '12 hours' >= b.d AND a.d <= b.d".to_string(),
        14 => "arrow_cast(a.t, 'Timestamp(Second, None)') + INTERVAL '0.6 seconds' >= b.t \
               AND b.t >= a.t - INTERVAL '1 hour'"
            .to_string(),
        8 => "a.d BETWEEN b.d - INTERVAL '3 days' AND b.d + INTERVAL '2 days'".to_string(),
        9 => "b.d >= a.d - INTERVAL '1 month' AND b.d <= a.d".to_string(),
        10 => "a.t BETWEEN b.t AND b.t + INTERVAL '90 minutes'".to_string(),
        _ => "a.t <= b.d + INTERVAL '12 hours' AND b.d <= a.t".to_string(),
    }
}

fn statement(rng: &mut StdRng, insists: bool) -> String {
    let similar = pick(
        rng,
        &[
            "jaccard(qgrams(a.s, 2), qgrams(b.s, 2)) >= 0.5",
            "levenshtein(a.s, b.s) <= 2",
            "0.5 * levenshtein_similarity(a.s, b.s) + 0.5 * jaro_similarity(a.s, b.s) >= 0.7",
            "(levenshtein(a.s, b.s) <= 1 OR jaccard(qgrams(a.s, 2), qgrams(b.s, 2)) >= 0.6)",
        ],
    );
    let mut condition = format!("{similar} AND {}", near(rng));
    for more in [rng.random_bool(0.3), rng.random_bool(0.1)] {
        if more {
            condition = format!("{} AND {condition}", near(rng));
        }
    }
    let join = if insists { "SIMJOIN" } else { "JOIN" };
    let on = format!("{} ON {condition}", pick(rng, &["b", "b", "a b"]));
    let outer = pick(rng, &["", "", "LEFT ", "RIGHT ", "FULL "]);
    match rng.random_range(0..6) {
        0 => format!("SELECT a.id, a.s FROM a LEFT {} {join} {on}", pick(rng, &["SEMI", "ANTI"])),
        1 => format!("SELECT b.id, b.s FROM a RIGHT {} {join} {on}", pick(rng, &["SEMI", "ANTI"])),
        2 => format!("SELECT count(*), count(a.id) FROM a {outer}{join} {on}"),
        3 => format!("SELECT a.id, count(b.id) FROM a {outer}{join} {on} GROUP BY a.id"),
        _ => format!("SELECT a.id, b.id, a.d, b.x FROM a {outer}{join} {on}"),
    }
}

/// Bands give the rows of a nested loop in joins of every type, from memory, disk and in tasks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bands_join_as_a_nested_loop_does() -> Result<()> {
    let mut rng = StdRng::seed_from_u64(seed(91));
    let (mut with_keys, mut with_rows) = (0, 0);
    let ways = Way::all(32_000);
    for _ in 0..rounds(250) {
        let bases: Vec<String> = (0..3).map(|_| text(&mut rng, Kind::Words)).collect();
        let tables = [table(&mut rng, 60, &bases)?, table(&mut rng, 50, &bases)?];
        let insists = rng.random();
        let sql = statement(&mut rng, insists);
        let way = ways[rng.random_range(0..ways.len())];
        let (oracle, operator) = (nested_loops(), Setup::draw(&mut rng, way).session(install)?);
        for (name, table) in ["a", "b"].into_iter().zip(tables) {
            oracle.register_table(name, Arc::clone(&table) as _)?;
            operator.register_table(name, table)?;
        }
        let expected = oracle.sql(&sql.replace("SIMJOIN", "JOIN")).await?.collect().await;
        let found = plan_and_rows(&operator, &sql).await;
        let (expected, (plan, found)) = match (expected, found) {
            // Differences of dates and decimals may overflow.
            (Err(_), _) => continue,
            (Ok(expected), found) => (sorted(&expected), found?),
        };
        assert_eq!(found, expected, "{way:?}\n{sql}\n{plan}");
        let has_keys = plan.contains("__simjoin_band");
        with_keys += usize::from(has_keys);
        with_rows += usize::from(has_keys && !expected.is_empty());
    }
    assert!(with_keys > 100 && with_rows > 80, "{with_keys} {with_rows}");
    Ok(())
}

/// The nearest rows within a band are those of all pairs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nearest_rows_within_a_band_are_those_of_all_pairs() -> Result<()> {
    let mut rng = StdRng::seed_from_u64(seed(92));
    let mut with_keys = 0;
    for _ in 0..rounds(40) {
        let bases: Vec<String> = (0..3).map(|_| text(&mut rng, Kind::Words)).collect();
        let [a, b] = [table(&mut rng, 60, &bases)?, table(&mut rng, 50, &bases)?];
        let operator = Setup::draw(&mut rng, Way::Memory).session(install)?;
        operator.register_table("a", a)?;
        operator.register_table("b", b)?;
        let (near, outer) = (near(&mut rng), pick(&mut rng, &["", "LEFT "]));
        let score = "levenshtein(a.s, b.s)";
        let nearest = format!(
            "SELECT a.id, b.id, {score} FROM a {outer}SIMJOIN b NEAREST 2 WITH TIES BY DISTANCE {score} \
             ON {near}"
        );
        let ranked = format!(
            "SELECT l, r, q FROM (SELECT a.id AS l, b.id AS r, {score} AS q, \
             rank() OVER (PARTITION BY a.id ORDER BY {score}) AS k FROM a, b \
             WHERE {near} AND {score} + 0 IS NOT NULL) WHERE k <= 2"
        );
        let expected = match outer.is_empty() {
            true => ranked,
            false => format!("SELECT a.id, r, q FROM a LEFT JOIN ({ranked}) ON l = a.id"),
        };
        operator.sql("SET simjoin.recognize_joins = false").await?;
        // Differences of integers may have no absolute value.
        let Ok((_, expected)) = plan_and_rows(&operator, &expected).await else { continue };
        let (plan, found) = plan_and_rows(&operator, &nearest).await?;
        assert_eq!(found, expected, "{nearest}\n{plan}");
        with_keys += usize::from(plan.contains("__simjoin_band"));
    }
    assert!(with_keys > 15, "{with_keys}");
    Ok(())
}

/// A band that is narrow for its distance from 0 is no key, and no row is repeated for each of many buckets.
#[tokio::test]
async fn far_and_narrow_bands_are_conditions() -> Result<()> {
    let operator = Setup::of(Way::Memory).session(install)?;
    let table =
        "CREATE TABLE p AS SELECT value AS id, 'abc' AS s, value * 1e15 AS x FROM range(50)";
    operator.sql(table).await?.collect().await?;
    for (band, is_key, expected) in [
        ("1e15 AND 1e15 + 2", false, "49"),
        ("0 AND 3e15", true, "194"),
        ("5e14 AND 2e15", true, "97"),
    ] {
        let sql = format!(
            "SELECT count(*) FROM p a SIMJOIN p b ON levenshtein(a.s, b.s) <= 1 \
             AND a.x - b.x BETWEEN {band}"
        );
        let (plan, found) = plan_and_rows(&operator, &sql).await?;
        assert_eq!(plan.contains("__simjoin_band"), is_key, "{plan}");
        assert_eq!(found, [expected], "{band}");
    }
    Ok(())
}
