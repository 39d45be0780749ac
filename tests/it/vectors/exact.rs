//! Thresholds, values and types: which pairs match, to the last bit.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion::prelude::SessionContext;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::{float_list, nested_loop, random, register};
use crate::oracle::{Cell, line};
use crate::support::{Session, assert_same_rows, rows};
use crate::vector_oracle::{Metric, literal};

/// The lines (id, id, value) of the pairs that `holds` keeps.
fn expected(
    a: &[Vec<f64>],
    b: &[Vec<f64>],
    metric: Metric,
    holds: impl Fn(f64) -> bool,
) -> Vec<String> {
    let mut lines = vec![];
    for (i, x) in (0..).zip(a) {
        for (j, y) in (0..).zip(b) {
            if let Some(value) = metric.value(x, y).filter(|value| holds(*value)) {
                lines.push(line(&[Cell::Int(i), Cell::Int(j), Cell::Float(value)]));
            }
        }
    }
    lines
}

/// Both operators at a threshold, which is the value of some pair, and at its neighbours.
async fn check_around(
    ctx: &SessionContext,
    a: &[Vec<f64>],
    b: &[Vec<f64>],
    metric: Metric,
    t: f64,
) {
    let call = format!("{}(a.v, b.v)", metric.sql());
    let (or_equal, strictly) = if metric.is_distance() { ("<=", "<") } else { (">=", ">") };
    for (operator, t) in
        [(or_equal, t.next_down()), (or_equal, t), (strictly, t), (or_equal, t.next_up())]
    {
        let bound = literal(t);
        let sql =
            format!("SELECT a.id, b.id, {call} FROM a SIMJOIN b ON {call} {operator} {bound}");
        let holds = |value: f64| {
            let order = value.total_cmp(&t);
            let more_similar = if metric.is_distance() { order.is_lt() } else { order.is_gt() };
            more_similar || (operator == or_equal && order.is_eq())
        };
        assert_same_rows(&rows(ctx, &sql).await, &expected(a, b, metric, holds), &sql);
    }
}

/// The distance of any pair is a threshold that includes this pair or not, as the operator says.
#[tokio::test]
async fn the_value_of_every_pair_is_a_sharp_threshold() {
    let mut rng = StdRng::seed_from_u64(1);
    for d in [1, 3, 19] {
        let (a, b) = (random(&mut rng, 5, d), random(&mut rng, 20, d));
        let ctx = Session::default().context();
        register(&ctx, "a", &a, &float_list());
        register(&ctx, "b", &b, &float_list());
        for metric in Metric::ALL {
            for _ in 0..6 {
                let (x, y) = (&a[rng.random_range(0..5)], &b[rng.random_range(0..20)]);
                let value = metric.value(x, y).expect("no vector of zeros");
                check_around(&ctx, &a, &b, metric, value).await;
            }
        }
    }
}

/// Vectors for which `f32` proves nothing, or the wrong thing where a bound forgets an error: far from
/// zero and near each other, next to each other, of every magnitude, sums that cancel.
fn adversarial(rng: &mut StdRng, kind: usize, count: usize, d: usize) -> Vec<Vec<f64>> {
    let mut vectors: Vec<Vec<f64>> = vec![];
    for i in 0..count {
        let vector = match kind {
            0 => (0..d).map(|_| 1e7 + rng.random::<f64>()).collect(),
            1 if i % 2 == 1 => {
                let mut near = vectors[i - 1].clone();
                let place = rng.random_range(0..d);
                near[place] = near[place].next_up();
                near
            }
            1 => (0..d).map(|_| rng.random_range(-1.0..1.0)).collect(),
            2 => {
                let exponent = rng.random_range(-30..=30);
                (0..d).map(|_| rng.random_range(-1.0..1.0) * 10_f64.powi(exponent)).collect()
            }
            // A large number and its opposite around small ones.
            3 => (0..d)
                .map(|j| match j {
                    0 => 1e15,
                    1 => -1e15,
                    _ => rng.random_range(0.0..1e-3),
                })
                .collect(),
            4 => (0..d).map(|_| f64::from_bits(rng.random_range(0..1 << 20))).collect(),
            _ => (0..d).map(|_| f64::from(rng.random_range(-3_i8..=3)) / 3.0).collect(),
        };
        vectors.push(vector);
    }
    vectors
}

#[tokio::test]
async fn values_that_single_precision_cannot_tell_apart_are_told_apart() {
    let mut rng = StdRng::seed_from_u64(2);
    for kind in 0..6 {
        for d in [2, 40, 130] {
            let a = adversarial(&mut rng, kind, 40, d);
            // The same vectors and others, so that distances of 0 occur.
            let mut b = adversarial(&mut rng, kind, 20, d);
            b.extend_from_slice(&a[..10]);
            let ctx = Session::default().context();
            register(&ctx, "a", &a, &float_list());
            register(&ctx, "b", &b, &float_list());
            for metric in Metric::ALL {
                let mut values: Vec<f64> = a
                    .iter()
                    .flat_map(|x| b.iter().filter_map(|y| metric.value(x, y)))
                    .filter(|value| !value.is_nan())
                    .collect();
                values.sort_by(f64::total_cmp);
                if values.is_empty() {
                    continue;
                }
                let most_similar = |share: usize| match metric.is_distance() {
                    true => values[values.len() / share],
                    false => values[values.len() - 1 - values.len() / share],
                };
                check_around(&ctx, &a, &b, metric, most_similar(100)).await;
                check_around(&ctx, &a, &b, metric, most_similar(4)).await;
            }
        }
    }
}

/// Lists of every layout and type that the functions take, and list views behind a cast.
#[tokio::test]
async fn every_list_type_joins_with_every_other() {
    let mut rng = StdRng::seed_from_u64(3);
    let whole = |rng: &mut StdRng| {
        (0..24).map(|_| (0..4).map(|_| f64::from(rng.random_range(0_i8..4))).collect()).collect()
    };
    let vectors: [Vec<Vec<f64>>; 2] = [whole(&mut rng), whole(&mut rng)];
    let elements = [
        DataType::Float16,
        DataType::Float32,
        DataType::Float64,
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::UInt8,
        DataType::UInt64,
    ];
    let layouts: [fn(Arc<Field>) -> DataType; 5] = [
        DataType::List,
        DataType::LargeList,
        DataType::ListView,
        DataType::LargeListView,
        |item| DataType::FixedSizeList(item, 4),
    ];
    let (ctx, oracle) = (Session::default().context(), nested_loop());
    let mut types = vec![];
    for element in &elements {
        for layout in layouts {
            types.push(layout(Arc::new(Field::new_list_field(element.clone(), true))));
        }
    }
    for (i, data_type) in types.iter().enumerate() {
        for ctx in [&ctx, &oracle] {
            register(ctx, &format!("a{i}"), &vectors[0], data_type);
            register(ctx, &format!("b{i}"), &vectors[1], data_type);
        }
    }
    for i in 0..types.len() {
        let j = rng.random_range(0..types.len());
        let argument = |name: &str, data_type: &DataType| match data_type {
            DataType::ListView(_) => format!("arrow_cast({name}.v, 'List(Float64)')"),
            DataType::LargeListView(_) => format!("arrow_cast({name}.v, 'LargeList(Float64)')"),
            _ => format!("{name}.v"),
        };
        let (x, y) = (argument("x", &types[i]), argument("y", &types[j]));
        // `array_distance` of a List and a LargeList fails in DataFusion.
        let metric = [Metric::Cosine, Metric::InnerProduct][i % 2];
        let call = format!("{}({x}, {y})", metric.sql());
        let condition = match metric {
            Metric::Cosine => format!("{call} <= 0.2"),
            _ => format!("{call} >= 12"),
        };
        let on = |word: &str| {
            format!("SELECT x.id, y.id, {call} FROM a{i} x LEFT {word} b{j} y ON {condition}")
        };
        let wanted = rows(&oracle, &on("JOIN")).await;
        assert!(wanted.len() > 24, "{}", on("JOIN"));
        assert_same_rows(&rows(&ctx, &on("SIMJOIN")).await, &wanted, &on("SIMJOIN"));
    }
}
