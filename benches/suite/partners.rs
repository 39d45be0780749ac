//! Thresholds by which a row has a wanted number of partners, found by sampling pairs.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float32Type};
use datafusion::common::{Result, exec_err};

use crate::generate::random::Random;

/// A function over two vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    Distance,
    Cosine,
    Product,
}

impl Value {
    const ALL: [Self; 3] = [Self::Distance, Self::Cosine, Self::Product];

    /// Its name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Self::Distance => "array_distance",
            Self::Cosine => "cosine_distance",
            Self::Product => "inner_product",
        }
    }

    pub fn named(name: &str) -> Result<Self> {
        match Self::ALL.into_iter().find(|value| value.name() == name) {
            Some(value) => Ok(value),
            None => exec_err!("no join by {name}; there are {:?}", Self::ALL.map(Self::name)),
        }
    }

    /// About the function's value, negated where greater ones are more similar.
    fn rank(self, x: &[f32], y: &[f32]) -> f32 {
        match self {
            Self::Distance => sum(x, y, |x, y| (x - y) * (x - y)).sqrt(),
            Self::Product => -sum(x, y, |x, y| x * y),
            Self::Cosine => {
                let square = |x: &[f32]| sum(x, x, |x, _| x * x).sqrt();
                1.0 - sum(x, y, |x, y| x * y) / (square(x) * square(y))
            }
        }
    }
}

/// Sixteen sums side by side, for the processor's vectors.
fn sum(x: &[f32], y: &[f32], term: impl Fn(f32, f32) -> f32) -> f32 {
    let mut sums = [0.0_f32; 16];
    let (xs, ys) = (x.chunks_exact(16), y.chunks_exact(16));
    let rest = xs.remainder().iter().zip(ys.remainder());
    let rest: f32 = rest.map(|(x, y)| term(*x, *y)).sum();
    for (x, y) in xs.zip(ys) {
        for lane in 0..16 {
            sums[lane] += term(x[lane], y[lane]);
        }
    }
    rest + sums.iter().sum::<f32>()
}

/// The dimensions of a column of vectors, by its first row.
pub fn dimensions(lists: &ArrayRef) -> Result<usize> {
    match lists.data_type() {
        DataType::FixedSizeList(_, dimensions) => Ok(*dimensions as usize),
        DataType::List(_) if !lists.is_empty() => {
            Ok(lists.as_list::<i32>().value_length(0) as usize)
        }
        other => exec_err!("the bench reads lists of numbers of one length, not {other}"),
    }
}

/// Values of pairs of different rows, drawn at random.
pub struct Sample {
    /// The least ones, ascending.
    least: Vec<f32>,
    pairs: f64,
    rows: usize,
    value: Value,
}

/// Rows that meet each other in the sample, at most.
const QUERIES: usize = 4096;
const POINTS: usize = 1 << 18;
/// Numbers of rows in the sample, and products of all its pairs, at most.
const NUMBERS: usize = 1 << 28;
const WORK: usize = 1 << 34;

impl Sample {
    pub fn of(lists: &[ArrayRef], value: Value) -> Result<Self> {
        let Some(first) = lists.first() else { return exec_err!("there are no rows") };
        let d = dimensions(first)?;
        let rows: usize = lists.iter().map(|list| list.len()).sum();
        let mut random = Random::new(5);
        let most = rows.min(POINTS).min(NUMBERS / d.max(1)).min(WORK / QUERIES / d.max(1));
        let queries = drawn(&mut random, rows, rows.min(QUERIES));
        let points = drawn(&mut random, rows, most.max(1));
        let [x, y] = [read(lists, &queries, d)?, read(lists, &points, d)?];
        // As many as a third of the rows as partners need.
        let keep = (queries.len() * points.len() / 3).clamp(1, 1 << 22);
        let mut least: Vec<f32> = vec![];
        let mut greatest_kept = f32::INFINITY;
        let mut pairs = 0_u64;
        for (i, x) in queries.iter().zip(x.chunks_exact(d.max(1))) {
            for (j, y) in points.iter().zip(y.chunks_exact(d.max(1))) {
                if i == j {
                    continue;
                }
                pairs += 1;
                let rank = value.rank(x, y);
                if rank <= greatest_kept {
                    least.push(rank);
                }
            }
            if least.len() > 2 * keep {
                least.select_nth_unstable_by(keep, f32::total_cmp);
                least.truncate(keep + 1);
                greatest_kept = least[keep];
            }
        }
        least.sort_unstable_by(f32::total_cmp);
        Ok(Self { least, pairs: pairs as f64, rows, value })
    }

    /// The threshold at which a row has this number of partners on average, itself left out.
    pub fn threshold(&self, partners: f64) -> f64 {
        let share = partners / (self.rows as f64 - 1.0).max(1.0);
        let place = (share * self.pairs).round() as usize;
        // Between the last value that should match and the next one.
        let at = |place: usize| self.least.get(place).or(self.least.last()).copied();
        let last = at(place.saturating_sub(1)).unwrap_or(0.0);
        let middle = f64::midpoint(f64::from(last), f64::from(at(place).unwrap_or(last)));
        if self.value == Value::Product { -middle } else { middle }
    }
}

/// Some of `rows` rows, each once, ascending.
fn drawn(random: &mut Random, rows: usize, count: usize) -> Vec<usize> {
    if count == rows {
        return (0..rows).collect();
    }
    // One of each stretch of rows.
    let place = |i: usize| (i as u128 * rows as u128 / count as u128) as usize;
    (0..count).map(|i| place(i) + random.below(place(i + 1) - place(i))).collect()
}

/// The numbers of some rows, which ascend.
fn read(lists: &[ArrayRef], rows: &[usize], d: usize) -> Result<Vec<f32>> {
    let mut numbers = Vec::with_capacity(rows.len() * d);
    let (mut first, mut rest) = (0, rows);
    for list in lists {
        let end = first + list.len();
        let here = rest.partition_point(|row| *row < end);
        for row in &rest[..here] {
            let vector = match list.data_type() {
                DataType::FixedSizeList(..) => list.as_fixed_size_list().value(row - first),
                DataType::List(_) => list.as_list::<i32>().value(row - first),
                other => return exec_err!("the bench reads lists of numbers, not {other}"),
            };
            let vector = cast(&vector, &DataType::Float32)?;
            let vector = vector.as_primitive::<Float32Type>().values();
            if vector.len() != d {
                return exec_err!("vectors of {d} and of {} dimensions", vector.len());
            }
            numbers.extend_from_slice(vector);
        }
        (first, rest) = (end, &rest[here..]);
    }
    Ok(numbers)
}
