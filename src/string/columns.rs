//! A function of two columns of texts, many pairs at a time.
//!
//! Texts of up to 64 characters go to the lanes in which [`Pairs`] counts; the others are computed one by one.
//! Symbols of lanes are bytes: those of ASCII texts are theirs, of other texts the characters get
//! [`Codes`].

use std::hint::select_unpredictable;
use std::ops::Range;

use super::function::StringFunction;
use super::lanes::pairs::{Count, LONGEST, MAX_SYMBOL, Pairs, Text};
use super::rules::{PREFIX, boost, jaro_value, similarity};
use super::value::{Value, Values};
use crate::simd::Simd;
use crate::values::Texts;

/// Rows that are gathered at a time.
const ROWS: usize = 1 << 10;

/// A column of texts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TextColumn<'a> {
    pub texts: &'a Texts,
    /// Whether row 0 stands for all rows.
    pub is_scalar: bool,
}

impl<'a> TextColumn<'a> {
    /// The text of a row, `None` where it is NULL.
    #[inline]
    pub(crate) fn value(&self, row: usize) -> Option<&'a str> {
        self.texts.value(if self.is_scalar { 0 } else { row })
    }
}

/// Computes a function of two columns row by row.
#[derive(Debug)]
pub(crate) struct ColumnValues<'a> {
    function: StringFunction,
    columns: [TextColumn<'a>; 2],
    /// The values of single pairs.
    values: Values,
}

/// The row of a pair that has no value, since the lengths differ.
#[derive(Debug)]
pub(crate) struct Unequal(pub usize);

impl<'a> ColumnValues<'a> {
    pub(crate) fn new(function: StringFunction, columns: [TextColumn<'a>; 2]) -> Self {
        Self { function, columns, values: Values::new(function) }
    }

    /// Calls `each` with the values of the first `rows` rows in their order. A row with NULL gets any
    /// value.
    ///
    /// # Errors
    ///
    /// The first row whose pair has no value.
    pub(crate) fn each(&mut self, rows: usize, each: impl FnMut(Value)) -> Result<(), Unequal> {
        let simd = Simd::detect();
        match Pairs::pays(simd) {
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
        let mut lanes = Lanes::new(simd, Count::of(self.function));
        let padded = self.columns.map(|column| Padded::of(&column));
        let mut texts = [vec![], vec![]];
        for start in (0..rows).step_by(ROWS) {
            let end = rows.min(start + ROWS);
            let mut is_ascii = true;
            for ((column, padded), texts) in self.columns.iter().zip(&padded).zip(&mut texts) {
                let rows = start..end;
                is_ascii &= match column.is_scalar {
                    true => padded.gather(rows, texts),
                    false => gather(column.texts, rows, texts),
                };
            }
            self.count(&mut lanes, start..end, &texts, is_ascii)?;
            self.finish(&lanes, start, &mut each);
        }
        Ok(())
    }

    /// Calls `each` with the values of the rows that were counted, from the row `start` on.
    fn finish(&self, lanes: &Lanes, start: usize, each: &mut impl FnMut(Value)) {
        let mut row = 0;
        for &(end, value) in &lanes.exact {
            self.finish_counts(lanes, row..end, start, each);
            each(value);
            row = end + 1;
        }
        self.finish_counts(lanes, row..lanes.counts.len(), start, each);
    }

    fn finish_counts(
        &self,
        lanes: &Lanes,
        rows: Range<usize>,
        start: usize,
        each: &mut impl FnMut(Value),
    ) {
        let counts = lanes.counts[rows.clone()].iter().zip(&lanes.lens[rows.clone()]);
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

    /// Counts some rows, with their texts.
    fn count(
        &mut self,
        lanes: &mut Lanes,
        rows: Range<usize>,
        [a, b]: &[Vec<Text<'_>>; 2],
        is_ascii: bool,
    ) -> Result<(), Unequal> {
        lanes.begin(rows.len());
        for (place, (&a, &b)) in a.iter().zip(b).enumerate() {
            let is_ascii = is_ascii || [a, b].iter().all(|text| text.bytes().is_ascii());
            if is_ascii && lanes.push(place, [a, b]) {
                continue;
            }
            let row = rows.start + place;
            let [a, b] = self.columns.map(|column| column.value(row));
            // NULL was gathered as an empty text.
            let value = match a.zip(b) {
                Some((a, b)) if is_ascii || !lanes.push_coded(place, [a, b]) => {
                    self.values.of(a, b).ok_or(Unequal(row))?
                }
                Some(_) => continue,
                None => Value::Distance(0),
            };
            lanes.exact.push((place, value));
        }
        lanes.pairs.flush(lanes.simd, &mut lanes.counts);
        Ok(())
    }
}

/// Jaro's similarity of texts of these lengths from [`Count::Jaro`].
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

impl Count {
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

/// Gathers the texts of some rows, an empty one for NULL. Returns whether all are ASCII.
fn gather<'a>(texts: &'a Texts, rows: Range<usize>, to: &mut Vec<Text<'a>>) -> bool {
    to.clear();
    to.resize(rows.len(), Text::empty());
    let mut slots = to.iter_mut();
    texts.for_each_within(rows, |rest, len| {
        if let Some(slot) = slots.next() {
            *slot = Text::new(rest, len);
        }
    })
}

/// The text of a scalar, and space behind it.
#[derive(Debug)]
struct Padded {
    bytes: Vec<u8>,
    len: usize,
}

impl Padded {
    fn of(column: &TextColumn<'_>) -> Self {
        let text = if column.is_scalar { column.value(0) } else { None }.unwrap_or_default();
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(text.len() + LONGEST, 0);
        Self { bytes, len: text.len() }
    }

    /// The text for each of some rows, as [`gather`].
    fn gather<'a>(&'a self, rows: Range<usize>, to: &mut Vec<Text<'a>>) -> bool {
        to.resize(rows.len(), Text::new(&self.bytes, self.len));
        self.bytes.is_ascii()
    }
}

/// Some rows on their way through lanes.
#[derive(Debug)]
struct Lanes {
    simd: Simd,
    pairs: Pairs,
    codes: Codes,
    /// The count of each row, and the lengths of its texts.
    counts: Vec<u32>,
    lens: Vec<[u8; 2]>,
    /// The values of the rows that lanes do not take, in the order of the rows.
    exact: Vec<(usize, Value)>,
}

impl Lanes {
    fn new(simd: Simd, count: Count) -> Self {
        Self {
            simd,
            pairs: Pairs::new(count),
            codes: Codes::default(),
            counts: vec![],
            lens: vec![],
            exact: vec![],
        }
    }

    fn begin(&mut self, rows: usize) {
        self.counts.clear();
        self.counts.resize(rows, 0);
        self.lens.clear();
        self.lens.resize(rows, [0; 2]);
        self.exact.clear();
    }

    /// Whether lanes count the pair: not if it is too long, nor if it has no count.
    #[inline(always)]
    fn push(&mut self, place: usize, pair: [Text<'_>; 2]) -> bool {
        let [a, b] = pair.map(|text| text.len());
        if a.max(b) > LONGEST || !self.pairs.counts(a, b) {
            return false;
        }
        self.lens[place] = [a as u8, b as u8];
        if a.min(b) == 0 {
            self.counts[place] = self.pairs.of_empty(a.max(b));
            return true;
        }
        self.pairs.push(self.simd, place, pair, &mut self.counts);
        true
    }

    /// [`Self::push`] for texts that are not ASCII alone.
    fn push_coded(&mut self, place: usize, pair: [&str; 2]) -> bool {
        let mut bytes = [[0; LONGEST]; 2];
        let Some([a, b]) = self.codes.encode(pair, &mut bytes) else { return false };
        self.push(place, [Text::new(&bytes[0], a), Text::new(&bytes[1], b)])
    }
}

/// Bytes for the characters of a pair of texts: those of ASCII for themselves, a free one for each other.
#[derive(Debug)]
struct Codes {
    /// For each byte from 128 on the character that has it, below the number of the pair in which it got it.
    owners: [u64; Self::FREE],
    pair: u32,
}

impl Default for Codes {
    fn default() -> Self {
        Self { owners: [0; Self::FREE], pair: 0 }
    }
}

impl Codes {
    /// The bytes beyond ASCII that symbols may be.
    const FREE: usize = MAX_SYMBOL as usize - 127;

    /// Writes the codes of two texts; returns their lengths, or `None` if a text is longer than
    /// [`LONGEST`] or bytes do not suffice.
    fn encode(&mut self, pair: [&str; 2], to: &mut [[u8; LONGEST]; 2]) -> Option<[usize; 2]> {
        if self.pair == u32::MAX {
            *self = Self::default();
        }
        self.pair += 1;
        let mut lens = [0; 2];
        for ((text, to), len) in pair.iter().zip(to).zip(&mut lens) {
            for character in text.chars() {
                *to.get_mut(*len)? = match character.is_ascii() {
                    true => character as u8,
                    false => self.code(character)?,
                };
                *len += 1;
            }
        }
        Some(lens)
    }

    /// The byte of a character, looked for from the place of its number on.
    #[inline]
    fn code(&mut self, character: char) -> Option<u8> {
        let mine = u64::from(self.pair) << 32 | u64::from(character);
        let first = character as usize % Self::FREE;
        for place in (first..Self::FREE).chain(0..first) {
            let owner = &mut self.owners[place];
            let is_free = *owner >> 32 != u64::from(self.pair);
            *owner = select_unpredictable(is_free, mine, *owner);
            if *owner == mine {
                return Some(128 + place as u8);
            }
        }
        None
    }
}
