//! A list column as a stream of sorted sets, and the size of the intersection of two sets.
//!
//! Each side sorts one row at a time into a buffer of its own, so that a row costs no
//! allocation. Integers become `u64` keys, text and binary [`ByteKey`]s: both orders are total
//! and equal keys are equal tokens, which makes the merge exact.

use std::cmp::Ordering;
use std::ops::Range;

use arrow::array::Array;
use arrow::buffer::NullBuffer;
use datafusion::common::Result;

use crate::values::{Lists, Tokens, with_byte_tokens};

/// A list column (or, for a scalar, a single row that stands for every row).
pub(super) struct ListColumn {
    lists: Lists,
    tokens: Tokens,
    /// The validity of `tokens`, when any of them is NULL.
    nulls: Option<NullBuffer>,
    /// The index of `tokens`' first element among the elements of `lists`.
    base: usize,
    constant: bool,
}

impl ListColumn {
    /// Reads `array`; with `constant`, its row 0 stands for every row.
    pub(super) fn try_new(array: &dyn Array, constant: bool) -> Result<Self> {
        let lists = Lists::try_new(array)?;
        // A slice of a large array shares all of its elements: widen and unpack its own only.
        let covered = lists.covered();
        let tokens = Tokens::try_new(&lists.elements().slice(covered.start, covered.len()))?;
        let nulls = tokens.nulls().filter(|n| n.null_count() > 0).cloned();
        Ok(Self { lists, tokens, nulls, base: covered.start, constant })
    }

    /// Whether the tokens are signed integers, `None` when they are no integers.
    pub(super) fn is_signed(&self) -> Option<bool> {
        match self.tokens {
            Tokens::Signed(_) => Some(true),
            Tokens::Unsigned(_) => Some(false),
            _ => None,
        }
    }

    /// The range of row `row` in `tokens`, `None` for a NULL list.
    #[inline]
    fn row(&self, row: usize) -> Option<Range<usize>> {
        let range = self.lists.row(if self.constant { 0 } else { row })?;
        // The offset of an empty list may lie anywhere, outside the covered range too.
        if range.is_empty() {
            return Some(0..0);
        }
        Some(range.start - self.base..range.end - self.base)
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
        match &self.tokens {
            Tokens::Null => true,
            Tokens::Signed(a) => a.values()[before.clone()] == a.values()[now.clone()],
            Tokens::Unsigned(a) => a.values()[before.clone()] == a.values()[now.clone()],
            bytes => with_byte_tokens!(bytes, a => {
                before.clone().zip(now.clone()).all(|(i, j)| a.value(i) == a.value(j))
            }, else false),
        }
    }
}

/// A key that stands for a token: equal keys are equal tokens.
pub(super) trait TokenKey: Copy + Ord {}

impl TokenKey for u64 {}
impl TokenKey for ByteKey<'_> {}

/// Turns the rows of a column into keys, in any order, repeated as the row repeats them.
pub(super) trait KeyReader<K> {
    /// Appends the keys of the tokens in `range` that are not NULL.
    fn read(&self, range: Range<usize>, keys: &mut Vec<K>);

    /// Removes from sorted distinct `keys` those that no set of the other side can hold, and
    /// says how many they were.
    fn drop_unmatchable(&self, _keys: &mut Vec<K>) -> u64 {
        0
    }
}

/// Flips the order of `i64` bits into that of `u64`.
const SIGN: u64 = 1 << 63;

/// Reads integer tokens as `u64` keys, whose order is that of the values.
pub(super) struct Integers<'a> {
    column: &'a ListColumn,
    /// The other side is unsigned while this one is signed: negative tokens match nothing, the
    /// others become plain values.
    beside_unsigned: bool,
}

impl<'a> Integers<'a> {
    pub(super) fn new(column: &'a ListColumn, other: &ListColumn) -> Self {
        let beside_unsigned = column.is_signed() == Some(true) && other.is_signed() == Some(false);
        Self { column, beside_unsigned }
    }
}

impl KeyReader<u64> for Integers<'_> {
    #[inline]
    fn read(&self, range: Range<usize>, keys: &mut Vec<u64>) {
        match (&self.column.tokens, &self.column.nulls) {
            (Tokens::Signed(a), None) => {
                keys.extend(a.values()[range].iter().map(|&v| v as u64 ^ SIGN));
            }
            (Tokens::Unsigned(a), None) => keys.extend_from_slice(&a.values()[range]),
            (Tokens::Signed(a), Some(nulls)) => {
                let valid = range.filter(|&i| nulls.is_valid(i));
                keys.extend(valid.map(|i| a.values()[i] as u64 ^ SIGN));
            }
            (Tokens::Unsigned(a), Some(nulls)) => {
                keys.extend(range.filter(|&i| nulls.is_valid(i)).map(|i| a.values()[i]));
            }
            // A list of NULL type is empty; other tokens are read as `Bytes`.
            _ => {}
        }
    }

    #[inline]
    fn drop_unmatchable(&self, keys: &mut Vec<u64>) -> u64 {
        if !self.beside_unsigned {
            return 0;
        }
        let negative = keys.partition_point(|&k| k < SIGN);
        keys.drain(..negative);
        keys.iter_mut().for_each(|k| *k ^= SIGN);
        negative as u64
    }
}

/// Text or binary, ordered by its bytes.
///
/// The first eight bytes, padded with zeros, decide nearly every comparison without a look at
/// the bytes behind the pointer.
#[derive(Clone, Copy)]
pub(super) struct ByteKey<'a> {
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

/// Reads text and binary tokens of every layout.
pub(super) struct Bytes<'a>(pub(super) &'a ListColumn);

impl<'a> KeyReader<ByteKey<'a>> for Bytes<'a> {
    #[inline]
    fn read(&self, range: Range<usize>, keys: &mut Vec<ByteKey<'a>>) {
        let nulls = self.0.nulls.as_ref();
        let column: &'a ListColumn = self.0;
        with_byte_tokens!(&column.tokens, a => {
            let valid = range.filter(|&i| nulls.is_none_or(|n| n.is_valid(i)));
            keys.extend(valid.map(|i| ByteKey::new(AsRef::<[u8]>::as_ref(a.value(i)))));
        }, else {});
    }
}

/// One side of a comparison: a column and the set of the row it stands at.
pub(super) struct Side<'a, K, R> {
    column: &'a ListColumn,
    reader: R,
    /// The tokens of the row in ascending order, without repetitions.
    keys: Vec<K>,
    /// Distinct tokens that `keys` leaves out because the other side cannot hold them.
    unmatchable: u64,
    /// The range that `keys` was read from.
    current: Option<Range<usize>>,
}

impl<'a, K: TokenKey, R: KeyReader<K>> Side<'a, K, R> {
    pub(super) fn new(column: &'a ListColumn, reader: R) -> Self {
        Self { column, reader, keys: Vec::new(), unmatchable: 0, current: None }
    }

    /// Reads row `row`; false when its list is NULL.
    ///
    /// A row equal to the one read before costs a comparison only: scalars, and the side of a
    /// nested-loop join that stands still, are sorted once.
    #[inline]
    pub(super) fn advance(&mut self, row: usize) -> bool {
        let Some(range) = self.column.row(row) else {
            return false;
        };
        let repeated =
            self.current.as_ref().is_some_and(|before| self.column.is_repetition(before, &range));
        if !repeated {
            self.keys.clear();
            self.reader.read(range.clone(), &mut self.keys);
            if !self.keys.is_sorted_by(|x, y| x < y) {
                self.keys.sort_unstable();
                self.keys.dedup();
            }
            self.unmatchable = self.reader.drop_unmatchable(&mut self.keys);
            self.current = Some(range);
        }
        true
    }

    /// The number of distinct tokens of the current row.
    #[inline]
    pub(super) fn size(&self) -> u64 {
        self.keys.len() as u64 + self.unmatchable
    }

    /// How many tokens the current rows have in common.
    #[inline]
    pub(super) fn overlap<S: KeyReader<K>>(&self, other: &Side<'_, K, S>) -> u64 {
        intersection_size(&self.keys, &other.keys)
    }
}

/// From this ratio of sizes on, looking up the tokens of the smaller set beats a merge.
const LOOKUP_RATIO: usize = 32;

/// The number of common elements of two ascending slices without repetitions.
#[inline]
fn intersection_size<K: TokenKey>(a: &[K], b: &[K]) -> u64 {
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

fn lookup_size<K: TokenKey>(small: &[K], mut large: &[K]) -> u64 {
    let mut common = 0;
    for key in small {
        let at = large.partition_point(|k| k < key);
        large = &large[at..];
        common += u64::from(large.first() == Some(key));
    }
    common
}
