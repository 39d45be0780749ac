//! Table functions that stand for queries: thresholds, evaluations, comparisons.

use datafusion::prelude::SessionContext;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::results::{components, seeds};
use crate::support::{self, Session, assert_contains, error};

/// The rows of a statement, without the bits of doubles and the quotes of texts.
async fn rows(ctx: &SessionContext, sql: &str) -> Vec<String> {
    let plain = |row: String| {
        let cells = row
            .split(" | ")
            .map(|cell| cell.split('#').next().unwrap().trim_matches('"').to_string());
        cells.collect::<Vec<_>>().join(" | ")
    };
    support::rows(ctx, sql).await.into_iter().map(plain).collect()
}

/// Pairs of few nodes with few scores, some of them NULL, NaN or without a node.
fn pairs(rng: &mut StdRng) -> Vec<(Option<i64>, Option<i64>, Option<f64>)> {
    let scores = [Some(0.5), Some(0.6), Some(0.75), Some(0.9), Some(1.0), None, Some(f64::NAN)];
    (0..rng.random_range(0..40))
        .map(|_| {
            let mut node = || rng.random_bool(0.95).then(|| rng.random_range(0..15));
            let (left, right) = (node(), node());
            (left, right, *scores.choose(rng).unwrap())
        })
        .collect()
}

fn values(pairs: &[(Option<i64>, Option<i64>, Option<f64>)]) -> String {
    let shown = |value: Option<String>| value.unwrap_or_else(|| "NULL".to_string());
    let rows = pairs.iter().map(|(left, right, score)| {
        let score = score.map(|score| format!("'{score}'::DOUBLE"));
        let [left, right] = [left, right].map(|node| shown(node.map(|node| node.to_string())));
        format!("({left}, {right}, {})", shown(score))
    });
    rows.chain(["(NULL::BIGINT, NULL::BIGINT, NULL::DOUBLE)".to_string()])
        .collect::<Vec<_>>()
        .join(", ")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn thresholds_have_the_pairs_and_groups_of_each() {
    for seed in seeds(60).0 {
        let rng = &mut StdRng::seed_from_u64(seed);
        let pairs = pairs(rng);
        let is_distance = rng.random_bool(0.3);
        let ctx = Session::default().context();
        let table =
            format!("CREATE TABLE p AS SELECT * FROM (VALUES {}) v(l, r, s)", values(&pairs));
        rows(&ctx, &table).await;
        let order = if is_distance { ", 'distance'" } else { "" };
        let sql = format!(
            "SELECT * FROM thresholds(p, [0.6, 1.0, 0.75]{order}) ORDER BY threshold{}",
            if is_distance { "" } else { " DESC" }
        );
        let found = rows(&ctx, &sql).await;
        let is_within = |score: f64, threshold: f64| match is_distance {
            true => score <= threshold,
            false => score >= threshold,
        };
        let thresholds = if is_distance { [0.6, 0.75, 1.0] } else { [1.0, 0.75, 0.6] };
        let (mut expected, mut before) = (vec![], 0);
        for threshold in thresholds {
            let counts = |pair: &&(Option<i64>, Option<i64>, Option<f64>)| {
                pair.2.is_some_and(|score| is_within(score, threshold))
            };
            let within = pairs.iter().filter(counts);
            // A node with itself is no pair.
            let whole =
                within.filter(|pair| pair.0.zip(pair.1).is_some_and(|(a, b)| a != b)).count();
            // A pair beyond the threshold declares its nodes.
            let apart = |pair: &(Option<i64>, Option<i64>, Option<f64>)| match counts(&pair) {
                true => vec![*pair],
                false => vec![(pair.0, None, None), (None, pair.1, None)],
            };
            let united = components(&pairs.iter().flat_map(apart).collect::<Vec<_>>());
            let grouped: Vec<_> = united.values().filter(|(_, size)| *size > 1).collect();
            let mut groups: Vec<_> = grouped.iter().map(|(least, _)| least).collect();
            groups.sort();
            groups.dedup();
            let largest = united.values().map(|(_, size)| *size).max().unwrap_or(0);
            expected.push(format!(
                "{threshold:?} | {whole} | {} | {} | {} | {largest}",
                whole - before,
                grouped.len(),
                groups.len()
            ));
            before = whole;
        }
        let found: Vec<&str> = found.iter().map(|row| row.rsplit_once(" | ").unwrap().0).collect();
        assert_eq!(found, expected, "seed {seed}: {sql} {pairs:?}");
    }
}

#[tokio::test]
async fn thresholds_show_the_weakest_of_the_added_pairs() {
    let ctx = Session::default().context();
    rows(
        &ctx,
        "CREATE TABLE p AS SELECT value AS l, value + 100 AS r, 1.0 - value / 100.0 AS s, concat('x', value) AS e \
         FROM generate_series(1, 40)",
    )
    .await;
    let sql = "SELECT threshold, pairs, added, examples FROM thresholds(p, [0.9, 0.8]) ORDER BY threshold DESC";
    let expected = ["0.9 | 10 | 10 | x10; x9; x8", "0.8 | 20 | 10 | x20; x19; x18"];
    assert_eq!(rows(&ctx, sql).await, expected);
    let sql = "SELECT examples FROM thresholds((SELECT l, r, s FROM p), [0.999, 0.98])";
    let mut found = rows(&ctx, sql).await;
    found.sort();
    assert_eq!(found, ["2 ~ 102; 1 ~ 101", "NULL"]);
    let decimals =
        "SELECT pairs FROM thresholds((SELECT 1, 2, CAST(0.5 AS DECIMAL(10, 3))), [0.5])";
    assert_eq!(rows(&ctx, decimals).await, ["1"]);
    let infinite =
        "SELECT pairs FROM thresholds((SELECT 1, 2, CAST('inf' AS DOUBLE)), [1e400, 0.5])";
    assert_eq!(rows(&ctx, infinite).await, ["1", "1"]);
    // A join inside, by a parameter, from a common table expression.
    rows(&ctx, "CREATE TABLE x AS SELECT value AS id, [value / 2, value / 3] AS t FROM generate_series(1, 9)").await;
    let of = |pairs: &str| {
        format!("SELECT pairs, largest_group FROM thresholds({pairs}, [1, 0.3]) ORDER BY pairs")
    };
    let join = "SELECT a.id, b.id AS other, jaccard(a.t, b.t) AS s FROM x a SIMJOIN x b ON jaccard(a.t, b.t) >= 0.3 \
                AND a.id < b.id";
    let plain = rows(&ctx, &of(&format!("({})", join.replace("SIMJOIN", "JOIN")))).await;
    assert_eq!(rows(&ctx, &of(&format!("({join})"))).await, plain);
    assert_eq!(rows(&ctx, &format!("WITH c AS ({join}) {}", of("c"))).await, plain);
    assert_ne!(plain[0], plain[1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn evaluations_count_true_links() {
    for seed in seeds(60).0 {
        let rng = &mut StdRng::seed_from_u64(seed ^ 0xe7a1);
        let (links, truth) = (pairs(rng), pairs(rng));
        let ctx = Session::default().context();
        for (name, pairs) in [("links", &links), ("truth", &truth)] {
            rows(
                &ctx,
                &format!(
                    "CREATE TABLE {name} AS SELECT * FROM (VALUES {}) v(l, r, s)",
                    values(pairs)
                ),
            )
            .await;
        }
        let whole = |pairs: &[(Option<i64>, Option<i64>, Option<f64>)],
                     is_within: &dyn Fn(f64) -> bool| {
            let mut whole: Vec<_> = pairs
                .iter()
                .filter(|pair| pair.2.is_some_and(is_within))
                .filter_map(|pair| pair.0.zip(pair.1))
                .collect();
            whole.sort();
            whole.dedup();
            whole
        };
        let of = |pairs: &[(Option<i64>, Option<i64>, Option<f64>)]| {
            let all: Vec<_> = pairs.iter().map(|pair| (pair.0, pair.1, Some(1.0))).collect();
            whole(&all, &|_| true)
        };
        let wanted = of(&truth);
        let line = |links: Vec<(i64, i64)>| {
            let found = links.iter().filter(|link| wanted.contains(link)).count();
            let share = |part: f64, whole: usize| match whole {
                0 => "NULL".to_string(),
                whole => format!("{:?}", part / whole as f64),
            };
            format!(
                "{} | {found} | {} | {} | {} | {}",
                links.len(),
                wanted.len(),
                share(found as f64, links.len()),
                share(found as f64, wanted.len()),
                share(2.0 * found as f64, links.len() + wanted.len())
            )
        };
        let all = rows(&ctx, "SELECT * FROM evaluate(links, truth)").await;
        assert_eq!(all, [line(of(&links))], "seed {seed}: {links:?} {truth:?}");
        let sql = "SELECT * FROM evaluate(links, truth, [0.6, 0.9]) ORDER BY threshold";
        let expected = [0.6, 0.9].map(|threshold| {
            let within = whole(&links, &|score| score >= threshold);
            format!("{threshold:?} | {}", line(within))
        });
        assert_eq!(rows(&ctx, sql).await, expected, "seed {seed}: {links:?} {truth:?}");
        let sql = "SELECT * FROM evaluate((SELECT l, r, s FROM links), truth, [0.9], 'distance')";
        let within = whole(&links, &|score| score <= 0.9);
        assert_eq!(rows(&ctx, sql).await, [format!("0.9 | {}", line(within))], "seed {seed}");
    }
}

/// Of pairs that nobody has marked nothing is known.
#[tokio::test]
async fn evaluations_by_marks_judge_marked_pairs() {
    let ctx = Session::default().context();
    rows(&ctx, "CREATE TABLE links AS SELECT * FROM (VALUES (1, 2, 0.9), (3, 4, 0.7), (5, 6, 0.6)) v(a, b, score)").await;
    rows(
        &ctx,
        "CREATE TABLE marks AS SELECT * FROM (VALUES (1, 2, 'Yes'), (3, 4, 'no'), (5, 6, 'unsure'), (7, 8, 'yes '), \
         (9, 9, NULL)) v(l, r, label)",
    )
    .await;
    let found = rows(&ctx, "SELECT * FROM evaluate(links, marks)").await;
    assert_eq!(found, ["2 | 1 | 2 | 0.5 | 0.5 | 0.5"]);
    let found =
        rows(&ctx, "SELECT * FROM evaluate(links, marks, [0.8, 0.5]) ORDER BY threshold").await;
    assert_eq!(
        found,
        ["0.5 | 2 | 1 | 2 | 0.5 | 0.5 | 0.5", "0.8 | 1 | 1 | 2 | 1.0 | 0.5 | 0.6666666666666666"]
    );
}

#[tokio::test]
async fn comparisons_have_every_measure() {
    let ctx = Session::default().context();
    let sql = "SELECT * FROM compare((SELECT 'Jane Doe' AS name, 'Jane Do' AS name2, 7 AS id UNION ALL SELECT NULL, 'x', 8)) \
               ORDER BY id";
    let found = rows(&ctx, sql).await;
    assert_contains(
        &found[0],
        &[
            "Jane Doe | Jane Do | 7 | 1 | 1 | 0.875 |",
            "| 5 | [ Do, Jan, ane, e D, ne ] | [Doe] | [] | Jane Do[-e-]",
        ],
    );
    assert_contains(&found[1], &["NULL | x | 8 | NULL | NULL"]);
    let by_words = "SELECT jaccard, shared FROM compare((SELECT 'a b c', 'b c d'), 'words')";
    assert_eq!(rows(&ctx, by_words).await, ["0.5 | [b, c]"]);
    let sets = "SELECT \"left\", dice, shared, left_only, right_only FROM compare((SELECT [3, 1, 2], [2, 5, 3]))";
    assert_contains(&rows(&ctx, sets).await[0], &["[3, 1, 2] | 0.66", "| [2, 3] | [1] | [5]"]);
    let vectors =
        "SELECT array_distance, inner_product FROM compare((SELECT [0.0, 3.0], [4.0, 0.0]))";
    assert_eq!(rows(&ctx, vectors).await, ["5.0 | 0.0"]);
    let own =
        "SELECT column_3, jaccard FROM compare((SELECT 'ab c' AS x, 'ab c' AS y, 7 AS jaccard))";
    assert_eq!(rows(&ctx, own).await, ["7 | 1.0"]);
    let names = "SELECT column_3 FROM compare((SELECT 'a', 'b', 'c' AS \"left\"))";
    assert_eq!(rows(&ctx, names).await, ["c"]);
    assert_eq!(
        rows(&ctx, "SELECT edit_script('Jane Doe', 'Jon Doe')").await,
        ["J[-a-]{+o+}n[-e-] Doe"]
    );
    assert_eq!(
        rows(&ctx, "SELECT edit_script(NULL, 'a'), edit_script('a', NULL)").await,
        ["NULL | NULL"]
    );
}

#[tokio::test]
async fn mistakes_say_what_would_work() {
    let ctx = Session::default().context();
    rows(&ctx, "CREATE TABLE p AS SELECT 1 AS l, 2 AS r, 0.5 AS s").await;
    for (sql, parts) in [
        ("thresholds(p)", ["lacks the list of thresholds", "thresholds((SELECT a.id"]),
        ("thresholds((SELECT l, r FROM p), [1])", ["reads three columns", "the query has 2"]),
        ("thresholds(p, [1, 1])", ["thresholds has the threshold 1 twice", ""]),
        ("thresholds(p, ['x'])", ["thresholds", "x"]),
        ("thresholds(p, [1], 'up')", ["knows 'similarity' and 'distance', not 'up'", ""]),
        ("evaluate(p)", ["lacks the true pairs", "evaluate((SELECT"]),
        (
            "evaluate((SELECT l, r FROM p), p, [1])",
            ["the third one of the links is the score", "2 and 3"],
        ),
        ("evaluate(p, q)", ["q", ""]),
        ("compare((SELECT 1, 2))", ["two texts, two sets", "Int64"]),
        ("compare((SELECT 'a'))", ["first two columns", "has 1"]),
        ("compare((SELECT 'a', 'b'), 'letters')", ["no tokenizer 'letters'", "'shingles:2'"]),
        ("compare((SELECT 'a', 'b'), 7)", ["takes one text behind the query", ""]),
    ] {
        assert_contains(&error(&ctx, &format!("SELECT * FROM {sql}")).await, &parts);
    }
    // A function inside of itself, and beside itself.
    let inside = "SELECT f1 FROM evaluate((SELECT 1, 2), (SELECT 1, links + 1 FROM evaluate((SELECT 1, 2), \
                  (SELECT true_links, 2 FROM evaluate((SELECT 1, 2), (SELECT 1, 2))))))";
    assert_eq!(rows(&ctx, inside).await, ["1.0"]);
    let beside =
        "SELECT a.pairs, b.pairs FROM thresholds(p, [0.5]) a CROSS JOIN thresholds(p, [0.9]) b";
    assert_eq!(rows(&ctx, beside).await, ["1 | 0"]);
    // Functions of values may have these names.
    assert_contains(&error(&ctx, "SELECT compare(p, l) FROM p").await, &["compare"]);
}
