//! One batch of rows on its way into sets.

use std::mem::size_of;
use std::ops::Range;

use arrow::array::Array;
use datafusion::common::Result;

use crate::engine::KeyId;
use crate::values::byte_tokens::ByteTokens;
use crate::values::lists::Lists;
use crate::values::tokens::{Tokens, with_byte_tokens};

/// Tokens that are encoded together, and that memory is reserved for at a time.
pub(crate) const TOKENS_AHEAD: usize = 1 << 14;
/// Rows that are encoded together, at most.
pub(crate) const ROWS_AHEAD: usize = 1 << 12;

/// Tokens of a batch, restricted to the elements that its rows cover.
pub(crate) struct BatchTokens {
    lists: Lists,
    tokens: Tokens,
    /// Subtracted from element positions, because only the covered elements were converted.
    base: usize,
    bytes: Option<usize>,
}

impl BatchTokens {
    pub(crate) fn try_new(array: &dyn Array) -> Result<Self> {
        let lists = Lists::try_new(array)?;
        let covered = lists.covered();
        let tokens = Tokens::try_new(&lists.elements().slice(covered.start, covered.len()))?;
        let bytes = with_byte_tokens!(&tokens, array => Some(array.total_bytes()), else None);
        Ok(Self { lists, tokens, base: covered.start, bytes })
    }

    /// The number of rows.
    pub(crate) fn len(&self) -> usize {
        self.lists.len()
    }

    pub(crate) fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// The bytes of text and binary tokens, at most; `None` where the tokens are integers.
    pub(crate) fn bytes(&self) -> Option<usize> {
        self.bytes
    }

    /// Where the tokens of a row are; `None` when it has none.
    #[inline]
    pub(crate) fn row(&self, row: usize) -> Option<Range<usize>> {
        let range = self.lists.row(row).filter(|r| !r.is_empty())?;
        Some(range.start - self.base..range.end - self.base)
    }

    /// The rows from `from` on that are encoded together, at least one of them: where they end,
    /// and how many elements they have.
    pub(crate) fn chunk(&self, from: usize) -> (usize, usize) {
        let end = self.len().min(from + ROWS_AHEAD);
        let mut count = 0;
        for row in from..end {
            let more = self.row(row).map_or(0, |r| r.len());
            if row > from && count + more > TOKENS_AHEAD {
                return (row, count);
            }
            count += more;
        }
        (end, count)
    }

    /// Looks up where the tokens of some rows are. `key_of` gives a row's blocking key, `None` for
    /// a row that cannot match.
    pub(crate) fn locate(
        &self,
        rows: Range<usize>,
        mut key_of: impl FnMut(usize) -> Result<Option<KeyId>>,
        located: &mut LocatedRows,
    ) -> Result<()> {
        located.rows.clear();
        located.ranges.clear();
        let nulls = self.tokens.nulls().filter(|n| n.null_count() > 0);
        let all_null = matches!(self.tokens, Tokens::Null);
        let mut end = 0;
        let mut waiting = 0..0;
        for row in rows {
            let key = key_of(row)?;
            if let (Some(_), false, Some(range)) = (key, all_null, self.row(row)) {
                end += match nulls {
                    None => range.len(),
                    Some(nulls) => range.len() - nulls.slice(range.start, range.len()).null_count(),
                };
                if range.start != waiting.end {
                    located.ranges.push(std::mem::replace(&mut waiting, range.clone()));
                }
                waiting.end = range.end;
            }
            located.rows.push(LocatedRow { key: key.unwrap_or(0), end });
        }
        located.ranges.push(waiting);
        Ok(())
    }
}

/// Rows whose tokens are encoded together.
#[derive(Debug, Default)]
pub(crate) struct LocatedRows {
    pub rows: Vec<LocatedRow>,
    /// The elements to encode, those of neighbouring rows in one range.
    pub ranges: Vec<Range<usize>>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct LocatedRow {
    pub key: KeyId,
    /// How many valid tokens end here, counted from the first row on.
    pub end: usize,
}

impl LocatedRows {
    /// The bytes allocated.
    pub(crate) fn size_in_bytes(&self) -> usize {
        self.rows.capacity() * size_of::<LocatedRow>()
            + self.ranges.capacity() * size_of::<Range<usize>>()
    }

    /// The bytes that rows at most [`ROWS_AHEAD`] at a time need.
    pub(crate) fn footprint(rows: usize) -> usize {
        rows.min(ROWS_AHEAD).next_power_of_two()
            * (size_of::<LocatedRow>() + size_of::<Range<usize>>())
    }
}
