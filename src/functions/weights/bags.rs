//! The distinct tokens of each row, with what they amount to there.

use std::mem;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, DictionaryArray, NullBufferBuilder, UInt32Array, UInt64Array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::take;
use arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};

use super::sets;
use crate::functions::columns::ListColumn;
use crate::util::unpack::unpacked;
use crate::values::Tokens;
use crate::values::dictionary::Dictionary;

/// The distinct tokens of each row, in the order of their first appearance there, with an amount: the number of
/// their occurrences, or the sum of weights.
pub(super) struct Bags {
    /// The function in whose name errors are.
    name: &'static str,
    dictionary: Dictionary,
    /// By id, a position of the token among the elements.
    positions: Vec<u64>,
    /// By id, the number of entries up to the token's latest one, and 0 before it has one.
    latest: Vec<u32>,
    /// The ids of the tokens of an entry.
    ids: Vec<u32>,
    amounts: Vec<u32>,
    /// The number of entries before each row, and at the end.
    ends: Vec<i32>,
    valid: NullBufferBuilder,
    /// The ids of a row's elements.
    row: Vec<u32>,
}

impl Bags {
    pub(super) fn new(name: &'static str, rows: usize) -> Self {
        let mut ends = Vec::with_capacity(rows + 1);
        ends.push(0);
        Self {
            name,
            dictionary: Dictionary::default(),
            positions: vec![],
            latest: vec![],
            ids: vec![],
            amounts: vec![],
            ends,
            valid: NullBufferBuilder::new(rows),
            row: vec![],
        }
    }

    /// Counts the tokens of each of `rows` lists.
    pub(super) fn count(name: &'static str, lists: &ListColumn, rows: usize) -> Result<Self> {
        let mut bags = Self::new(name, rows);
        let tokens = Tokens::try_new(lists.elements())?;
        for row in 0..rows {
            match lists.row(row) {
                Some(range) => bags.push(&tokens, range, |_| Ok(Some(1)))?,
                None => bags.push_null(),
            }
        }
        Ok(bags)
    }

    pub(super) fn push_null(&mut self) {
        self.valid.append_null();
        self.ends.push(self.ends.last().copied().unwrap_or_default());
    }

    /// Adds a row with the tokens in `range`. `amount` tells the amount of the element at a place of the row,
    /// `None` for one to be left out.
    pub(super) fn push(
        &mut self,
        tokens: &Tokens,
        range: Range<usize>,
        amount: impl Fn(usize) -> Result<Option<u32>>,
    ) -> Result<()> {
        let mut row = mem::take(&mut self.row);
        row.clear();
        self.dictionary.encode(tokens, range.clone(), &mut row)?;
        self.latest.resize(self.dictionary.len() as usize, 0);
        match tokens.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => self.add(&row, 0..range.len(), range.start, amount)?,
            Some(nulls) => {
                let nulls = nulls.slice(range.start, range.len());
                self.add(&row, nulls.valid_indices(), range.start, amount)?;
            }
        }
        self.row = row;
        let Ok(end) = i32::try_from(self.ids.len()) else {
            return exec_err!(
                "{}: the rows have more than {} distinct tokens, each counted in every row, and a list column \
                 holds no more; divide the rows, for example by PARTITION BY or by a smaller \
                 datafusion.execution.batch_size",
                self.name,
                i32::MAX
            );
        };
        self.ends.push(end);
        self.valid.append_non_null();
        Ok(())
    }

    /// Adds the entries of a row whose elements have `ids` and lie at `places` behind the position `start`.
    #[inline]
    fn add(
        &mut self,
        ids: &[u32],
        places: impl Iterator<Item = usize>,
        start: usize,
        amount: impl Fn(usize) -> Result<Option<u32>>,
    ) -> Result<()> {
        let before = self.ids.len();
        for (&id, place) in ids.iter().zip(places) {
            // Ids are numbers in the order of appearance.
            if id as usize == self.positions.len() {
                self.positions.push((start + place) as u64);
            }
            let Some(amount) = amount(place)? else { continue };
            let latest = &mut self.latest[id as usize];
            if *latest as usize <= before {
                self.ids.push(id);
                self.amounts.push(amount);
                // Cut short only where the row ends with more entries than are allowed.
                *latest = self.ids.len() as u32;
                continue;
            }
            let sum = &mut self.amounts[*latest as usize - 1];
            let Some(more) = sum.checked_add(amount) else {
                return exec_err!(
                    "{}: the weights of a token in one row add up to {}, and the greatest weight is {}; divide \
                     the weights",
                    self.name,
                    u64::from(*sum) + u64::from(amount),
                    u32::MAX
                );
            };
            *sum = more;
        }
        Ok(())
    }

    /// The number of distinct tokens.
    pub(super) fn tokens(&self) -> usize {
        self.latest.len()
    }

    /// The ids of the tokens of all entries.
    pub(super) fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// The amounts of all entries.
    pub(super) fn amounts(&self) -> &[u32] {
        &self.amounts
    }

    /// The entries of each row that is not NULL.
    pub(super) fn rows(&self) -> impl Iterator<Item = Range<usize>> {
        let valid = |row: usize| self.valid.is_valid(row);
        let rows = self.ends.windows(2).enumerate().filter(move |(row, _)| valid(*row));
        rows.map(|(_, ends)| ends[0] as usize..ends[1] as usize)
    }

    /// The sets with the amounts as weights, with tokens of the elements' type.
    pub(super) fn into_sets(mut self, lists: &ListColumn) -> Result<ArrayRef> {
        let weights = mem::take(&mut self.amounts);
        let tokens = self.distinct(lists)?;
        self.with_weights(&tokens, weights, lists.element_type())
    }

    /// The sets with other weights, one for each entry. Text and binary tokens stand in a dictionary that all
    /// rows share.
    pub(super) fn into_shared_sets(
        self,
        lists: &ListColumn,
        weights: Vec<u32>,
    ) -> Result<ArrayRef> {
        let tokens = self.distinct(lists)?;
        let token = sets::shared_type(lists.element_type().clone());
        self.with_weights(&tokens, weights, &token)
    }

    /// The distinct tokens, by id.
    fn distinct(&self, lists: &ListColumn) -> Result<ArrayRef> {
        let positions = UInt64Array::from(self.positions.clone());
        let mut tokens = take(lists.elements(), &positions, None)?;
        while let DataType::Dictionary(_, values) = tokens.data_type() {
            tokens = unpacked(&tokens, values)?;
        }
        Ok(tokens)
    }

    fn with_weights(
        mut self,
        distinct: &ArrayRef,
        weights: Vec<u32>,
        token: &DataType,
    ) -> Result<ArrayRef> {
        let ids = UInt32Array::from(self.ids);
        let tokens: ArrayRef = match token {
            DataType::Dictionary(_, _) => {
                Arc::new(DictionaryArray::try_new(ids, Arc::clone(distinct))?)
            }
            _ => take(distinct, &ids, None)?,
        };
        let ends = OffsetBuffer::new(self.ends.into());
        sets::array_of(tokens, weights, ends, self.valid.finish())
    }
}
