//! A function of two columns of texts, many pairs at a time.
//!
//! ```text
//! gather.rs   the texts of some rows
//! lanes.rs    their way through lanes     codes.rs   bytes for rare characters
//! ```
//!
//! Texts of up to 64 characters go to the lanes in which [`PendingPairs`] counts; the others are computed one
//! by one. Symbols of ASCII texts are their bytes, those of other texts two bytes of each character. Where a
//! text has characters beyond U+FFFF, those of the pair get a byte each.

mod codes;
mod gather;
mod lanes;

use std::ops::Range;

use gather::{Padded, gather};
use lanes::{CountedRows, LaneCounter};

use super::function::StringFunction;
use super::lanes::pairs::{LaneCount, PendingPairs, Text};
use super::rules::{PREFIX, boost, jaro_value, similarity};
use super::value::{PairEvaluator, Value};
use crate::simd::Simd;
use crate::values::Texts;

/// Rows that are gathered at a time.
const ROWS: usize = 1 << 10;

/// A column of texts.
#[derive(Debug, Clone, Copy)]
pub struct TextColumn<'a> {
    pub texts: &'a Texts,
    /// Whether row 0 stands for all rows.
    pub is_scalar: bool,
}

impl<'a> TextColumn<'a> {
    /// The text of a row, `None` where it is NULL.
    #[inline]
    pub fn value(&self, row: usize) -> Option<&'a str> {
        self.texts.value(if self.is_scalar { 0 } else { row })
    }
}

/// Computes a function of two columns row by row.
#[derive(Debug)]
pub struct ColumnValues<'a> {
    function: StringFunction,
    columns: [TextColumn<'a>; 2],
    /// The values of single pairs.
    values: PairEvaluator,
}

/// The row of a pair that has no value, since the lengths differ.
#[derive(Debug)]
pub struct Unequal(pub usize);

impl<'a> ColumnValues<'a> {
    pub fn new(function: StringFunction, columns: [TextColumn<'a>; 2]) -> Self {
        Self { function, columns, values: PairEvaluator::new(function) }
    }

    /// Calls `each` with the values of the first `rows` rows in their order. A row with NULL gets any
    /// value.
    ///
    /// # Errors
    ///
    /// The first row whose pair has no value.
    pub fn each(&mut self, rows: usize, each: impl FnMut(Value)) -> Result<(), Unequal> {
        let simd = Simd::detect();
        match PendingPairs::<1>::pays(simd) {
            true => self.by_lanes(simd, rows, each),
            false => self.one_by_one(rows, each),
        }
    }

    fn one_by_one(&mut self, rows: usize, mut each: impl FnMut(Value)) -> Result<(), Unequal> {
        let [a, b] = self.columns;
        for row in 0..rows {
            each(match a.value(row).zip(b.value(row)) {
                Some((a, b)) => self.values.of(a, b).ok_or(Unequal(row))?,
                None => Value::Distance(0),
            });
        }
        Ok(())
    }

    fn by_lanes(
        &mut self,
        simd: Simd,
        rows: usize,
        mut each: impl FnMut(Value),
    ) -> Result<(), Unequal> {
        let mut lanes = LaneCounter::new(simd, LaneCount::of(self.function));
        let padded = self.columns.map(|column| Padded::of(&column));
        let has_ascii_buffers =
            self.columns.map(|column| !column.is_scalar && column.texts.has_ascii_buffers());
        let mut texts = [vec![], vec![]];
        for start in (0..rows).step_by(ROWS) {
            let end = rows.min(start + ROWS);
            let mut is_ascii = true;
            for (side, texts) in texts.iter_mut().enumerate() {
                let (column, rows) = (&self.columns[side], start..end);
                is_ascii &= match column.is_scalar {
                    true => padded[side].gather(rows, texts),
                    false => gather(column.texts, rows, has_ascii_buffers[side], texts),
                };
            }
            let exact = self.count(&mut lanes, start, &texts, is_ascii)?;
            self.finish(lanes.rows(), &exact, start, &mut each);
        }
        Ok(())
    }

    /// Calls `each` with the values of the rows that were counted, from the row `start` on, and with those that
    /// were computed.
    fn finish(
        &self,
        counted: &CountedRows,
        exact: &[(usize, Value)],
        start: usize,
        each: &mut impl FnMut(Value),
    ) {
        let mut row = 0;
        for &(end, value) in exact {
            self.finish_counts(counted, row..end, start, each);
            each(value);
            row = end + 1;
        }
        self.finish_counts(counted, row..counted.counts.len(), start, each);
    }

    fn finish_counts(
        &self,
        counted: &CountedRows,
        rows: Range<usize>,
        start: usize,
        each: &mut impl FnMut(Value),
    ) {
        let counts = counted.counts[rows.clone()].iter().zip(&counted.lens[rows.clone()]);
        let sum = |[a, b]: [u8; 2]| u64::from(a) + u64::from(b);
        let mut similarities = |similarity: &dyn Fn(usize, u32, [u8; 2]) -> f64| {
            for (row, (&count, &lens)) in rows.clone().zip(counts.clone()) {
                each(Value::Similarity(similarity(start + row, count, lens)));
            }
        };
        match self.function {
            StringFunction::LevenshteinSimilarity => {
                similarities(&|_, count, [a, b]| similarity(count, a.max(b).into()));
            }
            StringFunction::IndelSimilarity => {
                similarities(&|_, count, lens| similarity(count, sum(lens)));
            }
            StringFunction::Jaro => similarities(&|_, count, lens| jaro(count, lens)),
            StringFunction::JaroWinkler => similarities(&|row, count, lens| {
                let [a, b] = self.columns.map(|column| column.value(row).unwrap_or_default());
                winkler(jaro(count, lens), a, b)
            }),
            _ => counts.for_each(|(&count, _)| each(Value::Distance(count))),
        }
    }

    /// Counts some rows, with their texts, and computes those that lanes do not take.
    fn count(
        &mut self,
        lanes: &mut LaneCounter,
        start: usize,
        texts: &[Vec<Text<'_>>; 2],
        is_ascii: bool,
    ) -> Result<Vec<(usize, Value)>, Unequal> {
        match is_ascii {
            true => lanes.take_ascii(texts),
            false => lanes.take(texts, self.columns.each_ref().map(|column| column.is_scalar)),
        }
        let mut exact = vec![];
        for row in lanes.rows().left.clone() {
            let [a, b] = self.columns.map(|column| column.value(start + row));
            let value = match a.zip(b) {
                Some((a, b)) if is_ascii || !lanes.take_coded(row, [a, b]) => {
                    self.values.of(a, b).ok_or(Unequal(start + row))?
                }
                Some(_) => continue,
                None => Value::Distance(0),
            };
            exact.push((row, value));
        }
        lanes.flush();
        Ok(exact)
    }
}

/// Jaro's similarity of texts of these lengths from [`LaneCount::Jaro`].
#[inline]
fn jaro(count: u32, [a, b]: [u8; 2]) -> f64 {
    match a.max(b) {
        0 => 1.0,
        _ => jaro_value(a.into(), b.into(), (count & 0xffff) as usize, (count >> 16) as usize),
    }
}

/// Winkler's similarity of two texts from Jaro's.
#[inline]
fn winkler(jaro: f64, a: &str, b: &str) -> f64 {
    let equal = a.chars().zip(b.chars()).take(PREFIX).take_while(|(a, b)| a == b);
    boost(jaro, equal.count())
}

impl LaneCount {
    /// The count that a function is computed from.
    fn of(function: StringFunction) -> Self {
        match function {
            StringFunction::Levenshtein | StringFunction::LevenshteinSimilarity => {
                Self::Levenshtein
            }
            StringFunction::DamerauLevenshtein => Self::Damerau,
            StringFunction::IndelSimilarity => Self::Indel,
            StringFunction::Hamming => Self::Hamming,
            StringFunction::Jaro | StringFunction::JaroWinkler => Self::Jaro,
        }
    }
}
