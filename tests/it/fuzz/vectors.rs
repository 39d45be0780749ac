//! Vectors of a world, and joins by them.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Float64Builder, ListBuilder, UInt32Array, new_null_array,
};
use arrow::compute::{cast, concat, take};
use arrow::datatypes::{DataType, Field, Float64Type};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::{IndexedMutRandom, IndexedRandom};

use super::conditions::Text;
use super::joins::{Aliased, Generator};
use crate::vector_oracle::{Metric, literal};

/// The kind of the numbers of a world.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Small integers: distances on the boundary, and equal vectors.
    Whole,
    /// Up to this magnitude.
    Scaled(f64),
    /// Far from zero and near each other.
    Far,
    /// Every magnitude, infinity, and NaN of either sign.
    Wild,
    /// Some vectors are far from most.
    Outliers,
    /// Vectors of all norms from 1 to 1e6.
    Norms,
    /// Some vectors have NaN, of this share one of the other sign.
    Nan(f64),
}

/// The form of a world's vectors.
#[derive(Debug, Clone)]
pub struct Shape {
    kind: Kind,
    dimensions: usize,
    /// The type of `v` in all tables.
    v: DataType,
    is_large: bool,
    /// Whether `u` may be a list view, which no function takes without a cast.
    has_views: bool,
}

const FLOATS: [DataType; 3] = [DataType::Float64, DataType::Float32, DataType::Float16];

fn item(element: &DataType) -> Arc<Field> {
    Arc::new(Field::new_list_field(element.clone(), true))
}

impl Shape {
    pub fn draw(rng: &mut StdRng) -> Self {
        let scales = [1.0, 1.0, 1.0, 1e30, 1e-30, 1e150, 1e-160, 1e-310];
        let kind = match rng.random_range(0..9) {
            0 | 1 => Kind::Whole,
            2 | 3 => Kind::Scaled(*scales.choose(rng).unwrap()),
            4 => Kind::Far,
            5 => Kind::Outliers,
            6 => Kind::Norms,
            7 => Kind::Nan(*[0.0, 0.5, 1.0].choose(rng).unwrap()),
            _ => Kind::Wild,
        };
        let is_large = rng.random_bool(0.2);
        let dimensions = *[1, 2, 2, 3, 5, 17, 33].choose(rng).unwrap();
        let element = item(FLOATS[..2].choose(rng).unwrap());
        let v = match rng.random_range(0..8) {
            _ if is_large => DataType::LargeList(element),
            0..3 => DataType::FixedSizeList(element, dimensions as i32),
            _ => DataType::List(element),
        };
        let is_list = matches!(v, DataType::List(_));
        let dimensions = if is_list && rng.random_bool(0.05) { 0 } else { dimensions };
        Self { kind, dimensions, v, is_large, has_views: rng.random_bool(0.25) }
    }

    fn number(&self, rng: &mut StdRng) -> f64 {
        match self.kind {
            Kind::Whole => f64::from(rng.random_range(-2_i8..=2)),
            Kind::Scaled(scale) => scale * rng.random_range(-1.0..1.0),
            Kind::Outliers | Kind::Norms | Kind::Nan(_) => rng.random_range(-1.0..1.0),
            Kind::Far => 1e6 + f64::from(rng.random_range(0_u8..3)) + 1e-3 * rng.random::<f64>(),
            Kind::Wild => *[
                0.0,
                -0.0,
                1.0,
                -1.0,
                1e30,
                -1e-30,
                5e-324,
                1e160,
                2e-160,
                f64::INFINITY,
                f64::NEG_INFINITY,
                f64::NAN,
                -f64::NAN,
                0.3,
                1.0 + f64::EPSILON,
            ]
            .choose(rng)
            .unwrap(),
        }
    }

    fn new_vector(&self, rng: &mut StdRng) -> Vec<f64> {
        let mut vector: Vec<f64> = (0..self.dimensions).map(|_| self.number(rng)).collect();
        let factor = match self.kind {
            Kind::Outliers if rng.random_bool(0.05) => *[1e4, 1e9, 1e17].choose(rng).unwrap(),
            Kind::Norms => 10_f64.powf(rng.random_range(0.0..6.0)),
            _ => 1.0,
        };
        vector.iter_mut().for_each(|number| *number *= factor);
        if let Kind::Nan(negative) = self.kind
            && rng.random_bool(0.2)
            && let Some(number) = vector.choose_mut(rng)
        {
            *number = if rng.random_bool(negative) { -f64::NAN } else { f64::NAN };
        }
        vector
    }

    /// A vector like one of those before, or a new one.
    fn vector(&self, rng: &mut StdRng, seen: &mut Vec<Vec<f64>>) -> Vec<f64> {
        let mut vector = match seen.choose(rng) {
            Some(vector) if rng.random_bool(0.6) => vector.clone(),
            _ if rng.random_bool(0.1) => vec![0.0; self.dimensions],
            _ => self.new_vector(rng),
        };
        if rng.random_bool(0.6)
            && let Some(number) = vector.choose_mut(rng)
        {
            *number = match rng.random_range(0..4) {
                0 => number.next_up(),
                1 => *number * 1.0001,
                _ => self.number(rng),
            };
        }
        seen.push(vector.clone());
        vector
    }

    /// The columns `v` and `u` of some rows: the same vectors, but for what the type of `u` rounds.
    pub fn columns(
        &self,
        rng: &mut StdRng,
        rows: usize,
        seen: &mut Vec<Vec<f64>>,
    ) -> [ArrayRef; 2] {
        let mut lists = ListBuilder::new(Float64Builder::new());
        for _ in 0..rows {
            let vector = self.vector(rng, seen);
            let null = rng.random_range(0..14);
            for (i, &number) in vector.iter().enumerate() {
                lists.values().append_option(Some(number).filter(|_| null != 1 || i > 0));
            }
            lists.append(null != 0);
        }
        let lists: ArrayRef = Arc::new(lists.finish());
        let v = off_start(&cast(&lists, &self.v).unwrap());
        let integers = [DataType::Int8, DataType::Int16, DataType::Int32, DataType::Int64];
        let element = match self.kind {
            Kind::Whole if rng.random() => integers.choose(rng).unwrap(),
            Kind::Whole if rng.random_bool(0.2) => &DataType::UInt64,
            _ => FLOATS.choose(rng).unwrap(),
        };
        let u = match (self.is_large, self.has_views && rng.random()) {
            (true, true) => {
                reversed(&cast(&reversed(&lists), &DataType::LargeListView(item(element))).unwrap())
            }
            (false, true) => {
                reversed(&cast(&reversed(&lists), &DataType::ListView(item(element))).unwrap())
            }
            (true, false) => cast(&lists, &DataType::LargeList(item(element))).unwrap(),
            (false, false) if self.dimensions > 0 && rng.random() => {
                let list = DataType::FixedSizeList(item(element), self.dimensions as i32);
                cast(&lists, &list).unwrap()
            }
            (false, false) => cast(&lists, &DataType::List(item(element))).unwrap(),
        };
        [v, u]
    }
}

/// The rows of `array` behind one that a slice leaves out.
fn off_start(array: &ArrayRef) -> ArrayRef {
    let before = match array.is_empty() {
        true => new_null_array(array.data_type(), 1),
        false => array.slice(array.len() - 1, 1),
    };
    concat(&[&before, array]).unwrap().slice(1, array.len())
}

fn reversed(array: &ArrayRef) -> ArrayRef {
    let rows = UInt32Array::from_iter_values((0..array.len() as u32).rev());
    take(array, &rows, None).unwrap()
}

/// The vectors of a column, those with a NULL element left out.
pub fn vectors_of(column: &ArrayRef) -> Vec<Vec<f64>> {
    let lists = cast(column, &DataType::new_list(DataType::Float64, true)).unwrap();
    let lists = lists.as_list::<i32>().iter().flatten();
    lists
        .filter(|list| list.null_count() == 0)
        .map(|list| list.as_primitive::<Float64Type>().values().to_vec())
        .collect()
}

/// The argument of a function on one side: a column of vectors, or something made of one.
pub fn argument(generator: &mut Generator<'_>, side: &mut Aliased, choice: usize) -> Text {
    let s = side.alias.clone();
    let shape = &generator.world.shape;
    let list = if shape.is_large { "LargeList" } else { "List" };
    let as_list = |column: &str| format!("arrow_cast({s}.{column}, '{list}(Float64)')");
    match choice {
        0..6 => Text::same(format!("{s}.v")),
        6..8 if shape.has_views => Text::same(as_list("u")),
        6..8 => Text::same(format!("{s}.u")),
        8 => Text::same(as_list("v")),
        9 => side.expr(Text::same(format!("array_reverse({s}.v)"))),
        10 => side.expr(Text::same(format!("coalesce({s}.v, {s}.v)"))),
        _ => Text::same(format!("{s}.v")),
    }
}

/// The value of some pair of vectors: one among those that are more similar than most.
fn threshold(generator: &mut Generator<'_>, metric: Metric) -> f64 {
    let vectors = &generator.world.vectors;
    let mut values: Vec<f64> = vec![];
    for _ in 0..generator.rng.random_range(1..5) {
        let pair = [vectors.choose(&mut generator.rng), vectors.choose(&mut generator.rng)];
        if let [Some(x), Some(y)] = pair {
            values.extend(metric.value(x, y).filter(|value| !value.is_nan()));
        }
    }
    values.sort_by(f64::total_cmp);
    let most_similar = if metric.is_distance() { values.first() } else { values.last() };
    most_similar.copied().unwrap_or(1.0)
}

/// A condition that bounds the values of a function on the side of the more similar ones. Where SIMJOIN
/// `insists` on it, a value that is NaN is as NULL.
pub fn similarity(
    generator: &mut Generator<'_>,
    insists: bool,
    first: &Text,
    second: &Text,
) -> Text {
    let metric = Metric::ALL[generator.pick(3)];
    let value = threshold(generator, metric);
    let bound = literal(value);
    let name = if generator.rng.random_bool(0.2) { metric.alias() } else { metric.sql() };
    // Only NaN is above infinity: no threshold of a similarity.
    let form = match generator.pick(10) {
        0 if value == f64::INFINITY => 2,
        form => form,
    };
    let flipped = metric.is_distance();
    let condition = |call: String| {
        let [below, at_most, above] = if flipped { ["<", "<=", ">"] } else { [">", ">=", "<"] };
        let swapped = if flipped { ">=" } else { "<=" };
        match form {
            0 => format!("{call} {below} {bound}"),
            1 => format!("{bound} {swapped} {call}"),
            2 => format!("{call} = {bound}"),
            3 if flipped => format!("{call} BETWEEN {bound} * 0.5 AND {bound}"),
            3 => format!("{call} BETWEEN {bound} AND {bound} + abs({bound})"),
            4 => format!("CAST({call} AS REAL) {at_most} CAST({bound} AS REAL)"),
            5 => format!("NOT ({call} {above} {bound})"),
            6 => format!("{call} {at_most} {bound} * 1.000000001"),
            _ => format!("{call} {at_most} {bound}"),
        }
    };
    let of_oracle = format!("{name}({}, {})", first.oracle, second.oracle);
    let number = if insists { format!(" AND {}", is_number(&of_oracle)) } else { String::new() };
    Text {
        ours: condition(format!("{name}({}, {})", first.ours, second.ours)),
        oracle: format!("{}{number}", condition(of_oracle)),
    }
}

/// The condition that a value is neither NULL nor NaN.
pub fn is_number(value: &str) -> String {
    let [low, high] = [f64::NEG_INFINITY, f64::INFINITY].map(literal);
    format!("{value} BETWEEN {low} AND {high}")
}
