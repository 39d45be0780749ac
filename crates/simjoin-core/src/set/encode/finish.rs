//! The end of encoding: one collection from the rows that several encoders have read.

use std::mem::size_of;

use crate::engine::{FinishContext, KeyDictionary};
use crate::error::Result;
use crate::memory::Memory;
use crate::set::collection::SetCollection;
use crate::set::encode::arrange::GatheredSets;
use crate::set::encode::builder::BuildEncoder;
use crate::set::encode::distinct::SetSlot;
use crate::set::encode::merge::EncodedParts;
use crate::set::encode::probe_encoder::ProbeEncoder;
use crate::set::encode::token_order::TokenOrder;
use crate::util::cancel::CancelFlag;
use crate::util::parallel::Threads;
use crate::values::dictionary::Dictionary;
use crate::values::table::Table;

/// A bound on the bytes that finishing these encoders reserves on top of those they hold; and the
/// part of it that may stay.
pub fn finish_growth(encoders: &[(&BuildEncoder, &KeyDictionary)]) -> (usize, usize) {
    let sum = |count: fn(&BuildEncoder) -> usize| encoders.iter().map(|(e, _)| count(e)).sum();
    let sets: usize = sum(|e| e.sets.len());
    let rows: usize = sum(|e| e.sets.set_of_row().len());
    let tokens: usize = sum(|e| e.sets.token_count());
    let distinct: usize = sum(|e| e.dictionary.len() as usize);
    let token_bytes = sum(|e| e.sets.token_bytes());
    let (mut merge, mut repeats) = (0, 0);
    if encoders.len() > 1 {
        let none = Dictionary::default();
        merge = none.adoption(encoders.iter().map(|(e, _)| &e.dictionary))
            + none.adoption(encoders.iter().map(|(_, keys)| &keys.keys));
        repeats = 3 * sets * size_of::<u32>() + Table::<SetSlot>::bytes(sets);
    }
    let maps = distinct * size_of::<u32>();
    // All counters together have no more entries than there are tokens.
    let order = (tokens + distinct) * size_of::<u32>() + TokenOrder::footprint(distinct, tokens);
    let collection = GatheredSets::collection_bytes(sets, rows, tokens, token_bytes);
    let kept = SetCollection::MOST_FREQUENCIES.min(distinct) * size_of::<u32>();
    (merge + maps + repeats + order.max(collection) + kept, merge)
}

/// Merges the rows that several encoders have read, each with its own keys, and orders tokens and
/// sets. The result does not depend on which encoder has read which rows, nor on the number of
/// threads.
pub fn finish(
    encoders: Vec<(BuildEncoder, KeyDictionary)>,
    context: &FinishContext<'_>,
) -> Result<(SetCollection, ProbeEncoder, KeyDictionary)> {
    let tokenizer = encoders.first().and_then(|(encoder, _)| encoder.tokenizers.probe);
    let mut parts = EncodedParts::of(encoders);
    context.reserve(parts.size_in_bytes() + parts.merge_growth())?;
    // Threads that merge together need more memory than one does.
    let parallel = parts.size_in_bytes() + parts.merge_growth().max(parts.union_growth(context));
    let threads = match context.reserve(parallel) {
        Ok(()) => context.threads,
        Err(_) => context.threads.at_most(1),
    };
    let kept = context.meets_others;
    let mut dictionary = parts.merge_tokens(kept, threads, context.cancel)?;
    let keys = parts.merge_keys(threads, context.cancel)?;
    let mut held = dictionary.size() + keys.size_in_bytes() + parts.size_in_bytes();
    context.reserve(held + parts.repeats_growth())?;
    parts.find_repeats(context)?;
    held = dictionary.size() + keys.size_in_bytes() + parts.size_in_bytes();
    let universe = dictionary.len();
    let counters = parts.counters(context.threads, universe);
    let ordering = TokenOrder::footprint(universe as usize, parts.token_count());
    context
        .reserve(held + (counters.count() + 1) * universe as usize * size_of::<u32>() + ordering)?;
    let frequencies = parts.frequencies(universe, counters, context.cancel)?;
    let order = TokenOrder::by_frequency(&frequencies, context.threads)?;
    let last = order.last(&frequencies, SetCollection::MOST_FREQUENCIES);
    let ranks = order.into_ranks();
    drop(frequencies);
    context.cancel.check()?;
    let marks = parts.mark_bytes(universe, context.threads);
    context.reserve(held + ranks.len() * size_of::<u32>() + marks)?;
    parts.map_to_ranks(&ranks, marks > 0, context)?;
    dictionary.map_ids(&ranks, context.threads)?;
    drop(ranks);
    let gathered = GatheredSets { frequencies: last, ..parts.into_gathered() };
    held = dictionary.size() + keys.size_in_bytes() + gathered.size_in_bytes();
    context.reserve(held + gathered.collection_growth())?;
    let collection = gathered.into_collection(universe, context.threads, context.cancel)?;
    let encoder = ProbeEncoder::new(dictionary, tokenizer);
    context.reserve(encoder.size_in_bytes() + keys.size_in_bytes() + collection.size_in_bytes())?;
    Ok((collection, encoder, keys))
}

impl BuildEncoder {
    /// Orders tokens and sets. `reservation` holds the result afterwards, on top of `base`; `peak`
    /// is called whenever it has grown.
    pub fn finish(
        self,
        reservation: &dyn Memory,
        base: usize,
        peak: &dyn Fn(),
        cancel: &CancelFlag,
    ) -> Result<(SetCollection, ProbeEncoder)> {
        let context = FinishContext {
            reservation,
            base,
            peak,
            cancel,
            threads: Threads::ONE,
            meets_others: true,
            self_join: false,
            probe: None,
        };
        let (sets, encoder, _) = finish(vec![(self, KeyDictionary::default())], &context)?;
        Ok((sets, encoder))
    }
}
