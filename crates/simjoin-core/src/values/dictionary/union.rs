//! One dictionary of the tokens of several ones, made by several threads.
//!
//! Every id of every dictionary has a *position*: where it stands among all of them in the order of
//! reading. Tokens that several dictionaries hold have several positions, and the first one tells
//! the new id. Threads share the tokens: those in arrays by value, those in tables by hash, since
//! the places of a table follow the hashes.

use std::mem::size_of;
use std::ops::Range;

use super::slots::{LongSlot, WordSlot};
use super::{Added, Dictionary, NO_ID, for_chunks};
use crate::error::{Result, exec_err};
use crate::util::cancel::CancelFlag;
use crate::util::parallel::{Threads, filled, for_each, map, steps_per_task, threads_for};
use crate::util::scatter::Scatter;
use crate::values::table::{Slot, Table};

/// Tokens, places or positions of a task, at least.
const LEAST_STEPS: usize = 1 << 11;
/// The steps of merging a token.
const STEPS_PER_TOKEN: usize = 1 << 3;

/// A slot that holds a token's id.
trait TokenSlot: Slot + Send + Sync {
    fn id(&self) -> u32;
    fn with_id(self, id: u32) -> Self;
}

impl TokenSlot for WordSlot {
    fn id(&self) -> u32 {
        self.id
    }

    fn with_id(self, id: u32) -> Self {
        Self { id, ..self }
    }
}

impl TokenSlot for LongSlot {
    fn id(&self) -> u32 {
        self.id
    }

    fn with_id(self, id: u32) -> Self {
        Self { id, ..self }
    }
}

/// A token of some dictionaries.
#[derive(Debug, Clone, Copy)]
struct FoundToken<S> {
    /// The slot of the token in one of the dictionaries, with its position there in place of the id.
    slot: S,
    dictionary: u32,
    /// The first position of the token.
    first: u32,
}

impl<S: Slot> Slot for FoundToken<S> {
    const FREE: Self = Self { slot: S::FREE, dictionary: 0, first: 0 };

    #[inline]
    fn is_free(&self) -> bool {
        self.slot.is_free()
    }

    #[inline]
    fn hash(&self) -> u32 {
        self.slot.hash()
    }
}

/// Integers by value, as [`Union::direct`] gives them, and the tokens of tables in shares: other
/// integers or short strings, negative integers, long strings.
type FoundTokens = (
    Vec<u32>,
    Vec<Table<FoundToken<WordSlot>>>,
    Vec<Table<FoundToken<WordSlot>>>,
    Vec<Table<FoundToken<LongSlot>>>,
);

/// Dictionaries that become one.
struct Union<'a> {
    dictionaries: &'a [Dictionary],
    /// The positions of the ids of each dictionary.
    positions: Vec<Vec<u32>>,
    /// By position, a position of the same token; by that one, the first position of the token.
    firsts: Scatter,
    threads: Threads,
    cancel: &'a CancelFlag,
}

impl Dictionary {
    /// One dictionary of the tokens of several ones of one kind, and for each of them the new id of
    /// each old one. `news` lists, in the order of reading, ids that a dictionary gave then;
    /// together they are all ids, fewer than 2³². New ids are in the order of reading. The new
    /// dictionary knows its tokens only where they are `kept`.
    pub fn union(
        dictionaries: &[Self],
        news: &[(usize, Range<u32>)],
        kept: bool,
        threads: Threads,
        cancel: &CancelFlag,
    ) -> Result<(Self, Vec<Vec<u32>>)> {
        let mut of_dictionaries: Vec<Vec<Range<u32>>> = vec![vec![]; dictionaries.len()];
        let mut count = 0;
        for (dictionary, ids) in news {
            let end = count + ids.len() as u32;
            of_dictionaries[*dictionary].push(count..end);
            count = end;
        }
        let positions = map(threads, of_dictionaries, |ranges| {
            let mut positions = Vec::with_capacity(ranges.iter().map(Range::len).sum());
            ranges.into_iter().for_each(|range| positions.extend(range));
            Ok(positions)
        })?;
        let firsts = Scatter::new(count as usize, threads)?;
        Union { dictionaries, positions, firsts, threads, cancel }.merge(count as usize, kept)
    }

    /// The bytes that [`Self::union`] may allocate, with its result.
    pub(crate) fn union_bytes<'a>(all: impl Iterator<Item = &'a Self>, threads: Threads) -> usize {
        let (mut tokens, mut words, mut long) = (0, 0, 0);
        let mut contents = Added::Integers { count: 0, negative: 0, greatest: 0 };
        for dictionary in all {
            tokens += dictionary.len as usize;
            words += dictionary.words.len() + dictionary.negative.len();
            long += dictionary.long.len();
            contents = contents.and(dictionary.contents());
        }
        // Positions, ids and the first position of each; small integers out of tables, and all of
        // these twice, as they are found and with their new ids.
        3 * tokens * size_of::<u32>()
            + words * size_of::<(u64, u32)>()
            + Table::<FoundToken<WordSlot>>::bytes_in_shares(words, 2 * shares(threads, words))
            + words * size_of::<WordSlot>()
            + Table::<FoundToken<LongSlot>>::bytes_in_shares(long, shares(threads, long))
            + long * size_of::<LongSlot>()
            + Self::default().growth(contents)
    }
}

/// Among how many shares threads divide `tokens` tokens in tables: a power of two.
fn shares(threads: Threads, tokens: usize) -> usize {
    tokens.div_ceil(steps_per_task(threads, tokens, LEAST_STEPS)).next_power_of_two()
}

impl Union<'_> {
    fn merge(self, count: usize, kept: bool) -> Result<(Dictionary, Vec<Vec<u32>>)> {
        let direct = self.direct()?;
        let places = direct.len() as u64;
        let is_word =
            |found: &FoundToken<WordSlot>, _: usize, slot: &WordSlot| found.slot.word == slot.word;
        let words = self.tables(|d| &d.words, |slot| slot.word < places, is_word)?;
        let negative = self.tables(|d| &d.negative, |_| false, is_word)?;
        let is_long = |found: &FoundToken<LongSlot>, dictionary: usize, slot: &LongSlot| {
            found.slot.hash == slot.hash && self.bytes_of(found) == self.bytes(dictionary, slot)
        };
        let long = self.tables(|d| &d.long, |_| false, is_long)?;
        let (ids, len) = self.ids(count)?;
        let dictionary = match kept {
            true => self.dictionary((direct, words, negative, long), &ids, len)?,
            false => Dictionary { len, ..Dictionary::default() },
        };
        let mut positions = self.positions;
        let firsts = &self.firsts;
        for positions in &mut positions {
            for_chunks(self.threads, positions, |position| {
                let same = firsts.get(*position as usize) as usize;
                *position = ids[firsts.get(same) as usize];
            })?;
        }
        Ok((dictionary, positions))
    }

    /// The tokens found, with their new ids.
    fn dictionary(
        &self,
        (mut direct, words, negative, long): FoundTokens,
        ids: &[u32],
        len: u32,
    ) -> Result<Dictionary> {
        for_chunks(self.threads, &mut direct, |place| {
            *place = if *place == 0 { NO_ID } else { ids[!*place as usize] };
        })?;
        let holds_bytes = self.dictionaries.iter().any(|d| d.holds_bytes);
        if !holds_bytes {
            let limit = Dictionary { len, ..Dictionary::default() }.direct_limit(0);
            widen(&mut direct, &words, ids, limit);
        }
        let places = direct.len() as u64;
        let words = self.table(&words, |slot| slot.word < places, ids)?;
        let negative = self.table(&negative, |_| false, ids)?;
        let (long, arena) = self.long(long, ids)?;
        let greatest = self.dictionaries.iter().map(|d| d.greatest).max().unwrap_or(0);
        Ok(Dictionary {
            len,
            direct,
            words,
            negative,
            long,
            arena,
            holds_bytes,
            greatest,
            values: None,
        })
    }

    fn bytes(&self, dictionary: usize, slot: &LongSlot) -> &[u8] {
        &self.dictionaries[dictionary].arena[slot.start as usize..][..slot.len as usize]
    }

    fn bytes_of(&self, found: &FoundToken<LongSlot>) -> &[u8] {
        self.bytes(found.dictionary as usize, &found.slot)
    }

    /// By value, the complement of the first position of each integer that an array holds; 0 for
    /// none.
    fn direct(&self) -> Result<Vec<u32>> {
        let places = self.dictionaries.iter().map(|d| d.direct.len()).max().unwrap_or(0);
        let strays = self.strays(places as u64);
        let steps = places * self.dictionaries.len();
        let threads = threads_for(self.threads, 2 * steps);
        let share = steps_per_task(threads, places, LEAST_STEPS);
        let mut firsts = vec![0; places];
        let tasks = firsts.chunks_mut(share).enumerate().collect();
        for_each(threads, tasks, |(task, own): (usize, &mut [u32])| {
            self.cancel.check()?;
            let start = task * share;
            let stray = |value: u64| strays.partition_point(|stray| stray.0 < value);
            let strays = &strays[stray(start as u64)..stray((start + own.len()) as u64)];
            let arrays = || {
                let all = self.dictionaries.iter().zip(&self.positions);
                all.filter_map(|(d, positions)| Some((d.direct.get(start..)?, positions)))
            };
            for (ids, positions) in arrays() {
                for (first, &id) in own.iter_mut().zip(ids).filter(|(_, id)| **id != NO_ID) {
                    *first = (*first).max(!positions[id as usize]);
                }
            }
            for &(value, position) in strays {
                let first = &mut own[value as usize - start];
                *first = (*first).max(!position);
            }
            for (ids, positions) in arrays() {
                for (&first, &id) in own.iter().zip(ids).filter(|(_, id)| **id != NO_ID) {
                    self.firsts.set(positions[id as usize] as usize, !first);
                }
            }
            for &(value, position) in strays {
                self.firsts.set(position as usize, !own[value as usize - start]);
            }
            Ok(())
        })?;
        Ok(firsts)
    }

    /// Integers below `places` that a dictionary has in its table, ascending, with their positions.
    fn strays(&self, places: u64) -> Vec<(u64, u32)> {
        let mut strays = vec![];
        for (dictionary, positions) in self.dictionaries.iter().zip(&self.positions) {
            if (dictionary.direct.len() as u64) < places {
                let words = dictionary.words.iter().filter(|slot| slot.word < places);
                strays.extend(words.map(|slot| (slot.word, positions[slot.id as usize])));
            }
        }
        strays.sort_unstable();
        strays
    }

    /// The different tokens of one table of each dictionary, by shares of their hashes.
    fn tables<S: TokenSlot>(
        &self,
        table: impl Fn(&Dictionary) -> &Table<S> + Sync,
        skip: impl Fn(&S) -> bool + Sync,
        is_same: impl Fn(&FoundToken<S>, usize, &S) -> bool + Sync,
    ) -> Result<Vec<Table<FoundToken<S>>>> {
        let tokens = self.dictionaries.iter().map(|d| table(d).len()).sum();
        let threads = threads_for(self.threads, STEPS_PER_TOKEN * tokens);
        let shares = shares(threads, tokens);
        map(threads, (0..shares).collect(), |share| {
            let mut found = Table::<FoundToken<S>>::with_shares(shares);
            for (number, dictionary) in self.dictionaries.iter().enumerate() {
                self.cancel.check()?;
                let table = table(dictionary);
                found.reserve(table.len().div_ceil(shares));
                let slots = table.share(share, shares);
                for slot in slots.filter(|slot| !skip(slot)) {
                    let at = self.positions[number][slot.id() as usize];
                    match found.find_mut(slot.hash(), |found| is_same(found, number, slot)) {
                        Some(known) => {
                            known.first = known.first.min(at);
                            self.firsts.set(at as usize, known.slot.id());
                        }
                        None => {
                            let slot = slot.with_id(at);
                            found.insert(FoundToken { slot, dictionary: number as u32, first: at });
                        }
                    }
                }
            }
            for token in found.iter() {
                self.firsts.set(token.slot.id() as usize, token.first);
                self.firsts.set(token.first as usize, token.first);
            }
            Ok(found)
        })
    }

    /// The new ids, by first position, and their number.
    fn ids(&self, count: usize) -> Result<(Vec<u32>, u32)> {
        let threads = threads_for(self.threads, count);
        let share = steps_per_task(threads, count, LEAST_STEPS);
        let mut ids = filled(self.threads, count, 0);
        let is_first = |position: usize| self.firsts.get(position) as usize == position;
        let tasks = (0..count).step_by(share).collect();
        let counts = map(threads, tasks, |start| {
            let positions = start..count.min(start + share);
            Ok(positions.filter(|&position| is_first(position)).count())
        })?;
        let mut tasks = vec![];
        let mut len = 0;
        for ((number, own), count) in ids.chunks_mut(share).enumerate().zip(counts) {
            tasks.push((number * share, own, len as u32));
            len += count;
        }
        if len >= NO_ID as usize {
            return exec_err!("a similarity join takes at most {NO_ID} distinct tokens");
        }
        for_each(threads, tasks, |(start, own, mut next): (usize, &mut [u32], u32)| {
            for (_, id) in (start..).zip(own).filter(|(position, _)| is_first(*position)) {
                *id = next;
                next += 1;
            }
            Ok(())
        })?;
        Ok((ids, len as u32))
    }

    /// One table of tokens with their new ids.
    fn table<S: TokenSlot>(
        &self,
        shares: &[Table<FoundToken<S>>],
        skip: impl Fn(&S) -> bool + Sync,
        ids: &[u32],
    ) -> Result<Table<S>> {
        let kept = |share: &Table<FoundToken<S>>| {
            let tokens = share.iter().filter(|found| !skip(&found.slot));
            tokens.map(|found| found.slot.with_id(ids[found.first as usize])).collect()
        };
        let threads = threads_for(self.threads, shares.iter().map(Table::len).sum());
        let slots = map(threads, shares.iter().collect(), |share| Ok(kept(share)))?;
        Table::of_shares(slots, threads)
    }

    /// One table of long tokens with their new ids, and their bytes.
    fn long(
        &self,
        shares: Vec<Table<FoundToken<LongSlot>>>,
        ids: &[u32],
    ) -> Result<(Table<LongSlot>, Vec<u8>)> {
        let threads = threads_for(self.threads, shares.iter().map(Table::len).sum());
        let bytes_of = |share: &Table<FoundToken<LongSlot>>| {
            share.iter().map(|found| found.slot.len as usize).sum::<usize>()
        };
        let lens: Vec<usize> = shares.iter().map(bytes_of).collect();
        let mut arena = filled(threads, lens.iter().sum(), 0);
        let mut tasks = vec![];
        let (mut rest, mut start) = (arena.as_mut_slice(), 0);
        for (share, len) in shares.into_iter().zip(lens) {
            let (own, others) = rest.split_at_mut(len);
            tasks.push((share, own, start));
            rest = others;
            start += len;
        }
        let slots = map(threads, tasks, |(share, own, start)| {
            self.cancel.check()?;
            let mut end = 0;
            let slots = share.iter().map(|found| {
                let bytes = self.bytes_of(found);
                own[end..end + bytes.len()].copy_from_slice(bytes);
                let slot = LongSlot { start: (start + end) as u64, ..found.slot };
                end += bytes.len();
                slot.with_id(ids[found.first as usize])
            });
            Ok(slots.collect())
        })?;
        Ok((Table::of_shares(slots, threads)?, arena))
    }
}

/// Takes integers into the array that are dense now that all tokens are known. They are found
/// there, not in the table.
fn widen(direct: &mut Vec<u32>, words: &[Table<FoundToken<WordSlot>>], ids: &[u32], limit: u64) {
    let all = || words.iter().flat_map(Table::iter);
    let dense = all().map(|found| found.slot.word).filter(|&word| word < limit);
    let Some(greatest) = dense.max() else { return };
    let places = (greatest as usize + 1).next_power_of_two().max(1024);
    direct.resize(places.max(direct.len()), NO_ID);
    for found in all() {
        if let Some(place) = direct.get_mut(found.slot.word as usize) {
            *place = ids[found.first as usize];
        }
    }
}
