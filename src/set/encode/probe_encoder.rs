//! From list columns to sets over a dictionary that is there: probe batches.

use std::mem::size_of;

use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use crate::engine::EncodeInput;
use crate::engine::KeyDictionary;
use crate::set::collection::SetCollection;
use crate::set::encode::arrange::Gathered;
use crate::set::encode::batch::{BatchTokens, LocatedRows};
use crate::set::encode::builder::check_size;
use crate::set::encode::distinct::{DistinctSets, SetHash};
use crate::util::cancel::CancelFlag;
use crate::values::byte_tokens::ByteTokens;
use crate::values::dictionary::{Dictionary, NO_ID};
use crate::values::tokens::{Tokens, with_byte_tokens};

/// Encodes probe batches with the dictionary of the build side, whose ids are ranks.
#[derive(Debug)]
pub struct ProbeEncoder {
    dictionary: Dictionary,
}

/// Buffers that one probe partition reuses from batch to batch.
#[derive(Debug, Default)]
pub struct ProbeScratch {
    located: LocatedRows,
    ids: Vec<u32>,
    unknown: Vec<u32>,
}

impl ProbeScratch {
    /// The bytes allocated.
    pub fn size_in_bytes(&self) -> usize {
        self.located.size_in_bytes()
            + (self.ids.capacity() + self.unknown.capacity()) * size_of::<u32>()
    }
}

impl ProbeEncoder {
    pub(crate) fn new(dictionary: Dictionary) -> Self {
        Self { dictionary }
    }

    /// The sets of a probe batch. `reservation` holds the scratch space and the collection, on
    /// top of `base` bytes of other things.
    pub fn encode(
        &self,
        input: &EncodeInput<'_>,
        keys: &KeyDictionary,
        scratch: &mut ProbeScratch,
        reservation: &MemoryReservation,
        base: usize,
    ) -> Result<SetCollection> {
        let batch = BatchTokens::try_new(input.values)?;
        let rows = batch.len();
        let ProbeScratch { located, ids, unknown } = scratch;
        let mut sets = DistinctSets::default();
        let mut from = 0;
        let mut elements = 0;
        while from < rows {
            let (to, tokens) = batch.chunk(from);
            elements = elements.max(tokens);
            // The sets twice, because ordering them copies them.
            let working = 2 * (sets.size_in_bytes() + sets.growth(to - from, tokens));
            let buffers = 4 * elements * size_of::<u32>() + LocatedRows::footprint(rows);
            reservation.try_resize(base + working + buffers)?;
            let key_of = |row: usize| {
                let key = match &input.keys {
                    Some(batch_keys) => keys.find(batch_keys, row),
                    None => Some(0),
                };
                Ok(key.filter(|_| input.may_match(row)))
            };
            batch.locate(from..to, key_of, located)?;
            ids.clear();
            for range in &located.ranges {
                self.dictionary.find_all(batch.tokens(), range.clone(), ids);
            }
            let mut start = 0;
            for (row, located) in (from..).zip(&located.rows) {
                let ids = &mut ids[start..located.end];
                start = located.end;
                ids.sort_unstable();
                // Unknown tokens come last.
                let known = ids.partition_point(|&id| id != NO_ID);
                let unknown = match ids.len() - known {
                    count @ (0 | 1) => count,
                    _ => self.count_unknown(&batch, row, unknown),
                };
                let known = drop_repeats(&mut ids[..known]);
                check_size(known + unknown)?;
                if known == 0 {
                    // Without a known token there is nothing to match.
                    sets.push_setless()?;
                    continue;
                }
                let set = &ids[..known];
                let mut hash = SetHash::default();
                set.iter().for_each(|&id| hash.add(id));
                let (key, unknown) = (located.key, unknown as u32);
                sets.push(key, set, unknown, hash.finish(key, unknown), |stored| stored == set)?;
            }
            from = to;
        }
        let gathered = Gathered::of_one(sets);
        let collection =
            gathered.into_collection(self.dictionary.len(), 1, &CancelFlag::default())?;
        reservation.try_resize(base + scratch.size_in_bytes() + collection.size_in_bytes())?;
        Ok(collection)
    }

    /// How many distinct tokens of a row the dictionary does not know.
    fn count_unknown(&self, batch: &BatchTokens, row: usize, positions: &mut Vec<u32>) -> usize {
        let Some(range) = batch.row(row) else { return 0 };
        let tokens = batch.tokens();
        positions.clear();
        let mut id = vec![];
        for i in range {
            if tokens.nulls().is_some_and(|n| n.is_null(i)) {
                continue;
            }
            id.clear();
            self.dictionary.find_all(tokens, i..i + 1, &mut id);
            if id.first() == Some(&NO_ID) {
                positions.push(i as u32);
            }
        }
        fn distinct<T: Ord>(positions: &mut Vec<u32>, token: impl Fn(u32) -> T) -> usize {
            positions.sort_unstable_by_key(|&i| token(i));
            positions.dedup_by_key(|i| token(*i));
            positions.len()
        }
        match tokens {
            Tokens::Null => 0,
            Tokens::Signed(array) => distinct(positions, |i| array.value(i as usize)),
            Tokens::Unsigned(array) => distinct(positions, |i| array.value(i as usize)),
            bytes => with_byte_tokens!(bytes, array => {
                distinct(positions, |i| ByteTokens::bytes(array, i as usize))
            }, else 0),
        }
    }

    /// The number of distinct tokens of the build side.
    pub fn token_count(&self) -> u32 {
        self.dictionary.len()
    }

    /// The bytes allocated, with the values that the encoders of the build side shared.
    pub fn size_in_bytes(&self) -> usize {
        self.dictionary.size() + self.dictionary.shared_size()
    }
}

/// Moves the distinct ones of some ascending ids to the front; how many there are.
fn drop_repeats(ids: &mut [u32]) -> usize {
    let mut len = 0;
    for i in 0..ids.len() {
        if len == 0 || ids[len - 1] != ids[i] {
            ids[len] = ids[i];
            len += 1;
        }
    }
    len
}
