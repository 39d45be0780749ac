use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use datafusion::config::ConfigOptions;
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::{Expr, cast, lit, try_cast};
use datafusion::prelude::col;
use datafusion::scalar::ScalarValue;

use crate::engine::Family;
use crate::functions::expr_fn::{containment, dice, jaccard, overlap};
use crate::functions::levenshtein;
use crate::plan::recognise::predicate::*;
use crate::session::families;
use crate::set::{Measure, SetFamily};
use crate::spec::Predicate;

fn schema(table: &str) -> DFSchema {
    let tokens = DataType::new_list(DataType::Int64, true);
    let fields = vec![Field::new("x", tokens, true), Field::new("k", DataType::Int64, true)];
    DFSchema::try_from_qualified_schema(table, &Schema::new(fields)).unwrap()
}

fn shape(conjunct: &Expr) -> ConjunctShape {
    let (left, right, families) = (&schema("a"), &schema("b"), &families());
    Comparison::find(conjunct, JoinInputs { left, right, families })
}

fn comparison(conjunct: &Expr) -> Comparison {
    match shape(conjunct) {
        ConjunctShape::Comparison(found) => *found,
        other => panic!("{conjunct} is {other:?}"),
    }
}

fn reduce(conjunct: &Expr) -> Result<ComparisonBound, String> {
    let (props, config) = (ExecutionProps::new(), Arc::new(ConfigOptions::new()));
    comparison(conjunct).reduce(Constants { props: &props, config: &config })
}

fn threshold(conjunct: &Expr) -> ComparisonBound {
    reduce(conjunct).unwrap_or_else(|e| panic!("{conjunct}: {e}"))
}

fn declined(conjunct: &Expr) -> String {
    match shape(conjunct) {
        ConjunctShape::Declined(reason) => reason,
        other => panic!("{conjunct} is {other:?}"),
    }
}

fn ab() -> Expr {
    jaccard(col("a.x"), col("b.x"))
}

fn exact(value: f64) -> ComparisonBound {
    ComparisonBound { value, exact: true }
}

fn null_float() -> Expr {
    lit(ScalarValue::Float64(None))
}

#[test]
fn a_plain_bound_is_its_literal() {
    for t in [f64::MIN_POSITIVE, 0.1, 0.8, 2.0 / 3.0, 0.9, 1.0] {
        assert_eq!(threshold(&ab().gt_eq(lit(t))), exact(t));
        assert_eq!(threshold(&lit(t).lt_eq(ab())), exact(t));
    }
}

#[test]
fn a_strict_bound_is_the_next_value() {
    assert_eq!(threshold(&ab().gt(lit(0.8))), exact(0.8_f64.next_up()));
    assert_eq!(threshold(&lit(0.8).lt(ab())), exact(0.8_f64.next_up()));
    assert_eq!(threshold(&ab().gt(lit(0.0))), exact(f64::from_bits(1)));
}

/// A function that gives an `Int32` is evaluated at values of that type alone.
#[test]
fn a_bound_of_an_int32_is_reduced_over_its_values() {
    let (props, config) = (ExecutionProps::new(), Arc::new(ConfigOptions::new()));
    let constants = Constants { props: &props, config: &config };
    let narrow = |conjunct: Expr| {
        Comparison { data_type: DataType::Int32, ..comparison(&conjunct) }.reduce(constants)
    };
    let shared = || overlap(col("a.x"), col("b.x"));
    assert_eq!(narrow(shared().gt(lit(2_i32))), Ok(exact(3.0)));
    assert_eq!(narrow(shared().gt_eq(lit(i32::MAX))), Ok(exact(f64::from(i32::MAX))));
    assert!(narrow(shared().gt(lit(i32::MAX))).unwrap().value.is_nan());
}

#[test]
fn a_negated_upper_bound_is_a_lower_bound() {
    assert_eq!(threshold(&Expr::Not(Box::new(ab().lt(lit(0.5))))), exact(0.5));
    assert_eq!(threshold(&Expr::Not(Box::new(ab().lt_eq(lit(0.5))))), exact(0.5_f64.next_up()));
    let unequal = Expr::Not(Box::new(ab().not_eq(lit(0.5))));
    assert_eq!(threshold(&unequal), ComparisonBound { value: 0.5, exact: false });
}

#[test]
fn equality_and_between_leave_the_original_to_the_residual() {
    let inexact = |value| ComparisonBound { value, exact: false };
    assert_eq!(threshold(&ab().eq(lit(0.5))), inexact(0.5));
    assert_eq!(threshold(&lit(0.5).eq(ab())), inexact(0.5));
    assert_eq!(threshold(&ab().between(lit(0.25), lit(0.5))), inexact(0.25));
}

#[test]
fn nothing_reaches_thresholds_above_one_nan_or_null() {
    for constant in [lit(1.0_f64.next_up()), lit(f64::INFINITY), lit(f64::NAN), null_float()] {
        let t = threshold(&ab().gt_eq(constant.clone()));
        assert!(t.value.is_nan(), "{constant}: {t:?}");
    }
    assert!(threshold(&ab().gt(lit(1.0))).value.is_nan());
}

#[test]
fn disjoint_sets_may_not_satisfy_the_bound() {
    for constant in [0.0, -0.0, -1.0, f64::NEG_INFINITY] {
        let reason = reduce(&ab().gt_eq(lit(constant))).unwrap_err();
        assert!(reason.contains("disjoint sets"), "{reason}");
    }
    assert!(reduce(&ab().gt(lit(-1.0))).is_err());
    assert!(reduce(&ab().eq(lit(0.0))).is_err());
}

/// `CAST(jaccard AS REAL) >= 0.66666668`: the literal is above 2/3 and the cast rounds up to it.
#[test]
fn a_cast_to_float32_rounds_before_it_compares() {
    let bound = cast(ab(), DataType::Float32).gt_eq(lit(0.666_666_7_f32));
    let t = threshold(&bound);
    assert!(t.exact);
    assert!(2.0 / 3.0 >= t.value, "{t:?}");
    assert!((t.value as f32) >= 0.666_666_7_f32, "{t:?}");
    assert!((t.value.next_down() as f32) < 0.666_666_7_f32, "{t:?}");
}

/// `jaccard >= 0.666666666666667::Decimal(16, 15)` compares as Decimal(30, 15), to which 2/3
/// rounds up.
#[test]
fn a_comparison_as_decimal_rounds_before_it_compares() {
    let decimal = lit(ScalarValue::Decimal128(Some(666_666_666_666_667), 30, 15));
    let bound = cast(ab(), DataType::Decimal128(30, 15)).gt_eq(decimal);
    let t = threshold(&bound);
    assert!(t.exact);
    assert!(2.0 / 3.0 >= t.value && t.value > 0.666_666_666_666_666, "{t:?}");
}

#[test]
fn casts_are_followed_through_aliases_and_each_other() {
    let bound = cast(cast(ab().alias("s"), DataType::Float32), DataType::Float64).gt_eq(lit(0.5));
    assert_eq!(threshold(&bound.alias("p")).value, 0.5 - 2_f64.powi(-26));
    // Truncation: only 1 is at least 1.
    assert_eq!(threshold(&cast(ab(), DataType::Int32).gt_eq(lit(1_i32))), exact(1.0));
}

#[test]
fn a_cast_to_text_does_not_keep_the_order() {
    let reason = declined(&cast(ab(), DataType::Utf8).gt_eq(lit("0.8")));
    assert!(reason.contains("Utf8"), "{reason}");
}

#[test]
fn a_cast_that_overflows_stays_to_raise_its_error() {
    let call = overlap(col("a.x"), col("b.x"));
    let bound = cast(call.clone(), DataType::Int8).gt_eq(lit(5_i8));
    assert_eq!(threshold(&bound), ComparisonBound { value: 5.0, exact: false });
    let bound = try_cast(call, DataType::Int8).gt_eq(lit(5_i8));
    assert_eq!(threshold(&bound), ComparisonBound { value: 5.0, exact: false });
}

#[test]
fn an_overlap_has_integer_thresholds() {
    let call = || overlap(col("a.x"), col("b.x"));
    assert_eq!(threshold(&call().gt_eq(lit(3_i64))), exact(3.0));
    assert_eq!(threshold(&call().gt(lit(3_i64))), exact(4.0));
    assert_eq!(threshold(&cast(call(), DataType::Float64).gt_eq(lit(2.5))), exact(3.0));
    assert!(reduce(&call().gt_eq(lit(0_i64))).is_err());
    assert!(threshold(&call().gt_eq(lit(i64::MAX))).value.is_nan());
}

#[test]
fn constants_are_folded() {
    assert_eq!(threshold(&ab().gt_eq(lit(0.25) * lit(2.0))), exact(0.5));
    let t = threshold(&ab().gt_eq(cast(lit("0.5"), DataType::Float64)));
    assert_eq!(t, exact(0.5));
    let reason = reduce(&ab().gt_eq(cast(lit("x"), DataType::Float64))).unwrap_err();
    assert!(reason.contains("cannot be evaluated"), "{reason}");
}

#[test]
fn arguments_are_ordered_by_side() {
    let found = comparison(&jaccard(col("b.x"), col("a.x")).gt_eq(lit(0.5)));
    assert_eq!(found.arguments, [col("a.x"), col("b.x")]);
    assert_eq!(found.call.first, Side::Left);
    let found = comparison(&containment(col("b.x"), col("a.x")).gt_eq(lit(0.5)));
    assert_eq!(found.arguments, [col("a.x"), col("b.x")]);
    assert_eq!(found.call.first, Side::Right);
    let call = |expr| call_over(&expr, &found.arguments, &families());
    assert_eq!(call(containment(col("b.x"), col("a.x"))), Some(found.call));
    let expected = Call { function: Measure::Dice.function(), first: Side::Left };
    assert_eq!(call(dice(col("b.x"), col("a.x"))), Some(expected));
    assert_eq!(call(dice(col("b.x"), col("b.x"))), None);
}

#[test]
fn what_cannot_drive_says_why() {
    for (conjunct, part) in [
        (ab().lt(lit(0.5)), "from above"),
        (lit(0.5).gt_eq(ab()), "from above"),
        (ab().gt_eq(lit(0.5)).or(col("a.k").eq(col("b.k"))), "compared by"),
        (Expr::Not(Box::new(ab().gt(lit(0.5)))), "from above"),
        (Expr::Not(Box::new(ab().between(lit(0.1), lit(0.2)))), "compared by"),
        ((lit(1.0) - ab()).lt_eq(lit(0.5)), "compared by"),
        ((ab() * lit(2.0)).gt_eq(lit(0.5)), "compared by"),
        (ab().gt_eq(cast(col("a.k"), DataType::Float64)), "reads columns"),
        (ab().gt_eq(dice(col("a.x"), col("b.x"))), "reads columns"),
        (ab().not_between(lit(0.1), lit(0.2)), "compared by"),
        (
            jaccard(col("a.x"), lit(1).is_null().and(col("a.k").eq(col("b.k")))).gt(lit(0.5)),
            "one side",
        ),
    ] {
        let reason = declined(&conjunct);
        assert!(reason.contains(part), "{conjunct}: {reason}");
    }
}

#[test]
fn a_threshold_of_the_row_names_what_would_do() {
    let name = |side: &str| cast(col(format!("{side}.k")), DataType::Utf8);
    let edits = || levenshtein().call(vec![name("a"), name("b")]);
    for (conjunct, part) in [
        (edits().lt_eq(col("a.k") / lit(5)), "levenshtein_similarity, which is relative"),
        (ab().gt_eq(cast(col("a.k"), DataType::Float64)), "constant bound of jaccard(a.x, b.x)"),
    ] {
        let reason = declined(&conjunct);
        assert!(reason.contains(part), "{conjunct}: {reason}");
    }
}

#[test]
fn a_similarity_within_one_side_is_a_filter() {
    for conjunct in [
        jaccard(col("a.x"), col("a.x")).gt_eq(lit(0.5)),
        jaccard(col("a.x"), col("a.x")).lt_eq(lit(0.5)),
        col("a.k").eq(col("b.k")),
    ] {
        assert!(matches!(shape(&conjunct), ConjunctShape::Other), "{conjunct}");
    }
}

#[test]
fn two_sided_bounds_are_the_most_selective() {
    let order = [
        (Measure::Overlap, 5.0),
        (Measure::OverlapCoefficient, 0.9),
        (Measure::Containment, 0.9),
        (Measure::Cosine, 0.5),
        (Measure::Jaccard, 0.5),
        (Measure::Dice, 0.9),
        (Measure::Jaccard, 0.9),
        (Measure::Overlap, f64::NAN),
    ];
    let keys = order.map(|(measure, bound)| {
        let call = Call { function: measure.function(), first: Side::Left };
        SetFamily::default().selectivity(&Predicate::new(call, bound))
    });
    assert!(keys.is_sorted(), "{keys:?}");
}
