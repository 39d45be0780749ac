//! Random tables and conditions for the differential tests, each with the oracle's view of it.

use std::cmp::Ordering;

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;

use crate::lists::{BINARIES, INTEGERS, TEXTS, dictionary, token};
use crate::oracle::{Measure, Row, Sizes, compare, or};

/// A condition over a pair of rows, in SQL and in Rust.
#[derive(Clone, Copy)]
pub struct Condition {
    pub sql: &'static str,
    pub holds: fn(&Row, &Row, Option<Sizes>) -> Option<bool>,
}

/// Equalities; the operator may use them as blocking keys.
pub const EQUALITIES: &[Condition] = &[
    Condition { sql: "a.key = b.key", holds: |a, b, _| compare(a.key, b.key, i64::eq) },
    Condition {
        sql: "a.name = b.name",
        holds: |a, b, _| compare(a.name.as_ref(), b.name.as_ref(), |x, y| x == y),
    },
    Condition { sql: "(a.key IS NOT DISTINCT FROM b.key)", holds: |a, b, _| Some(a.key == b.key) },
    Condition {
        sql: "b.name = a.name AND a.key = b.key",
        holds: |a, b, _| {
            let names = compare(a.name.as_ref(), b.name.as_ref(), |x, y| x == y);
            crate::oracle::and(names, compare(a.key, b.key, i64::eq))
        },
    },
    Condition {
        sql: "a.key = b.key AND (a.name IS NOT DISTINCT FROM b.name)",
        holds: |a, b, _| crate::oracle::and(compare(a.key, b.key, i64::eq), Some(a.name == b.name)),
    },
    Condition {
        sql: "a.key + 1 = b.key",
        holds: |a, b, _| compare(a.key.map(|k| k + 1), b.key, i64::eq),
    },
];

/// Conditions that are no equality: on one side, on both, on the score.
pub const RESIDUALS: &[Condition] = &[
    Condition { sql: "a.id < b.id", holds: |a, b, _| Some(a.id < b.id) },
    Condition { sql: "a.id > b.id", holds: |a, b, _| Some(a.id > b.id) },
    Condition { sql: "a.id <> b.id", holds: |a, b, _| Some(a.id != b.id) },
    Condition { sql: "a.id <= b.id", holds: |a, b, _| Some(a.id <= b.id) },
    Condition { sql: "a.w < b.w", holds: |a, b, _| compare(a.w, b.w, i64::lt) },
    Condition { sql: "a.w + b.w > 9", holds: |a, b, _| compare(a.w, b.w, |x, y| x + y > 9) },
    Condition {
        sql: "(a.name IS NULL OR b.w > 4)",
        holds: |a, b, _| or(Some(a.name.is_none()), b.w.map(|w| w > 4)),
    },
    Condition { sql: "a.w > 3", holds: |a, _, _| a.w.map(|w| w > 3) },
    Condition { sql: "b.w IS NOT NULL", holds: |_, b, _| Some(b.w.is_some()) },
    Condition {
        sql: "jaccard(a.toks, b.toks) < 0.95",
        holds: |_, _, s| Some(Measure::Jaccard.value(s?) < 0.95),
    },
    Condition {
        sql: "dice(b.toks, a.toks) >= 0.5",
        holds: |_, _, s| Some(Measure::Dice.value(s?) >= 0.5),
    },
    Condition {
        sql: "overlap(a.toks, b.toks) % 2 = 1",
        holds: |_, _, s| Some(s?.o % 2 == 1 && s?.a > 0 && s?.b > 0),
    },
    Condition {
        sql: "containment(b.toks, a.toks) > containment(a.toks, b.toks)",
        holds: |_, _, s| {
            let (forth, back) = (Measure::Containment.value(s?), s?.swapped());
            Some(matches!(
                Measure::Containment.value(back).partial_cmp(&forth),
                Some(Ordering::Greater)
            ))
        },
    },
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    AtLeast,
    Above,
    Equal,
    /// Between the threshold and the threshold plus `WIDTH`.
    Between,
}

/// How far `BETWEEN` reaches.
const WIDTH: f64 = 0.25;

/// The form in which the threshold is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Literal {
    Float64,
    Float32,
    Integer,
    /// With this many digits behind the point.
    Decimal(u32),
    Parameter,
}

/// The similarity conjunct of a case.
#[derive(Debug, Clone)]
pub struct Predicate {
    pub measure: Measure,
    /// The function's first argument is `b.toks`.
    pub swapped: bool,
    pub operator: Operator,
    pub literal: Literal,
    pub threshold: f64,
    /// The literal stands on the left.
    pub flipped: bool,
}

impl Predicate {
    /// Writes `threshold` as `literal` does, or as Float64 where that would not keep it apart
    /// from zero.
    pub fn new(measure: Measure, operator: Operator, literal: Literal, threshold: f64) -> Self {
        let literal = match literal {
            Literal::Integer if threshold.fract() != 0.0 => Literal::Float64,
            Literal::Decimal(digits) if unscaled(threshold, digits) < 1 => Literal::Float64,
            Literal::Float32 if threshold < 1e-6 => Literal::Float64,
            _ if operator == Operator::Between => Literal::Float64,
            other => other,
        };
        Self { measure, swapped: false, operator, literal, threshold, flipped: false }
    }

    pub fn sql(&self) -> String {
        let (first, second) = if self.swapped { ("b", "a") } else { ("a", "b") };
        let call = format!("{}({first}.toks, {second}.toks)", self.measure.sql());
        let literal = match self.literal {
            Literal::Float64 => format!("{:?}", self.threshold),
            Literal::Float32 => format!("CAST({:?} AS REAL)", self.threshold),
            Literal::Integer => format!("{}", self.threshold as i64),
            Literal::Decimal(digits) => {
                let value = unscaled(self.threshold, digits);
                let unit = 10_i128.pow(digits);
                let width = digits as usize;
                let text = format!("{}.{:0width$}", value / unit, value % unit);
                format!("CAST('{text}' AS DECIMAL({}, {digits}))", digits + 3)
            }
            Literal::Parameter => "$1".to_string(),
        };
        match (self.operator, self.flipped) {
            (Operator::Between, _) => {
                format!("{call} BETWEEN {literal} AND {:?}", self.threshold + WIDTH)
            }
            (Operator::AtLeast, false) => format!("{call} >= {literal}"),
            (Operator::AtLeast, true) => format!("{literal} <= {call}"),
            (Operator::Above, false) => format!("{call} > {literal}"),
            (Operator::Above, true) => format!("{literal} < {call}"),
            (Operator::Equal, false) => format!("{call} = {literal}"),
            (Operator::Equal, true) => format!("{literal} = {call}"),
        }
    }

    pub fn parameters(&self) -> Vec<ScalarValue> {
        match self.literal {
            Literal::Parameter => vec![ScalarValue::Float64(Some(self.threshold))],
            _ => Vec::new(),
        }
    }

    /// SQL's answer for a pair. Floats compare with decimals as `DECIMAL(30, 15)`.
    pub fn holds(&self, sizes: Option<Sizes>) -> Option<bool> {
        let sizes = if self.swapped { sizes?.swapped() } else { sizes? };
        let value = self.measure.value(sizes);
        let order = match self.literal {
            Literal::Float32 => value.total_cmp(&f64::from(self.threshold as f32)),
            Literal::Decimal(digits) if self.measure == Measure::Overlap => {
                let value = value as i128 * 10_i128.pow(digits);
                value.cmp(&unscaled(self.threshold, digits))
            }
            Literal::Decimal(digits) => {
                let threshold = unscaled(self.threshold, digits) * 10_i128.pow(15 - digits);
                unscaled(value, 15).cmp(&threshold)
            }
            _ => value.total_cmp(&self.threshold),
        };
        Some(match self.operator {
            Operator::AtLeast => order.is_ge(),
            Operator::Above => order.is_gt(),
            Operator::Equal => order.is_eq(),
            Operator::Between => order.is_ge() && value <= self.threshold + WIDTH,
        })
    }
}

/// `value` as a decimal with `digits` digits behind the point, rounded to the nearest.
fn unscaled(value: f64, digits: u32) -> i128 {
    (10_f64.powi(digits as i32) * value).round() as i128
}

/// The pattern of the rows of a case's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Sets, a few of them NULL or empty.
    Mixed,
    /// Every list is a proper set.
    Clean,
    /// Most lists are NULL, empty or full of NULLs.
    Sparse,
    /// Few distinct sets, each many times.
    Repeats,
    /// Many sets with the same rare tokens and size.
    Families,
    /// Sets of up to three quarters of all tokens.
    Large,
    NoRows,
}

/// The universe of tokens and the token sets seen so far, which later rows imitate.
pub struct Tables<'a> {
    pub rng: &'a mut StdRng,
    pub universe: u32,
    seen: Vec<Vec<u32>>,
}

impl<'a> Tables<'a> {
    pub fn new(rng: &'a mut StdRng, universe: u32) -> Self {
        Self { rng, universe, seen: Vec::new() }
    }

    /// `n` rows with tokens of type `element`; ids count from `first_id`.
    pub fn rows(&mut self, n: usize, pattern: Pattern, element: &DataType, first: i64) -> Vec<Row> {
        let n = if pattern == Pattern::NoRows { 0 } else { n };
        (0..n).map(|i| self.row(first + i as i64, pattern, element)).collect()
    }

    fn row(&mut self, id: i64, pattern: Pattern, element: &DataType) -> Row {
        let (null, empty) = match pattern {
            Pattern::Mixed | Pattern::Repeats | Pattern::Families => (0.07, 0.07),
            Pattern::Sparse => (0.4, 0.4),
            Pattern::Clean | Pattern::Large | Pattern::NoRows => (0.0, 0.0),
        };
        let dice = self.rng.random::<f64>();
        let toks = if dice < null {
            None
        } else if dice < null + empty {
            Some(vec![None; self.rng.random_range(0..3)])
        } else {
            let numbers = self.numbers(pattern);
            Some(self.untidy(&numbers, pattern, element))
        };
        let rng = &mut *self.rng;
        Row {
            id,
            toks,
            key: rng.random_bool(0.85).then(|| rng.random_range(0..3)),
            name: rng.random_bool(0.85).then(|| ["x", "y", "ü"][rng.random_range(0..3)].into()),
            w: rng.random_bool(0.85).then(|| rng.random_range(0..10)),
        }
    }

    /// A set of token numbers: a fresh one, or one seen before with up to two changes.
    fn numbers(&mut self, pattern: Pattern) -> Vec<u32> {
        let repeat = match pattern {
            Pattern::Repeats => 0.9,
            Pattern::Families => 0.3,
            _ => 0.6,
        };
        let mut numbers = match self.seen.choose(self.rng) {
            Some(seen) if self.rng.random_bool(repeat) => {
                let mut copy = seen.clone();
                let changes = if pattern == Pattern::Repeats { 0..1 } else { 0..3 };
                for _ in 0..self.rng.random_range(changes) {
                    let at = self.rng.random_range(0..copy.len());
                    match self.rng.random_range(0..3) {
                        0 if copy.len() > 1 => drop(copy.swap_remove(at)),
                        1 => copy[at] = self.rng.random_range(0..self.universe),
                        _ => copy.push(self.rng.random_range(0..self.universe)),
                    }
                }
                copy
            }
            _ if pattern == Pattern::Families => {
                // The last tokens are those of three families, the first ones are everybody's.
                let family = self.universe - 1 - 2 * self.rng.random_range(0..3);
                let others = (0..4).map(|_| self.rng.random_range(0..self.universe.min(7)));
                [family, family - 1].into_iter().chain(others).collect()
            }
            _ => {
                let sizes = match pattern {
                    Pattern::Large => self.universe / 4..=self.universe * 3 / 4,
                    _ => 1..=12.min(self.universe),
                };
                let size = self.rng.random_range(sizes);
                (0..size).map(|_| self.rng.random_range(0..self.universe)).collect()
            }
        };
        numbers.sort_unstable();
        numbers.dedup();
        self.seen.push(numbers.clone());
        numbers
    }

    /// The set as a list: shuffled, with repeats and NULL elements unless `Clean`.
    fn untidy(
        &mut self,
        numbers: &[u32],
        pattern: Pattern,
        element: &DataType,
    ) -> Vec<Option<crate::oracle::Token>> {
        let mut list: Vec<_> = numbers.iter().map(|&n| Some(token(element, n))).collect();
        if pattern != Pattern::Clean {
            if self.rng.random_bool(0.3) {
                list.push(list[0].clone());
            }
            if self.rng.random_bool(0.2) {
                list.push(None);
            }
        }
        let turn = self.rng.random_range(0..list.len());
        list.rotate_left(turn);
        list
    }
}

/// Element types for both sides: mostly one type, sometimes two of one kind.
pub fn element_types(rng: &mut StdRng) -> [DataType; 2] {
    let mut kind = match rng.random_range(0..6) {
        0..3 => INTEGERS.to_vec(),
        3..5 => TEXTS.to_vec(),
        _ => BINARIES.to_vec(),
    };
    let plain = kind[0].clone();
    kind.push(dictionary(plain));
    let first = kind.choose(rng).expect("types").clone();
    let second =
        if rng.random_bool(0.6) { first.clone() } else { kind.choose(rng).expect("types").clone() };
    [first, second]
}
