//! The rows that several encoders have read, with common ids for their tokens and keys.
//!
//! Tokens get the ids that one encoder would have given them, reading all rows in order: the result
//! does not depend on which encoder has read which rows.

use std::mem::size_of;
use std::ops::Range;

use crate::engine::{FinishContext, KeyDictionary};
use crate::error::{Result, exec_err};
use crate::set::encode::arena::TokenRun;
use crate::set::encode::arrange::{GatheredSets, Stretch};
use crate::set::encode::ascending::Ascending;
use crate::set::encode::builder::BuildEncoder;
use crate::set::encode::distinct::{DistinctSets, NO_SET, SetHash, SetSlot};
use crate::set::encode::shares::InShares;
use crate::util::cancel::CancelFlag;
use crate::util::parallel::{Threads, filled, for_each, map, steps_per_task, threads_for};
use crate::values::dictionary::{Dictionary, DictionaryKey};
use crate::values::table::Table;

/// The steps of ranking a token and sorting it into its set.
const STEPS_PER_TOKEN: usize = 1 << 3;
/// The steps of looking a set up among others.
const STEPS_PER_SET: usize = 1 << 4;
/// Sets or tokens handled between two looks at the cancel flag.
const CHECK_EVERY: usize = 1 << 12;

/// The rows of the encoders, without the buffers that only reading needs.
pub(super) struct EncodedParts {
    gathered: GatheredSets,
    /// The dictionary of each part, until they have been merged.
    dictionaries: Vec<Dictionary>,
    keys: Vec<KeyDictionary>,
    /// Ids in the order in which one encoder would have given them: for each push, by row, its
    /// part and the ids of its new tokens and keys.
    news: Vec<New>,
    /// For each part, the merged id of each of its token ids; empty where these are the same.
    maps: Vec<Vec<u32>>,
}

#[derive(Debug, Clone)]
struct New {
    part: usize,
    tokens: Range<u32>,
    keys: Range<u32>,
}

impl EncodedParts {
    /// The rows of some encoders, each with its own keys.
    pub(super) fn of(mut encoders: Vec<(BuildEncoder, KeyDictionary)>) -> Self {
        // One encoder is needed; further ones without rows are not.
        let read = |(encoder, _): &(BuildEncoder, KeyDictionary)| encoder.row_count() > 0;
        match encoders.iter().position(read) {
            Some(_) => encoders.retain(read),
            None => encoders.truncate(1),
        }
        let mut news = vec![];
        let mut stretches = vec![];
        let mut starts = vec![0_u32];
        let (mut sets, mut dictionaries, mut keys) = (vec![], vec![], vec![]);
        for (part, (mut encoder, part_keys)) in encoders.into_iter().enumerate() {
            encoder.close();
            let (mut tokens, mut known_keys) = (0, 0);
            for push in &encoder.pushes {
                stretches.push(Stretch {
                    first_row: push.first_row,
                    part: part as u32,
                    start: push.start,
                    len: push.rows,
                });
                let tokens = std::mem::replace(&mut tokens, push.tokens)..push.tokens;
                let keys = std::mem::replace(&mut known_keys, push.keys)..push.keys;
                news.push((push.first_row, New { part, tokens, keys }));
            }
            starts.push(starts[part].saturating_add(encoder.sets.len() as u32));
            sets.push(encoder.sets);
            dictionaries.push(encoder.dictionary);
            keys.push(part_keys);
        }
        stretches.sort_unstable_by_key(|stretch| stretch.first_row);
        news.sort_unstable_by_key(|(first_row, _)| *first_row);
        Self {
            gathered: GatheredSets {
                parts: sets,
                starts,
                same_as: vec![],
                stretches,
                frequencies: vec![],
            },
            dictionaries,
            keys,
            news: news.into_iter().map(|(_, new)| new).collect(),
            maps: vec![],
        }
    }

    fn is_one(&self) -> bool {
        self.gathered.parts.len() <= 1
    }

    /// The tokens of the sets of all parts.
    pub(super) fn token_count(&self) -> usize {
        self.gathered.parts.iter().map(DistinctSets::token_count).sum()
    }

    /// The sets of all parts, without the maps of their tokens.
    pub(super) fn into_gathered(self) -> GatheredSets {
        self.gathered
    }

    /// Whether a token has the same id in all parts.
    fn share_ids(&self) -> bool {
        self.dictionaries.iter().all(Dictionary::is_of_values)
    }

    /// The bytes allocated.
    pub(super) fn size_in_bytes(&self) -> usize {
        self.gathered.size_in_bytes()
            + self.dictionaries.iter().map(Dictionary::size).sum::<usize>()
            + self.keys.iter().map(KeyDictionary::size_in_bytes).sum::<usize>()
            + self.maps.iter().map(|map| map.capacity() * size_of::<u32>()).sum::<usize>()
    }

    /// The bytes that merging dictionaries allocates.
    pub(super) fn merge_growth(&self) -> usize {
        if self.is_one() {
            return 0;
        }
        let keys = self.keys.iter().map(|keys| &keys.keys);
        let keys = Dictionary::default().adoption(keys);
        if self.share_ids() {
            return keys;
        }
        let tokens: usize = self.dictionaries.iter().map(|d| d.len() as usize).sum();
        tokens * size_of::<u32>() + Dictionary::default().adoption(self.dictionaries.iter()) + keys
    }

    /// The bytes that merging dictionaries by several threads allocates.
    pub(super) fn union_growth(&self, context: &FinishContext<'_>) -> usize {
        if self.is_one() || context.threads.count() == 1 {
            return 0;
        }
        let keys = self.keys.iter().map(|keys| &keys.keys);
        let keys = Dictionary::union_bytes(keys, context.threads);
        if self.share_ids() {
            return keys;
        }
        keys + Dictionary::union_bytes(self.dictionaries.iter(), context.threads)
    }

    /// One dictionary of all tokens, which are `kept` or only counted.
    pub(super) fn merge_tokens(
        &mut self,
        kept: bool,
        threads: Threads,
        cancel: &CancelFlag,
    ) -> Result<Dictionary> {
        let share_ids = self.share_ids();
        let mut dictionaries = std::mem::take(&mut self.dictionaries);
        if let Some(last) =
            dictionaries.last_mut().filter(|_| !kept && (self.is_one() || share_ids))
        {
            last.forget();
        }
        if self.is_one() {
            return Ok(dictionaries.pop().unwrap_or_default());
        }
        let sets: usize = self.gathered.parts.iter().map(DistinctSets::len).sum();
        if sets >= NO_SET as usize {
            return exec_err!("a side of a similarity join holds at most {NO_SET} sets");
        }
        if share_ids {
            return Ok(dictionaries.pop().unwrap_or_default());
        }
        let news = self.news.iter().map(|new| (new.part, new.tokens.clone())).collect();
        let (dictionary, maps) = merge(&dictionaries, news, kept, threads, cancel)?;
        self.maps = maps;
        Ok(dictionary)
    }

    /// One dictionary of all blocking keys, with their ids in the sets.
    pub(super) fn merge_keys(
        &mut self,
        threads: Threads,
        cancel: &CancelFlag,
    ) -> Result<KeyDictionary> {
        let mut keys = std::mem::take(&mut self.keys);
        if self.is_one() {
            return Ok(keys.pop().unwrap_or_default());
        }
        let keys: Vec<Dictionary> = keys.into_iter().map(|keys| keys.keys).collect();
        let news = self.news.iter().map(|new| (new.part, new.keys.clone())).collect();
        let (keys, maps) = merge(&keys, news, true, threads, cancel)?;
        let parts = self.gathered.parts.iter_mut().zip(&maps).collect();
        for_each(threads, parts, |(part, map): (&mut DistinctSets, _)| {
            part.map_keys(map);
            Ok(())
        })?;
        Ok(KeyDictionary { keys })
    }

    /// The bytes that [`Self::find_repeats`] allocates: hashes, shares and repeats of the sets, and
    /// tables.
    pub(super) fn repeats_growth(&self) -> usize {
        let sets = self.gathered.starts.last().map_or(0, |&sets| sets as usize);
        if self.is_one() { 0 } else { 3 * sets * size_of::<u32>() + Table::<SetSlot>::bytes(sets) }
    }

    /// Finds the sets that several parts hold.
    pub(super) fn find_repeats(&mut self, context: &FinishContext<'_>) -> Result<()> {
        if self.is_one() {
            return Ok(());
        }
        let sets = self.gathered.starts.last().map_or(0, |&sets| sets as usize);
        let mut hashes = filled(context.threads, sets, 0);
        let share = context.threads.least(CHECK_EVERY);
        let mut tasks = vec![];
        let mut rest = hashes.as_mut_slice();
        for (number, part) in self.gathered.parts.iter().enumerate() {
            let map = self.maps.get(number);
            let (own, others) = rest.split_at_mut(part.len());
            rest = others;
            let start = self.gathered.starts[number];
            for (i, hashes) in own.chunks_mut(share).enumerate() {
                tasks.push((part, map, start, (i * share) as u32, hashes));
            }
        }
        let tokens = self.token_count();
        let threads = threads_for(context.threads, STEPS_PER_SET * sets + tokens);
        let shared = map(threads, tasks, |(part, map, start, first, hashes)| {
            context.cancel.check()?;
            for (set, hash) in (first..).zip(hashes.iter_mut()) {
                let mut all = SetHash::default();
                part.tokens(set).iter().for_each(|&token| all.add(mapped(map, token)));
                *hash = all.finish(part.key(set), 0);
            }
            Ok(InShares::of(start + first, hashes, threads.count()))
        })?;
        let repeats = map(threads, (0..threads.count()).collect(), |share| {
            let mut found = vec![];
            let mut table = Table::<SetSlot>::default();
            let mut scratch = [vec![], vec![]];
            for sets in &shared {
                context.cancel.check()?;
                for &set in sets.share(share) {
                    let hash = hashes[set as usize];
                    let same = table.find(hash, |slot: &SetSlot| {
                        slot.hash == hash && self.is_same(slot.set, set, &mut scratch)
                    });
                    match same {
                        Some(slot) => found.push((set, slot.set)),
                        None => table.insert(SetSlot { hash, set }),
                    }
                }
            }
            Ok(found)
        })?;
        let mut same_as: Vec<u32> = (0..sets as u32).collect();
        repeats.into_iter().flatten().for_each(|(set, same)| same_as[set as usize] = same);
        self.gathered.same_as = same_as;
        Ok(())
    }

    /// Whether sets of two parts are the same.
    fn is_same(&self, a: u32, b: u32, scratch: &mut [Vec<u32>; 2]) -> bool {
        let (part_a, part_b) = (self.gathered.part_of(a), self.gathered.part_of(b));
        let ((sets_a, a), (sets_b, b)) = (self.gathered.locate(a), self.gathered.locate(b));
        let (tokens_a, tokens_b) = (sets_a.tokens(a), sets_b.tokens(b));
        // A part holds a set once.
        if part_a == part_b || tokens_a.len() != tokens_b.len() || sets_a.key(a) != sets_b.key(b) {
            return false;
        }
        let sides = [(part_a, tokens_a), (part_b, tokens_b)];
        for (scratch, (part, tokens)) in scratch.iter_mut().zip(sides) {
            scratch.clear();
            scratch.extend(tokens.iter().map(|&token| mapped(self.maps.get(part), token)));
        }
        let [a, b] = scratch;
        a == b || {
            a.sort_unstable();
            b.sort_unstable();
            a == b
        }
    }

    /// The number of threads that count tokens, each in counters of its own, such that the counters
    /// take little more memory than the sets.
    pub(super) fn counters(&self, threads: Threads, universe: u32) -> Threads {
        let tokens = self.token_count();
        threads_for(threads, tokens).at_most(tokens / (universe as usize).max(1))
    }

    /// In how many sets each token stands.
    pub(super) fn frequencies(
        &mut self,
        universe: u32,
        counters: Threads,
        cancel: &CancelFlag,
    ) -> Result<Vec<u32>> {
        let (starts, same_as) = (&self.gathered.starts, &self.gathered.same_as);
        let mut pieces = vec![];
        for (number, part) in self.gathered.parts.iter_mut().enumerate() {
            let pieces_of_part = part.pieces_mut().into_iter();
            pieces.extend(pieces_of_part.map(|(first, runs, tokens)| {
                (self.maps.get(number), starts[number] + first, runs, &*tokens)
            }));
        }
        // Neighbouring pieces to one counter.
        let share = pieces.len().div_ceil(counters.count()).max(1);
        let mut counts = map(counters, pieces.chunks(share).collect(), |pieces| {
            let mut counts = vec![0_u32; universe as usize];
            for &(map, first, runs, tokens) in pieces {
                cancel.check()?;
                for (set, run) in (first..).zip(runs) {
                    if same_as.get(set as usize).is_some_and(|&same| same != set) {
                        continue;
                    }
                    match map {
                        Some(map) => tokens[run.range()]
                            .iter()
                            .for_each(|&token| counts[map[token as usize] as usize] += 1),
                        None => {
                            tokens[run.range()].iter().for_each(|&t| counts[t as usize] += 1);
                        }
                    }
                }
            }
            Ok(counts)
        })?;
        let mut total = counts.pop().unwrap_or_else(|| vec![0; universe as usize]);
        let threads = threads_for(counters, counts.len() * total.len());
        let share = steps_per_task(threads, total.len(), CHECK_EVERY);
        let tasks = total.chunks_mut(share).enumerate().collect();
        for_each(threads, tasks, |(task, total): (usize, &mut [u32])| {
            cancel.check()?;
            for counts in &counts {
                let counts = &counts[task * share..];
                total.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
            }
            Ok(())
        })?;
        Ok(total)
    }

    /// The bytes of the marks by which threads put tokens in order; 0 where these are more than
    /// counting the tokens takes.
    pub(super) fn mark_bytes(&self, universe: u32, threads: Threads) -> usize {
        let tokens = self.token_count();
        let threads = threads_for(threads, STEPS_PER_TOKEN * tokens);
        let bytes = threads.count() * Ascending::footprint(universe);
        if bytes <= tokens * size_of::<u32>() { bytes } else { 0 }
    }

    /// Replaces all tokens by their ranks, ascending within each set; `with_marks` as
    /// [`Self::mark_bytes`] says.
    pub(super) fn map_to_ranks(
        &mut self,
        ranks: &[u32],
        with_marks: bool,
        context: &FinishContext<'_>,
    ) -> Result<()> {
        let ids = self.maps.iter().map(Vec::len).sum();
        let threads = threads_for(context.threads, ids);
        let share = steps_per_task(threads, ids, CHECK_EVERY);
        let tasks = self.maps.iter_mut().flat_map(|map| map.chunks_mut(share)).collect();
        for_each(threads, tasks, |ids: &mut [u32]| {
            ids.iter_mut().for_each(|id| *id = ranks[*id as usize]);
            Ok(())
        })?;
        let tokens = self.token_count();
        let threads = threads_for(context.threads, STEPS_PER_TOKEN * tokens);
        let share = steps_per_task(threads, tokens, CHECK_EVERY);
        let mut pieces = vec![];
        for (number, part) in self.gathered.parts.iter_mut().enumerate() {
            let map = self.maps.get(number).map_or(ranks, Vec::as_slice);
            for (_, runs, tokens) in part.pieces_mut() {
                pieces.extend(cut(runs, tokens, share).into_iter().map(|piece| (map, piece)));
            }
        }
        for_each(threads, pieces, |(map, (runs, tokens))| {
            context.cancel.check()?;
            let start = runs.first().map_or(0, |run| run.range().start);
            let mut ascending = Ascending::new(ranks.len() as u32, with_marks);
            for run in runs {
                let range = run.range();
                let set = &mut tokens[range.start - start..range.end - start];
                set.iter_mut().for_each(|token| *token = map[*token as usize]);
                ascending.sort(set);
            }
            Ok(())
        })
    }
}

/// Cuts a piece of stored tokens between its sets, at about every `share` tokens.
fn cut<'a>(
    mut runs: &'a [TokenRun],
    mut tokens: &'a mut [u32],
    share: usize,
) -> Vec<(&'a [TokenRun], &'a mut [u32])> {
    let mut pieces = vec![];
    while let Some(first) = runs.first() {
        let start = first.range().start;
        let sets = runs.partition_point(|run| run.range().start < start + share);
        let (own, others) = runs.split_at(sets);
        let end = others.first().map_or(tokens.len(), |run| run.range().start - start);
        let (own_tokens, other_tokens) = tokens.split_at_mut(end);
        pieces.push((own, own_tokens));
        (runs, tokens) = (others, other_tokens);
    }
    pieces
}

/// The merged id of a part's token.
#[inline]
fn mapped(map: Option<&Vec<u32>>, token: u32) -> u32 {
    map.map_or(token, |map| map[token as usize])
}

/// Merges dictionaries. `news` lists, in the order of reading, ids that a dictionary gave then;
/// together they are all ids. Returns for each dictionary the new id of each old one. The merged one
/// knows its tokens only where they are `kept`.
fn merge(
    dictionaries: &[Dictionary],
    news: Vec<(usize, Range<u32>)>,
    kept: bool,
    threads: Threads,
    cancel: &CancelFlag,
) -> Result<(Dictionary, Vec<Vec<u32>>)> {
    if merging_threads(threads, dictionaries).count() > 1 {
        return Dictionary::union(dictionaries, &news, kept, threads, cancel);
    }
    let mut merged = Dictionary::default();
    let mut maps: Vec<Vec<u32>> =
        dictionaries.iter().map(|d| Vec::with_capacity(d.len() as usize)).collect();
    let keys: Vec<Vec<DictionaryKey<'_>>> = dictionaries.iter().map(Dictionary::keys).collect();
    for (part, ids) in news {
        cancel.check()?;
        for id in ids {
            maps[part].push(merged.adopt(keys[part][id as usize])?);
        }
    }
    if !kept {
        merged.forget();
    }
    Ok((merged, maps))
}

/// The number of `threads` threads that pay for merging dictionaries.
fn merging_threads(threads: Threads, dictionaries: &[Dictionary]) -> Threads {
    let tokens: usize = dictionaries.iter().map(|d| d.len() as usize).sum();
    // Positions have 32 bits.
    if tokens >= u32::MAX as usize { Threads::ONE } else { threads_for(threads, 2 * tokens) }
}
