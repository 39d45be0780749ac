//! Thresholds are exact, in whatever form they are written.

use datafusion::common::ScalarValue;
use datafusion::prelude::SessionContext;

use crate::oracle::{Cell, Measure, Row, Sizes, ints, line, set};
use crate::support::{
    assert_contains, assert_declined, assert_same_rows, assert_uses_operator, context_of, error,
    number, rows, rows_with,
};

const LARGEST: i64 = 6;

/// Sets `0..s` of every size on one side and, on the other, every overlap with every size.
fn all_overlaps_and_sizes() -> (Vec<Row>, Vec<Row>) {
    let a = (1..=LARGEST).map(|s| Row::of(s, ints(0..s))).collect();
    let mut b = Vec::new();
    for overlap in 0..=LARGEST {
        for others in 0..=LARGEST - overlap {
            let tokens = (0..overlap).chain(100..100 + others);
            b.push(Row::of(b.len() as i64, ints(tokens)));
        }
    }
    (a, b)
}

fn expected(a: &[Row], b: &[Row], holds: impl Fn(Sizes) -> bool) -> Vec<String> {
    let mut lines = Vec::new();
    for (x, y) in a.iter().flat_map(|x| b.iter().map(move |y| (x, y))) {
        if let (Some(s), Some(t)) = (set(&x.toks), set(&y.toks))
            && holds(Sizes::of(&s, &t))
        {
            lines.push(line(&[Cell::Int(x.id), Cell::Int(y.id)]));
        }
    }
    lines
}

/// Every value that the measure takes is tried as a threshold, and its neighbours: the pairs
/// that are exactly there belong to the answer of `>=`, and to no other.
async fn every_attainable_value_is_a_sharp_threshold(measure: Measure) {
    let (a, b) = all_overlaps_and_sizes();
    let ctx = context_of(&a, &b);
    let mut values: Vec<f64> = Vec::new();
    for (x, y) in a.iter().flat_map(|x| b.iter().map(move |y| (x, y))) {
        let (x, y) = (set(&x.toks).expect("a set"), set(&y.toks).expect("a set"));
        values.push(measure.value(Sizes::of(&x, &y)));
    }
    values.sort_by(f64::total_cmp);
    values.dedup();
    values.retain(|v| *v > 0.0);
    assert!(values.len() >= LARGEST as usize, "{values:?}");
    let call = format!("{}(a.toks, b.toks)", measure.sql());
    for value in values {
        let mut counts = Vec::new();
        for (operator, threshold) in
            [(">=", value.next_down()), (">=", value), (">", value), (">=", value.next_up())]
        {
            let sql =
                format!("SELECT a.id, b.id FROM a SIMJOIN b ON {call} {operator} {threshold:?}");
            let expected = expected(&a, &b, |s| match operator {
                ">" => measure.value(s) > threshold,
                _ => measure.value(s) >= threshold,
            });
            assert_same_rows(&rows(&ctx, &sql).await, &expected, &sql);
            counts.push(expected.len());
        }
        // Other values may be a unit in the last place away: 1 / sqrt(2) and 2 / sqrt(8).
        assert!(counts[0] >= counts[1] && counts[1] > counts[2] && counts[2] >= counts[3]);
    }
}

#[tokio::test]
async fn every_jaccard_value_is_a_sharp_threshold() {
    every_attainable_value_is_a_sharp_threshold(Measure::Jaccard).await;
}

#[tokio::test]
async fn every_dice_value_is_a_sharp_threshold() {
    every_attainable_value_is_a_sharp_threshold(Measure::Dice).await;
}

#[tokio::test]
async fn every_cosine_value_is_a_sharp_threshold() {
    every_attainable_value_is_a_sharp_threshold(Measure::Cosine).await;
}

#[tokio::test]
async fn every_overlap_is_a_sharp_threshold() {
    every_attainable_value_is_a_sharp_threshold(Measure::Overlap).await;
}

#[tokio::test]
async fn every_overlap_coefficient_is_a_sharp_threshold() {
    every_attainable_value_is_a_sharp_threshold(Measure::OverlapCoefficient).await;
}

#[tokio::test]
async fn every_containment_is_a_sharp_threshold() {
    every_attainable_value_is_a_sharp_threshold(Measure::Containment).await;
}

/// `ceil(0.9 * 19 * 2 / 1.9)` in floating point asks for 19; 18 is 18 / 20 = 0.9.
#[tokio::test]
async fn eighteen_of_nineteen_tokens_are_nine_tenths() {
    let a = [Row::of(1, ints(0..19))];
    let b = [Row::of(2, ints(1..20)), Row::of(3, ints(2..21)), Row::of(4, ints(0..19))];
    let ctx = context_of(&a, &b);
    let sql = "SELECT a.id, b.id FROM a SIMJOIN b ON jaccard(a.toks, b.toks) >= 0.9";
    let expected = expected(&a, &b, |s| s.o as f64 / (38 - s.o) as f64 >= 0.9);
    assert_eq!(expected.len(), 2);
    assert_same_rows(&rows(&ctx, sql).await, &expected, sql);
}

/// `{1, 2}` and `{1, 2, 3}`, two thirds apart, a pair at one half, one at 0 and some NULLs.
fn thirds() -> SessionContext {
    let a = [Row::of(1, ints([1, 2])), Row::of(2, ints([])), Row::of(3, None)];
    let b = [
        Row::of(11, ints([1, 2, 3])),
        Row::of(12, ints([1, 2, 3, 4])),
        Row::of(13, ints([9])),
        Row::of(14, ints([])),
        Row::of(15, None),
    ];
    context_of(&a, &b)
}

/// Runs `on` as SIMJOIN and as a plain join and gives how many pairs there are.
async fn pairs(ctx: &SessionContext, on: &str) -> i64 {
    let simjoin = format!("SELECT count(*) FROM a SIMJOIN b ON {on}");
    let plain = format!("SELECT count(*) FROM a JOIN b ON {on}");
    assert_uses_operator(ctx, &simjoin).await;
    assert_uses_operator(ctx, &plain).await;
    let found = number(ctx, &simjoin).await;
    assert_eq!(number(ctx, &plain).await, found, "{on}");
    found
}

/// A comparison of Float64 with a decimal rounds the value to 15 digits, and a cast to REAL
/// rounds it to 24 bits. Folding the literal to Float64 first would lose both pairs.
#[tokio::test]
async fn the_type_of_the_comparison_decides() {
    let ctx = thirds();
    let jaccard = "jaccard(a.toks, b.toks)";
    let decimal = "CAST('0.666666666666667' AS DECIMAL(16, 15))";
    assert_eq!(pairs(&ctx, &format!("{jaccard} >= {decimal}")).await, 1);
    assert_eq!(pairs(&ctx, &format!("{jaccard} > {decimal}")).await, 0);
    assert_eq!(pairs(&ctx, &format!("{jaccard} >= 0.666666666666667")).await, 0);
    assert_eq!(pairs(&ctx, &format!("CAST({jaccard} AS REAL) >= 0.66666668")).await, 1);
    assert_eq!(pairs(&ctx, &format!("{jaccard} >= 0.66666668")).await, 0);
    assert_eq!(pairs(&ctx, &format!("{jaccard} >= CAST(0.6666666 AS REAL)")).await, 1);
    assert_eq!(pairs(&ctx, &format!("{jaccard} >= CAST(0.66666668 AS REAL)")).await, 0);
    assert_eq!(pairs(&ctx, "overlap(a.toks, b.toks) >= arrow_cast(2, 'UInt64')").await, 2);
    assert_eq!(pairs(&ctx, "overlap(a.toks, b.toks) > 1.5").await, 2);
    assert_eq!(pairs(&ctx, "overlap(a.toks, b.toks) >= CAST('2.01' AS DECIMAL(5, 2))").await, 0);
}

#[tokio::test]
async fn every_spelling_of_a_lower_bound_is_understood() {
    let ctx = thirds();
    for (on, expected) in [
        ("jaccard(a.toks, b.toks) >= 0.5", 2),
        ("0.5 <= jaccard(a.toks, b.toks)", 2),
        ("jaccard(b.toks, a.toks) > 0.5", 1),
        ("0.5 < jaccard(a.toks, b.toks)", 1),
        ("jaccard(a.toks, b.toks) = 0.5", 1),
        ("0.5 = jaccard(a.toks, b.toks)", 1),
        ("jaccard(a.toks, b.toks) BETWEEN 0.5 AND 0.6", 1),
        ("jaccard(a.toks, b.toks) >= 0.4 AND jaccard(a.toks, b.toks) <= 0.5", 1),
        ("jaccard(a.toks, b.toks) >= 0.3 * 2", 1),
        ("jaccard(a.toks, b.toks) >= 1 / 2.0", 2),
        ("jaccard(a.toks, b.toks) > 0", 2),
        ("jaccard(a.toks, b.toks) >= 1e-300", 2),
        ("jaccard(a.toks, b.toks) >= 1", 0),
        ("containment(a.toks, b.toks) >= 1", 2),
        ("containment(b.toks, a.toks) >= 0.6", 1),
        ("overlap_coefficient(b.toks, a.toks) = 1", 2),
        ("jaccard(a.toks, b.toks) >= 0.5 AND dice(a.toks, b.toks) >= 0.7", 1),
        ("jaccard(a.toks, b.toks) >= 1.0000000000000002", 0),
        ("jaccard(a.toks, b.toks) >= 17", 0),
        ("jaccard(a.toks, b.toks) >= CAST('Infinity' AS DOUBLE)", 0),
        ("overlap(a.toks, b.toks) >= 9223372036854775807", 0),
    ] {
        assert_eq!(pairs(&ctx, on).await, expected, "{on}");
    }
}

/// The optimizer turns a negated comparison round before the operator looks at it.
#[tokio::test]
async fn a_negated_upper_bound_is_a_lower_bound() {
    let ctx = thirds();
    let sql = "SELECT count(*) FROM a JOIN b ON NOT (jaccard(a.toks, b.toks) < 0.5)";
    assert_uses_operator(&ctx, sql).await;
    assert_eq!(number(&ctx, sql).await, 2);
}

#[tokio::test]
async fn parameters_are_thresholds() {
    let ctx = thirds();
    for join in ["JOIN", "SIMJOIN"] {
        let sql = format!("SELECT b.id FROM a {join} b ON jaccard(a.toks, b.toks) >= $1");
        for (value, expected) in [
            (ScalarValue::Float64(Some(0.5)), vec!["11", "12"]),
            (ScalarValue::Float64(Some(0.6)), vec!["11"]),
            (ScalarValue::Float64(Some(f64::NAN)), vec![]),
            (ScalarValue::Float64(None), vec![]),
        ] {
            let expected: Vec<_> = expected.into_iter().map(String::from).collect();
            let found = rows_with(&ctx, &sql, vec![value.clone()]).await;
            assert_same_rows(&found, &expected, &format!("{sql} -- {value}"));
        }
    }
}

/// No pair qualifies, and yet the rows of the preserved side are there.
#[tokio::test]
async fn thresholds_that_nothing_reaches_match_nothing() {
    let ctx = thirds();
    for threshold in [
        "CAST('NaN' AS DOUBLE)",
        "NULL",
        "CAST(NULL AS DOUBLE)",
        "1.1",
        "CAST(2 AS REAL)",
        "CAST('1.5' AS DECIMAL(3, 1))",
    ] {
        for join in ["JOIN", "SIMJOIN"] {
            for (kind, expected) in [("INNER", 0), ("LEFT", 3), ("RIGHT", 5), ("FULL", 8)] {
                let sql = format!(
                    "SELECT count(*) FROM a {kind} {join} b ON jaccard(a.toks, b.toks) >= {threshold}"
                );
                assert_eq!(number(&ctx, &sql).await, expected, "{sql}");
            }
        }
    }
}

/// Conditions that disjoint sets satisfy, with how many of the 15 pairs they hold for.
const TRUE_FOR_DISJOINT_SETS: [(&str, i64); 10] = [
    ("jaccard(a.toks, b.toks) >= 0", 8),
    ("jaccard(a.toks, b.toks) >= -0.0", 8),
    ("jaccard(a.toks, b.toks) >= -1", 8),
    ("jaccard(a.toks, b.toks) > -0.5", 8),
    ("jaccard(a.toks, b.toks) = 0", 6),
    ("jaccard(a.toks, b.toks) <= 0.5", 7),
    ("jaccard(a.toks, b.toks) < 0.5", 6),
    ("jaccard(a.toks, b.toks) <> 0.5", 7),
    ("jaccard(a.toks, b.toks) BETWEEN 0 AND 0.6", 7),
    ("jaccard(a.toks, b.toks) >= CAST('0.00' AS DECIMAL(3, 2))", 8),
];

#[tokio::test]
async fn plain_joins_that_disjoint_sets_satisfy_are_left_to_the_nested_loop() {
    let ctx = thirds();
    for (on, expected) in TRUE_FOR_DISJOINT_SETS {
        let sql = format!("SELECT count(*) FROM a JOIN b ON {on}");
        assert_declined(&ctx, &sql).await;
        assert_eq!(number(&ctx, &sql).await, expected, "{sql}");
    }
}

#[tokio::test]
async fn simjoin_refuses_conditions_that_disjoint_sets_satisfy() {
    let ctx = thirds();
    for (on, _) in TRUE_FOR_DISJOINT_SETS {
        let message = error(&ctx, &format!("SELECT count(*) FROM a SIMJOIN b ON {on}")).await;
        assert_contains(&message, &["SIMJOIN"]);
        assert!(message.contains(">=") || message.contains("threshold"), "{message}");
    }
}
