//! From list columns to sets over a dictionary that is there: probe batches.

use std::mem::size_of;

use crate::engine::{EncodeInput, KeyDictionary, KeyId};
use crate::error::Result;
use crate::memory::Memory;
use crate::set::collection::SetCollection;
use crate::set::encode::arrange::GatheredSets;
use crate::set::encode::ascending::Ascending;
use crate::set::encode::batch::{BatchTokens, Chunk, LocatedRows};
use crate::set::encode::distinct::{DistinctSets, SetHash, check_size};
use crate::set::encode::partners::{BuildSizes, LeastOverlaps};
use crate::util::cancel::CancelFlag;
use crate::util::parallel::Threads;
use crate::values::TextTokenizer;
use crate::values::byte_tokens::ByteTokens;
use crate::values::dictionary::{Dictionary, NO_ID};
use crate::values::text_tokens::{TextScratch, with_text_tokens};
use crate::values::tokens::{Tokens, with_byte_tokens};

/// Encodes probe batches with the dictionary of the build side, whose ids are ranks.
#[derive(Debug)]
pub struct ProbeEncoder {
    dictionary: Dictionary,
    /// The tokenizer of texts.
    tokenizer: Option<TextTokenizer>,
    /// The partners that probe sets need for a match, where they are known: other sets are left out.
    partners: Option<BuildSizes>,
}

/// Buffers that one probe partition reuses from batch to batch.
#[derive(Debug, Default)]
pub struct ProbeScratch {
    located: LocatedRows,
    ids: Vec<u32>,
    unknown: Vec<u32>,
    /// The sort of the tokens of a set, made for one build side.
    ascending: Option<Ascending>,
    overlaps: LeastOverlaps,
}

impl ProbeScratch {
    /// The bytes allocated.
    pub fn size_in_bytes(&self) -> usize {
        self.located.size_in_bytes()
            + (self.ids.capacity() + self.unknown.capacity()) * size_of::<u32>()
            + self.ascending.as_ref().map_or(0, Ascending::size_in_bytes)
            + self.overlaps.size_in_bytes()
    }
}

impl ProbeEncoder {
    pub fn new(dictionary: Dictionary, tokenizer: Option<TextTokenizer>) -> Self {
        Self { dictionary, tokenizer, partners: None }
    }

    /// The encoder without probe sets that can have no partner.
    pub(crate) fn meeting(self, partners: Option<BuildSizes>) -> Self {
        Self { partners, ..self }
    }

    /// The bytes of the marks that ordering the tokens of a set takes.
    pub fn scratch_bytes(&self) -> usize {
        Ascending::footprint(self.dictionary.len())
    }

    /// The sets of a probe batch. `reservation` holds the scratch space and the collection, on
    /// top of `base` bytes of other things.
    pub fn encode(
        &self,
        input: &EncodeInput<'_>,
        keys: &KeyDictionary,
        scratch: &mut ProbeScratch,
        reservation: &dyn Memory,
        base: usize,
    ) -> Result<SetCollection> {
        self.encode_rows(input, false, keys, scratch, reservation, base)
    }

    /// Encodes rows; where the rows `are_sets`, their lists have no token twice and no NULL elements.
    pub(crate) fn encode_rows(
        &self,
        input: &EncodeInput<'_>,
        are_sets: bool,
        keys: &KeyDictionary,
        scratch: &mut ProbeScratch,
        reservation: &dyn Memory,
        base: usize,
    ) -> Result<SetCollection> {
        let batch = BatchTokens::try_new(input.values, self.tokenizer)?;
        let rows = batch.len();
        let universe = self.dictionary.len();
        let ProbeScratch { located, ids, unknown, ascending, overlaps } = scratch;
        overlaps.start(self.partners);
        let mut sets = DistinctSets::default();
        let mut from = 0;
        let (mut elements, mut texts) = (0, 0);
        while from < rows {
            let Chunk { end: to, tokens, scratch, .. } = batch.chunk(from);
            elements = elements.max(tokens);
            texts = texts.max(scratch);
            // The sets twice, because ordering them copies them.
            let working = 2 * (sets.size_in_bytes() + sets.growth(to - from, tokens));
            let buffers = 5 * elements * size_of::<u32>() + LocatedRows::footprint(rows) + texts;
            let marks = Ascending::footprint(universe) + LeastOverlaps::FOOTPRINT;
            reservation.try_resize(base + working + buffers + marks)?;
            if ascending.as_ref().is_some_and(|other| other.universe() != universe) {
                *ascending = None;
            }
            let ascending = ascending.get_or_insert_with(|| Ascending::new(universe, true));
            let key_of = |row: usize| {
                let key = match &input.keys {
                    Some(batch_keys) => keys.find(batch_keys, row),
                    None => Some(0),
                };
                let may_match = |_: &KeyId| {
                    // Only their sizes tell, as long as no token has been looked up.
                    let admits = |size| overlaps.admit(size, size);
                    input.may_match(row) && (!are_sets || batch.size(row).is_none_or(admits))
                };
                Ok(key.filter(may_match))
            };
            batch.encode(from..to, key_of, &self.dictionary, located, ids)?;
            let mut start = 0;
            for (row, located) in (from..).zip(&located.rows) {
                let ids = &mut ids[start..located.end];
                start = located.end;
                let known = known_first(ids);
                if known == 0 || are_sets && !overlaps.admit(ids.len(), known) {
                    // With too few known tokens there is nothing to match.
                    check_size(ids.len())?;
                    sets.push_setless()?;
                    continue;
                }
                let unknown = match ids.len() - known {
                    count @ (0 | 1) => count,
                    count if are_sets => count,
                    _ => self.count_unknown(&batch, row, unknown),
                };
                let known = ascending.sort(&mut ids[..known]);
                check_size(known + unknown)?;
                if !overlaps.admit(known + unknown, known) {
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
        let gathered = GatheredSets::of_one(sets);
        let collection = gathered.into_collection(
            self.dictionary.len(),
            Threads::ONE,
            &CancelFlag::default(),
        )?;
        reservation.try_resize(base + scratch.size_in_bytes() + collection.size_in_bytes())?;
        Ok(collection)
    }

    /// The number of a row's distinct tokens that the dictionary does not know.
    fn count_unknown(&self, batch: &BatchTokens, row: usize, positions: &mut Vec<u32>) -> usize {
        positions.clear();
        let lists = match batch {
            BatchTokens::Lists(lists) => lists,
            BatchTokens::Texts(texts, tokenizer) => {
                let mut scratch = TextScratch::default();
                let Some(text) = texts.value(row) else { return 0 };
                return with_text_tokens!(tokenizer.tokens(text, &mut scratch), tokens => {
                    let unknown = |i: &u32| self.dictionary.find(tokens.bytes(*i as usize)).is_none();
                    positions.extend((0..tokens.count() as u32).filter(unknown));
                    distinct(positions, |i| tokens.bytes(i as usize))
                });
            }
        };
        let Some(range) = lists.row(row) else { return 0 };
        let tokens = lists.tokens();
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

/// The number of different tokens at some positions, which are put in order.
fn distinct<T: Ord>(positions: &mut Vec<u32>, token: impl Fn(u32) -> T) -> usize {
    positions.sort_unstable_by_key(|&i| token(i));
    positions.dedup_by_key(|i| token(*i));
    positions.len()
}

/// Moves the ids of known tokens to the front; how many there are.
fn known_first(ids: &mut [u32]) -> usize {
    let mut known = 0;
    for i in 0..ids.len() {
        let id = ids[i];
        ids[known] = id;
        known += usize::from(id != NO_ID);
    }
    known
}
