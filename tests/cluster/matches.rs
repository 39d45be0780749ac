//! One-to-one matches: one task of a cluster makes that of small sides by rounds, without the other pairs.

use std::sync::Arc;

use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;

use crate::processes::{Cluster, shared};
use crate::support::{Session, assert_contains, assert_same_rows, explain, rows};

/// Texts that are alike, with nodes that are NULL or stand in several rows.
const ROWS: &str = "SELECT CASE WHEN value % 97 > 0 THEN value % 2100 END AS node, \
                    'n' || CAST(value % 1800 AS VARCHAR) AS name, value % 4 AS k, translate(left(md5( \
                    CAST(value % 900 AS VARCHAR)), 5 + value % 4), '0123456789abcdef', \
                    'abcdabcdabcdabcd') AS s FROM generate_series(1, 2400)";

/// Queries of pairs that make many of them, with the order of their scores.
const PAIRS: [(&str, &str); 7] = [
    (
        "SELECT a.node, b.node AS other, levenshtein(a.s, b.s) FROM t a SIMJOIN u b \
         ON levenshtein(a.s, b.s) <= 2",
        "distance",
    ),
    (
        "SELECT a.node, b.node AS other, levenshtein(a.s, b.s) FROM t a SIMJOIN t b \
         ON levenshtein(a.s, b.s) <= 2 AND a.node <> b.node",
        "distance",
    ),
    (
        "SELECT b.node, a.node AS other, levenshtein_similarity(a.s, b.s) FROM t a SIMJOIN t b \
         ON levenshtein_similarity(a.s, b.s) >= 0.5 AND a.node < b.node AND a.k = b.k",
        "similarity",
    ),
    (
        "SELECT a.name, b.name AS other, jaccard(qgrams(a.s, 2), qgrams(b.s, 2)) FROM t a SIMJOIN u b \
         ON jaccard(qgrams(a.s, 2), qgrams(b.s, 2)) >= 0.2 AND a.k = b.k",
        "similarity",
    ),
    (
        "SELECT a.name, b.node AS other, overlap(qgrams(a.s, 2), qgrams(b.s, 2)) FROM t a SIMJOIN t b \
         ON overlap(qgrams(a.s, 2), qgrams(b.s, 2)) >= 3 AND a.node > 100",
        "similarity",
    ),
    (
        "SELECT a.node, b.node AS other, levenshtein(a.s, b.s) FROM t a SIMJOIN u b \
         ON levenshtein(a.s, b.s) <= 2 AND (a.node + b.node) % 5 <> 1",
        "distance",
    ),
    (
        "SELECT a.node, b.name AS other, array_distance([CAST(a.k AS DOUBLE), ascii(a.s)], \
         [CAST(b.k AS DOUBLE), ascii(b.s)]) FROM t a SIMJOIN u b ON array_distance( \
         [CAST(a.k AS DOUBLE), ascii(a.s)], [CAST(b.k AS DOUBLE), ascii(b.s)]) <= 1",
        "distance",
    ),
];

/// A session with the tables `t` and `u`.
async fn local() -> SessionContext {
    let local = Session::default().context();
    for table in [
        format!("CREATE TABLE t AS {ROWS}"),
        format!("CREATE TABLE u AS {ROWS} WHERE value % 7 > 0"),
    ] {
        local.sql(&table).await.expect("a table").collect().await.expect("rows");
    }
    local
}

/// A session of the cluster with the tables of `local`.
async fn of_cluster(cluster: &Cluster, local: &SessionContext) -> SessionContext {
    let ctx = cluster.context();
    for name in ["t", "u"] {
        let batches = local.table(name).await.expect("a table").collect().await.expect("rows");
        let table = MemTable::try_new(batches[0].schema(), vec![batches]).expect("a table");
        ctx.register_table(name, Arc::new(table)).expect("a new name");
    }
    set(&ctx, "simjoin.cluster_partitions", "3").await;
    ctx
}

async fn set(ctx: &SessionContext, option: &str, value: &str) {
    ctx.sql(&format!("SET {option} = '{value}'")).await.expect("a valid option");
}

/// The line of a plan that has `part`.
fn line<'a>(plan: &'a str, part: &str) -> &'a str {
    let line = plan.lines().find(|line| line.contains(part));
    line.unwrap_or_else(|| panic!("no {part} in:\n{plan}"))
}

/// A metric of an operator, as EXPLAIN ANALYZE shows it.
fn metric<'a>(line: &'a str, name: &str) -> &'a str {
    let value =
        line.split(['[', ',']).find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('='));
    value.map(|value| value.trim_end_matches(']')).unwrap_or_else(|| panic!("no {name} in {line}"))
}

/// One task makes the match of small sides; other plans make all pairs, for the same answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn matches_are_those_of_one_process() {
    let (cluster, local) = (shared(), local().await);
    for (pairs, order) in PAIRS {
        let query = format!("SELECT * FROM one_to_one(({pairs}), '{order}')");
        assert_contains(&explain(&local, &query).await, &["best=one to one"]);
        let expected = rows(&local, &query).await;
        assert!(expected.len() > 1000, "{} rows of {query}", expected.len());
        let ctx = of_cluster(&cluster, &local).await;
        let plan = explain(&ctx, &query).await;
        assert_contains(&plan, &["mode=single (one task makes the match", "best=one to one"]);
        assert_same_rows(&rows(&ctx, &query).await, &expected, &query);
        for (option, value) in
            [("simjoin.broadcast_limit", "1K"), ("simjoin.distribution", "repartition")]
        {
            let ctx = of_cluster(&cluster, &local).await;
            set(&ctx, option, value).await;
            let plan = explain(&ctx, &query).await;
            assert_contains(&plan, &["mode=partitioned"]);
            assert!(!plan.contains("best="), "{plan}");
            assert_same_rows(&rows(&ctx, &query).await, &expected, &query);
        }
    }
}

/// The join of the task gives the pairs of the match alone, which the task finds by rounds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_task_makes_few_pairs() {
    let (cluster, local) = (shared(), local().await);
    for (pairs, order) in PAIRS {
        let ctx = of_cluster(&cluster, &local).await;
        let query = format!("EXPLAIN ANALYZE SELECT * FROM one_to_one(({pairs}), '{order}')");
        let plan = rows(&ctx, &query).await.join("\n").replace("\\n", "\n");
        let join = line(&plan, "best=one to one");
        assert!(!["0", "1"].contains(&metric(join, "rounds")), "{plan}");
        let matched = line(&plan, "OneToOneExec");
        assert_eq!(metric(matched, "pairs"), metric(matched, "output_rows"), "{plan}");
        let stages: Vec<&str> =
            plan.split("Stage ").filter(|stage| stage.contains("best=")).collect();
        assert!(stages.len() == 1 && stages[0].contains("(1 partition)"), "{plan}");
    }
}
