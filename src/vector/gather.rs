//! The distinct vectors among the rows of several parts, by several threads.

use std::mem::{MaybeUninit, size_of, take};

use datafusion::common::Result;

use super::collection::{
    Content, NumbersPlace, ReadRow, ReadRows, Run, Vectors, hash_of, is_equal,
};
use super::metric::Metric;
use super::order::{OrderRequest, Resources, arrange, by_magnitude};
use crate::engine::{Distinct, ItemId, ItemRows, KeyId, Place, places_by_row};
use crate::util::cancel::{CancelFlag, sort_unstable_by_key};
use crate::util::parallel::{for_each, steps_per_task, threads_for};

/// Rows that a task takes on, at least. Tests want many tasks.
const LEAST_ROWS: usize = if cfg!(test) { 1 << 4 } else { 1 << 10 };

/// Numbers handled between two looks at the flag.
const CHECK_EVERY: usize = 1 << 16;

/// How a collection is made.
#[derive(Clone, Copy)]
pub(super) struct Gathering<'a> {
    /// The purpose for which its vectors are ordered, if at all.
    pub order: Option<OrderRequest>,
    pub threads: usize,
    pub cancel: &'a CancelFlag,
    /// Reserves this many bytes beyond [`Vectors::footprint`]; whether that is granted.
    pub reserve: &'a dyn Fn(usize) -> bool,
}

/// Rows in the order of the input.
struct Input<'a> {
    parts: &'a [ReadRows],
    places: Vec<Place>,
    threads: usize,
    cancel: &'a CancelFlag,
}

impl Vectors {
    /// A bound on the bytes of a collection of `rows` rows, and of making it, besides their numbers.
    pub(super) fn footprint(rows: usize) -> usize {
        // Places and hashes; first rows, items twice, and groups; contents and places of items; the
        // tables double.
        let words = size_of::<Place>() + size_of::<[u32; 10]>();
        let items = size_of::<NumbersPlace>() + size_of::<u32>() + 1 + size_of::<Run>();
        let tables = 4 * size_of::<(u64, u32)>() + size_of::<u32>();
        rows * (words + items + tables) + 256
    }

    /// The collection of rows that were read in several parts, whose numbers differ, by one thread.
    #[cfg(test)]
    pub(super) fn of(parts: Vec<ReadRows>, cancel: &CancelFlag) -> Result<Self> {
        Self::gather(parts, Gathering { order: None, threads: 1, cancel, reserve: &|_| false })
    }

    /// The collection of rows that were read in several parts, whose numbers differ.
    ///
    /// # Errors
    ///
    /// When the work is cancelled.
    pub(super) fn gather(parts: Vec<ReadRows>, how: Gathering<'_>) -> Result<Self> {
        let input = Input::of(&parts, how)?;
        let mut distinct = Distinct::of(&input, input.threads, how.cancel)?;
        let mut items = take(&mut distinct.items);
        let key = |place: u32| input.row(place).key;
        if !items.is_sorted_by_key(|&place| key(place)) {
            sort_by_key(&mut items, key, how.cancel)?;
        }
        let runs = input.runs(&items)?;
        let (mut order, mut boxes) = (None, None);
        if let Some(request) = how.order {
            let vector = |item: ItemId| {
                let place = items[item as usize];
                (input.row(place).content == Content::Vector).then(|| input.vector(place))
            };
            let Gathering { threads, cancel, reserve, .. } = how;
            let resources = Resources { vector: &vector, runs: &runs, threads, cancel };
            if request.threshold.metric == Metric::InnerProduct {
                let numbers = parts.iter().map(|part| part.numbers.len()).sum();
                order = by_magnitude(resources, numbers, reserve)?;
            } else if let Some(arranged) = arrange(request, resources, reserve)? {
                (order, boxes) = (Some(arranged.order), Some(arranged.boxes));
            }
        }
        if let Some(order) = order {
            items = order.iter().map(|&item| items[item as usize]).collect();
        }
        let groups = distinct.groups(&input, &items, how.cancel)?;
        drop(distinct);
        let mut vectors = input.collect(&items)?;
        let given: usize = parts.iter().map(|part| part.numbers.capacity()).sum();
        // Where most rows are equal to others, their numbers are not worth their memory.
        let is_waste = vectors.number_count < given / 2
            && (how.reserve)(vectors.number_count * size_of::<f64>());
        if is_waste {
            input.copy_numbers(&items, &mut vectors)?;
        } else {
            drop(input);
            vectors.parts = parts.into_iter().map(|part| part.numbers).collect();
        }
        (vectors.runs, vectors.groups, vectors.boxes) = (runs, groups, boxes);
        Ok(vectors)
    }
}

/// Sorts places by key, those of one key ascending, as they were before.
fn sort_by_key(
    items: &mut Vec<u32>,
    key: impl Fn(u32) -> KeyId + Copy,
    cancel: &CancelFlag,
) -> Result<()> {
    let keys = items.iter().map(|&place| key(place) as usize + 1).max().unwrap_or(0);
    // Few of many keys.
    if keys > 4 * items.len() + 64 {
        return sort_unstable_by_key(items, cancel, |&place| (key(place), place));
    }
    let mut next = vec![0_u32; keys + 1];
    items.iter().for_each(|&place| next[key(place) as usize + 1] += 1);
    for i in 1..next.len() {
        next[i] += next[i - 1];
    }
    let mut sorted = vec![0; items.len()];
    for (step, &place) in items.iter().enumerate() {
        cancel.check_at(step)?;
        let slot = &mut next[key(place) as usize];
        sorted[*slot as usize] = place;
        *slot += 1;
    }
    *items = sorted;
    Ok(())
}

impl ItemRows for Input<'_> {
    fn count(&self) -> usize {
        self.places.len()
    }

    fn row_number(&self, place: u32) -> u32 {
        self.places[place as usize].row
    }

    fn hash(&self, place: u32) -> Option<u64> {
        let row = self.row(place);
        (row.content != Content::None).then(|| hash_of(row.key, row.content, self.vector(place)))
    }

    fn is_same(&self, a: u32, b: u32) -> bool {
        let (of_a, of_b) = (self.row(a), self.row(b));
        (of_a.key, of_a.content, of_a.len) == (of_b.key, of_b.content, of_b.len)
            && is_equal(self.vector(a), self.vector(b))
    }
}

impl<'a> Input<'a> {
    fn of(parts: &'a [ReadRows], how: Gathering<'a>) -> Result<Self> {
        let Gathering { threads, cancel, .. } = how;
        let rows = parts.iter().map(|part| part.rows.iter().map(|row| row.row));
        let places = places_by_row(rows, cancel)?;
        let numbers: usize = parts.iter().map(|part| part.numbers.len()).sum();
        let threads = threads_for(threads, 8 * places.len() + numbers);
        Ok(Self { parts, places, threads, cancel })
    }

    #[inline]
    fn row(&self, place: u32) -> &'a ReadRow {
        let Place { part, index, .. } = self.places[place as usize];
        &self.parts[part as usize].rows[index as usize]
    }

    #[inline]
    fn vector(&self, place: u32) -> &'a [f64] {
        self.parts[self.places[place as usize].part as usize].vector(self.row(place))
    }

    /// How many rows a task takes on.
    fn share(&self, rows: usize) -> usize {
        steps_per_task(self.threads, rows, LEAST_ROWS)
    }

    /// The runs of items of one key.
    fn runs(&self, items: &[u32]) -> Result<Vec<Run>> {
        let mut runs: Vec<Run> = vec![];
        for (item, &place) in (0..).zip(items) {
            self.cancel.check_at(item as usize)?;
            let &ReadRow { key, len, .. } = self.row(place);
            match runs.last_mut().filter(|run| run.key == key) {
                Some(run) => {
                    run.items.end = item + 1;
                    run.lens = [run.lens[0].min(len), run.lens[1].max(len)];
                }
                None => runs.push(Run { key, items: item..item + 1, lens: [len; 2] }),
            }
        }
        Ok(runs)
    }

    /// The collection of these items, whose numbers lie where they were read, without these, runs and
    /// groups.
    fn collect(&self, items: &[u32]) -> Result<Vectors> {
        let count = items.len();
        let mut vectors = Vectors::default();
        vectors.contents = vec![Content::None; count];
        vectors.lens = vec![0; count];
        vectors.places = vec![NumbersPlace::default(); count];
        let share = self.share(count);
        let of_items = vectors.contents.chunks_mut(share).zip(vectors.lens.chunks_mut(share));
        let of_items = of_items.zip(vectors.places.chunks_mut(share));
        let tasks = items.chunks(share).zip(of_items).collect();
        for_each(self.threads, tasks, |(items, ((contents, lens), places))| {
            self.cancel.check()?;
            let of_items = contents.iter_mut().zip(lens).zip(places);
            for (&place, ((content, len), at)) in items.iter().zip(of_items) {
                let &ReadRow { content: of_row, len: dimensions, start, .. } = self.row(place);
                (*content, *len) = (of_row, dimensions);
                let numbers = if of_row == Content::Vector { dimensions } else { 0 };
                let part = self.places[place as usize].part;
                *at = NumbersPlace { part, len: numbers, start };
            }
            Ok(())
        })?;
        vectors.number_count = vectors.places.iter().map(|place| place.len as usize).sum();
        Ok(vectors)
    }

    /// Copies the numbers of the items of a collection, one behind the other.
    fn copy_numbers(&self, items: &[u32], vectors: &mut Vectors) -> Result<()> {
        let count = vectors.number_count;
        let mut end = 0;
        for place in &mut vectors.places {
            (place.part, place.start) = (0, end);
            end += place.len as usize;
        }
        let mut numbers = Vec::with_capacity(count);
        let mut rest = &mut numbers.spare_capacity_mut()[..count];
        let mut tasks = vec![];
        let share = self.share(items.len());
        for (task, items) in items.chunks(share).enumerate() {
            let next = vectors.places.get((task + 1) * share).map_or(count, |place| place.start);
            let (own, others) = rest.split_at_mut(next - vectors.places[task * share].start);
            tasks.push((items, own));
            rest = others;
        }
        for_each(self.threads, tasks, |(items, to)| self.copy(items, to))?;
        // SAFETY: the capacity is `count` at least, and every item wrote its numbers: all of them.
        unsafe { numbers.set_len(count) };
        vectors.parts = vec![numbers];
        Ok(())
    }

    /// Writes the numbers of some items.
    fn copy(&self, items: &[u32], mut to: &mut [MaybeUninit<f64>]) -> Result<()> {
        let mut numbers = 0;
        for &place in items {
            let vector = self.vector(place);
            numbers += vector.len() + 8;
            if numbers > CHECK_EVERY {
                self.cancel.check()?;
                numbers = 0;
            }
            let (own, rest) = to.split_at_mut(vector.len());
            own.write_copy_of_slice(vector);
            to = rest;
        }
        Ok(())
    }
}
