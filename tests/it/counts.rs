//! Counts run on multiplicities: no pair is made.

use crate::cases::{Pattern, Tables};
use crate::oracle::{JoinKind, Measure, Row, join};
use crate::support::{Session, assert_same_rows, assert_uses_operator, number, register, rows};

use arrow::datatypes::DataType;
use datafusion::prelude::SessionContext;
use rand::SeedableRng;
use rand::rngs::StdRng;

struct Tried {
    ctx: SessionContext,
    a: Vec<Row>,
    b: Vec<Row>,
}

fn tables() -> Tried {
    let mut rng = StdRng::seed_from_u64(9);
    let mut tables = Tables::new(&mut rng, 30);
    let a = tables.rows(60, Pattern::Repeats, &DataType::Int64, 0);
    let b = tables.rows(70, Pattern::Mixed, &DataType::Int64, 30);
    let ctx = Session::default().context();
    register(&ctx, "a", &a);
    register(&ctx, "b", &b);
    Tried { ctx, a, b }
}

impl Tried {
    /// Joined rows at `jaccard >= 0.5`, as ids.
    fn joined(&self, kind: JoinKind) -> Vec<(Option<i64>, Option<i64>)> {
        let alike = |_: &Row, _: &Row, s: Option<_>| Some(Measure::Jaccard.value(s?) >= 0.5);
        let joined = join(kind, &self.a, &self.b, &alike);
        joined.iter().map(|(i, j)| (i.map(|i| self.a[i].id), j.map(|j| self.b[j].id))).collect()
    }
}

fn grouped(ids: impl Iterator<Item = (Option<i64>, bool)>) -> Vec<String> {
    let mut groups = std::collections::BTreeMap::<Option<i64>, (i64, i64)>::new();
    for (id, matched) in ids {
        let counts = groups.entry(id).or_default();
        counts.0 += 1;
        counts.1 += i64::from(matched);
    }
    let show = |id: Option<i64>| id.map_or("NULL".to_string(), |v| v.to_string());
    groups.into_iter().map(|(id, (n, m))| format!("{} | {n} | {m}", show(id))).collect()
}

/// The operator's line of the plan says that it counts.
fn assert_counts(plan: &str) {
    let line = plan.lines().find(|l| l.contains(crate::support::OPERATOR)).unwrap_or_default();
    assert!(line.to_lowercase().contains("count"), "pairs are made:\n{plan}");
}

#[tokio::test]
async fn count_star_of_every_join_type() {
    let tried = tables();
    for kind in JoinKind::ALL {
        let sql = format!(
            "SELECT count(*) FROM a {} SIMJOIN b ON jaccard(a.toks, b.toks) >= 0.5",
            kind.sql()
        );
        let plan = assert_uses_operator(&tried.ctx, &sql).await;
        // A semi or anti join gives each row once: nothing is to be counted in its stead.
        if kind.sides() == (true, true) {
            assert_counts(&plan);
        }
        let expected = tried.joined(kind).len() as i64;
        assert_eq!(number(&tried.ctx, &sql).await, expected, "{sql}");
    }
    assert!(tried.joined(JoinKind::Inner).len() > 200);
}

#[tokio::test]
async fn neighbours_of_every_row() {
    let tried = tables();
    for kind in [JoinKind::Inner, JoinKind::Left, JoinKind::Right, JoinKind::Full] {
        let sql = format!(
            "SELECT a.id, count(*), count(b.id) FROM a {} SIMJOIN b \
             ON jaccard(a.toks, b.toks) >= 0.5 GROUP BY a.id",
            kind.sql()
        );
        assert_counts(&assert_uses_operator(&tried.ctx, &sql).await);
        let expected = grouped(tried.joined(kind).iter().map(|(i, j)| (*i, j.is_some())));
        assert_same_rows(&rows(&tried.ctx, &sql).await, &expected, &sql);

        let sql = format!(
            "SELECT b.id, count(*), count(a.id) FROM a {} SIMJOIN b \
             ON jaccard(a.toks, b.toks) >= 0.5 GROUP BY b.id",
            kind.sql()
        );
        assert_counts(&assert_uses_operator(&tried.ctx, &sql).await);
        let expected = grouped(tried.joined(kind).iter().map(|(i, j)| (*j, i.is_some())));
        assert_same_rows(&rows(&tried.ctx, &sql).await, &expected, &sql);
    }
}

/// `w` is NULL in some rows: those are partners that `count(w)` passes over.
#[tokio::test]
async fn values_of_partners_that_may_be_null() {
    let tried = tables();
    assert!(tried.a.iter().any(|r| r.w.is_none()) && tried.b.iter().any(|r| r.w.is_none()));
    for kind in [JoinKind::Inner, JoinKind::Left, JoinKind::Right, JoinKind::Full] {
        for condition in ["", " AND a.id + b.id > 40"] {
            let alike = |l: &Row, r: &Row, s: Option<_>| {
                let similar = Measure::Jaccard.value(s?) >= 0.5;
                Some(similar && (condition.is_empty() || l.id + r.id > 40))
            };
            let joined = join(kind, &tried.a, &tried.b, &alike);
            let from = format!(
                "FROM a {} SIMJOIN b ON jaccard(a.toks, b.toks) >= 0.5{condition}",
                kind.sql()
            );
            let sql = format!("SELECT a.id, count(*), count(b.w) {from} GROUP BY a.id");
            assert_counts(&assert_uses_operator(&tried.ctx, &sql).await);
            let expected = grouped(joined.iter().map(|(i, j)| {
                (i.map(|i| tried.a[i].id), j.is_some_and(|j| tried.b[j].w.is_some()))
            }));
            assert_same_rows(&rows(&tried.ctx, &sql).await, &expected, &sql);

            let sql = format!("SELECT b.id, count(*), count(a.w) {from} GROUP BY b.id");
            assert_counts(&assert_uses_operator(&tried.ctx, &sql).await);
            let expected = grouped(joined.iter().map(|(i, j)| {
                (j.map(|j| tried.b[j].id), i.is_some_and(|i| tried.a[i].w.is_some()))
            }));
            assert_same_rows(&rows(&tried.ctx, &sql).await, &expected, &sql);
        }
    }
    // A self-join, whose sides share their rows.
    let alike = |_: &Row, _: &Row, s: Option<_>| Some(Measure::Jaccard.value(s?) >= 0.5);
    let joined = join(JoinKind::Left, &tried.b, &tried.b, &alike);
    let sql = "SELECT x.id, count(*), count(y.w) FROM b x LEFT SIMJOIN b y \
               ON jaccard(x.toks, y.toks) >= 0.5 GROUP BY x.id";
    assert_counts(&assert_uses_operator(&tried.ctx, sql).await);
    let expected = grouped(
        joined
            .iter()
            .map(|(i, j)| (i.map(|i| tried.b[i].id), j.is_some_and(|j| tried.b[j].w.is_some()))),
    );
    assert_same_rows(&rows(&tried.ctx, sql).await, &expected, sql);
}

#[tokio::test]
async fn groups_may_be_expressions_and_have_conditions() {
    let tried = tables();
    let sql = "SELECT a.id % 5 AS remainder, count(*) AS n FROM a SIMJOIN b \
               ON jaccard(a.toks, b.toks) >= 0.5 GROUP BY a.id % 5 HAVING count(*) > 3 ORDER BY n";
    assert_uses_operator(&tried.ctx, sql).await;
    let mut counts = [0_i64; 5];
    for (id, _) in tried.joined(JoinKind::Inner) {
        counts[id.expect("an inner join") as usize % 5] += 1;
    }
    let kept = counts.iter().enumerate().filter(|(_, n)| **n > 3);
    let expected: Vec<_> = kept.map(|(i, n)| format!("{i} | {n}")).collect();
    assert_same_rows(&rows(&tried.ctx, sql).await, &expected, sql);
}

/// Aggregates that need the pairs see the pairs.
#[tokio::test]
async fn other_aggregates_are_not_mistaken_for_counts() {
    let tried = tables();
    let pairs = tried.joined(JoinKind::Inner);
    let on = "FROM a SIMJOIN b ON jaccard(a.toks, b.toks) >= 0.5";
    let sum: i64 = pairs.iter().filter_map(|p| p.1).sum();
    assert_eq!(number(&tried.ctx, &format!("SELECT sum(b.id) {on}")).await, sum);
    let distinct: std::collections::BTreeSet<_> = pairs.iter().filter_map(|p| p.1).collect();
    let sql = format!("SELECT count(DISTINCT b.id) {on}");
    assert_eq!(number(&tried.ctx, &sql).await, distinct.len() as i64);
    let sql = format!("SELECT count(*) FILTER (WHERE b.id > 60) {on}");
    let above = pairs.iter().filter(|p| p.1 > Some(60)).count();
    assert_eq!(number(&tried.ctx, &sql).await, above as i64);
    let with_weight: std::collections::BTreeSet<_> =
        tried.b.iter().filter(|r| r.w.is_some()).map(|r| Some(r.id)).collect();
    let sql = format!("SELECT count(b.w) {on}");
    let expected = pairs.iter().filter(|p| with_weight.contains(&p.1)).count();
    assert_eq!(number(&tried.ctx, &sql).await, expected as i64);
}

/// The same set 3,000 times on both sides: nine million pairs, counted but not made.
#[tokio::test]
async fn nine_million_equal_pairs_are_counted() {
    let equal: Vec<Row> =
        (0..3_000).map(|id| Row::of(id, crate::oracle::ints([1, 2, 3]))).collect();
    let session = Session { memory: Some(16 << 20), ..Session::default() };
    let ctx = session.context();
    register(&ctx, "a", &equal);
    register(&ctx, "b", &equal);
    let on = "ON jaccard(x.toks, y.toks) >= 0.8";
    let sql = format!("SELECT count(*) FROM a AS x SIMJOIN b AS y {on}");
    assert_eq!(number(&ctx, &sql).await, 9_000_000);
    let sql = format!("SELECT count(*) FROM a AS x SIMJOIN a AS y {on} AND x.id < y.id");
    assert_counts(&assert_uses_operator(&ctx, &sql).await);
    assert_eq!(number(&ctx, &sql).await, 3_000 * 2_999 / 2);
    let sql = format!(
        "SELECT min(n), max(n), count(*) FROM \
         (SELECT x.id, count(*) AS n FROM a AS x LEFT SIMJOIN b AS y {on} GROUP BY x.id)"
    );
    assert_eq!(rows(&ctx, &sql).await, ["3000 | 3000 | 3000"]);
}
