//! Scores are taken from the match, and equal what the functions give.

use crate::cases::{Pattern, Tables};
use crate::oracle::{Cell, JoinKind, Measure, Row, join, line, similarity};
use crate::support::{
    OPERATOR, Session, assert_same_rows, assert_uses_operator, number, register, rows,
};

use arrow::datatypes::DataType;
use datafusion::prelude::SessionContext;
use rand::SeedableRng;
use rand::rngs::StdRng;

fn tables() -> (SessionContext, Vec<Row>, Vec<Row>) {
    let mut rng = StdRng::seed_from_u64(17);
    let mut tables = Tables::new(&mut rng, 24);
    let a = tables.rows(60, Pattern::Mixed, &DataType::Int64, 0);
    let b = tables.rows(60, Pattern::Mixed, &DataType::Int64, 40);
    let ctx = Session::default().context();
    register(&ctx, "a", &a);
    register(&ctx, "b", &b);
    (ctx, a, b)
}

/// Whether some node above the operator calls the function once more, over columns of lists. The
/// operator's own line shows the predicate, and aliases keep the text of what they stand for.
fn recomputes(plan: &str) -> bool {
    let mut lines = plan.lines().filter(|l| !l.contains(OPERATOR));
    lines.any(|l| Measure::ALL.iter().any(|m| l.contains(&format!("{}(toks@", m.sql()))))
}

/// All measures, in both argument orders, for every join type that has both sides.
#[tokio::test]
async fn every_measure_can_be_selected() {
    let (ctx, a, b) = tables();
    let calls = Measure::ALL
        .iter()
        .flat_map(|m| ["a.toks, b.toks", "b.toks, a.toks"].map(|x| format!("{}({x})", m.sql())))
        .collect::<Vec<_>>();
    for kind in [JoinKind::Inner, JoinKind::Left, JoinKind::Right, JoinKind::Full] {
        let sql = format!(
            "SELECT a.id, b.id, {} FROM a {} SIMJOIN b ON dice(a.toks, b.toks) >= 0.4",
            calls
                .iter()
                .enumerate()
                .map(|(i, c)| format!("{c} AS s{i}"))
                .collect::<Vec<_>>()
                .join(", "),
            kind.sql()
        );
        let plan = assert_uses_operator(&ctx, &sql).await;
        assert!(!recomputes(&plan), "a score is computed again:\n{plan}");
        let alike = |_: &Row, _: &Row, s: Option<_>| Some(Measure::Dice.value(s?) >= 0.4);
        let joined = join(kind, &a, &b, &alike);
        assert!(joined.len() > 100);
        let expected = joined.iter().map(|(i, j)| {
            let (x, y) = (i.map(|i| &a[i]), j.map(|j| &b[j]));
            let mut cells: Vec<Cell> = vec![x.map(|r| r.id).into(), y.map(|r| r.id).into()];
            for measure in Measure::ALL {
                for swapped in [false, true] {
                    let value = x.zip(y).and_then(|(x, y)| match swapped {
                        false => similarity(measure, &x.toks, &y.toks),
                        true => similarity(measure, &y.toks, &x.toks),
                    });
                    cells.push(match value {
                        None => Cell::Null,
                        Some(v) if measure == Measure::Overlap => Cell::Int(v as i64),
                        Some(v) => Cell::Float(v),
                    });
                }
            }
            line(&cells)
        });
        assert_same_rows(&rows(&ctx, &sql).await, &expected.collect::<Vec<_>>(), &sql);
    }
}

#[tokio::test]
async fn order_by_a_score_sorts() {
    let (ctx, a, b) = tables();
    for order in ["jaccard(a.toks, b.toks) DESC, a.id, b.id", "score DESC, a.id, b.id"] {
        let sql = format!(
            "SELECT a.id, b.id, jaccard(a.toks, b.toks) AS score FROM a SIMJOIN b \
             ON jaccard(a.toks, b.toks) >= 0.5 ORDER BY {order} LIMIT 25"
        );
        let plan = assert_uses_operator(&ctx, &sql).await;
        assert!(!recomputes(&plan), "a score is computed again:\n{plan}");
        let mut best = Vec::new();
        for (x, y) in a.iter().flat_map(|x| b.iter().map(move |y| (x, y))) {
            if let Some(v) = similarity(Measure::Jaccard, &x.toks, &y.toks)
                && v >= 0.5
            {
                best.push((x.id, y.id, v));
            }
        }
        best.sort_by(|p, q| q.2.total_cmp(&p.2).then((p.0, p.1).cmp(&(q.0, q.1))));
        let expected: Vec<_> = best
            .iter()
            .take(25)
            .map(|(x, y, v)| line(&[Cell::Int(*x), Cell::Int(*y), Cell::Float(*v)]))
            .collect();
        assert_eq!(rows(&ctx, &sql).await, expected, "{sql}");
    }
}

/// Scores inside expressions, in a residual, in an aggregate, in a WHERE above an outer join.
#[tokio::test]
async fn scores_are_reused_wherever_they_stand() {
    let (ctx, a, b) = tables();
    let scores: Vec<f64> = a
        .iter()
        .flat_map(|x| b.iter().map(move |y| similarity(Measure::Jaccard, &x.toks, &y.toks)))
        .flatten()
        .filter(|v| *v >= 0.5)
        .collect();
    let below = scores.iter().filter(|v| **v < 0.8).count() as i64;
    for sql in [
        "SELECT count(*) FROM a SIMJOIN b \
         ON jaccard(a.toks, b.toks) >= 0.5 AND jaccard(a.toks, b.toks) < 0.8",
        "SELECT count(*) FROM a SIMJOIN b ON jaccard(a.toks, b.toks) >= 0.5 \
         WHERE jaccard(b.toks, a.toks) < 0.8",
        "SELECT count(*) FROM (SELECT jaccard(a.toks, b.toks) AS s FROM a SIMJOIN b \
         ON jaccard(a.toks, b.toks) >= 0.5) WHERE s < 0.8",
        "SELECT sum(CASE WHEN jaccard(a.toks, b.toks) < 0.8 THEN 1 ELSE 0 END) FROM a SIMJOIN b \
         ON jaccard(a.toks, b.toks) >= 0.5",
    ] {
        let plan = assert_uses_operator(&ctx, sql).await;
        assert!(!recomputes(&plan), "a score is computed again:\n{plan}");
        assert_eq!(number(&ctx, sql).await, below, "{sql}");
    }
    let sql = "SELECT max(jaccard(a.toks, b.toks)), min(jaccard(a.toks, b.toks)) FROM a SIMJOIN b \
               ON jaccard(a.toks, b.toks) >= 0.5";
    let plan = assert_uses_operator(&ctx, sql).await;
    assert!(!recomputes(&plan), "a score is computed again:\n{plan}");
    let largest = scores.iter().copied().fold(0.0, f64::max);
    let least = scores.iter().copied().fold(1.0, f64::min);
    let expected = line(&[Cell::Float(largest), Cell::Float(least)]);
    assert_eq!(rows(&ctx, sql).await, [expected]);
}

/// A function over other arguments than the join's is not the join's score.
#[tokio::test]
async fn other_arguments_are_no_score() {
    let (ctx, a, b) = tables();
    let sql = "SELECT a.id, b.id, jaccard(a.toks, a.toks) AS s, jaccard(b.toks, [1, 2]) AS t \
               FROM a SIMJOIN b ON jaccard(a.toks, b.toks) >= 0.7";
    assert_uses_operator(&ctx, sql).await;
    let two = crate::oracle::ints([1, 2]);
    let mut expected = Vec::new();
    for (x, y) in a.iter().flat_map(|x| b.iter().map(move |y| (x, y))) {
        if similarity(Measure::Jaccard, &x.toks, &y.toks).is_some_and(|v| v >= 0.7) {
            let of = |l, r| similarity(Measure::Jaccard, l, r).map_or(Cell::Null, Cell::Float);
            let cells = [Cell::Int(x.id), Cell::Int(y.id), of(&x.toks, &x.toks), of(&y.toks, &two)];
            expected.push(line(&cells));
        }
    }
    assert_same_rows(&rows(&ctx, sql).await, &expected, sql);
}
