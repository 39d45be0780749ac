//! Sets of text and binary tokens, row by row, and the size of the intersection of two.
//!
//! Each side sorts one row at a time into a buffer of its own, so that a row costs no allocation.
//! Tokens become [`ByteKey`]s: their order is total and equal keys are equal tokens, which makes
//! the merge exact.

use std::cmp::Ordering;
use std::ops::Range;

use arrow::array::ArrayRef;
use arrow::buffer::NullBuffer;
use datafusion::common::Result;

use super::columns::ListColumn;
use super::scores::values;
use crate::set::Measure;
use crate::values::{Tokens, with_byte_tokens};

/// The values of `measure` for `rows` pairs of lists of text or binary, or of NULL type.
pub(super) fn compare(
    measure: Measure,
    a: &ListColumn,
    b: &ListColumn,
    rows: usize,
) -> Result<ArrayRef> {
    let (tokens_a, tokens_b) = (TokenColumn::try_new(a)?, TokenColumn::try_new(b)?);
    let (mut a, mut b) = (RowSet::new(&tokens_a), RowSet::new(&tokens_b));
    values(measure, rows, |row| {
        if !(a.advance(row) && b.advance(row)) {
            return Ok(None);
        }
        Ok(Some((a.overlap(&b), a.size(), b.size())))
    })
}

/// A list column with its tokens.
struct TokenColumn<'a> {
    lists: &'a ListColumn,
    tokens: Tokens,
    /// The validity of `tokens`, when any of them is NULL.
    nulls: Option<NullBuffer>,
}

impl<'a> TokenColumn<'a> {
    fn try_new(lists: &'a ListColumn) -> Result<Self> {
        let tokens = Tokens::try_new(lists.elements())?;
        let nulls = tokens.nulls().filter(|n| n.null_count() > 0).cloned();
        Ok(Self { lists, tokens, nulls })
    }

    /// Whether two ranges of tokens surely hold the same values. `false` is always safe.
    #[inline]
    fn is_repetition(&self, before: &Range<usize>, now: &Range<usize>) -> bool {
        if before == now {
            return true;
        }
        if before.len() != now.len() || self.nulls.is_some() {
            return false;
        }
        with_byte_tokens!(&self.tokens, a => {
            before.clone().zip(now.clone()).all(|(i, j)| a.value(i) == a.value(j))
        }, else true)
    }

    /// Appends the keys of the tokens in `range` that are not NULL.
    #[inline]
    fn read<'k>(&'k self, range: Range<usize>, keys: &mut Vec<ByteKey<'k>>) {
        let nulls = self.nulls.as_ref();
        // A list of NULL type is empty.
        with_byte_tokens!(&self.tokens, a => {
            let valid = range.filter(|&i| nulls.is_none_or(|n| n.is_valid(i)));
            keys.extend(valid.map(|i| ByteKey::new(AsRef::<[u8]>::as_ref(a.value(i)))));
        }, else {});
    }
}

/// Text or binary, ordered by its bytes.
///
/// The first eight bytes, padded with zeros, decide nearly every comparison without a look at
/// the bytes behind the pointer.
#[derive(Clone, Copy)]
struct ByteKey<'a> {
    prefix: u64,
    bytes: &'a [u8],
}

impl<'a> ByteKey<'a> {
    #[inline]
    fn new(bytes: &'a [u8]) -> Self {
        let prefix = match bytes.first_chunk() {
            Some(eight) => u64::from_be_bytes(*eight),
            None if bytes.is_empty() => 0,
            None => {
                let packed = bytes.iter().fold(0, |p, &b| p << 8 | u64::from(b));
                packed << (8 * (8 - bytes.len()))
            }
        };
        Self { prefix, bytes }
    }
}

impl Ord for ByteKey<'_> {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.prefix.cmp(&other.prefix).then_with(|| {
            if self.bytes.len() <= 8 && other.bytes.len() <= 8 {
                // They differ in trailing zero bytes at most.
                self.bytes.len().cmp(&other.bytes.len())
            } else {
                self.bytes.cmp(other.bytes)
            }
        })
    }
}

impl PartialOrd for ByteKey<'_> {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ByteKey<'_> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for ByteKey<'_> {}

/// One side of a comparison: a column and the set of the row it stands at.
struct RowSet<'a> {
    column: &'a TokenColumn<'a>,
    /// The tokens of the row in ascending order, without repetitions.
    keys: Vec<ByteKey<'a>>,
    /// The range that `keys` was read from.
    current: Option<Range<usize>>,
}

impl<'a> RowSet<'a> {
    fn new(column: &'a TokenColumn<'a>) -> Self {
        Self { column, keys: Vec::new(), current: None }
    }

    /// Reads row `row`; false when its list is NULL.
    ///
    /// A row equal to the one read before costs a comparison only: scalars, and the side of a
    /// nested-loop join that stands still, are sorted once.
    #[inline]
    fn advance(&mut self, row: usize) -> bool {
        let Some(range) = self.column.lists.row(row) else {
            return false;
        };
        let repeated =
            self.current.as_ref().is_some_and(|before| self.column.is_repetition(before, &range));
        if !repeated {
            self.keys.clear();
            self.column.read(range.clone(), &mut self.keys);
            if !self.keys.is_sorted_by(|x, y| x < y) {
                self.keys.sort_unstable();
                self.keys.dedup();
            }
            self.current = Some(range);
        }
        true
    }

    /// The number of distinct tokens of the current row.
    #[inline]
    fn size(&self) -> u64 {
        self.keys.len() as u64
    }

    /// The number of tokens that the current rows have in common.
    #[inline]
    fn overlap(&self, other: &RowSet<'_>) -> u64 {
        intersection_size(&self.keys, &other.keys)
    }
}

/// From this ratio of sizes on, looking up the tokens of the smaller set beats a merge.
const LOOKUP_RATIO: usize = 32;

/// The number of common elements of two ascending slices without repetitions.
#[inline]
fn intersection_size(a: &[ByteKey<'_>], b: &[ByteKey<'_>]) -> u64 {
    let (small, large) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    if large.len() / LOOKUP_RATIO > small.len() {
        return lookup_size(small, large);
    }
    let (mut i, mut j, mut common) = (0, 0, 0);
    while i < small.len() && j < large.len() {
        let order = small[i].cmp(&large[j]);
        common += u64::from(order == Ordering::Equal);
        i += usize::from(order != Ordering::Greater);
        j += usize::from(order != Ordering::Less);
    }
    common
}

fn lookup_size(small: &[ByteKey<'_>], mut large: &[ByteKey<'_>]) -> u64 {
    let mut common = 0;
    for key in small {
        let at = large.partition_point(|k| k < key);
        large = &large[at..];
        common += u64::from(large.first() == Some(key));
    }
    common
}
