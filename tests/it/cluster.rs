//! Plans for a cluster, and that their tasks give the join together.

use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::DataType;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::lists::Layout;
use crate::oracle::{Row, ints};
use crate::support::{
    Session, assert_contains, assert_same_rows, batch_of, explain, number, physical, plan,
    plan_text, register, register_partitions, rows, rows_of_tasks,
};

/// A session that plans for a cluster of `tasks` tasks.
fn cluster(tasks: usize) -> Session {
    Session { partitions: tasks, tasks_of: Some(1), ..Session::default() }
}

/// Sets of up to `greatest` tokens, some of them alike.
fn random_rows(seed: u64, count: i64, greatest: i64) -> Vec<Row> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut rows: Vec<Row> = vec![];
    for id in 0..count {
        let mut row = Row::of(id, None);
        row.toks = match rows.len() {
            n if n > 0 && rng.random_bool(0.5) => rows[rng.random_range(0..n)].toks.clone(),
            _ => {
                let size = rng.random_range(0..=greatest);
                ints((0..size).map(|_| rng.random_range(0..3 * greatest)))
            }
        };
        row.key = (id % 5 > 0).then_some(id % 4);
        rows.push(row);
    }
    rows
}

const JOINS: [(&str, &str); 8] = [
    ("SIMJOIN", "a.id, b.id"),
    ("LEFT SIMJOIN", "a.id, b.id"),
    ("RIGHT SIMJOIN", "a.id, b.id"),
    ("FULL SIMJOIN", "a.id, b.id"),
    ("LEFT SEMI SIMJOIN", "a.id"),
    ("LEFT ANTI SIMJOIN", "a.id"),
    ("RIGHT SEMI SIMJOIN", "b.id"),
    ("RIGHT ANTI SIMJOIN", "b.id"),
];

/// Every join type, forced either way, with and without keys, on tables of every skew: the answer
/// of one process, which the differential tests compare with the oracle.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_give_the_answer_of_one_process_whatever_the_skew() {
    let one_size: Vec<Row> =
        (0..60).map(|id| Row::of(id, ints([id % 7, 10 + id % 5, 20 + id % 3, 30]))).collect();
    let one_token: Vec<Row> =
        (0..60).map(|id| Row::of(id, ints((0..id % 9).chain([99])))).collect();
    let one_key: Vec<Row> =
        random_rows(2, 70, 12).into_iter().map(|row| Row { key: Some(7), ..row }).collect();
    let one_set: Vec<Row> = (0..60).map(|id| Row::of(id, ints([1, 2, 3 + id / 50]))).collect();
    let nothing = vec![Row::of(1, None), Row::of(2, ints([]))];
    let tables = [random_rows(1, 80, 20), one_size, one_token, one_key, one_set, nothing];
    for (t, table) in tables.iter().enumerate() {
        let other = &tables[[0, 1, 2, 0, 4, 3][t]];
        let alone = Session::default().context();
        register(&alone, "a", table);
        register(&alone, "b", other);
        for distribution in ["broadcast", "repartition"] {
            let session = cluster([2, 3, 7, 5, 6, 4][t]).option("distribution", distribution);
            let ctx = session.context();
            register(&ctx, "a", table);
            register(&ctx, "b", other);
            for (join, columns) in JOINS {
                for right in ["b", "a"] {
                    for and in ["", " AND a.key = b.key", " AND a.id < b.id"] {
                        let sql = format!(
                            "SELECT {columns} FROM a {join} {right} b \
                             ON jaccard(a.toks, b.toks) >= 0.6{and}"
                        );
                        let expected = rows(&alone, &sql).await;
                        let found = rows_of_tasks(&ctx, &sql, vec![], 1).await;
                        let what = format!("{distribution} table {t}\n{sql}");
                        assert_same_rows(&found, &expected, &what);
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn small_sides_are_broadcast_and_large_ones_repartitioned() {
    let (small, large) = (random_rows(1, 20, 8), random_rows(2, 400, 30));
    let plan_of = async |session: Session, join: &str| {
        let ctx = session.context();
        register(&ctx, "a", &small);
        register(&ctx, "b", &large);
        let sql = format!("SELECT count(*) FROM a {join} b ON jaccard(a.toks, b.toks) >= 0.6");
        explain(&ctx, &sql).await
    };
    let inner = plan_of(cluster(4), "SIMJOIN").await;
    assert_contains(&inner, &["build=left", "mode=broadcast (the left side of about", "64M)"]);
    let left = plan_of(cluster(4), "LEFT SIMJOIN").await;
    assert_contains(&left, &["build=right", "mode=broadcast (the right side of about"]);
    let beyond = plan_of(cluster(4).option("broadcast_limit", "2K"), "LEFT SIMJOIN").await;
    assert_contains(
        &beyond,
        &["mode=partitioned (the right side of about", "is beyond 2K", "each row to one task"],
    );
    let forced = plan_of(cluster(4).option("distribution", "repartition"), "SIMJOIN").await;
    assert_contains(
        &forced,
        &[
            "mode=partitioned (simjoin.distribution = repartition)",
            "RepartitionExec: partitioning=Hash([__simjoin_tile",
            "AxisGridExec: left",
            "AxisGridExec: right",
            "AxisHistogramExec: left",
            "CoalescePartitionsExec: fetch=",
        ],
    );
    let one = plan_of(cluster(1), "SIMJOIN").await;
    assert_contains(&one, &["mode=single (there is one task)"]);
    let full = plan_of(cluster(4), "FULL SIMJOIN").await;
    assert_contains(&full, &["mode=single (both sides of about"]);
    let full = plan_of(cluster(4).option("distribution", "broadcast"), "FULL SIMJOIN").await;
    assert_contains(
        &full,
        &["JoinPartsExec", "join_type=Left", "join_type=RightAnti", "build=right", "build=left"],
    );
}

/// A match of small sides is made by one task, whatever the readings of its inputs are; other plans make all
/// pairs, but for those of one task.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn matches_of_small_sides_are_made_by_one_task() {
    let (left, right) = (random_rows(1, 120, 8), random_rows(2, 100, 8));
    let alone = Session::default().context();
    register(&alone, "a", &left);
    register(&alone, "b", &right);
    let made_by_one = "mode=single (one task makes the match: ";
    let of_two = "SELECT a.id, b.id AS other, jaccard(a.toks, b.toks) FROM a SIMJOIN b \
                  ON jaccard(a.toks, b.toks) >= 0.2";
    let of_itself = "SELECT a.id, b.id AS other, jaccard(a.toks, b.toks) FROM a SIMJOIN a b \
                     ON jaccard(a.toks, b.toks) >= 0.2 AND a.id < b.id";
    let unknown = of_two.replace(
        " b ON",
        " (SELECT id, [u, u % 7] AS toks FROM (SELECT id, unnest(toks) AS u FROM b)) b ON",
    );
    let random = of_two.replace(" b ON", " (SELECT * FROM b WHERE random() >= 0) b ON");
    let all = [of_two, of_itself, unknown.as_str(), random.as_str()];
    for (session, mode, matched) in [
        (cluster(4), made_by_one, vec![true, true, false, true]),
        (cluster(4).option("broadcast_limit", "1K"), "mode=", vec![false; 4]),
        (cluster(4).option("distribution", "repartition"), "mode=", vec![false; 4]),
        (cluster(4).option("distribution", "broadcast"), "mode=", vec![false; 4]),
        (cluster(1), "mode=single (there is one task)", vec![true; 4]),
    ] {
        let ctx = session.context();
        register(&ctx, "a", &left);
        register(&ctx, "b", &right);
        for (pairs, matched) in all.iter().zip(matched) {
            let sql = format!("SELECT * FROM one_to_one(({pairs}))");
            let plan = explain(&ctx, &sql).await;
            assert_eq!(plan.contains("best=one to one"), matched, "{sql}\n{plan}");
            assert!(!matched || plan.contains(mode), "{sql}\n{plan}");
            let found = rows_of_tasks(&ctx, &sql, vec![], 1).await;
            assert_same_rows(&found, &rows(&alone, &sql).await, &sql);
        }
    }
}

/// Tasks find the first pairs, and those of each row, among their own rows, also where one side might be read whole by
/// each of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn best_pairs_of_small_sides_are_found_by_tasks() {
    let (left, right) = (random_rows(3, 150, 8), random_rows(4, 60, 8));
    let (alone, ctx) = (Session::default().context(), cluster(3).context());
    let broadcast = cluster(3).option("distribution", "broadcast").context();
    for session in [&alone, &ctx, &broadcast] {
        register(session, "a", &left);
        register(session, "b", &right);
    }
    let pairs = "SELECT a.id, b.id AS other, jaccard(a.toks, b.toks) AS s FROM a SIMJOIN b \
                 ON jaccard(a.toks, b.toks) >= 0.1";
    let first = format!("{pairs} ORDER BY s DESC, a.id, other LIMIT 7");
    let ranked =
        "SELECT * FROM (SELECT *, rank() OVER (PARTITION BY id ORDER BY s DESC) AS k FROM (";
    let of_each_row = format!("{ranked}{pairs})) WHERE k <= 2");
    for sql in [first, of_each_row] {
        let plan = explain(&ctx, &sql).await;
        assert_contains(&plan, &["best=", "each task finds the best pairs of its own rows"]);
        let plan = explain(&broadcast, &sql).await;
        assert!(plan.contains("mode=broadcast") && !plan.contains("best="), "{plan}");
        let expected = rows(&alone, &sql).await;
        assert!(expected.len() >= 7);
        for tasks in [1, 3] {
            let found = rows_of_tasks(&ctx, &sql, vec![], tasks).await;
            assert_same_rows(&found, &expected, &sql);
        }
    }
}

/// A filter above the parts of a join reads the column that it names, also where two have one name.
#[tokio::test]
async fn filters_above_the_parts_of_a_join_read_the_right_column() {
    let setup = "CREATE TABLE t (id BIGINT, k VARCHAR, toks BIGINT[]) AS VALUES \
                 (1, 'x', [1, 2]), (2, 'y', [1, 2]), (3, NULL, [1, 2, 3]), (4, 'x', [7]), (5, 'z', [])";
    let statements = [
        "SELECT * FROM (SELECT a.id AS i, b.id AS j, coalesce(b.k, a.k) AS k FROM t a \
         FULL JOIN t b ON jaccard(a.toks, b.toks) >= 0.5 AND a.id < b.id) WHERE k LIKE 'x%'",
        "SELECT a.id, b.id FROM t a FULL JOIN t b ON jaccard(a.toks, b.toks) >= 0.5 AND a.id < b.id \
         WHERE b.k IS NULL",
        "SELECT a.id, b.id, b.k FROM t a SIMJOIN t b ON jaccard(a.toks, b.toks) >= 0.5 \
         ORDER BY b.k DESC NULLS LAST, a.id LIMIT 2",
    ];
    let alone = Session::default().context();
    rows(&alone, setup).await;
    let ctx = cluster(3).option("distribution", "repartition").context();
    rows(&ctx, setup).await;
    for sql in statements {
        let sql = sql.replace("FULL JOIN", "FULL SIMJOIN");
        let expected = rows(&alone, &sql).await;
        assert!(!expected.is_empty(), "{sql}");
        let text = explain(&ctx, &sql).await;
        assert_contains(&text, &["JoinPartsExec"]);
        for tasks in [1, 2] {
            let found = rows_of_tasks(&ctx, &sql, vec![], tasks).await;
            assert_same_rows(&found, &expected, &sql);
        }
    }
}

/// Where either order of two rows tells the other, they meet once.
#[tokio::test]
async fn pairs_of_one_input_meet_once() {
    let table = random_rows(3, 300, 12);
    let sql = |select: &str, join: &str, on: &str| {
        format!("SELECT {select} FROM a {join} a b ON {on} >= 0.6")
    };
    let jaccard = "jaccard(a.toks, b.toks)";
    let symmetric = sql("a.id, b.id", "SIMJOIN", jaccard);
    let ctx = cluster(4).context();
    register(&ctx, "a", &table);
    let once = explain(&ctx, &symmetric).await;
    assert_contains(
        &once,
        &[
            "JoinPartsExec",
            "self-join, each pair once",
            "mode=partitioned (the pairs of one input with itself, each of them once)",
            "AxisGridExec: left",
            "tasks=4, rows near to each other once",
            "mode=partitioned, both orders of a pair at once",
            "tasks=4, rows apart from each other",
        ],
    );
    // Each row is among those near once.
    let analyzed = explain(&ctx, &format!("ANALYZE {symmetric}")).await;
    let near: Vec<&str> = analyzed.lines().filter(|line| line.contains("near to")).collect();
    let [near] = near.as_slice() else { panic!("{analyzed}") };
    assert_contains(near, &["input_rows=300", "repeated_rows=0"]);

    // Not where they do not tell, or rows are wanted rather than pairs, nor where that is forced.
    for other in [
        sql("a.id, b.id", "SIMJOIN", "containment(a.toks, b.toks)"),
        sql("a.id, b.id", "LEFT SIMJOIN", jaccard),
        sql("a.id", "LEFT SEMI SIMJOIN", jaccard),
    ] {
        let plan = explain(&ctx, &other).await;
        assert!(!plan.contains("of a pair at once") && !plan.contains("near to"), "{plan}");
    }
    // A row needs one place in every reading: values must not depend on the order of the rows.
    for (input, once) in [
        ("SELECT id, toks FROM a WHERE id > 3 AND key IS NOT NULL", true),
        ("SELECT min(id) AS id, toks, sum(key) AS s, count(*) AS n FROM a GROUP BY toks", true),
        ("SELECT DISTINCT toks, key FROM a", true),
        ("SELECT array_agg(key) AS toks FROM a GROUP BY id % 40", false),
        ("SELECT toks, avg(key) AS v FROM a GROUP BY toks", false),
        ("SELECT toks, sum(key * 0.1::DOUBLE) AS v FROM a GROUP BY toks", false),
        ("SELECT toks, array_to_string(array_agg(id), ',') AS v FROM a GROUP BY toks", false),
    ] {
        let sql = format!(
            "WITH s AS ({input}) SELECT x.*, y.* FROM s x SIMJOIN s y \
             ON jaccard(x.toks, y.toks) >= 0.6"
        );
        let plan = physical(&ctx, &sql).await;
        assert_eq!(plan.contains("of a pair at once"), once, "{sql}\n{plan}");
        // Rows come to each stage in an order of its own.
        let small = Session { batch_size: 8, ..cluster(5) };
        let small = small.option("distribution", "repartition").context();
        let alone = Session::default().context();
        register(&small, "a", &table);
        register(&alone, "a", &table);
        let sql = sql.replace("x.*, y.*", "count(*)");
        let expected = rows(&alone, &sql).await;
        assert_same_rows(&rows_of_tasks(&small, &sql, vec![], 1).await, &expected, &sql);
    }
    let forced = cluster(4).option("distribution", "broadcast").context();
    register(&forced, "a", &table);
    assert_contains(&explain(&forced, &symmetric).await, &["mode=broadcast"]);

    // Pairs, counts and scores, with what decides between the two orders, in memory and from disk.
    let alone = Session::default().context();
    register(&alone, "a", &table);
    for spill in ["never", "always"] {
        let session = cluster(3).option("spill", spill).option("debug.spill_piece_rows", "40");
        let ctx = session.context();
        register(&ctx, "a", &table);
        for select in ["a.id, b.id, jaccard(a.toks, b.toks)", "count(*)", "a.id, b.key, b.id"] {
            for and in [
                "",
                " AND a.id < b.id",
                " AND a.id <> b.id",
                " AND a.id % 3 < b.id % 5",
                " AND a.key = b.key AND a.id + 1 >= b.id",
                " AND jaccard(a.toks, b.toks) < 1",
            ] {
                let sql = format!("{}{and}", sql(select, "SIMJOIN", jaccard));
                assert_contains(&physical(&ctx, &sql).await, &["of a pair at once"]);
                let expected = rows(&alone, &sql).await;
                let found = rows_of_tasks(&ctx, &sql, vec![], 1).await;
                assert_same_rows(&found, &expected, &format!("spill={spill}\n{sql}"));
            }
        }
    }
}

/// An engine that plans anew after each stage runs the optimizer again on what is left.
#[tokio::test]
async fn plans_stay_as_they_are_when_they_are_optimized_again() {
    for distribution in ["broadcast", "repartition"] {
        let ctx = cluster(3).option("distribution", distribution).context();
        register(&ctx, "a", &random_rows(1, 60, 12));
        let batch = batch_of(&random_rows(2, 60, 12), &DataType::Int64, Layout::List);
        register_partitions(&ctx, "b", vec![vec![batch]]);
        for ((join, columns), right) in JOINS.into_iter().flat_map(|j| [(j, "b"), (j, "a b")]) {
            let sql = format!(
                "SELECT {columns} FROM a {join} {right} ON jaccard(a.toks, b.toks) >= 0.6 \
                 ORDER BY 1 LIMIT 40"
            );
            let frame = plan(&ctx, &sql).await.unwrap();
            let once = frame.create_physical_plan().await.unwrap();
            let mut again = Arc::clone(&once);
            for rule in ctx.state().physical_optimizers() {
                again = rule.optimize(again, ctx.state().config_options()).unwrap();
            }
            assert_eq!(plan_text(&again), plan_text(&once), "{sql}");
        }
    }
}

/// The metrics say for each side how many rows were sent to which tasks.
#[tokio::test]
async fn explain_analyze_shows_what_was_sent() {
    let ctx = cluster(3).option("distribution", "repartition").context();
    register(&ctx, "a", &random_rows(1, 90, 12));
    let sql = "ANALYZE SELECT a.id, b.id FROM a LEFT SIMJOIN a b \
               ON jaccard(a.toks, b.toks) >= 0.6";
    let plan = explain(&ctx, sql).await;
    let grids: Vec<&str> = plan.lines().filter(|line| line.contains("AxisGridExec")).collect();
    let [left, right] = grids.as_slice() else { panic!("{plan}") };
    // Each left row goes to one task.
    assert_contains(left, &["input_rows=90", "dropped_rows=0", "repeated_rows=0", "tasks=3"]);
    assert_contains(right, &["input_rows=90", "repeated_rows=", "tasks=3"]);
    assert!(!right.contains("dropped_rows=0,") && !right.contains("repeated_rows=0,"), "{plan}");
}

/// A table of one partition does not make one task of the join.
#[tokio::test]
async fn a_probe_side_of_one_partition_is_spread() {
    let ctx =
        Session { batch_size: 16, ..cluster(4) }.option("distribution", "broadcast").context();
    let batch = batch_of(&random_rows(1, 90, 12), &DataType::Int64, Layout::List);
    register_partitions(&ctx, "a", vec![vec![batch]]);
    let sql = "SELECT a.id, b.id FROM a SIMJOIN a b ON jaccard(a.toks, b.toks) >= 0.6";
    let plan = physical(&ctx, sql).await;
    assert_contains(&plan, &["mode=broadcast", "RepartitionExec: partitioning=Hash([id"]);
    let alone = Session::default().context();
    register(&alone, "a", &random_rows(1, 90, 12));
    let expected = rows(&alone, sql).await;
    assert_same_rows(&rows_of_tasks(&ctx, sql, vec![], 1).await, &expected, &plan);
}

/// An input that may differ from reading to reading is read once.
#[tokio::test]
async fn inputs_that_may_change_are_not_read_twice() {
    let ctx = cluster(4).option("distribution", "repartition").context();
    register(&ctx, "a", &random_rows(1, 30, 8));
    for (input, and) in [
        ("SELECT * FROM a WHERE random() < 2", ""),
        ("SELECT * FROM a LIMIT 20", ""),
        ("SELECT toks, row_number() OVER () AS n FROM a", " AND x.n <= y.n"),
        ("SELECT first_value(toks) AS toks FROM a GROUP BY id % 9", ""),
    ] {
        let sql = format!(
            "SELECT count(*) FROM ({input}) x SIMJOIN ({input}) y \
             ON jaccard(x.toks, y.toks) >= 1{and}"
        );
        let plan = physical(&ctx, &sql).await;
        assert!(!plan.contains("AxisGridExec"), "{plan}");
        assert_contains(&plan, &["an input may give other rows when it is read twice"]);
        assert!(number(&ctx, &sql).await > 0);
    }
}

/// Messages are cut by the bytes of the rows in them: a long row among short ones is one of its own.
#[tokio::test]
async fn a_long_row_makes_no_long_message() {
    const MOST_BYTES: usize = 4 << 20;
    let mut table: Vec<Row> = (0..3000).map(|id| Row::of(id, ints(id..id + 5))).collect();
    for (id, tokens) in [(40, 1_000_000), (41, 300_000), (42, 300_000), (2000, 300_000)] {
        table[id].toks = ints(0..tokens);
    }
    let ctx = cluster(2).option("distribution", "repartition").context();
    let batch = batch_of(&table, &DataType::Int64, Layout::List);
    register_partitions(&ctx, "a", vec![vec![batch]]);
    let sql = "SELECT count(*) FROM a LEFT SIMJOIN a b ON jaccard(a.toks, b.toks) >= 0.9 \
               AND a.id <> b.id";
    let frame = plan(&ctx, sql).await.unwrap();
    let mut waiting = vec![frame.create_physical_plan().await.unwrap()];
    let mut grids = 0;
    while let Some(plan) = waiting.pop() {
        waiting.extend(plan.children().into_iter().cloned());
        if plan.name() != "AxisGridExec" {
            continue;
        }
        grids += 1;
        let (mut rows, mut messages) = (0, 0);
        for partition in 0..plan.properties().partitioning.partition_count() {
            let batches = plan.execute(partition, ctx.task_ctx()).unwrap();
            for batch in datafusion::physical_plan::common::collect(batches).await.unwrap() {
                let lists = batch.columns().iter().find_map(|column| column.as_list_opt::<i32>());
                let offsets = lists.unwrap().value_offsets();
                let bytes = 8 * (offsets[batch.num_rows()] - offsets[0]) as usize;
                let told = format!("{bytes} bytes in {} rows", batch.num_rows());
                assert!(bytes < MOST_BYTES || batch.num_rows() == 1, "{told}");
                rows += batch.num_rows();
                messages += 1;
            }
        }
        assert!(rows >= table.len(), "{rows} rows");
        // A batch of the input has 8192 rows; each long row ends a message, and begins one.
        assert!(messages < 20, "{messages} messages");
    }
    assert!(grids > 0);
}
