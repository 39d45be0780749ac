//! Nested loops, which are what a join has to equal.

use std::collections::BTreeSet;

use arrow::array::StringArray;
use simjoin_core::set;
use simjoin_core::string::{ColumnValues, StringFunction, TextColumn, Value};
use simjoin_core::values::Texts;
use simjoin_core::{Column, Join, Measure, Pair, Pairs, SelfPairs};

/// The values of a measure for pairs of rows; `None` where they do not match.
#[derive(Debug)]
pub struct Values(pub Vec<Vec<Option<f64>>>);

/// Rows with NULL.
pub type Lists<T> = Vec<Option<Vec<T>>>;

impl Values {
    fn of<T>(
        left: &[Option<T>],
        right: &[Option<T>],
        value: impl Fn(&T, &T) -> Option<f64>,
    ) -> Self {
        let of_pair = |a: &Option<T>, b: &Option<T>| value(a.as_ref()?, b.as_ref()?);
        Self(left.iter().map(|a| right.iter().map(|b| of_pair(a, b)).collect()).collect())
    }

    /// The values for sets.
    pub fn of_sets(measure: Measure, left: &Lists<i64>, right: &Lists<i64>) -> Self {
        let measure: set::Measure = measure.name().parse().unwrap();
        Self::of(left, right, |a, b| {
            let [a, b] = [a, b].map(|row| row.iter().copied().collect::<BTreeSet<_>>());
            let overlap = a.intersection(&b).count() as u64;
            Some(measure.value(overlap, a.len() as u64, b.len() as u64))
        })
    }

    /// The values for texts.
    pub fn of_texts(measure: Measure, left: &[Option<String>], right: &[Option<String>]) -> Self {
        let named = |f: &StringFunction| f.name() == measure.name();
        let function = StringFunction::ALL.into_iter().find(named).unwrap();
        Self::of(left, right, |a, b| {
            let [a, b] = [a, b].map(|text| Texts::try_new(&StringArray::from(vec![text.as_str()])));
            let (a, b) = (a.unwrap(), b.unwrap());
            let columns = [&a, &b].map(|texts| TextColumn { texts, is_scalar: false });
            let mut value = None;
            let found = ColumnValues::new(function, columns).each(1, |found| value = Some(found));
            found.ok()?;
            value.map(|value| match value {
                Value::Distance(distance) => f64::from(distance),
                Value::Similarity(similarity) => similarity,
            })
        })
    }

    /// The values for vectors of one length, in the order of the coordinates.
    pub fn of_vectors(measure: Measure, left: &Lists<f64>, right: &Lists<f64>) -> Self {
        Self::of(left, right, |a, b| {
            let mut sums = [0.0_f64; 4];
            for (x, y) in a.iter().zip(b) {
                sums[0] += x * y;
                sums[1] += x * x;
                sums[2] += y * y;
                sums[3] += (x - y) * (x - y);
            }
            let [product, of_a, of_b, difference] = sums;
            let value = match measure {
                Measure::Euclidean => difference.sqrt(),
                Measure::InnerProduct => product,
                _ if of_a == 0.0 || of_b == 0.0 => return None,
                _ => 1.0 - product / (of_a.sqrt() * of_b.sqrt()),
            };
            (!value.is_nan()).then_some(value)
        })
    }

    /// The pairs of a join.
    pub fn pairs(
        &self,
        measure: Measure,
        threshold: f64,
        strict: bool,
        of_itself: Option<SelfPairs>,
    ) -> Vec<Pair> {
        let qualifies = |value: f64| match (measure.is_distance(), strict) {
            (false, false) => value >= threshold,
            (false, true) => value > threshold,
            (true, false) => value <= threshold,
            (true, true) => value < threshold,
        };
        let wanted = |left: usize, right: usize| match of_itself {
            Some(SelfPairs::Once) => left < right,
            Some(SelfPairs::BothOrders) => left != right,
            Some(SelfPairs::All) | None => true,
        };
        let mut pairs = vec![];
        for (left, values) in self.0.iter().enumerate() {
            for (right, value) in values.iter().enumerate() {
                let value = value.filter(|value| wanted(left, right) && qualifies(*value));
                if let Some(score) = value {
                    pairs.push(Pair { left: left as u32, right: right as u32, score });
                }
            }
        }
        pairs
    }

    /// The pairs of a search for nearest rows with ties, in its order.
    pub fn nearest(&self, measure: Measure, k: usize, ties: bool, itself: bool) -> Vec<Pair> {
        let key = |score: f64| if measure.is_distance() { score } else { -score };
        let is_set = set::Measure::ALL.iter().any(|set| set.name() == measure.name());
        let mut pairs = vec![];
        for (left, values) in self.0.iter().enumerate() {
            let found = values.iter().enumerate().filter_map(|(right, value)| {
                let score = value.filter(|value| !(is_set && *value == 0.0))?;
                let pair = Pair { left: left as u32, right: right as u32, score };
                (!itself || left != right).then_some(pair)
            });
            let mut found: Vec<Pair> = found.collect();
            found.sort_by(|a, b| key(a.score).total_cmp(&key(b.score)).then(a.right.cmp(&b.right)));
            if let Some(last) = found.get(k - 1).map(|pair| pair.score) {
                let kept = match ties {
                    true => found.partition_point(|pair| key(pair.score) <= key(last)),
                    false => k,
                };
                found.truncate(kept);
            }
            pairs.extend(found);
        }
        pairs
    }
}

/// Asserts that pairs are those of the oracle, bit for bit and in its order.
#[track_caller]
pub fn assert_pairs(found: &[Pair], expected: &[Pair], what: &str) {
    let bits = |pairs: &[Pair]| -> Vec<(u32, u32, u64)> {
        // Zeros have either sign.
        pairs.iter().map(|p| (p.left, p.right, (p.score + 0.0).to_bits())).collect()
    };
    let (found, expected) = (bits(found), bits(expected));
    let differs = found.iter().zip(&expected).position(|(a, b)| a != b);
    let at = differs.unwrap_or(found.len().min(expected.len()));
    assert!(
        found == expected,
        "{what}: {} pairs, not {}; at {at} {:?}, not {:?}",
        found.len(),
        expected.len(),
        found.get(at),
        expected.get(at)
    );
}

/// Asserts that every way to ask for the pairs of two columns gives them.
#[track_caller]
pub fn assert_join<C: Column>(join: &Join, [left, right]: [&C; 2], expected: &[Pair], what: &str) {
    let pairs = join.join(left, right).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_pairs(&pairs, expected, what);
    assert_eq!(join.count(left, right).unwrap(), expected.len() as u64, "{what}");
    let mut called: Vec<Pair> = vec![];
    let join = join.clone().batch_pairs(7);
    let ended = join.for_each(left, right, |pairs| {
        assert!((1..=7).contains(&pairs.len()));
        called.extend(pairs);
        std::ops::ControlFlow::<()>::Continue(())
    });
    assert!(ended.unwrap().is_continue(), "{what}");
    called.sort_by_key(|pair| (pair.left, pair.right));
    assert_pairs(&called, expected, what);
}

/// Asserts that every way to ask for the pairs of a column with itself gives them.
#[track_caller]
pub fn assert_self_join<C: Column>(join: &Join, rows: &C, expected: &[Pair], what: &str) {
    let pairs = join.self_join(rows).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_pairs(&pairs, expected, what);
    assert_eq!(join.self_count(rows).unwrap(), expected.len() as u64, "{what}");
    let mut called: Vec<Pair> = vec![];
    let join = join.clone().batch_pairs(5);
    let ended = join.self_for_each(rows, |pairs| {
        called.extend(pairs);
        std::ops::ControlFlow::<()>::Continue(())
    });
    assert!(ended.unwrap().is_continue(), "{what}");
    called.sort_by_key(|pair| (pair.left, pair.right));
    assert_pairs(&called, expected, what);
}

/// Asserts that nearest rows are those of the oracle where ties with the last one may be broken in any way.
#[track_caller]
pub fn assert_nearest(found: &Pairs, values: &Values, expected: &[Pair], what: &str) {
    let scores = |pairs: &[Pair]| -> Vec<(u32, u64)> {
        pairs.iter().map(|pair| (pair.left, (pair.score + 0.0).to_bits())).collect()
    };
    assert_eq!(scores(found), scores(expected), "{what}");
    let distinct: BTreeSet<_> = found.iter().map(|pair| (pair.left, pair.right)).collect();
    assert_eq!(distinct.len(), found.len(), "{what}");
    for pair in found {
        let value = values.0[pair.left as usize][pair.right as usize];
        assert_eq!(value, Some(pair.score), "{what}: {pair:?}");
    }
}
