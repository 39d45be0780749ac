//! Statements that order pairs by their score and take the first, of all or of groups, held against
//! DataFusion's nested loops.

mod one_to_one;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_plan::displayable;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::prelude::SessionContext;
use rand::Rng;
use rand::rngs::StdRng;

use crate::SimJoinContextExt;
use crate::config::DistributionChoice;
use crate::nearest::tests::{Kind, many, nested_loops, rounds, rows, rows_of, score, source};
use crate::session::install;
use crate::tests::statements::{Setup, Way, pick, plan_and_rows, sorted};

/// A join of `a` with `b` or with itself by a score.
struct Joined {
    score: String,
    is_distance: bool,
    right: String,
    on: String,
}

impl Joined {
    fn draw(rng: &mut StdRng, kind: Kind) -> Self {
        let (score, is_distance) = score(rng, kind);
        let bounds: &[&str] = match (kind, is_distance) {
            (Kind::Sets, _) if score.starts_with("overlap(") => &[" >= 1", " > 2"],
            (Kind::Sets, _) => &[" >= 0.1", " > 0.1", " >= 0.5"],
            (Kind::Texts, true) => &[" <= 6", " < 3", " BETWEEN 1 AND 5"],
            (Kind::Texts, false) => &[" >= 0.2", " > 0.5"],
            (Kind::Vectors, true) if score.starts_with("cosine") => &[" <= 0.9", " < 0.3"],
            (Kind::Vectors, true) => &[" <= 5", " < 2.5"],
            (Kind::Vectors, false) => &[" > 0.5", " >= 4"],
        };
        let bound = pick(rng, bounds);
        let more = pick(
            rng,
            &[
                "",
                "",
                "",
                " AND a.id < b.id",
                " AND a.id <> b.id",
                " AND a.k = b.k",
                " AND a.id % 3 <> 0 AND b.id % 4 <> 1",
                " AND (a.id + b.id) % 3 <> 1",
            ],
        );
        let right = pick(rng, &["b", "b", "a b"]);
        Self { on: format!("{score}{bound}{more}"), score, is_distance, right }
    }

    fn direction(&self) -> &'static str {
        if self.is_distance { "" } else { " DESC" }
    }

    /// The join selected from, by a word for it. In a SIMJOIN a score that is NaN is as NULL.
    fn from(&self, join: &str) -> String {
        let Self { right, on, score, .. } = self;
        let number = match join {
            "SIMJOIN" => String::new(),
            _ => format!(" AND {score} BETWEEN '-inf'::double AND 'inf'::double"),
        };
        format!("FROM a {join} {right} ON {on}{number}")
    }
}

/// A statement, with `JOIN` as a word of DataFusion and of this crate, and whether it asks for the best
/// pairs.
type Statement = ([String; 2], bool);

/// The first pairs of a join in the order of its score.
fn first_of_all(rng: &mut StdRng, kind: Kind) -> Statement {
    let joined = Joined::draw(rng, kind);
    let (score, direction) = (&joined.score, joined.direction());
    let nulls = pick(rng, &["", "", " NULLS FIRST", " NULLS LAST"]);
    let count = [1, 3, 10, 50, 400][rng.random_range(0..5)];
    let offset = pick(rng, &["", "", " OFFSET 1", " OFFSET 20"]);
    // What orders the rows besides, and the columns whose values it decides.
    let (further, columns) = match rng.random_range(0..4) {
        0 => ("", "s"),
        1 => (", k DESC", "s, k"),
        2 => (", x, y DESC", "x, y, s"),
        _ => (", y, x", "x, y, s, k"),
    };
    let rest = format!("ORDER BY s{direction}{nulls}{further} LIMIT {count}{offset}");
    let is_nested = rng.random();
    let statements = ["JOIN", "SIMJOIN"].map(|join| {
        let from = joined.from(join);
        let selected = format!("SELECT a.id AS x, b.id AS y, {score} AS s, a.k AS k {from}");
        match is_nested {
            true => format!("SELECT {columns} FROM ({selected}) q {rest}"),
            false => format!("SELECT {columns} FROM ({selected} {rest}) q"),
        }
    });
    (statements, true)
}

/// The first pairs of each group in the order of the score.
fn first_of_groups(rng: &mut StdRng, kind: Kind) -> Statement {
    let joined = Joined::draw(rng, kind);
    let (score, direction) = (&joined.score, joined.direction());
    let nulls = pick(rng, &["", "", " NULLS FIRST", " NULLS LAST"]);
    let groups = [
        "a.id",
        "a.id",
        "b.id",
        "b.id",
        "a.k",
        "a.id % 3, a.k",
        "b.k + 1",
        "b.id % 2, b.k",
        "a.id + b.id",
    ];
    let groups = pick(rng, &groups);
    let (rank, further) = match rng.random_range(0..6) {
        0 => ("rank", ""),
        1 => ("rank", ", b.k"),
        2 => ("row_number", ", b.k NULLS FIRST, a.k, b.id, a.id"),
        3 => ("row_number", ", b.id % 5 DESC, a.id, b.id"),
        _ => ("row_number", ", a.id, b.id DESC"),
    };
    let ranked = format!(
        "{rank}() OVER (PARTITION BY {groups} ORDER BY {score}{direction}{nulls}{further})"
    );
    let bounds = [" <= 1", " <= 2", " < 4", " = 1", " BETWEEN 1 AND 5", " <= 30"];
    let bound = pick(rng, &bounds);
    let is_qualified = rng.random();
    let statements = ["JOIN", "SIMJOIN"].map(|join| {
        let selected = format!("SELECT a.id AS x, b.id AS y, {score} AS s, a.k AS k");
        let from = joined.from(join);
        match is_qualified {
            true => format!("{selected} {from} QUALIFY {ranked}{bound}"),
            false => format!(
                "SELECT x, y, s, r FROM ({selected}, {ranked} AS r {from}) q WHERE r{bound} AND x > 2"
            ),
        }
    });
    (statements, !groups.contains("a.id + b.id"))
}

/// The plan of a statement before and after it has run, and its rows.
async fn run(context: &SessionContext, sql: &str) -> Result<([String; 2], Vec<String>)> {
    let plan = context.simjoin_sql(sql).await?.create_physical_plan().await?;
    let text = || displayable(plan.as_ref()).indent(true).to_string();
    let before = text();
    let rows = datafusion::physical_plan::collect(Arc::clone(&plan), context.task_ctx()).await?;
    Ok(([before, text()], sorted(&rows)))
}

/// The rounds of a plan that has run.
fn rounds_of(plan: &str) -> Vec<String> {
    let rounds = plan.split("rounds=[").nth(1).and_then(|rest| rest.split(']').next());
    rounds.map_or(vec![], |rounds| rounds.split("; ").map(str::to_string).collect())
}

const WAYS: [Way; 6] = [
    Way::Memory,
    Way::Disk,
    Way::Limit(1 << 12),
    Way::Limit(900),
    Way::Tasks(DistributionChoice::Repartition),
    Way::Tasks(DistributionChoice::Auto),
];

async fn compare_many(
    kind: Kind,
    seed: u64,
    statement: fn(&mut StdRng, Kind) -> Statement,
) -> Result<()> {
    let mut rng = source(seed);
    let [mut with_rows, mut found, mut tried, mut refused] = [0; 4];
    let count = rounds(48);
    for round in 0..count {
        let way = WAYS[round % WAYS.len()];
        let ([plain, insists], is_best) = statement(&mut rng, kind);
        let oracle = nested_loops();
        let operator = Setup::draw(&mut rng, way).session(install)?;
        // DataFusion's sort reserves more than the limits below.
        operator.sql("SET datafusion.execution.sort_spill_reservation_bytes = 0").await?;
        for name in ["a", "b"] {
            let size = rng.random_range(0..110);
            let table = rows(&mut rng, size, kind)?;
            oracle.register_table(name, Arc::clone(&table) as _)?;
            operator.register_table(name, table)?;
        }
        let expected = rows_of(&oracle, &plain).await?;
        let ([before, after], rows) = match run(&operator, &insists).await {
            Ok(done) => done,
            // A limit below the least one that joins from disk are made for.
            Err(error) if matches!(way, Way::Limit(900)) => {
                let is_exhausted = error.to_string().contains("Resources exhausted");
                assert!(is_exhausted, "{insists}\n{error}");
                refused += 1;
                continue;
            }
            Err(error) => return Err(error),
        };
        if !before.contains("mode=broadcast") {
            assert_eq!(before.contains("best="), is_best, "{insists}\n{before}");
        }
        assert_eq!(rows, expected, "{way:?} {insists}\n{after}");
        with_rows += usize::from(!rows.is_empty());
        let rounds = rounds_of(&after);
        tried += usize::from(rounds.len() > 2);
        found += usize::from(rounds.last().is_some_and(|last| !last.contains("all pairs")));
    }
    // Which stream has the memory when another one asks is a matter of time; a tenth is half of the
    // least limit's.
    assert!(with_rows > count / 2 && refused <= count / 10, "{with_rows}, {refused} of {count}");
    assert!(found > count / 20 && tried > 0, "{found} and {tried} of {count}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_best_pairs_of_sets_are_those_of_a_nested_loop() -> Result<()> {
    compare_many(Kind::Sets, 21, first_of_all).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_best_pairs_of_texts_are_those_of_a_nested_loop() -> Result<()> {
    compare_many(Kind::Texts, 22, first_of_all).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_best_pairs_of_vectors_are_those_of_a_nested_loop() -> Result<()> {
    compare_many(Kind::Vectors, 23, first_of_all).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_sets_of_each_group_are_those_of_a_nested_loop() -> Result<()> {
    compare_many(Kind::Sets, 31, first_of_groups).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_texts_of_each_group_are_those_of_a_nested_loop() -> Result<()> {
    compare_many(Kind::Texts, 32, first_of_groups).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_vectors_of_each_group_are_those_of_a_nested_loop() -> Result<()> {
    compare_many(Kind::Vectors, 33, first_of_groups).await
}

/// The text of a plan over the table of [`many`].
async fn plan_of(context: &SessionContext, sql: &str) -> Result<String> {
    let plan = context.simjoin_sql(sql).await?.create_physical_plan().await?;
    Ok(displayable(plan.as_ref()).indent(true).to_string())
}

const SIMILAR: &str = "jaccard(qgrams(a.s, 2), qgrams(b.s, 2))";
const JOIN: &str = "t a SIMJOIN t b ON jaccard(qgrams(a.s, 2), qgrams(b.s, 2)) >= 0.1";

#[tokio::test]
async fn a_limit_behind_an_order_by_the_score_reaches_the_join() -> Result<()> {
    let context = Setup::of(Way::Memory).session(install)?;
    many(&context).await?;
    let score = SIMILAR;
    for (sql, best) in [
        (format!("SELECT a.id FROM {JOIN} ORDER BY {score} DESC LIMIT 7"), 7),
        (format!("SELECT a.id FROM {JOIN} ORDER BY {score} DESC, a.id LIMIT 7 OFFSET 3"), 10),
        (
            format!(
                "SELECT a.id, {score} AS s FROM {JOIN} AND a.id < b.id ORDER BY s DESC LIMIT 1"
            ),
            1,
        ),
        (
            format!(
                "SELECT q.s + 1 FROM (SELECT {score} AS s FROM {JOIN}) q ORDER BY q.s DESC LIMIT 2"
            ),
            2,
        ),
        (
            "SELECT a.id FROM t a SIMJOIN t b ON levenshtein(a.s, b.s) <= 4 \
             ORDER BY levenshtein(a.s, b.s) NULLS FIRST, b.id LIMIT 5"
                .to_string(),
            5,
        ),
        (
            format!(
                "SELECT count(*) FROM (SELECT a.id FROM {JOIN} ORDER BY {score} DESC LIMIT 6) q"
            ),
            6,
        ),
    ] {
        let plan = plan_of(&context, &sql).await?;
        assert!(plan.contains(&format!(", best={best}")), "{sql}\n{plan}");
        assert!(plan.contains("SortExec: TopK") && plan.contains("self-join"), "{sql}\n{plan}");
    }
    Ok(())
}

#[tokio::test]
async fn a_bound_of_ranks_by_the_score_reaches_the_join() -> Result<()> {
    let context = Setup::of(Way::Memory).session(install)?;
    many(&context).await?;
    let score = SIMILAR;
    for (sql, best) in [
        (
            format!(
                "SELECT a.id FROM {JOIN} \
                 QUALIFY rank() OVER (PARTITION BY a.id ORDER BY {score} DESC) <= 3"
            ),
            3,
        ),
        (
            format!(
                "SELECT p.i, p.r + 1 FROM (SELECT *, row_number() OVER (PARTITION BY q.i % 7 \
                 ORDER BY q.s DESC NULLS LAST, q.j) AS r FROM (SELECT a.id AS i, b.id AS j, {score} AS s \
                 FROM {JOIN} AND a.id <> b.id) q) p WHERE 5 > p.r AND p.s < 0.9"
            ),
            4,
        ),
        (
            "SELECT b.id FROM t a SIMJOIN t b ON levenshtein(a.s, b.s) <= 4 \
             QUALIFY row_number() OVER (PARTITION BY a.id ORDER BY levenshtein(a.s, b.s)) = 1"
                .to_string(),
            1,
        ),
    ] {
        let plan = plan_of(&context, &sql).await?;
        assert!(plan.contains(&format!(", best={best} of each left row")), "{sql}\n{plan}");
    }
    let of_right = format!("rank() OVER (PARTITION BY b.id % 9 ORDER BY {score} DESC, a.id) <= 3");
    let plan = plan_of(&context, &format!("SELECT a.id FROM {JOIN} QUALIFY {of_right}")).await?;
    assert!(plan.contains(", best=3 of each right row"), "{plan}");
    for ranked in [
        format!("dense_rank() OVER (PARTITION BY a.id ORDER BY {score} DESC) <= 3"),
        format!("rank() OVER (PARTITION BY a.id ORDER BY {score} DESC) >= 3"),
        format!("rank() OVER (PARTITION BY a.id ORDER BY {score} DESC) <= a.id"),
        format!("rank() OVER (PARTITION BY a.id ORDER BY {score}) <= 3"),
        format!("rank() OVER (PARTITION BY a.id ORDER BY b.id, {score} DESC) <= 3"),
        format!("rank() OVER (PARTITION BY a.id, b.id ORDER BY {score} DESC) <= 3"),
        format!("rank() OVER (PARTITION BY random() ORDER BY {score} DESC) <= 3"),
        format!(
            "rank() OVER (PARTITION BY a.id ORDER BY {score} DESC) <= 3 \
             AND count(*) OVER (PARTITION BY a.id ORDER BY {score} DESC) > 1"
        ),
        format!(
            "rank() OVER (PARTITION BY a.id ORDER BY {score} DESC) <= 3 \
             OR rank() OVER (PARTITION BY a.id ORDER BY {score} DESC) > 7"
        ),
    ] {
        let plan = plan_of(&context, &format!("SELECT a.id FROM {JOIN} QUALIFY {ranked}")).await?;
        assert!(!plan.contains("best="), "{ranked}\n{plan}");
    }
    Ok(())
}

#[tokio::test]
async fn other_statements_make_all_pairs() -> Result<()> {
    let context = Setup::of(Way::Memory).session(install)?;
    many(&context).await?;
    let score = SIMILAR;
    let dice = score.replace("jaccard", "dice");
    for sql in [
        format!("SELECT a.id FROM {JOIN} ORDER BY {score} DESC"),
        format!("SELECT a.id FROM {JOIN} LIMIT 7"),
        format!("SELECT a.id FROM {JOIN} ORDER BY {score} LIMIT 7"),
        format!("SELECT a.id FROM {JOIN} ORDER BY a.id, {score} DESC LIMIT 7"),
        format!("SELECT a.id FROM {JOIN} ORDER BY {dice} DESC LIMIT 7"),
        format!("SELECT a.id FROM {JOIN} ORDER BY {score} * -1 LIMIT 7"),
        format!("SELECT a.id FROM {JOIN} AND random() * a.id < b.id ORDER BY {score} DESC LIMIT 7"),
        format!("SELECT DISTINCT a.id, {score} AS s FROM {JOIN} ORDER BY s DESC LIMIT 7"),
        format!("SELECT {score} AS s, count(*) FROM {JOIN} GROUP BY 1 ORDER BY s DESC LIMIT 7"),
        format!(
            "SELECT * FROM (SELECT {score} AS s, row_number() OVER (ORDER BY a.id) AS r FROM {JOIN}) q \
             WHERE r > 3 ORDER BY s DESC LIMIT 7"
        ),
        format!(
            "SELECT s FROM (SELECT {score} AS s FROM {JOIN} LIMIT 100) q ORDER BY s DESC LIMIT 7"
        ),
        format!(
            "SELECT a.id FROM {} ORDER BY {score} DESC LIMIT 7",
            JOIN.replace("SIMJOIN", "LEFT SIMJOIN")
        ),
        format!("SELECT a.id FROM {JOIN} ORDER BY {score} DESC LIMIT 2000000"),
    ] {
        let plan = plan_of(&context, &sql).await?;
        assert!(!plan.contains("best="), "{sql}\n{plan}");
    }
    Ok(())
}

/// Rows whose inputs are not the same in every reading are read once.
#[tokio::test]
async fn volatile_inputs_are_read_once() -> Result<()> {
    let context = Setup::of(Way::Memory).session(install)?;
    many(&context).await?;
    let sql = "SELECT count(DISTINCT r), count(DISTINCT id) FROM (SELECT a.id, a.r FROM \
               (SELECT id, s, random() AS r FROM t) a SIMJOIN t b ON levenshtein(a.s, b.s) <= 8 \
               ORDER BY levenshtein(a.s, b.s), a.id LIMIT 300) q";
    let ([_, after], rows) = run(&context, sql).await?;
    assert!(rounds_of(&after).len() > 1, "{after}");
    let (values, ids) = rows[0].split_once(" | ").unwrap();
    assert_eq!(values, ids);
    Ok(())
}

/// A score besides that of the order is in the answer too.
#[tokio::test]
async fn other_scores_are_found_beside() -> Result<()> {
    let sql = format!(
        "SELECT a.id, b.id, {}, {SIMILAR} AS s FROM {JOIN} AND a.id < b.id ORDER BY s DESC, a.id, b.id LIMIT 40",
        SIMILAR.replace("jaccard", "overlap")
    );
    let context = Setup::of(Way::Memory).session(install)?;
    many(&context).await?;
    let ([_, after], rows) = run(&context, &sql).await?;
    let last = rounds_of(&after).pop().unwrap();
    assert!(!last.contains("all pairs"), "{after}");
    let loops = nested_loops();
    many(&loops).await?;
    assert_eq!(rows, rows_of(&loops, &sql.replace("SIMJOIN", "JOIN")).await?, "{after}");
    Ok(())
}

/// More rows than the memory limit lets the operator hold: windows of the probe side, or rows on disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inputs_that_do_not_fit_are_joined_in_windows_or_from_disk() -> Result<()> {
    let table = |name: &str, count: usize| {
        format!(
            "CREATE TABLE {name} AS SELECT value AS id, repeat(md5(CAST(value % 800 AS VARCHAR)), 5) AS s \
             FROM generate_series(1, {count})"
        )
    };
    let sql = "SELECT a.id, b.id, levenshtein(a.s, b.s) FROM a SIMJOIN b ON levenshtein(a.s, b.s) <= 2 \
               ORDER BY levenshtein(a.s, b.s), a.id, b.id LIMIT 30";
    for sizes in [[3000, 100], [100, 3000], [3000, 3000]] {
        let mut answers = vec![];
        for way in [Way::Memory, Way::Limit(3 << 10)] {
            let context = Setup { batch_size: 100, ..Setup::of(way) }.session(install)?;
            for (name, size) in ["a", "b"].into_iter().zip(sizes) {
                context.sql(&table(name, size)).await?.collect().await?;
            }
            let ([_, after], rows) = run(&context, sql).await?;
            let rounds = rounds_of(&after);
            let samples = rounds.iter().filter(|round| round.starts_with("sample of")).count();
            let all = rounds.iter().filter(|round| round.ends_with("all pairs")).count();
            assert!(samples == 1 && all <= 1, "{sizes:?} {way:?}\n{after}");
            // The windows behind the first one have its bound.
            let has_windows = way != Way::Memory && sizes.contains(&100);
            let is_last = rounds.last().is_some_and(|last| last.starts_with("0: "));
            let are_windows = is_last && rounds.len() > 2;
            assert!(!has_windows || are_windows, "{sizes:?} {way:?}\n{after}");
            answers.push(rows);
        }
        assert_eq!(answers[0].len(), 30);
        assert_eq!(answers[0], answers[1]);
    }
    Ok(())
}

/// The best pairs of each row of inputs that do not fit are neighbours, which are found from disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pairs_of_rows_that_do_not_fit_are_found_as_nearest_rows() -> Result<()> {
    for (kept, of_side) in [("a.id", "b.id % 7, b.id"), ("b.id", "a.id DESC")] {
        let sql = format!(
            "SELECT a.id, b.id, levenshtein(a.s, b.s) FROM a SIMJOIN b ON levenshtein(a.s, b.s) <= 9 QUALIFY \
             row_number() OVER (PARTITION BY {kept} ORDER BY levenshtein(a.s, b.s), {of_side}) <= 2"
        );
        let mut answers = vec![];
        for way in [Way::Memory, Way::Limit(3 << 10), Way::Tasks(DistributionChoice::Broadcast)] {
            let context = Setup { batch_size: 100, ..Setup::of(way) }.session(install)?;
            context.sql("SET datafusion.execution.sort_spill_reservation_bytes = 0").await?;
            for (name, count) in [("a", 2000), ("b", 1500)] {
                let table = format!(
                    "CREATE TABLE {name} AS SELECT value AS id, \
                     repeat(md5(CAST(value % 90 AS VARCHAR)), 5) || CAST(value % 40 AS VARCHAR) AS s \
                     FROM generate_series(1, {count})"
                );
                context.sql(&table).await?.collect().await?;
            }
            let ([_, after], rows) = run(&context, &sql).await?;
            let last = rounds_of(&after).pop().unwrap_or_default();
            let is_on_disk = matches!(way, Way::Limit(_));
            assert_eq!(last == "nearest rows", is_on_disk, "{way:?}\n{after}");
            assert!(!last.contains("all pairs"), "{way:?}\n{after}");
            answers.push(rows);
        }
        assert!(answers[0].len() > 2900 && answers.iter().all(|rows| *rows == answers[0]));
    }
    Ok(())
}

/// Where many pairs are as good as the last one, all of them are ordered by the further keys.
#[tokio::test]
async fn ties_are_decided_by_the_further_keys() -> Result<()> {
    let context = Setup::of(Way::Memory).session(install)?;
    let table = "CREATE TABLE t AS SELECT value AS id, 'x' || CAST(value % 2 AS VARCHAR) AS s FROM generate_series(1, 300)";
    context.sql(table).await?.collect().await?;
    let join = "t a SIMJOIN t b ON levenshtein(a.s, b.s) <= 1";
    let sql = format!(
        "SELECT a.id, b.id FROM {join} ORDER BY levenshtein(a.s, b.s), a.id + b.id DESC, a.id LIMIT 3"
    );
    let (_, rows) = plan_and_rows(&context, &sql).await?;
    assert_eq!(rows, ["298 | 300", "299 | 299", "300 | 300"]);
    // Any of them will do.
    let sql = format!("SELECT levenshtein(a.s, b.s) FROM {join} ORDER BY 1 LIMIT 3");
    let ([_, after], rows) = run(&context, &sql).await?;
    assert_eq!(rows, ["0", "0", "0"]);
    assert!(rounds_of(&after).last().unwrap().starts_with("0: "), "{after}");
    Ok(())
}

#[tokio::test]
async fn an_execution_begins_anew_and_counts_its_rows() -> Result<()> {
    let context = Setup::of(Way::Memory).session(install)?;
    many(&context).await?;
    let sql = format!("SELECT a.id, b.id FROM {JOIN} ORDER BY {SIMILAR} DESC LIMIT 50");
    let plan = context.simjoin_sql(&sql).await?.create_physical_plan().await?;
    for _ in 0..2 {
        let plan = reset_plan_states(Arc::clone(&plan))?;
        let rows = datafusion::physical_plan::collect(plan, context.task_ctx()).await?;
        assert_eq!(rows.iter().map(|batch| batch.num_rows()).sum::<usize>(), 50);
    }
    let analyzed = context.simjoin_sql(&format!("EXPLAIN ANALYZE {sql}")).await?.collect().await?;
    let text = sorted(&analyzed).join("\n");
    let line = text.lines().find(|line| line.contains("best=50")).unwrap();
    for part in ["rounds=[sample of ", "chosen=", "output_rows=404,", "build_rows=400", "rounds=2"]
    {
        assert!(line.contains(part), "{part}: {line}");
    }
    Ok(())
}
