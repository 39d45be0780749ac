//! A join of an input with itself reads and indexes it once, and answers as two inputs would.

use crate::cases::{Pattern, Tables};
use crate::oracle::{Cell, JoinKind, Measure, Row, Sizes, and, join, line};
use crate::support::{Session, assert_same_rows, assert_uses_operator, number, register, rows};

use arrow::datatypes::DataType;
use datafusion::prelude::SessionContext;
use rand::SeedableRng;
use rand::rngs::StdRng;

fn table(self_join: bool) -> (SessionContext, Vec<Row>) {
    let mut rng = StdRng::seed_from_u64(23);
    let rows = Tables::new(&mut rng, 20).rows(80, Pattern::Mixed, &DataType::Int64, 0);
    let ctx = Session::default().option("self_join", self_join).context();
    register(&ctx, "a", &rows);
    (ctx, rows)
}

fn scans(plan: &str) -> usize {
    plan.matches("DataSourceExec").count()
}

fn alike(s: Option<Sizes>) -> Option<bool> {
    Some(Measure::Jaccard.value(s?) >= 0.5)
}

fn ids(rows: &[Row], kind: JoinKind, with: impl Fn(&Row, &Row) -> Option<bool>) -> Vec<String> {
    let joined = join(kind, rows, rows, &|x, y, s| and(alike(s), with(x, y)));
    let id = |i: Option<usize>| Cell::from(i.map(|i| rows[i].id));
    let (left, right) = kind.sides();
    let cells = joined.iter().map(|(i, j)| match (left, right) {
        (true, true) => line(&[id(*i), id(*j)]),
        (true, false) => line(&[id(*i)]),
        _ => line(&[id(*j)]),
    });
    cells.collect()
}

#[tokio::test]
async fn the_input_is_read_once() {
    for (self_join, expected) in [(true, 1), (false, 2)] {
        let (ctx, _) = table(self_join);
        for sql in [
            "SELECT x.id, y.id FROM a x SIMJOIN a y ON jaccard(x.toks, y.toks) >= 0.5",
            "SELECT x.id, y.id FROM a x SIMJOIN a y ON jaccard(x.toks, y.toks) >= 0.5 AND x.id < y.id",
            "SELECT x.id, y.w FROM a x SIMJOIN a y ON jaccard(x.toks, y.toks) >= 0.5",
            "SELECT count(*) FROM a x SIMJOIN a y ON jaccard(x.toks, y.toks) >= 0.5 AND x.id < y.id",
            "SELECT x.id, y.id FROM a x JOIN a y ON jaccard(x.toks, y.toks) >= 0.5",
        ] {
            let plan = assert_uses_operator(&ctx, sql).await;
            assert_eq!(scans(&plan), expected, "{sql}\n{plan}");
        }
    }
}

/// Sides that differ are not the same input.
#[tokio::test]
async fn different_sides_are_not_taken_for_one() {
    let (ctx, table) = table(true);
    for (sql, keep) in [
        (
            "SELECT x.id, y.id FROM (SELECT * FROM a WHERE id < 40) x SIMJOIN a y \
             ON jaccard(x.toks, y.toks) >= 0.5",
            (40, i64::MAX),
        ),
        (
            "SELECT x.id, y.id FROM a x SIMJOIN (SELECT * FROM a WHERE id < 50) y \
             ON jaccard(x.toks, y.toks) >= 0.5 AND x.w < 100 WHERE x.id < 30",
            (30, 50),
        ),
    ] {
        let weighed = sql.contains("x.w < 100");
        let expected = ids(&table, JoinKind::Inner, |x, y| {
            let w = if weighed { x.w.map(|w| w < 100) } else { Some(true) };
            and(w, Some(x.id < keep.0 && y.id < keep.1))
        });
        assert!(expected.len() > 50, "{}", expected.len());
        assert_uses_operator(&ctx, sql).await;
        assert_same_rows(&rows(&ctx, sql).await, &expected, sql);
    }
}

type Relation = fn(&Row, &Row) -> Option<bool>;

#[tokio::test]
async fn every_join_type_with_every_order_of_ids() {
    let relations: [(&str, Relation); 7] = [
        ("", |_, _| Some(true)),
        (" AND x.id < y.id", |x, y| Some(x.id < y.id)),
        (" AND x.id > y.id", |x, y| Some(x.id > y.id)),
        (" AND x.id <> y.id", |x, y| Some(x.id != y.id)),
        (" AND y.id >= x.id", |x, y| Some(y.id >= x.id)),
        (" AND x.key = y.key AND x.id < y.id", |x, y| {
            and(Some(x.key? == y.key?), Some(x.id < y.id))
        }),
        (" AND x.w < y.w", |x, y| Some(x.w? < y.w?)),
    ];
    let (once, table_rows) = table(true);
    let (twice, _) = table(false);
    for kind in JoinKind::ALL {
        for (condition, holds) in relations {
            let columns = match kind.sides() {
                (true, true) => "x.id AS xid, y.id AS yid",
                (true, false) => "x.id",
                _ => "y.id",
            };
            let from = format!(
                "FROM a x {} SIMJOIN a y ON jaccard(x.toks, y.toks) >= 0.5{condition}",
                kind.sql()
            );
            let expected = ids(&table_rows, kind, holds);
            for ctx in [&once, &twice] {
                let sql = format!("SELECT {columns} {from}");
                assert_same_rows(&rows(ctx, &sql).await, &expected, &sql);
                let sql = format!("SELECT count(*) {from}");
                assert_eq!(number(ctx, &sql).await, expected.len() as i64, "{sql}");
            }
        }
    }
}

/// An input that gives other rows each time it is read cannot be read once for both sides, and
/// one with a LIMIT might.
#[tokio::test]
async fn volatile_and_limited_inputs_are_read_twice() {
    let (ctx, _) = table(true);
    for input in [
        "(SELECT id, toks, random() AS r FROM a)",
        "(SELECT * FROM a WHERE random() >= 0)",
        "(SELECT * FROM a LIMIT 50)",
    ] {
        let sql = format!(
            "SELECT x.id, y.* FROM {input} x SIMJOIN {input} y ON jaccard(x.toks, y.toks) >= 0.5"
        );
        let plan = assert_uses_operator(&ctx, &sql).await;
        assert_eq!(scans(&plan), 2, "{sql}\n{plan}");
        rows(&ctx, &sql).await;
    }
}
