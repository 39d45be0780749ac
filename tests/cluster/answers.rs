//! Answers of a cluster, which are those of the oracle.

use std::sync::Arc;

use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::case::Case;
use crate::oracle::{Measure, Row, ints};
use crate::processes::{Cluster, shared};
use crate::support::{Session, assert_contains, assert_same_rows, explain, register, rows};

/// Cases drawn for each measure: 24, or as many as `SIMJOIN_TEST_CASES` says.
fn cases() -> u64 {
    let wanted = std::env::var("SIMJOIN_TEST_CASES");
    wanted.map_or(24, |n| n.parse().expect("SIMJOIN_TEST_CASES is a number"))
}

fn threshold(rng: &mut StdRng, measure: Measure) -> f64 {
    let thresholds: &[f64] = match measure {
        Measure::Overlap => &[1.0, 2.0, 3.0, 5.0],
        _ => &[1.0, 0.9, 0.8, 2.0 / 3.0, 0.5, 1.0 / 3.0, 0.1],
    };
    *thresholds.choose(rng).expect("thresholds")
}

async fn set(ctx: &SessionContext, option: &str, value: &str) {
    ctx.sql(&format!("SET {option} = '{value}'")).await.expect("a valid option");
}

async fn compare(cluster: &Cluster, measure: Measure, base: u64, distribution: Option<&str>) {
    let (mut matches, mut others) = (0, 0);
    for number in 0..cases() {
        let seed = base * 1_000_000 + number;
        let mut rng = StdRng::seed_from_u64(seed);
        let threshold = threshold(&mut rng, measure);
        let case = Case::draw(&mut rng, measure, threshold);
        let ctx = cluster.context();
        for (name, value) in &case.session.options {
            set(&ctx, &format!("simjoin.{name}"), value).await;
        }
        let distributions = ["auto", "broadcast", "repartition"];
        let distribution =
            distribution.unwrap_or_else(|| distributions.choose(&mut rng).expect("choices"));
        set(&ctx, "simjoin.distribution", distribution).await;
        set(&ctx, "datafusion.execution.batch_size", &case.session.batch_size.to_string()).await;
        let partitions = rng.random_range(1..6).to_string();
        set(&ctx, "simjoin.cluster_partitions", &partitions).await;
        case.register(&ctx);
        let (m, o) = case.check_in(&ctx, seed).await;
        (matches, others) = (matches + m, others + o);
        if number % 6 == 0 && case.must_use_operator() {
            let plan = explain(&ctx, &case.sql()).await;
            assert_contains(&plan, &["SetSimilarityJoinExec"]);
        }
    }
    assert!(matches > 100 && others > 100, "{measure:?}: {matches} matches, {others} others");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_joins_equal_the_oracle() {
    let cluster = shared();
    for (measure, base) in Measure::ALL.into_iter().zip(1..) {
        compare(&cluster, measure, base, None).await;
    }
}

/// Table functions over pairs travel in logical plans, and merge what the tasks have united.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_of_pairs_are_those_of_one_process() {
    let cluster = shared();
    let toks = |id: i64| ints([id % 7, id % 5, id % 3, 9]);
    let docs: Vec<_> = (1..=90).map(|id| Row::of(id, toks(id))).collect();
    let pairs = "SELECT a.id, b.id AS other, jaccard(a.toks, b.toks) AS score FROM doc a \
                 LEFT SIMJOIN doc b ON jaccard(a.toks, b.toks) >= 0.9 AND a.id < b.id";
    let nodes = format!("SELECT id, other FROM ({pairs})");
    let local = Session::default().context();
    register(&local, "doc", &docs);
    for query in [
        format!("SELECT * FROM connected_components(({nodes}))"),
        format!("SELECT * FROM connected_components(({pairs}), [0.95, 0.9])"),
        format!("SELECT * FROM representatives(({pairs}))"),
        format!("SELECT * FROM one_to_one(({pairs}))"),
    ] {
        let expected = rows(&local, &query).await;
        assert!(expected.len() > 20, "{query}");
        let ctx = cluster.context();
        register(&ctx, "doc", &docs);
        set(&ctx, "simjoin.cluster_partitions", "3").await;
        assert_same_rows(&rows(&ctx, &query).await, &expected, &query);
    }
}

/// Each task finds the first pairs of its own, of which the first of all are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_pairs_are_those_of_one_process() {
    let cluster = shared();
    let texts = "SELECT value AS id, value % 3 AS k, left(md5(CAST(value % 900 AS VARCHAR)), \
                 8 + value % 5) AS s FROM generate_series(1, 1500)";
    let tables = [format!("CREATE TABLE t AS {texts}"), format!("CREATE TABLE u AS {texts}")];
    for (right, further) in
        [("t", ""), ("u", ""), ("u", " AND a.k = b.k"), ("t", " AND a.id < b.id")]
    {
        let query = format!(
            "SELECT a.id, b.id AS other, levenshtein(a.s, b.s) AS d FROM t a SIMJOIN {right} b \
             ON levenshtein(a.s, b.s) <= 4{further} ORDER BY d, other, a.id LIMIT 60"
        );
        let local = Session::default().context();
        for table in &tables {
            local.sql(table).await.expect("a table").collect().await.expect("rows");
        }
        let expected = rows(&local, &query).await;
        for distribution in ["auto", "broadcast", "repartition"] {
            let ctx = cluster.context();
            for name in ["t", "u"] {
                let batches = local.table(name).await.expect("a table").collect().await;
                let batches = batches.expect("rows");
                let table = MemTable::try_new(batches[0].schema(), vec![batches]);
                ctx.register_table(name, Arc::new(table.expect("a table"))).expect("a new name");
            }
            set(&ctx, "simjoin.cluster_partitions", "3").await;
            set(&ctx, "simjoin.distribution", distribution).await;
            if distribution == "repartition" {
                assert_contains(&explain(&ctx, &query).await, &["best=60"]);
            }
            assert_same_rows(&rows(&ctx, &query).await, &expected, &query);
        }
    }
}

/// Functions of texts travel as predicates, as scores and in residual conditions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_of_texts_are_those_of_one_process() {
    let cluster = shared();
    let texts = "SELECT value AS id, value % 3 AS k, translate(left(md5(CAST(value AS VARCHAR)), \
                 3 + value % 7), '0123456789abcdef', 'abcdabcdabcdabcd') AS s \
                 FROM generate_series(1, 300)";
    let join = |select: &str, kind: &str, on: &str| {
        format!("SELECT {select} FROM t a {kind} JOIN t b ON {on}")
    };
    for (distribution, query) in [
        (
            "repartition",
            join(
                "a.id, b.id AS other, levenshtein(a.s, b.s) AS d",
                "",
                "levenshtein(a.s, b.s) <= 1 AND a.id < b.id",
            ),
        ),
        (
            "repartition",
            join(
                "a.id, b.id AS other, jaro_similarity(a.s, b.s) AS j",
                "LEFT",
                "jaro_winkler_similarity(a.s, b.s) >= 0.95 AND a.k = b.k AND a.id <> b.id",
            ),
        ),
        (
            "broadcast",
            join(
                "a.id, b.id AS other, damerau_levenshtein(a.s, b.s) AS d",
                "FULL",
                "levenshtein_similarity(a.s, b.s) >= 0.8 \
                 AND (a.id + b.id) % 5 <> damerau_levenshtein(a.s, b.s)",
            ),
        ),
    ] {
        let local = Session::default().context();
        let ctx = cluster.context();
        let texts = local.sql(texts).await.expect("a statement").collect().await.expect("texts");
        let table = Arc::new(MemTable::try_new(texts[0].schema(), vec![texts]).expect("a table"));
        for ctx in [&local, &ctx] {
            ctx.register_table("t", Arc::clone(&table) as _).expect("no table of the name");
        }
        let expected = rows(&local, &query).await;
        assert!(expected.len() > 100, "{query}");
        set(&ctx, "simjoin.distribution", distribution).await;
        set(&ctx, "simjoin.cluster_partitions", "3").await;
        let plan = explain(&ctx, &query).await;
        assert_contains(&plan, &["SetSimilarityJoinExec"]);
        assert_same_rows(&rows(&ctx, &query).await, &expected, &query);
    }
}

/// Nearest rows travel as a node of the statement, and as an operator.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nearest_rows_are_those_of_one_process() {
    let cluster = shared();
    let texts = "SELECT value AS id, value % 3 AS k, left(md5(CAST(value AS VARCHAR)), 3 + value % 7) AS s \
                 FROM generate_series(1, 200)";
    let grams = "qgrams(a.s, 2), qgrams(b.s, 2)";
    for query in [
        format!(
            "SELECT a.id, b.id AS other, jaccard({grams}) AS j FROM t a SIMJOIN t b NEAREST 3 WITH TIES \
             BY SIMILARITY jaccard({grams}) ON a.id <> b.id AND a.k = b.k"
        ),
        "SELECT a.id, b.id AS other FROM t a LEFT SIMJOIN t b NEAREST 2 WITH TIES BY DISTANCE \
         levenshtein(a.s, b.s) ON (a.id + b.id) % 3 = 1 AND a.id > 20"
            .to_string(),
        "SELECT a.id, b.id AS other FROM t a SIMJOIN t b NEAREST WITH TIES BY SIMILARITY \
         jaro_similarity(a.s, b.s) ON jaro_similarity(a.s, b.s) < 1.5 AND a.id <> b.id"
            .to_string(),
        format!(
            "SELECT a.id, b.id AS other FROM t a SIMJOIN t b NEAREST 2 WITH TIES BY SIMILARITY \
             0.6 * jaccard({grams}) + 0.3 * levenshtein_similarity(a.s, b.s) + \
             CASE WHEN a.k = b.k THEN 0.1 ELSE 0 END ON a.id <> b.id"
        ),
        "SELECT a.id, b.id AS other FROM t a JOIN t b NEAREST 2 WITH TIES BY DISTANCE abs(a.id - b.id) \
         ON a.k = b.k AND a.s <> b.s"
            .to_string(),
    ] {
        let local = Session::default().context();
        let ctx = cluster.context();
        let texts = local.sql(texts).await.expect("a statement").collect().await.expect("texts");
        let table = Arc::new(MemTable::try_new(texts[0].schema(), vec![texts]).expect("a table"));
        for ctx in [&local, &ctx] {
            ctx.register_table("t", Arc::clone(&table) as _).expect("no table of the name");
        }
        let expected = rows(&local, &query).await;
        assert!(expected.len() > 100, "{query}");
        assert_contains(&explain(&ctx, &query).await, &["NearestJoinExec"]);
        assert_same_rows(&rows(&ctx, &query).await, &expected, &query);
    }
}

/// Weights are made by window functions, over the rows of all tasks, and weighted sets travel to other tasks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_of_weighted_sets_are_those_of_one_process() {
    let cluster = shared();
    let texts = |from: u64, to: u64| {
        format!(
            "SELECT value AS id, value % 3 AS k, CASE WHEN value % 10 = 0 THEN concat('x', value) ELSE \
             concat('a', value % 5, ' b', value % 6, ' c', value % 7, ' d', value % 40, ' b', value % 4) END AS s \
             FROM generate_series({from}, {to})"
        )
    };
    let local = Session::default().context();
    let tables = [("t", texts(1, 300)), ("u", texts(250, 500))];
    for (name, texts) in &tables {
        let sql = format!("CREATE TABLE {name} AS {texts}");
        local.sql(&sql).await.expect("a statement").collect().await.expect("a table");
    }
    let weighed =
        |table: &str, weights: &str| format!("(SELECT id, k, {weights} AS w FROM {table})");
    let tfidf = |table| weighed(table, "tfidf(word_tokens(s)) OVER ()");
    let groups = |table| weighed(table, "idf(word_tokens(s)) OVER (PARTITION BY k)");
    let mut queries = vec![];
    for (measure, threshold) in [("weighted_jaccard", 0.5), ("weighted_cosine", 0.7)] {
        let score = format!("{measure}(a.w, b.w)");
        queries.push(format!(
            "WITH x AS {} SELECT a.id, b.id AS other, {score} AS score \
             FROM x a SIMJOIN x b ON {score} >= {threshold} AND a.id < b.id",
            tfidf("t")
        ));
        queries.push(format!(
            "SELECT a.id, b.id AS other, {score} AS score FROM {} a LEFT SIMJOIN {} b ON {score} >= {threshold}",
            tfidf("t"),
            tfidf("u")
        ));
        queries.push(format!(
            "SELECT a.id, b.id AS other FROM {} a FULL SIMJOIN {} b ON {score} >= {threshold} AND a.k = b.k",
            groups("t"),
            groups("u")
        ));
    }
    let score = "weighted_overlap(a.w, b.w)";
    let documents = weighed("u", "bm25_weights(word_tokens(s)) OVER ()");
    queries.push(format!(
        "SELECT a.id, b.id AS other, {score} AS score FROM {} a SIMJOIN {documents} b \
         NEAREST 2 WITH TIES BY SIMILARITY {score}",
        weighed("t", "token_counts(word_tokens(s))")
    ));
    for query in queries {
        let expected = rows(&local, &query).await;
        assert!(expected.len() > 100, "{} rows: {query}", expected.len());
        for distribution in ["auto", "broadcast", "repartition"] {
            let ctx = cluster.context();
            for (name, _) in &tables {
                let batches = local.table(*name).await.expect("a table").collect().await;
                let batches = batches.expect("rows");
                let table = MemTable::try_new(batches[0].schema(), vec![batches]);
                ctx.register_table(*name, Arc::new(table.expect("a table"))).expect("a new name");
            }
            set(&ctx, "simjoin.distribution", distribution).await;
            set(&ctx, "simjoin.cluster_partitions", "3").await;
            let plan = explain(&ctx, &query).await;
            let operator =
                if query.contains("NEAREST") { "NearestJoinExec" } else { "SetSimilarityJoinExec" };
            assert_contains(&plan, &[operator]);
            assert_same_rows(&rows(&ctx, &query).await, &expected, &query);
        }
    }
}
