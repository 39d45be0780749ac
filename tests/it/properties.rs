//! Laws that hold for every input; a counterexample is shrunk to few rows.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use arrow::datatypes::DataType;

use crate::lists::Layout;
use crate::oracle::{JoinKind, List, Measure, Row, Token, join};
use crate::support::{
    STRATEGIES, Session, batch_of, lines, plan_in_a_form, register_partitions, split,
};

fn list() -> impl Strategy<Value = List> {
    let token = prop_oneof![1 => Just(None), 9 => (0_i128..9).prop_map(|t| Some(Token::Int(t)))];
    prop_oneof![1 => Just(None), 9 => prop::collection::vec(token, 0..7).prop_map(Some)]
}

fn table() -> impl Strategy<Value = Vec<Row>> {
    prop::collection::vec(list(), 0..14).prop_map(|lists| {
        lists.into_iter().enumerate().map(|(i, toks)| Row::of(i as i64, toks)).collect()
    })
}

fn measure() -> impl Strategy<Value = Measure> {
    prop::sample::select(Measure::ALL.to_vec())
}

fn kind() -> impl Strategy<Value = JoinKind> {
    prop::sample::select(JoinKind::ALL.to_vec())
}

/// A threshold that some pair of small sets attains.
fn threshold() -> impl Strategy<Value = f64> {
    (1_u32..7, 1_u32..7).prop_map(|(o, n)| f64::from(o.min(n)) / f64::from(n))
}

/// A session of any strategy.
fn session() -> impl Strategy<Value = Session> {
    prop::sample::select(STRATEGIES.to_vec())
        .prop_map(|strategy| Session::default().option("strategy", strategy))
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime")
}

/// Runs a statement over `a` and `b`, cut as asked; the lines sorted.
fn run(a: &[Row], b: &[Row], cut: (usize, usize), session: &Session, sql: &str) -> Vec<String> {
    runtime().block_on(async {
        let ctx = session.context();
        for (name, rows) in [("a", a), ("b", b)] {
            let batch = batch_of(rows, &DataType::Int64, Layout::List);
            register_partitions(&ctx, name, split(&batch, cut.0, cut.1));
        }
        let frame = plan_in_a_form(&ctx, sql, vec![]).await.expect(sql);
        let batches = frame.collect().await.expect(sql);
        let mut found = lines(&batches);
        found.sort();
        found
    })
}

fn check<S: Strategy>(cases: u32, strategy: S, law: impl Fn(S::Value)) {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new(config);
    let law = std::panic::AssertUnwindSafe(law);
    if let Err(e) = runner.run(&strategy, |value| {
        (law.0)(value);
        Ok(())
    }) {
        panic!("{e}");
    }
}

fn id(i: Option<i64>) -> String {
    i.map_or("NULL".to_string(), |i| i.to_string())
}

#[test]
fn every_join_equals_the_oracle() {
    let cases = (table(), table(), measure(), threshold(), kind(), session());
    check(100, cases, |(a, b, measure, t, kind, session)| {
        let columns = match kind.sides() {
            (true, true) => "a.id, b.id AS bid",
            (true, false) => "a.id",
            _ => "b.id",
        };
        let sql = format!(
            "SELECT {columns} FROM a {} SIMJOIN b ON {}(a.toks, b.toks) >= {t:?}",
            kind.sql(),
            measure.sql()
        );
        let similar = |_: &Row, _: &Row, s: Option<_>| Some(measure.value(s?) >= t);
        let joined = join(kind, &a, &b, &similar);
        let mut expected: Vec<String> = joined
            .iter()
            .map(|(i, j)| (i.map(|i| a[i].id), j.map(|j| b[j].id)))
            .map(|(i, j)| match kind.sides() {
                (true, true) => format!("{} | {}", id(i), id(j)),
                (true, false) => id(i),
                _ => id(j),
            })
            .collect();
        expected.sort();
        assert_eq!(run(&a, &b, (2, 3), &session, &sql), expected, "{sql} {session:?}");
    });
}

#[test]
fn swapping_the_sides_transposes_the_answer() {
    check(
        40,
        (table(), table(), measure(), threshold(), session()),
        |(a, b, measure, t, session)| {
            let call = format!("{}(a.toks, b.toks)", measure.sql());
            let of = |from: &str| {
                let sql =
                    format!("SELECT a.id, b.id AS bid, {call} AS s FROM {from} ON {call} >= {t:?}");
                run(&a, &b, (1, 100), &session, &sql)
            };
            assert_eq!(of("a SIMJOIN b"), of("b SIMJOIN a"));
            assert_eq!(of("a LEFT SIMJOIN b"), of("b RIGHT SIMJOIN a"));
            assert_eq!(of("a FULL SIMJOIN b"), of("b FULL SIMJOIN a"));
        },
    );
}

#[test]
fn the_cut_into_batches_and_partitions_does_not_matter() {
    let cuts = (1_usize..5, 1_usize..9);
    let sessions = (1_usize..10, 1_usize..5, 1_usize..10, 1_usize..10);
    let cases = (table(), table(), cuts, sessions, session());
    check(50, cases, |(a, b, cut, (rows, parts, chunk, buffer), session)| {
        let sql = "SELECT a.id, b.id AS bid FROM a FULL SIMJOIN b \
                   ON dice(a.toks, b.toks) >= 0.5 AND a.id <> b.id";
        let odd = Session { batch_size: rows, partitions: parts, ..session }
            .option("debug.candidate_chunk", chunk)
            .option("debug.match_buffer", buffer);
        let whole = run(&a, &b, (1, 100), &Session::default(), sql);
        assert_eq!(run(&a, &b, cut, &odd, sql), whole);
    });
}

/// Semi and anti join part a table in two.
#[test]
fn semi_and_anti_join_partition_a_side() {
    check(
        40,
        (table(), table(), measure(), threshold(), session()),
        |(a, b, measure, t, session)| {
            for (side, name, rows) in [("LEFT", "a", &a), ("RIGHT", "b", &b)] {
                let of = |kind: &str| {
                    let sql = format!(
                        "SELECT {name}.id FROM a {side} {kind} SIMJOIN b ON {}(a.toks, b.toks) >= {t:?}",
                        measure.sql()
                    );
                    run(&a, &b, (2, 4), &session, &sql)
                };
                let mut all = [of("SEMI"), of("ANTI")].concat();
                let mut ids: Vec<String> = rows.iter().map(|r| r.id.to_string()).collect();
                all.sort();
                ids.sort();
                assert_eq!(all, ids);
            }
        },
    );
}

/// A higher threshold never adds a pair, and counts are the number of pairs.
#[test]
fn raising_the_threshold_only_removes_pairs() {
    check(
        40,
        (table(), measure(), threshold(), threshold(), session()),
        |(a, measure, t, u, session)| {
            let from = |t: f64| {
                format!("FROM a SIMJOIN a b ON {}(a.toks, b.toks) >= {t:?}", measure.sql())
            };
            let pairs = |t| {
                let sql = format!("SELECT a.id, b.id AS bid {}", from(t));
                run(&a, &[], (2, 5), &session, &sql)
            };
            let (low, high) = (pairs(t.min(u)), pairs(t.max(u)));
            assert!(high.iter().all(|p| low.contains(p)), "{high:?} is not within {low:?}");
            let sql = format!("SELECT count(*) {}", from(t.min(u)));
            assert_eq!(run(&a, &[], (2, 5), &session, &sql), [low.len().to_string()]);
        },
    );
}
