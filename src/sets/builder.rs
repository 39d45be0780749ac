//! From list columns to set collections: the build side, which makes the dictionary, and probe
//! batches, which use it.

use std::ops::Range;

use datafusion::arrow::array::{Array, BooleanArray};
use datafusion::common::{Result, exec_err};
use datafusion::execution::memory_pool::MemoryReservation;

use super::collection::SetCollection;
use super::dictionary::Dictionary;
use super::distinct::DistinctSets;
use super::keys::Keys;
use super::lists::Lists;
use super::token_order::TokenOrder;
use super::tokens::{Tokens, token_bytes, with_byte_tokens};
use crate::cancel::CancelFlag;
use crate::measure::MAX_SET_SIZE;

/// Tokens that memory is reserved for at a time.
const TOKENS_AHEAD: usize = 1 << 14;

/// The rows of one batch as the join sees them.
pub struct EncodeInput<'a> {
    /// The list argument.
    pub lists: &'a dyn Array,
    /// The blocking key of each row; NULL matches nothing. `None` when the join has no key.
    pub keys: Option<Keys<'a>>,
    /// Rows that may match at all; NULL counts as false.
    pub filter: Option<&'a BooleanArray>,
}

impl EncodeInput<'_> {
    fn may_match(&self, row: usize) -> bool {
        self.filter.is_none_or(|f| f.is_valid(row) && f.value(row))
    }
}

/// Tokens of a batch, restricted to the elements that its rows cover.
struct BatchTokens {
    lists: Lists,
    tokens: Tokens,
    /// Subtracted from element positions, because only the covered elements were converted.
    base: usize,
    /// The covered elements and, for text and binary, their bytes (at most).
    count: usize,
    bytes: usize,
}

impl BatchTokens {
    fn try_new(array: &dyn Array) -> Result<Self> {
        let lists = Lists::try_new(array)?;
        let covered = lists.covered();
        let elements = lists.elements().slice(covered.start, covered.len());
        let tokens = Tokens::try_new(&elements)?;
        let bytes = with_byte_tokens!(&tokens, array => {
            (0..array.len()).map(|i| token_bytes(array.value(i)).len()).sum()
        }, else 0);
        Ok(Self { lists, tokens, base: covered.start, count: covered.len(), bytes })
    }

    fn row(&self, row: usize) -> Option<Range<usize>> {
        let range = self.lists.row(row).filter(|r| !r.is_empty())?;
        Some(range.start - self.base..range.end - self.base)
    }
}

/// Collects the build side.
#[derive(Debug, Default)]
pub struct BuildEncoder {
    dictionary: Dictionary,
    sets: DistinctSets,
    ids: Vec<u32>,
    rows: usize,
}

impl BuildEncoder {
    /// Adds the rows of a batch. `reservation` holds what this encoder allocates, on top of
    /// `base` bytes of other things.
    pub fn push(
        &mut self,
        input: &EncodeInput<'_>,
        keys: &mut super::keys::KeyDictionary,
        reservation: &MemoryReservation,
        base: usize,
    ) -> Result<()> {
        let batch = BatchTokens::try_new(input.lists)?;
        let rows = batch.lists.len();
        // Reserved for this many tokens ahead: for a whole batch, the worst case (every token a
        // new one) would be far from what is used.
        let mut tokens_left = 0;
        for row in 0..rows {
            let tokens = batch.row(row).map_or(0, |r| r.len());
            if row == 0 || tokens > tokens_left {
                tokens_left = tokens.max(TOKENS_AHEAD);
                reservation.try_resize(
                    base + self.size_in_bytes()
                        + keys.size_in_bytes()
                        + self.dictionary.growth(tokens_left, batch.bytes)
                        + self.sets.growth(rows - row, tokens_left),
                )?;
            }
            tokens_left -= tokens;
            let key = match &input.keys {
                Some(batch_keys) => keys.insert(batch_keys, row)?,
                None => Some(0),
            };
            let (Some(key), true, Some(range)) = (key, input.may_match(row), batch.row(row)) else {
                self.sets.push_setless()?;
                continue;
            };
            self.ids.clear();
            self.dictionary.encode(&batch.tokens, range, &mut self.ids)?;
            sort_distinct(&mut self.ids)?;
            match self.ids.is_empty() {
                true => self.sets.push_setless()?,
                false => self.sets.push(key, &self.ids, 0)?,
            }
        }
        self.rows += rows;
        reservation.try_resize(base + self.size_in_bytes() + keys.size_in_bytes())
    }

    /// The number of rows added.
    pub fn row_count(&self) -> usize {
        self.rows
    }

    /// The bytes allocated.
    pub fn size_in_bytes(&self) -> usize {
        self.dictionary.size() + self.sets.size_in_bytes() + self.ids.capacity() * 4
    }

    /// Orders tokens and sets. `reservation` afterwards holds what is returned, on top of `base`;
    /// `peak` is called whenever it has grown.
    pub fn finish(
        mut self,
        reservation: &MemoryReservation,
        base: usize,
        peak: &dyn Fn(),
        cancel: &CancelFlag,
    ) -> Result<(SetCollection, ProbeEncoder)> {
        let universe = self.dictionary.len();
        let (ordering, kept) = TokenOrder::footprint(universe as usize);
        let frequencies = universe as usize * 4;
        reservation.try_resize(base + self.size_in_bytes() + frequencies + ordering)?;
        peak();
        let order = TokenOrder::by_frequency(&self.sets.frequencies(universe));
        cancel.check()?;
        // Every id comes from the dictionary, so that it has a rank.
        self.sets.map_tokens(|id| order.rank(id).unwrap_or(id), cancel)?;
        reservation
            .try_resize(base + self.size_in_bytes() + kept + self.sets.collection_growth())?;
        peak();
        let collection = self.sets.into_collection(universe, cancel)?;
        let encoder = ProbeEncoder { dictionary: self.dictionary, order };
        reservation.try_resize(base + encoder.size_in_bytes() + collection.size_in_bytes())?;
        Ok((collection, encoder))
    }
}

/// Encodes probe batches with the dictionary and the token order of the build side.
#[derive(Debug)]
pub struct ProbeEncoder {
    dictionary: Dictionary,
    order: TokenOrder,
}

/// Buffers that one probe partition reuses from batch to batch.
#[derive(Debug, Default)]
pub struct ProbeScratch {
    others: Option<Dictionary>,
    ids: Vec<u32>,
}

impl ProbeScratch {
    /// The bytes allocated.
    pub fn size_in_bytes(&self) -> usize {
        self.others.as_ref().map_or(0, Dictionary::size) + self.ids.capacity() * 4
    }
}

impl ProbeEncoder {
    /// The sets of a probe batch. `reservation` holds the scratch space and the collection, on
    /// top of `base` bytes of other things.
    pub fn encode(
        &self,
        input: &EncodeInput<'_>,
        keys: &super::keys::KeyDictionary,
        scratch: &mut ProbeScratch,
        reservation: &MemoryReservation,
        base: usize,
    ) -> Result<SetCollection> {
        let batch = BatchTokens::try_new(input.lists)?;
        let rows = batch.lists.len();
        let known = self.dictionary.len();
        let others = scratch.others.get_or_insert_with(|| Dictionary::starting_at(known));
        others.clear();
        let ids = &mut scratch.ids;
        let mut sets = DistinctSets::default();
        // The sets twice, because ordering them copies them.
        let working = 2 * sets.growth(rows, batch.count);
        let mut tokens_left = 0;
        for row in 0..rows {
            let tokens = batch.row(row).map_or(0, |r| r.len());
            if row == 0 || tokens > tokens_left {
                tokens_left = tokens.max(TOKENS_AHEAD);
                let others = others.size() + others.growth(tokens_left, batch.bytes);
                reservation.try_resize(base + working + others + ids.capacity() * 4)?;
            }
            tokens_left -= tokens;
            let key = match &input.keys {
                Some(batch_keys) => keys.find(batch_keys, row),
                None => Some(0),
            };
            let (Some(key), true, Some(range)) = (key, input.may_match(row), batch.row(row)) else {
                sets.push_setless()?;
                continue;
            };
            ids.clear();
            self.dictionary.encode_with(others, &batch.tokens, range, ids)?;
            // Ranks are below the number of known tokens, ids of unknown ones are not.
            ids.iter_mut().for_each(|id| *id = self.order.rank(*id).unwrap_or(*id));
            sort_distinct(ids)?;
            let split = ids.partition_point(|&id| id < known);
            match split {
                // Without a known token there is nothing to match.
                0 => sets.push_setless()?,
                _ => sets.push(key, &ids[..split], (ids.len() - split) as u32)?,
            }
        }
        let collection = sets.into_collection(known, &CancelFlag::default())?;
        reservation.try_resize(base + scratch.size_in_bytes() + collection.size_in_bytes())?;
        Ok(collection)
    }

    /// The number of distinct tokens of the build side.
    pub fn token_count(&self) -> u32 {
        self.dictionary.len()
    }

    /// The bytes allocated.
    pub fn size_in_bytes(&self) -> usize {
        self.dictionary.size() + self.order.len() * 4
    }
}

/// Sorts ids and drops repeats.
fn sort_distinct(ids: &mut Vec<u32>) -> Result<()> {
    if !ids.is_sorted_by(|a, b| a < b) {
        ids.sort_unstable();
        ids.dedup();
    }
    if ids.len() > MAX_SET_SIZE as usize {
        return exec_err!("a set of {} tokens is too large for a similarity join", ids.len());
    }
    Ok(())
}
