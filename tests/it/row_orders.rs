//! Comparisons of a column of each side (`a.w < b.w`) where many rows share a set. They are decided
//! on ranks: nothing is done for each pair of rows, in memory or from disk, of one input or two.

use std::collections::BTreeMap;

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, FixedSizeBinaryArray, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::prelude::SessionContext;

use crate::lists::Layout;
use crate::oracle::{Row, ints};
use crate::support::{
    Session, assert_contains, assert_same_rows, batch_of, explain, plan, register_partitions, rows,
    split, try_rows,
};

const ALIKE: &str = "jaccard(a.toks, b.toks) >= 0.9";
const OPERATORS: [&str; 5] = ["<", "<=", ">", ">=", "<>"];

/// Rows with one of three sets, the first of which is that of most rows. `w` is NULL here and there
/// and repeats, `key` is NULL in every third row.
fn crowd(n: i64, first: i64) -> Vec<Row> {
    (0..n)
        .map(|i| {
            let set = if i % 10 < 8 { 0 } else { i % 10 - 7 };
            let w = (i % 7 > 0).then_some(i * 7919 % (n / 2));
            let key = (i % 3 > 0).then_some(i % 5);
            Row { w, key, ..Row::of(first + i, ints([10 * set, 10 * set + 1, 10 * set + 2])) }
        })
        .collect()
}

fn holds(operator: &str, left: i64, right: i64) -> bool {
    match operator {
        "<" => left < right,
        "<=" => left <= right,
        ">" => left > right,
        ">=" => left >= right,
        _ => left != right,
    }
}

/// For each row of `rows`, how many of `others` have its set and compare so with it, and how many
/// of these have a `key`. `flipped`: the row is the right one.
fn partners(rows: &[Row], others: &[Row], operator: &str, flipped: bool) -> Vec<[u64; 2]> {
    // By set, how many rows with each value of `w`; few values of a sorted list compare alike.
    let mut by_set: BTreeMap<String, BTreeMap<i64, [u64; 2]>> = BTreeMap::new();
    for row in others {
        let Some(w) = row.w else { continue };
        let counts = by_set.entry(format!("{:?}", row.toks)).or_default().entry(w).or_default();
        counts[0] += 1;
        counts[1] += u64::from(row.key.is_some());
    }
    // The values ascend: running sums answer for a row by bisection.
    let sums: BTreeMap<String, Vec<(i64, [u64; 2])>> = by_set
        .into_iter()
        .map(|(set, counts)| {
            let mut sum = [0; 2];
            let sums = counts.into_iter().map(|(w, counts)| {
                sum = [sum[0] + counts[0], sum[1] + counts[1]];
                (w, sum)
            });
            (set, sums.collect())
        })
        .collect();
    let of_row = |row: &Row| {
        let (Some(w), Some(sums)) = (row.w, sums.get(&format!("{:?}", row.toks))) else {
            return [0; 2];
        };
        let up_to = |end: usize| if end == 0 { [0; 2] } else { sums[end - 1].1 };
        let (below, equal) =
            (sums.partition_point(|(v, _)| *v < w), sums.partition_point(|(v, _)| *v <= w));
        let parts = [(0, below), (below, equal), (equal, sums.len())];
        let samples = [w - 1, w, w + 1];
        let mut found = [0; 2];
        for ((from, to), other) in parts.into_iter().zip(samples) {
            let (left, right) = if flipped { (other, w) } else { (w, other) };
            if holds(operator, left, right) {
                let (up, below) = (up_to(to), up_to(from));
                found = [found[0] + up[0] - below[0], found[1] + up[1] - below[1]];
            }
        }
        found
    };
    rows.iter().map(of_row).collect()
}

/// Statements, and what they give where `a` has the rows `left` and `b` the rows `right`.
fn statements(operator: &str, left: &[Row], right: &[Row]) -> Vec<(String, Vec<String>)> {
    let on = format!("ON {ALIKE} AND a.w {operator} b.w");
    let forth = partners(left, right, operator, false);
    let back = partners(right, left, operator, true);
    let pairs: u64 = forth.iter().map(|p| p[0]).sum();
    let alone = |partners: &[[u64; 2]]| partners.iter().filter(|p| p[0] == 0).count() as u64;
    let mut groups: BTreeMap<i64, [u64; 2]> = BTreeMap::new();
    for (row, [all, with_key]) in left.iter().zip(&forth) {
        let group = groups.entry(row.id % 5).or_default();
        group[0] += (*all).max(1);
        group[1] += with_key;
    }
    let groups = groups.into_iter().map(|(group, [all, keys])| format!("{group} | {all} | {keys}"));
    let one = |number: u64| vec![number.to_string()];
    vec![
        (format!("SELECT count(*) FROM a SIMJOIN b {on}"), one(pairs)),
        (
            format!("SELECT count(*) FROM a FULL SIMJOIN b {on}"),
            one(pairs + alone(&forth) + alone(&back)),
        ),
        (
            format!("SELECT count(*) FROM (SELECT a.id FROM a LEFT SEMI SIMJOIN b {on})"),
            one(left.len() as u64 - alone(&forth)),
        ),
        (
            format!("SELECT count(*) FROM (SELECT a.id FROM a LEFT ANTI SIMJOIN b {on})"),
            one(alone(&forth)),
        ),
        (
            format!("SELECT count(*) FROM (SELECT b.id FROM a RIGHT ANTI SIMJOIN b {on})"),
            one(alone(&back)),
        ),
        (
            format!(
                "SELECT a.id % 5, count(*), count(b.key) FROM a LEFT SIMJOIN b {on} GROUP BY 1"
            ),
            groups.collect(),
        ),
    ]
}

fn register(ctx: &SessionContext, name: &str, rows: &[Row]) {
    let batch = batch_of(rows, &DataType::Int64, Layout::List);
    register_partitions(ctx, name, split(&batch, 2, 1000));
}

async fn residual_rows(ctx: &SessionContext, sql: &str) -> Vec<String> {
    let batches = plan(ctx, &format!("EXPLAIN ANALYZE {sql}")).await.unwrap().collect().await;
    let text = arrow::util::pretty::pretty_format_batches(&batches.unwrap()).unwrap();
    let text = text.to_string();
    let found = text.match_indices("residual_rows=");
    found
        .map(|(at, name)| text[at + name.len()..].split(&[',', ']'][..]).next().unwrap().into())
        .collect()
}

/// The tables are large enough that a step for each pair of rows would be noticed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_input_with_itself() {
    let table = crowd(12_000, 0);
    for (spill, piece_rows) in [("never", "auto"), ("always", "2800"), ("always", "auto")] {
        let session = Session::default().option("spill", spill);
        let ctx = session.option("debug.spill_piece_rows", piece_rows).context();
        register(&ctx, "t", &table);
        for operator in OPERATORS {
            for (sql, expected) in statements(operator, &table, &table) {
                let sql = sql.replace("FROM a", "FROM t a").replace("SIMJOIN b", "SIMJOIN t b");
                let what = format!("{sql}, spill {spill} {piece_rows}");
                assert_same_rows(&rows(&ctx, &sql).await, &expected, &what);
                let decided = residual_rows(&ctx, &sql).await;
                assert!(decided.iter().all(|rows| rows == "0"), "{decided:?} {what}");
            }
        }
        let sql = format!("SELECT count(*) FROM t a SIMJOIN t b ON {ALIKE} AND a.w < b.w");
        assert_contains(&explain(&ctx, &sql).await, &["self-join, each pair once"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_inputs() {
    let (left, right) = (crowd(12_000, 0), crowd(8_000, 7));
    for (spill, piece_rows, build_side) in
        [("never", "auto", "left"), ("never", "auto", "right"), ("always", "2800", "auto")]
    {
        let session = Session::default().option("spill", spill).option("build_side", build_side);
        let ctx = session.option("debug.spill_piece_rows", piece_rows).context();
        register(&ctx, "a", &left);
        register(&ctx, "b", &right);
        for operator in OPERATORS {
            for (sql, expected) in statements(operator, &left, &right) {
                let what = format!("{sql}, spill {spill} {piece_rows}, build {build_side}");
                assert_same_rows(&rows(&ctx, &sql).await, &expected, &what);
                let decided = residual_rows(&ctx, &sql).await;
                assert!(decided.iter().all(|rows| rows == "0"), "{decided:?} {what}");
            }
        }
    }
}

/// Where memory is short for the ranks of many rows, those of fewer are joined at a time: no condition is evaluated
/// for pairs of rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_under_a_memory_limit() {
    let (left, right) = (crowd(40_000, 0), crowd(30_000, 7));
    for megabytes in [4, 5, 6, 8, 12] {
        let session = Session { memory: Some(megabytes << 20), ..Session::on_cpu() };
        let ctx = session.context();
        register(&ctx, "t", &left);
        register(&ctx, "u", &right);
        for operator in ["<", "<>"] {
            for (other, right) in [("t", &left), ("u", &right)] {
                let all = statements(operator, &left, right);
                // Pairs, an outer join, an anti join and groups.
                for (sql, expected) in [&all[0], &all[1], &all[3], &all[5]] {
                    let sql = sql.replace("FROM a", "FROM t a");
                    let sql = sql.replace("SIMJOIN b", &format!("SIMJOIN {other} b"));
                    let what = format!("{sql}, {megabytes} MB");
                    assert_same_rows(&rows(&ctx, &sql).await, expected, &what);
                    let decided = residual_rows(&ctx, &sql).await;
                    assert!(decided.iter().all(|rows| rows == "0"), "{decided:?} {what}");
                }
            }
        }
    }
}

/// Where sets are hardly shared, the comparison is evaluated; a further condition always is.
#[tokio::test]
async fn few_pairs_are_compared() {
    let few: Vec<Row> =
        (0..60).map(|i| Row { w: Some(i), ..Row::of(i, ints([i / 2, i / 2 + 1000])) }).collect();
    let ctx = Session::default().context();
    register(&ctx, "a", &few);
    register(&ctx, "b", &few);
    let sql = format!("SELECT count(*) FROM a SIMJOIN b ON {ALIKE} AND a.w < b.w");
    assert_eq!(rows(&ctx, &sql).await, ["30"]);
    assert_eq!(residual_rows(&ctx, &sql).await, ["120"]);
    let table = crowd(1000, 0);
    register(&ctx, "c", &table);
    register(&ctx, "d", &table);
    let both = |operator: &str| {
        let on = format!("ON {ALIKE} AND a.w {operator} b.w AND a.id + b.id > 700");
        format!("SELECT count(*) FROM c a SIMJOIN d b {on}")
    };
    for operator in OPERATORS {
        let pairs = table.iter().flat_map(|a| table.iter().map(move |b| (a, b)));
        let expected = pairs.filter(|(a, b)| {
            let compares = a.w.zip(b.w).is_some_and(|(x, y)| holds(operator, x, y));
            compares && a.toks == b.toks && a.id + b.id > 700
        });
        let sql = both(operator);
        assert_eq!(rows(&ctx, &sql).await, [expected.count().to_string()], "{sql}");
    }
}

/// Texts that begin alike, as far as views keep them apart or farther.
const TEXTS: [&str; 14] = [
    "",
    "a",
    "a\0",
    "abc",
    "abcd",
    "abcde",
    "abcdx",
    "abcdefgh",
    "abcdefghijkl",
    "abcdefghijklm",
    "abcdefghijkln",
    "b",
    "ü",
    "\u{10ffff}",
];

/// Rows with one of three sets, and `s`, a text in some form or what stands for it.
fn with_texts(n: i64, first: i64, form: &DataType) -> RecordBatch {
    let table: Vec<Row> = (0..n)
        .map(|i| {
            let set = if i % 10 < 8 { 0 } else { i % 10 - 7 };
            Row::of(first + i, ints([10 * set, 10 * set + 1, 10 * set + 2]))
        })
        .collect();
    let batch = batch_of(&table, &DataType::Int64, Layout::List);
    let place = |i: i64| (first + i * 7919) as usize % (TEXTS.len() + 2);
    let texts = (0..n).map(|i| TEXTS.get(place(i)).copied());
    let column: ArrayRef = match form {
        DataType::Boolean => {
            Arc::new(texts.map(|t| t.map(|t| t.len() > 4)).collect::<BooleanArray>())
        }
        DataType::FixedSizeBinary(size) => {
            let padded = texts.map(|t| t.map(|t| format!("{t:\0<20}").into_bytes()));
            let sized = padded.map(|t| t.map(|t| t[..*size as usize].to_vec()));
            let sized = FixedSizeBinaryArray::try_from_sparse_iter_with_size(sized, *size);
            Arc::new(sized.expect("bytes of one size"))
        }
        form => {
            let values = match form {
                DataType::Dictionary(_, values) => values.as_ref(),
                other => other,
            };
            let texts: ArrayRef = Arc::new(texts.collect::<StringArray>());
            let texts = match values.is_binary() {
                true => cast(&texts, &DataType::Binary).expect("bytes"),
                false => texts,
            };
            cast(&texts, form).expect("a form of texts")
        }
    };
    let field = Arc::new(Field::new("s", form.clone(), true));
    let fields = batch.schema().fields().iter().cloned().chain([field]).collect::<Vec<_>>();
    let columns = batch.columns().iter().cloned().chain([column]).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("one more column")
}

/// The answer of stock DataFusion; an error where it does not compare the types.
async fn stock(ctx: &SessionContext, sql: &str) -> datafusion::common::Result<Vec<String>> {
    rows(ctx, "SET simjoin.recognize_joins = false").await;
    let answer = try_rows(ctx, &sql.replace("SIMJOIN", "JOIN")).await;
    rows(ctx, "SET simjoin.recognize_joins = true").await;
    answer
}

/// Texts, bytes and truth values of every form are decided on ranks, and as stock DataFusion
/// compares them, of one input or two, also of two forms.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_bytes_and_truth_values() {
    let dictionary =
        |key: DataType, value: DataType| DataType::Dictionary(Box::new(key), Box::new(value));
    let forms = [
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Utf8View,
        dictionary(DataType::Int8, DataType::Utf8),
        dictionary(DataType::Int32, DataType::LargeUtf8),
        DataType::Binary,
        DataType::LargeBinary,
        DataType::BinaryView,
        dictionary(DataType::Int32, DataType::Binary),
        DataType::FixedSizeBinary(12),
        DataType::Boolean,
    ];
    let mut compared = 0;
    for (number, left) in forms.iter().enumerate() {
        for right in &forms {
            let spill = if number % 2 == 0 { "never" } else { "always" };
            let ctx = Session::default().option("spill", spill).context();
            let tables = [("l", with_texts(160, 0, left)), ("r", with_texts(140, 3, right))];
            for (name, batch) in tables {
                register_partitions(&ctx, name, split(&batch, 2, 50));
            }
            let operator = OPERATORS[(number + compared) % OPERATORS.len()];
            let on = format!("ON {ALIKE} AND a.s {operator} b.s");
            let mut statements = vec![
                format!("SELECT a.id, b.id FROM l a SIMJOIN r b {on}"),
                format!("SELECT count(*) FROM l a LEFT SIMJOIN r b {on}"),
            ];
            // Casts to a dictionary or to bytes of a fixed size may fail: they are evaluated.
            let is_plain = |form: &DataType| form.is_string() || form.is_binary();
            let is_ranked = left == right
                || is_plain(left) && is_plain(right) && left.is_binary() == right.is_binary();
            if left == right {
                statements.push(format!("SELECT a.id, b.id FROM l a SIMJOIN l b {on}"));
                statements.push(format!("SELECT count(*) FROM l a SIMJOIN l b {on}"));
            }
            for sql in statements {
                let Ok(expected) = stock(&ctx, &sql).await else { continue };
                let what = format!("{sql}, {left} and {right}, spill {spill}");
                assert_same_rows(&rows(&ctx, &sql).await, &expected, &what);
                let decided = residual_rows(&ctx, &sql).await;
                let is_decided = decided.iter().all(|rows| rows == "0");
                assert!(is_decided || !is_ranked, "{decided:?} {what}");
                compared += 1;
            }
        }
    }
    assert!(compared > 100, "{compared}");
}
