//! The distinct texts among the rows of several parts, by several threads.

use std::iter::repeat_with;
use std::mem::{size_of, take};
use std::ops::Range;
use std::sync::Arc;

use super::alphabet::{self, Alphabet};
use super::boxes::{Codes, Elements, order};
use super::collection::{ReadRow, ReadRows, Run, Strings, hash_of};
use super::page::Page;
use super::rules::Cancelled;
use crate::engine::{Distinct, ItemId, ItemRows, KeyId, Place, RowGroups, places_by_row};
use crate::error::{Result, internal_err};
use crate::util::cancel::CancelFlag;
use crate::util::parallel::{
    Threads, collect, filled, for_each, map, ranges, sort_unstable_by, steps_per_task, threads_for,
};

/// Items that a task takes on, at least.
const LEAST_ITEMS: usize = 1 << 10;

/// The settings by which a collection is made.
#[derive(Clone)]
pub struct TextGathering<'a> {
    /// The alphabet of the build side; `None` for the build side itself.
    pub alphabet: Option<Arc<Alphabet>>,
    /// Whether texts of the build side that begin alike lie near each other.
    pub by_prefix: bool,
    pub threads: Threads,
    pub cancel: &'a CancelFlag,
}

/// Rows in the order of the input.
struct Input<'a> {
    parts: &'a [ReadRows],
    places: Vec<Place>,
}

impl<'a> Input<'a> {
    #[inline]
    fn read(&self, place: u32) -> &'a ReadRow {
        let Place { part, index, .. } = self.places[place as usize];
        &self.parts[part as usize].rows[index as usize]
    }

    #[inline]
    fn text(&self, place: u32) -> &'a str {
        self.parts[self.places[place as usize].part as usize].text(self.read(place))
    }

    /// The number of scalars of a row's text.
    fn len(&self, place: u32) -> u32 {
        self.read(place).len.unwrap_or_default()
    }
}

impl ItemRows for Input<'_> {
    fn count(&self) -> usize {
        self.places.len()
    }

    fn row_number(&self, place: u32) -> u32 {
        self.places[place as usize].row
    }

    fn hash(&self, place: u32) -> Option<u64> {
        let row = self.read(place);
        row.len.map(|_| hash_of(row.key, self.text(place)))
    }

    fn is_same(&self, a: u32, b: u32) -> bool {
        self.read(a).key == self.read(b).key && self.text(a) == self.text(b)
    }
}

impl Strings {
    /// A bound on the bytes of a collection of `rows` rows with `bytes` bytes of text, and of making it,
    /// besides what was read.
    pub(super) fn footprint(rows: usize, bytes: usize) -> usize {
        let items =
            2 * size_of::<usize>() + 1 + size_of::<Run>() + 2 * size_of::<u32>() + size_of::<u64>();
        let places = size_of::<Place>();
        // The order of similar texts: signatures with numbers, and the order twice.
        let order = size_of::<(u64, u32)>() + 2 * size_of::<u32>();
        // Texts and codes, of which those of a run are copied before there are texts; and a choice of
        // elements for every few hundred texts.
        2 * bytes + rows * (items + places + order + 4) + Distinct::footprint(rows) + 8192
    }

    /// The collection of rows that were read in several parts, whose numbers differ.
    ///
    /// # Errors
    ///
    /// When the work is cancelled.
    pub fn gather(parts: &[ReadRows], how: TextGathering<'_>) -> Result<Self> {
        let TextGathering { alphabet, by_prefix, threads, cancel } = how;
        let rows: Vec<&[ReadRow]> = parts.iter().map(|part| part.rows.as_slice()).collect();
        let count: usize = rows.iter().map(|rows| rows.len()).sum();
        let bytes: usize = parts.iter().map(|part| part.text.len()).sum();
        let threads = threads_for(threads, 8 * count + bytes);
        let input = Input { parts, places: places_by_row(&rows, |row| row.row, threads, cancel)? };
        let mut distinct = Distinct::of(&input, threads, cancel)?;
        let mut items = take(&mut distinct.items);
        let runs = sort_by_len(&input, &mut items, threads, cancel)?;
        let share = steps_per_task(threads, items.len(), LEAST_ITEMS);
        let (alphabet, is_build) = match alphabet {
            Some(alphabet) => (alphabet, false),
            None => {
                let tasks = items.chunks(share);
                let tasks =
                    tasks.map(|places| places.iter().map(|&place| input.text(place))).collect();
                (Arc::new(Alphabet::of(tasks, threads, cancel)?), true)
            }
        };
        let mut strings = Self::empty(runs, alphabet, RowGroups::default());
        strings.encode(&input, &items, threads, cancel)?;
        if is_build {
            arrange(&mut strings, &mut items, by_prefix, threads, cancel)?;
        }
        strings.groups = distinct.groups(&input, &items, cancel)?;
        drop(distinct);
        strings.copy_texts(&input, &items, threads, cancel)?;
        Ok(strings)
    }

    /// Encodes the texts of the items.
    fn encode(
        &mut self,
        input: &Input<'_>,
        items: &[u32],
        threads: Threads,
        cancel: &CancelFlag,
    ) -> Result<()> {
        let Self { codes, code_starts, pages, alphabet, .. } = self;
        let len = |place| input.len(place) as usize;
        *code_starts = starts(items, len, threads, cancel)?;
        codes.resize(code_starts[items.len()], 0);
        pages.resize(items.len(), Page::ANY);
        let share = steps_per_task(threads, items.len(), LEAST_ITEMS);
        let parts = items.chunks(share).zip(split(codes, code_starts, share));
        let tasks = parts.zip(pages.chunks_mut(share)).collect();
        for_each(threads, tasks, |((places, mut codes), pages)| {
            let mut pages = pages.iter_mut();
            for_each_text(input, places, cancel, |text| {
                let len = alphabet.encode(text, codes, pages.next());
                codes = &mut take(&mut codes)[len..];
            })
        })
    }

    /// Copies the texts of the items, and tells the bits of their scalars.
    fn copy_texts(
        &mut self,
        input: &Input<'_>,
        items: &[u32],
        threads: Threads,
        cancel: &CancelFlag,
    ) -> Result<()> {
        let Self { text, text_starts, scalar_bits, alphabet, .. } = self;
        let bytes = |place| input.read(place).bytes as usize;
        *text_starts = starts(items, bytes, threads, cancel)?;
        let mut bytes = vec![0; text_starts[items.len()]];
        let share = steps_per_task(threads, items.len(), LEAST_ITEMS);
        scalar_bits.resize(if alphabet.is_small() { 0 } else { items.len() }, 0);
        let of_tasks = scalar_bits.chunks_mut(share).map(Some).chain(repeat_with(|| None));
        let tasks = items.chunks(share).zip(split(&mut bytes, text_starts, share)).zip(of_tasks);
        for_each(threads, tasks.collect(), |((places, mut bytes), bits)| {
            let mut bits = bits.into_iter().flatten();
            for_each_text(input, places, cancel, |text| {
                let (to, rest) = take(&mut bytes).split_at_mut(text.len());
                to.copy_from_slice(text.as_bytes());
                bytes = rest;
                if let Some(bits) = bits.next() {
                    *bits = alphabet::scalar_bits(text);
                }
            })
        })?;
        match String::from_utf8(bytes) {
            Ok(copied) => *text = copied,
            Err(error) => return internal_err!("texts were copied wrongly: {error}"),
        }
        Ok(())
    }
}

/// Where items of some lengths begin that lie one behind the other, and where the last one ends.
fn starts(
    items: &[u32],
    len: impl Fn(u32) -> usize + Sync,
    threads: Threads,
    cancel: &CancelFlag,
) -> Result<Vec<usize>> {
    let ends = map(threads, ranges(threads, items.len(), LEAST_ITEMS), |range| {
        let mut end = 0;
        let ends = items[range].iter().enumerate().map(|(step, &place)| {
            cancel.check_at(step)?;
            end += len(place);
            Ok(end)
        });
        ends.collect::<Result<Vec<usize>>>()
    })?;
    let mut start = 0;
    let mut tasks = vec![];
    for ends in &ends {
        tasks.push((start, ends.as_slice()));
        start += ends.last().copied().unwrap_or(0);
    }
    let mut starts = filled(threads, items.len() + 1, 0);
    let mut rest = &mut starts[1..];
    let tasks = tasks.into_iter().map(|(start, ends)| {
        let (own, others) = take(&mut rest).split_at_mut(ends.len());
        rest = others;
        (start, ends, own)
    });
    for_each(threads, tasks.collect(), |(start, ends, own)| {
        cancel.check()?;
        own.iter_mut().zip(ends).for_each(|(place, end)| *place = start + end);
        Ok(())
    })?;
    Ok(starts)
}

/// The values of `share` items after the other, whose values begin at `starts`.
fn split<'a>(
    values: &'a mut [u8],
    starts: &'a [usize],
    share: usize,
) -> impl Iterator<Item = &'a mut [u8]> {
    let mut rest = values;
    starts[..starts.len() - 1].chunks(share).enumerate().map(move |(chunk, of)| {
        let end = starts[chunk * share + of.len()];
        let (part, behind) = take(&mut rest).split_at_mut(end - of[0]);
        rest = behind;
        part
    })
}

/// Sorts items by key and length, equal ones in the order of the input, and gives their runs.
fn sort_by_len(
    input: &Input<'_>,
    items: &mut [u32],
    threads: Threads,
    cancel: &CancelFlag,
) -> Result<Vec<Run>> {
    // Keys beside the places, for rows are read at random.
    let keyed = |&place: &u32| {
        (u64::from(input.read(place).key) << 32 | u64::from(input.len(place)), place)
    };
    let of = |range: Range<usize>| items[range].iter().map(keyed);
    let mut sorted = collect(threads, items.len(), LEAST_ITEMS, cancel, of)?;
    if !sorted.is_sorted() {
        sort_unstable_by(threads, &mut sorted, cancel, Ord::cmp)?;
        let share = steps_per_task(threads, items.len(), LEAST_ITEMS);
        let tasks = items.chunks_mut(share).zip(sorted.chunks(share)).collect();
        for_each(threads, tasks, |(items, sorted): (&mut [u32], &[(u64, u32)])| {
            cancel.check()?;
            items.iter_mut().zip(sorted).for_each(|(item, (_, place))| *item = *place);
            Ok(())
        })?;
    }
    runs(&sorted, threads, cancel)
}

/// Calls `work` with the text of every item, and looks at the flag in between.
fn for_each_text(
    input: &Input<'_>,
    items: &[u32],
    cancel: &CancelFlag,
    mut work: impl FnMut(&str),
) -> Result<()> {
    /// Bytes between two looks.
    const CHECK_EVERY: usize = 1 << 18;
    let mut unchecked = CHECK_EVERY;
    for &place in items {
        let text = input.text(place);
        unchecked += text.len() + 16;
        if unchecked > CHECK_EVERY {
            cancel.check()?;
            unchecked = 0;
        }
        work(text);
    }
    Ok(())
}

/// The runs of items, which come with their keys and lengths and are sorted by them.
fn runs(sorted: &[(u64, u32)], threads: Threads, cancel: &CancelFlag) -> Result<Vec<Run>> {
    let parts = map(threads, ranges(threads, sorted.len(), LEAST_ITEMS), |range| {
        cancel.check()?;
        let mut first = range.start as ItemId;
        let runs = sorted[range].chunk_by(|a, b| a.0 == b.0).map(|run| {
            let items = first..first + run.len() as ItemId;
            first = items.end;
            Run { key: (run[0].0 >> 32) as KeyId, len: run[0].0 as u32, items }
        });
        Ok(runs.collect::<Vec<_>>())
    })?;
    let mut runs: Vec<Run> = vec![];
    for (step, run) in parts.into_iter().flatten().enumerate() {
        cancel.check_at(step)?;
        match runs.last_mut().filter(|last| (last.key, last.len) == (run.key, run.len)) {
            Some(last) => last.items.end = run.items.end,
            None => runs.push(run),
        }
    }
    runs.shrink_to_fit();
    Ok(runs)
}

/// Brings similar texts of each run near each other, with their codes.
fn arrange(
    strings: &mut Strings,
    items: &mut [u32],
    by_prefix: bool,
    threads: Threads,
    cancel: &CancelFlag,
) -> Result<()> {
    let stop = &mut || cancel.check().is_err();
    let codes = Codes { codes: &strings.codes, starts: &strings.code_starts };
    let bounds = strings.bounds();
    let elements = not_cancelled(Elements::choose(codes, &bounds, by_prefix, stop), cancel)?;
    // Long runs first, for the threads end together then.
    let mut runs: Vec<(usize, Range<u32>)> =
        strings.runs.iter().map(|run| run.items.clone()).enumerate().collect();
    runs.sort_by_key(|(_, items)| std::cmp::Reverse(items.len()));
    runs.truncate(runs.partition_point(|(_, items)| items.len() > 1));
    let orders = map(threads, runs, |(run, range)| {
        let stop = &mut || cancel.check().is_err();
        let order = order(codes, run, range.clone(), &elements, stop);
        Ok((range.start, not_cancelled(order, cancel)?))
    })?;
    let ordered = Ordered {
        items,
        pages: &mut strings.pages,
        codes: &mut strings.codes,
        first: 0,
        first_code: 0,
    };
    ordered.arrange(orders, &strings.code_starts, threads, cancel)?;
    strings.elements = Some(elements);
    Ok(())
}

/// The arrays of the items from the `first` on, whose codes begin with code `first_code`.
struct Ordered<'a> {
    items: &'a mut [u32],
    pages: &'a mut [Page],
    codes: &'a mut [u8],
    first: usize,
    first_code: usize,
}

impl<'a> Ordered<'a> {
    /// Brings the items of some runs into their orders, each of which has the first item of its run with it.
    fn arrange(
        mut self,
        mut orders: Vec<(ItemId, Vec<ItemId>)>,
        code_starts: &[usize],
        threads: Threads,
        cancel: &CancelFlag,
    ) -> Result<()> {
        orders.sort_unstable_by_key(|(first, _)| *first);
        let mut tasks = vec![];
        for (first, order) in orders {
            let (start, end) = (first as usize, first as usize + order.len());
            // The items between two runs are in order.
            self.take(start, code_starts[start]);
            tasks.push((self.take(end, code_starts[end]), order));
        }
        tasks.sort_unstable_by_key(|(_, order)| std::cmp::Reverse(order.len()));
        for_each(threads, tasks, |(run, order)| {
            let first = run.first as ItemId;
            permute(run.items, 1, first, &order, cancel)?;
            permute(run.pages, 1, first, &order, cancel)?;
            // Texts of one length: each begins where another one began.
            let len = run.codes.len() / order.len();
            permute(run.codes, len, first, &order, cancel)
        })
    }

    /// Takes the items before `end`, whose codes end before `end_code`.
    fn take(&mut self, end: usize, end_code: usize) -> Self {
        let (count, code_count) = (end - self.first, end_code - self.first_code);
        let (items, rest) = take(&mut self.items).split_at_mut(count);
        self.items = rest;
        let (pages, rest) = take(&mut self.pages).split_at_mut(count);
        self.pages = rest;
        let (codes, rest) = take(&mut self.codes).split_at_mut(code_count);
        self.codes = rest;
        let (first, first_code) = (self.first, self.first_code);
        (self.first, self.first_code) = (end, end_code);
        Self { items, pages, codes, first, first_code }
    }
}

/// Brings the values of some items, `len` of each, from their order into another one; `first` is the first of
/// these items.
fn permute<T: Copy>(
    values: &mut [T],
    len: usize,
    first: ItemId,
    order: &[ItemId],
    cancel: &CancelFlag,
) -> Result<()> {
    let before = values.to_vec();
    for (step, (to, &item)) in values.chunks_exact_mut(len.max(1)).zip(order).enumerate() {
        cancel.check_at(step)?;
        let start = (item - first) as usize * len;
        to.copy_from_slice(&before[start..start + len]);
    }
    Ok(())
}

/// The result of work that only the flag ends.
pub fn not_cancelled<T>(result: Result<T, Cancelled>, cancel: &CancelFlag) -> Result<T> {
    match result {
        Ok(result) => Ok(result),
        Err(Cancelled) => {
            cancel.check()?;
            internal_err!("work on texts ended without being cancelled")
        }
    }
}
