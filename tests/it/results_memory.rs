//! Results of pairs under memory limits.

use crate::support::{Session, assert_contains, error, plan, rows};

const MIB: usize = 1 << 20;

async fn answers(session: &Session, tables: &[&str], statements: &[String]) -> Vec<Vec<String>> {
    let ctx = session.context();
    for table in tables {
        plan(&ctx, table).await.unwrap().collect().await.unwrap();
    }
    let mut all = vec![];
    for sql in statements {
        let mut found = rows(&ctx, sql).await;
        found.sort_unstable();
        all.push(found);
    }
    all
}

fn rows_of(function: &str, pairs: &str, columns: &[&str]) -> String {
    format!("SELECT {} FROM {function}(({pairs}))", columns.join(", "))
}

const OF_REPRESENTATIVES: [&str; 4] = ["node", "representative", "kept", "score"];
const OF_ONE_TO_ONE: [&str; 3] = ["\"left\"", "\"right\"", "score"];

/// Pairs that need far more than the limits, in types of every width, sorted from disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn small_limits_give_the_answer_of_none() {
    // Each number has partners at both sides; scores tie.
    let numbers = "SELECT value % 4001 AS x, (value * 37 + value / 4001) % 5003 AS y, \
                   CAST(value % 101 AS DOUBLE) / 100 AS s FROM generate_series(1, 150000)";
    let of_type = |node: &str| {
        let [x, y] = ["x", "y"].map(|column| node.replace('$', column));
        format!("SELECT {x}, {y} AS y, s FROM ({numbers})")
    };
    let mut statements = vec![];
    for node in [
        "$",
        "arrow_cast('node ' || $ || ' of a text', 'Utf8View')",
        "'node ' || $",
        "[$, NULL, 1]",
        "named_struct('n', $, 't', 'text')",
    ] {
        let pairs = of_type(node);
        statements.push(rows_of("representatives", &pairs, &OF_REPRESENTATIVES));
        statements.push(rows_of("one_to_one", &pairs, &OF_ONE_TO_ONE));
    }
    let expected = answers(&Session::default(), &[], &statements).await;
    for (limit, partitions) in [(4, 1), (4, 8), (6, 2), (16, 3), (64, 8), (1024, 8)] {
        let session = Session { memory: Some(limit * MIB), partitions, ..Session::default() };
        let found = answers(&session, &[], &statements).await;
        for (at, sql) in statements.iter().enumerate() {
            assert_eq!(found[at], expected[at], "{limit} MiB, {partitions} partitions: {sql}");
        }
    }
}

/// Few pairs, and those of joins, under the limits under which the joins themselves end.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn results_of_joins_end_under_the_limits_of_the_joins() {
    let table = "CREATE TABLE m AS SELECT value AS id, left(md5(value::varchar), 6) AS s, \
                 [value * 7 % 40, 40 + value * 13 % 40, 80 + value * 29 % 40, 120 + value % 6] AS t \
                 FROM generate_series(1, 2000)";
    let texts = "SELECT a.id, b.id, levenshtein(a.s, b.s) FROM m a LEFT SIMJOIN m b \
                 ON levenshtein(a.s, b.s) <= 2 AND a.id < b.id";
    // Sums of scores and ids keep the best pairs from being all that is made.
    let many = "SELECT a.id, b.id, jaccard(a.t, b.t) + 0.1 FROM m a SIMJOIN m b \
                ON jaccard(a.t, b.t) >= 0.14 AND (a.id + b.id) % 7 <> 3 AND a.id < b.id";
    let few = "SELECT value, value + 1, 0.5 FROM generate_series(1, 100)";
    let statements: Vec<String> = [texts, many, few]
        .iter()
        .flat_map(|pairs| {
            [
                rows_of("representatives", pairs, &OF_REPRESENTATIVES),
                rows_of("one_to_one", pairs, &OF_ONE_TO_ONE),
            ]
        })
        .collect();
    let expected = answers(&Session::default(), &[table], &statements).await;
    assert_eq!(expected[4].len(), 101);
    for (limit, partitions) in [(4, 2), (4, 16), (6, 2), (8, 8), (32, 8)] {
        let session = Session { memory: Some(limit * MIB), partitions, ..Session::default() };
        let found = answers(&session, &[table], &statements).await;
        assert_eq!(found, expected, "{limit} MiB, {partitions} partitions");
    }
}

/// Nodes of long texts, some of them in most pairs.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn wide_pairs_are_sorted_within_a_limit() {
    let pairs = "SELECT repeat('x', 20000 + value % 7) || (value % 30) AS x, \
                 CASE WHEN value % 90 = 0 THEN NULL ELSE 'y' || (value % 40) END AS y, value % 5 AS s \
                 FROM generate_series(1, 2000)";
    let short = |column: &str| format!("right({column}, 4) || length({column})");
    let columns = [short("node"), short("representative"), "kept".into(), "score".into()];
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let statements = [rows_of("representatives", pairs, &columns)];
    let expected = answers(&Session::default(), &[], &statements).await;
    let session = Session { memory: Some(24 * MIB), ..Session::default() };
    assert_eq!(answers(&session, &[], &statements).await, expected);
}

#[tokio::test]
async fn a_pair_that_does_not_fit_is_an_error_that_says_what_does() {
    let session = Session { memory: Some(8 * MIB), ..Session::default() };
    let pairs =
        "SELECT repeat('x', 3000000) || value AS x, 'y' AS y, 1 AS s FROM generate_series(1, 3)";
    for function in ["representatives", "one_to_one"] {
        let text =
            error(&session.context(), &format!("SELECT count(*) FROM {function}(({pairs}))")).await;
        assert_contains(&text, &[function, "sorts its pairs in", "raise the limit to"]);
    }
    let tiny = Session { memory: Some(MIB / 4), ..Session::default() };
    let text = error(&tiny.context(), "SELECT * FROM one_to_one((SELECT 1, 2, 3))").await;
    assert_contains(&text, &["one_to_one", "524288 bytes at least", "raise the memory limit"]);
}

/// The metrics of the operator count the rows that were sorted on disk.
#[tokio::test]
async fn sorts_tell_what_they_wrote() {
    let session = Session { memory: Some(8 * MIB), ..Session::default() };
    let sql = "EXPLAIN ANALYZE SELECT count(*) FROM one_to_one((
                 SELECT value, value % 1000, 0.5 FROM generate_series(1, 200000)))";
    let text = rows(&session.context(), sql).await.join("\n").replace("\\n", "\n");
    let line = text.lines().find(|line| line.contains("OneToOneExec")).unwrap();
    assert_contains(line, &["sort=[", "score@2 DESC NULLS LAST", "spilled_rows=", "spill_count="]);
    assert!(!line.contains("spill_count=0"), "{line}");
}
