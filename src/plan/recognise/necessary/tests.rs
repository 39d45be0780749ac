use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::{BinaryExpr, Expr, cast, lit, when};
use datafusion::prelude::col;

use super::{Condition, cover};
use crate::functions::expr_fn::{dice, jaccard, overlap};
use crate::functions::levenshtein;
use crate::plan::recognise::predicate::{Constants, JoinInputs};
use crate::session::families;

/// Lists, a key, and a text of a table.
fn schema(table: &str) -> DFSchema {
    let tokens = DataType::new_list(DataType::Int64, true);
    let fields = vec![
        Field::new("x", tokens, true),
        Field::new("k", DataType::Int64, true),
        Field::new("s", DataType::Utf8, true),
    ];
    DFSchema::try_from_qualified_schema(table, &Schema::new(fields)).unwrap()
}

/// The bounds that follow, or else the clauses of a cover, or why there is none; numbers in six digits.
fn derived(conjunct: &Expr) -> String {
    let (props, config) = (ExecutionProps::new(), Arc::new(ConfigOptions::new()));
    let constants = Constants { props: &props, config: &config };
    let (left, right, families) = (&schema("a"), &schema("b"), &families());
    let sides = JoinInputs { left, right, families };
    let Some(condition) = Condition::read(conjunct, sides, constants, false) else {
        return "no similarity".to_string();
    };
    match condition.necessary() {
        Ok(found) => {
            let bounds = found.iter().map(|(found, bound)| {
                assert!(!found.reduce(constants).unwrap().exact, "{conjunct}");
                format!("{} {:.6}", found.call.function, bound.value)
            });
            bounds.collect::<Vec<_>>().join(" AND ")
        }
        Err(alone) => match cover(&condition) {
            Ok(clauses) => {
                let clauses = clauses.iter().map(|clause| clause.condition().to_string());
                clauses.collect::<Vec<_>>().join(" OR ")
            }
            Err(none) => format!("{alone}; {none}"),
        },
    }
}

/// The clauses of a cover from which the condition follows.
fn implied(conjunct: &Expr) -> Vec<String> {
    let (props, config) = (ExecutionProps::new(), Arc::new(ConfigOptions::new()));
    let constants = Constants { props: &props, config: &config };
    let (left, right, families) = (&schema("a"), &schema("b"), &families());
    let sides = JoinInputs { left, right, families };
    let condition = Condition::read(conjunct, sides, constants, false).unwrap();
    let clauses = cover(&condition).unwrap();
    let clauses = clauses.iter().filter(|clause| condition.follows_from(clause));
    clauses.map(|clause| clause.condition().to_string()).collect()
}

fn call(name: &str, args: Vec<Expr>) -> Expr {
    let state = SessionStateBuilder::new_with_default_features().build();
    state.scalar_functions()[name].call(args)
}

fn words() -> Expr {
    jaccard(col("a.x"), col("b.x"))
}

fn others() -> Expr {
    dice(col("a.x"), col("b.x"))
}

fn edits() -> Expr {
    levenshtein().call(vec![col("a.s"), col("b.s")])
}

fn keys() -> Expr {
    col("a.k").eq(col("b.k"))
}

#[test]
fn bounds_follow_from_what_is_computed() {
    let share = cast(lit(0.9_f32), DataType::Float64);
    for (conjunct, expected) in [
        ((lit(1.0) - words()).lt_eq(lit(0.1)), "jaccard 0.900000"),
        (lit(0.1).gt((lit(1.0) - words()) / lit(2.0)), "jaccard 0.800000"),
        ((lit(100.0) * words() + lit(5.0)).gt(lit(95.0)), "jaccard 0.900000"),
        ((-words()).lt_eq(lit(-0.75)), "jaccard 0.750000"),
        (call("round", vec![words(), lit(2)]).gt_eq(lit(0.9)), "jaccard 0.895000"),
        (call("sqrt", vec![cast(edits(), DataType::Float64)]).lt(lit(2.0)), "levenshtein 3.000000"),
        (
            (lit(1.0) / (lit(1.0) + cast(edits(), DataType::Float64))).gt_eq(lit(0.25)),
            "levenshtein 3.000000",
        ),
        (
            (lit(0.6) * words() + others() * lit(0.4)).gt_eq(lit(0.8)),
            "jaccard 0.666667 AND dice 0.500000",
        ),
        (((words() + others()) / lit(2.0)).gt(share), "jaccard 0.800000 AND dice 0.800000"),
        // The second part may be 0.
        ((lit(0.9) * words() + lit(0.1) * others()).gt_eq(lit(0.5)), "jaccard 0.444444"),
        ((words() * others()).gt_eq(lit(0.9)), "jaccard 0.900000 AND dice 0.900000"),
        ((words() - others()).gt_eq(lit(0.1)), "jaccard 0.100000"),
        (
            (lit(0.5) * words() - cast(edits(), DataType::Float64)).gt_eq(lit(-2.0)),
            "levenshtein 2.000000",
        ),
        (words().gt_eq(lit(0.5)).and(keys().or(others().gt_eq(lit(0.9)))), "jaccard 0.500000"),
        (edits().in_list(vec![lit(1), lit(3)], false), "levenshtein 3.000000"),
        (words().gt_eq(lit(0.5)).is_true(), "jaccard 0.500000"),
        (
            (when(keys(), lit(0.5)).otherwise(lit(0.0)).unwrap() + words()).gt_eq(lit(0.9)),
            "jaccard 0.400000",
        ),
    ] {
        assert_eq!(derived(&conjunct), expected, "{conjunct}");
    }
}

/// The levels of a sum of match weights, as Splink writes them.
#[test]
fn a_level_of_null_stands_where_a_value_is_missing_alone() {
    let missing = || col("a.s").is_null().or(col("b.s").is_null());
    let levels = |of_null: f64| {
        when(missing(), lit(of_null))
            .when(edits().lt_eq(lit(1)), lit(6.2))
            .when(edits().lt_eq(lit(3)), lit(3.1))
            .otherwise(lit(-4.0))
            .unwrap()
    };
    let of_keys = || when(keys(), lit(4.0)).otherwise(lit(-2.0)).unwrap();
    assert_eq!(derived(&(levels(0.0) + of_keys()).gt_eq(lit(7.0))), "levenshtein 3.000000");
    assert_eq!(derived(&(levels(0.0) + of_keys()).gt_eq(lit(8.0))), "levenshtein 1.000000");
    // A NULL is as good as three edits, and the keys must be equal then.
    assert_eq!(derived(&(levels(3.0) + of_keys()).gt_eq(lit(7.0))), "a.k = b.k");
}

#[test]
fn one_of_several_clauses_is_met() {
    for (conjunct, expected) in [
        (
            words().gt_eq(lit(0.8)).or(edits().lt_eq(lit(1))),
            "levenshtein(a.s, b.s) <= Int32(1) OR jaccard(a.x, b.x) >= Float64(0.8)",
        ),
        // A part of an OR is an alternative with all that it asks for.
        (
            keys().and(words().gt_eq(lit(0.8))).or(edits().lt_eq(lit(1))),
            "a.k = b.k AND jaccard(a.x, b.x) >= Float64(0.8) OR levenshtein(a.s, b.s) <= Int32(1)",
        ),
        (words().gt_eq(lit(0.5)).or(keys()), "a.k = b.k OR jaccard(a.x, b.x) >= Float64(0.5)"),
        (
            (overlap(col("a.x"), col("b.x")) + overlap(col("b.x"), col("a.x"))).gt_eq(lit(5_i64)),
            "overlap(a.x, b.x) >= Int64(3) OR overlap(b.x, a.x) >= Int64(3)",
        ),
        // LEAST leaves out NULL.
        (
            call("least", vec![words(), others()]).gt_eq(lit(0.75)),
            "jaccard(a.x, b.x) >= Float64(0.75) OR dice(a.x, b.x) >= Float64(0.75)",
        ),
        (
            call("greatest", vec![words(), others()]).gt_eq(lit(0.75)),
            "jaccard(a.x, b.x) >= Float64(0.75) OR dice(a.x, b.x) >= Float64(0.75)",
        ),
        (
            call("coalesce", vec![words(), others()]).gt_eq(lit(0.75)),
            "jaccard(a.x, b.x) >= Float64(0.75) OR dice(a.x, b.x) >= Float64(0.75)",
        ),
        (
            (call("coalesce", vec![words(), lit(0.0)])
                + call("coalesce", vec![others(), lit(0.0)]))
            .gt_eq(lit(1.0)),
            "jaccard(a.x, b.x) >= Float64(0.5) OR dice(a.x, b.x) >= Float64(0.5)",
        ),
    ] {
        assert_eq!(derived(&conjunct), expected, "{conjunct}");
    }
}

#[test]
fn nothing_follows_where_any_pair_may_do() {
    for conjunct in [
        words().gt_eq(lit(0.5)).or(col("a.k").gt(lit(3))),
        (lit(1.0) - words()).gt_eq(lit(0.5)),
        (words() * lit(0.0)).gt_eq(lit(0.0)),
        words().not_between(lit(0.1), lit(0.2)),
        words().lt(lit(0.5)).or(words().gt(lit(0.9))),
        call("coalesce", vec![words(), lit(1.0)]).gt_eq(lit(0.5)),
        // The greatest distances and overlaps would wrap.
        (edits() + edits()).gt_eq(lit(5)).or(words().gt_eq(lit(0.8))),
        call("sqrt", vec![words() - lit(0.5)]).gt(lit(0.9)),
    ] {
        let why = derived(&conjunct);
        assert!(why.contains("may satisfy it"), "{conjunct}: {why}");
    }
    for (conjunct, part) in [
        (call("abs", vec![words() - lit(1.0)]).lt_eq(lit(0.1)), "abs(…) is no function that keeps"),
        (words().gt_eq(lit(0.5)).or(col("a.k").gt(lit(3_i64))), "nothing is known of a.k"),
    ] {
        let why = derived(&conjunct);
        assert!(why.contains(part), "{conjunct}: {why}");
    }
}

#[test]
fn a_clause_is_enough_where_it_stands_in_an_or() {
    let (jaccard, dice) = ("jaccard(a.x, b.x) >= Float64(0.75)", "dice(a.x, b.x) >= Float64(0.75)");
    let of = |name: &str| call(name, vec![words(), others()]).gt_eq(lit(0.75));
    let none: [&str; 0] = [];
    assert_eq!(implied(&of("greatest")), [jaccard, dice]);
    assert_eq!(implied(&of("least")), none);
    assert_eq!(implied(&of("coalesce")), none);
    let either = words().gt_eq(lit(0.75)).or(keys());
    assert_eq!(implied(&either), ["a.k = b.k", jaccard]);
    assert_eq!(implied(&either.clone().is_true()), ["a.k = b.k", jaccard]);
    // One alternative asks for more than the comparison in it, and is a clause as a whole.
    let more = words().gt_eq(lit(0.75)).and(col("a.k").gt(lit(3_i64)));
    let whole = format!("{jaccard} AND a.k > Int64(3)");
    assert_eq!(implied(&more.or(others().gt_eq(lit(0.75)))), [whole.as_str(), dice]);
}

/// The pairs of a later clause meet none of the earlier ones, from which more follows.
#[test]
fn more_follows_where_earlier_clauses_are_not_met() {
    let (props, config) = (ExecutionProps::new(), Arc::new(ConfigOptions::new()));
    let constants = Constants { props: &props, config: &config };
    let (left, right, families) = (&schema("a"), &schema("b"), &families());
    let sides = JoinInputs { left, right, families };
    let zero = |measure: Expr| call("coalesce", vec![measure, lit(0.0)]);
    let equal = when(keys(), lit(0.25)).otherwise(lit(0.0)).unwrap();
    let sum = lit(0.5) * zero(words()) + lit(0.5) * zero(others()) + equal;
    let condition = sum.gt_eq(lit(0.75));
    let condition = Condition::read(&condition, sides, constants, false).unwrap();
    let clauses = cover(&condition).unwrap();
    // Bounds in six digits.
    let shown = |expr: &Expr| match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match right.as_ref() {
            Expr::Literal(ScalarValue::Float64(Some(bound)), _) => {
                format!("{left} {op} {bound:.6}")
            }
            _ => expr.to_string(),
        },
        _ => expr.to_string(),
    };
    let text = |exprs: Vec<Expr>| exprs.iter().map(shown).collect::<Vec<_>>();
    let all = text(clauses.iter().map(|clause| clause.condition().clone()).collect());
    assert_eq!(all, ["jaccard(a.x, b.x) >= 0.500000", "a.k = b.k"]);
    assert_eq!(text(condition.necessary_beside(&clauses[..0])), [] as [&str; 0]);
    let beside = text(condition.necessary_beside(&clauses[..1]));
    assert_eq!(beside, ["dice(a.x, b.x) >= 0.500000"]);
}
