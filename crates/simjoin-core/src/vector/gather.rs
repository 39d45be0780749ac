//! The distinct vectors among the rows of several parts, by several threads.

use std::mem::{MaybeUninit, size_of, take};
use std::ops::Range;

use super::collection::{Content, NumbersPlace, ReadRow, ReadRows, Run, Vectors, hash_of};
use super::metric::Metric;
use super::order::{OrderRequest, Resources, arrange, by_magnitude};
use super::width::{Number, Vector, VectorNumbers, by_width};
use crate::engine::{Distinct, ItemId, ItemRows, Place, RowContent, places_by_row};
use crate::error::Result;
use crate::simd::prefetch;
use crate::tuning::Size;
use crate::util::cancel::{CancelFlag, sort_unstable_by_key};
use crate::util::counting_sort;
use crate::util::parallel::{
    Threads, collect, filled, for_each, map, ranges, steps_per_task, threads_for,
};

/// Rows that a task takes on, at least.
const LEAST_ROWS: usize = 1 << 10;

/// Numbers of a vector in its sketch.
const SKETCH: usize = 32;

/// Numbers of a vector, on the average, from which on sketches take less time than hashes.
const LEAST_SKETCHED: Size = Size { usual: 8 * SKETCH, small: SKETCH + 1 };

/// Numbers handled between two looks at the flag.
const CHECK_EVERY: usize = 1 << 16;

/// The settings by which a collection is made.
#[derive(Clone, Copy)]
pub struct VectorGathering<'a> {
    /// The purpose for which its vectors are ordered, if at all.
    pub order: Option<OrderRequest>,
    pub threads: Threads,
    pub cancel: &'a CancelFlag,
    /// Reserves this many bytes beyond [`Vectors::footprint`]; whether that is granted.
    pub reserve: &'a dyn Fn(usize) -> bool,
}

/// Rows in the order of the input.
struct Input<'a> {
    parts: &'a [ReadRows],
    places: Vec<Place>,
    /// Whether rows are told apart by parts of their vectors first.
    sketches: bool,
    threads: Threads,
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

    /// The collection of rows that were read in several parts, whose numbers differ, by one thread. Numbers of
    /// a part are narrow where they can be.
    ///
    /// # Errors
    ///
    /// When the work is cancelled.
    pub fn of(parts: Vec<ReadRows>, cancel: &CancelFlag) -> Result<Self> {
        let parts = parts.into_iter().map(ReadRows::narrowed).collect();
        Self::gather(
            parts,
            VectorGathering { order: None, threads: Threads::ONE, cancel, reserve: &|_| false },
        )
    }

    /// The collection of rows that were read in several parts, whose numbers differ.
    ///
    /// # Errors
    ///
    /// When the work is cancelled.
    pub fn gather(parts: Vec<ReadRows>, how: VectorGathering<'_>) -> Result<Self> {
        let input = Input::of(&parts, how)?;
        let mut distinct = Distinct::of(&input, input.threads, how.cancel)?;
        let mut items = take(&mut distinct.items);
        let runs = match input.runs(&items)? {
            Some(runs) => runs,
            None => {
                items = input.sorted_by_key(items)?;
                input.runs(&items)?.unwrap_or_default()
            }
        };
        let (mut order, mut boxes) = (None, None);
        if let Some(request) = how.order {
            let vector = |item: ItemId| {
                let place = items[item as usize];
                (input.row(place).content == Content::Vector).then(|| input.vector(place))
            };
            let VectorGathering { threads, cancel, reserve, .. } = how;
            let resources = Resources { vector: &vector, runs: &runs, threads, cancel };
            if request.threshold.metric == Metric::InnerProduct {
                let numbers = parts.iter().map(|part| part.numbers.len()).sum();
                order = by_magnitude(resources, numbers, reserve)?;
            } else if let Some(arranged) = arrange(request, resources, reserve)? {
                (order, boxes) = (Some(arranged.order), Some(arranged.boxes));
            }
        }
        if let Some(order) = order {
            let of = |range: Range<usize>| order[range].iter().map(|&item| items[item as usize]);
            items = collect(input.threads, order.len(), LEAST_ROWS, how.cancel, of)?;
        }
        let groups = distinct.groups(&input, &items, how.cancel)?;
        drop(distinct);
        let mut vectors = input.collect(&items)?;
        let given: usize = parts.iter().map(|part| part.numbers.room()).sum();
        let are_narrow = parts.iter().all(|part| part.numbers.is_narrow());
        let bytes = if are_narrow { size_of::<f32>() } else { size_of::<f64>() };
        // Where most rows are equal to others, their numbers are not worth their memory.
        let is_waste =
            vectors.number_count < given / 2 && (how.reserve)(vectors.number_count * bytes);
        if is_waste {
            input.copy_numbers(&items, &mut vectors, are_narrow)?;
        } else {
            drop(input);
            vectors.parts = parts.into_iter().map(|part| part.numbers).collect();
        }
        (vectors.runs, vectors.groups, vectors.boxes) = (runs, groups, boxes);
        Ok(vectors)
    }
}

/// Adds the run of the items that follow the items of `runs`. Returns false, and leaves `runs` as they are, where
/// its key is less than the last one.
fn add_to_runs(runs: &mut Vec<Run>, run: Run) -> bool {
    match runs.last_mut() {
        Some(last) if last.key == run.key => {
            last.items.end = run.items.end;
            last.lens = [last.lens[0].min(run.lens[0]), last.lens[1].max(run.lens[1])];
        }
        Some(last) if last.key > run.key => return false,
        _ => runs.push(run),
    }
    true
}

/// The numbers of a vector's sketch: vectors of images or of counts begin and end alike.
fn middle_of(vector: Vector<'_>) -> Vector<'_> {
    let start = vector.len().saturating_sub(SKETCH) / 2;
    vector.part(start..vector.len().min(start + SKETCH))
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

    fn sketch(&self, place: u32) -> Option<u64> {
        /// Rows behind one that is read.
        const AHEAD: usize = 8;
        if !self.has_sketches() {
            return self.hash(place);
        }
        if place as usize + AHEAD < self.places.len() {
            middle_of(self.vector(place + AHEAD as u32)).prefetch(SKETCH * size_of::<f64>());
        }
        let row = self.row(place);
        (row.content != Content::None)
            .then(|| hash_of(row.key, row.content, middle_of(self.vector(place))))
    }

    fn has_sketches(&self) -> bool {
        self.sketches
    }

    fn is_same(&self, a: u32, b: u32) -> bool {
        let (of_a, of_b) = (self.row(a), self.row(b));
        (of_a.key, of_a.content, of_a.len) == (of_b.key, of_b.content, of_b.len)
            && self.vector(a).is_same(self.vector(b))
    }
}

impl<'a> Input<'a> {
    fn of(parts: &'a [ReadRows], how: VectorGathering<'a>) -> Result<Self> {
        let VectorGathering { threads, cancel, .. } = how;
        let rows: Vec<&[ReadRow]> = parts.iter().map(|part| part.rows.as_slice()).collect();
        let count: usize = rows.iter().map(|rows| rows.len()).sum();
        let numbers: usize = parts.iter().map(|part| part.numbers.len()).sum();
        let threads = threads_for(threads, 8 * count + numbers);
        let places = places_by_row(&rows, |row| row.row, threads, cancel)?;
        let sketches = numbers > threads.tuning.size(LEAST_SKETCHED) * count;
        Ok(Self { parts, places, sketches, threads, cancel })
    }

    #[inline]
    fn row(&self, place: u32) -> &'a ReadRow {
        let Place { part, index, .. } = self.places[place as usize];
        &self.parts[part as usize].rows[index as usize]
    }

    #[inline]
    fn vector(&self, place: u32) -> Vector<'a> {
        self.parts[self.places[place as usize].part as usize].vector(self.row(place))
    }

    /// Has rows brought near that come some steps after an item: those of neighbours in an order lie anywhere.
    #[inline]
    fn prefetch(&self, items: &[u32], step: usize) {
        const AHEAD: usize = 16;
        if let Some(&place) = items.get(step + 2 * AHEAD) {
            prefetch(&self.places[place as usize]);
        }
        if let Some(&place) = items.get(step + AHEAD) {
            prefetch(self.row(place));
        }
    }

    /// The number of rows that a task takes on.
    fn share(&self, rows: usize) -> usize {
        steps_per_task(self.threads, rows, LEAST_ROWS)
    }

    /// The items by key, those of one key as they were: ascending.
    fn sorted_by_key(&self, items: Vec<u32>) -> Result<Vec<u32>> {
        let Self { threads, cancel, .. } = *self;
        let key = |&place: &u32| self.row(place).key;
        let of = |range: Range<usize>| items[range].iter().map(key);
        let keys = collect(threads, items.len(), LEAST_ROWS, cancel, of)?;
        let count = keys.iter().max().map_or(0, |&key| key as usize + 1);
        // Few of many keys.
        if count > 4 * items.len() + 64 {
            drop(keys);
            let mut items = items;
            sort_unstable_by_key(&mut items, cancel, |place| (key(place), *place))?;
            return Ok(items);
        }
        let order = counting_sort::sort(&keys, count, threads, cancel)?.numbers;
        drop(keys);
        let of = |range: Range<usize>| order[range].iter().map(|&item| items[item as usize]);
        collect(threads, items.len(), LEAST_ROWS, cancel, of)
    }

    /// The runs of items of one key; `None` where the items do not ascend by key.
    fn runs(&self, items: &[u32]) -> Result<Option<Vec<Run>>> {
        let parts = map(self.threads, ranges(self.threads, items.len(), LEAST_ROWS), |range| {
            let mut runs: Vec<Run> = vec![];
            for (item, &place) in (range.start as u32..).zip(&items[range]) {
                self.cancel.check_at(item as usize)?;
                let &ReadRow { key, len, .. } = self.row(place);
                if !add_to_runs(&mut runs, Run { key, items: item..item + 1, lens: [len; 2] }) {
                    return Ok(None);
                }
            }
            Ok(Some(runs))
        })?;
        let mut runs = vec![];
        for part in parts {
            let Some(part) = part else { return Ok(None) };
            for (step, run) in part.into_iter().enumerate() {
                self.cancel.check_at(step)?;
                if !add_to_runs(&mut runs, run) {
                    return Ok(None);
                }
            }
        }
        Ok(Some(runs))
    }

    /// The collection of these items, whose numbers lie where they were read, without these, runs and
    /// groups.
    fn collect(&self, items: &[u32]) -> Result<Vectors> {
        let (count, threads) = (items.len(), self.threads);
        let mut vectors = Vectors::default();
        vectors.contents = filled(threads, count, Content::None);
        vectors.lens = filled(threads, count, 0);
        vectors.places = filled(threads, count, NumbersPlace::default());
        let share = self.share(count);
        let of_items = vectors.contents.chunks_mut(share).zip(vectors.lens.chunks_mut(share));
        let of_items = of_items.zip(vectors.places.chunks_mut(share));
        let tasks = items.chunks(share).zip(of_items).collect();
        let counts = map(threads, tasks, |(items, ((contents, lens), places))| {
            let mut count = 0;
            let of_items = contents.iter_mut().zip(lens).zip(places);
            for (step, (&place, ((content, len), at))) in items.iter().zip(of_items).enumerate() {
                self.cancel.check_at(step)?;
                self.prefetch(items, step);
                let &ReadRow { content: of_row, len: dimensions, start, .. } = self.row(place);
                (*content, *len) = (of_row, dimensions);
                let numbers = if of_row == Content::Vector { dimensions } else { 0 };
                let part = self.places[place as usize].part;
                *at = NumbersPlace { part, len: numbers, start };
                count += numbers as usize;
            }
            Ok(count)
        })?;
        vectors.number_count = counts.iter().sum();
        Ok(vectors)
    }

    /// Copies the numbers of the items of a collection, one behind the other; as `f32` where all are that.
    fn copy_numbers(&self, items: &[u32], vectors: &mut Vectors, are_narrow: bool) -> Result<()> {
        let mut end = 0;
        for place in &mut vectors.places {
            (place.part, place.start) = (0, end);
            end += place.len as usize;
        }
        let places = &vectors.places;
        vectors.parts = vec![match are_narrow {
            true => VectorNumbers::Narrow(self.copied(items, places, end, |v| v as f32)?),
            false => VectorNumbers::Wide(self.copied(items, places, end, |v| v)?),
        }];
        Ok(())
    }

    /// The numbers of the items, `count` in all, each where its place says.
    fn copied<T: Number>(
        &self,
        items: &[u32],
        places: &[NumbersPlace],
        count: usize,
        convert: impl Fn(f64) -> T + Sync,
    ) -> Result<Vec<T>> {
        let mut numbers = Vec::with_capacity(count);
        let mut rest = &mut numbers.spare_capacity_mut()[..count];
        let mut tasks = vec![];
        let share = self.share(items.len());
        for (task, items) in items.chunks(share).enumerate() {
            let next = places.get((task + 1) * share).map_or(count, |place| place.start);
            let (own, others) = rest.split_at_mut(next - places[task * share].start);
            tasks.push((items, own));
            rest = others;
        }
        for_each(self.threads, tasks, |(items, to)| self.copy(items, to, &convert))?;
        // SAFETY: the capacity is `count` at least, and every item wrote its numbers: all of them.
        unsafe { numbers.set_len(count) };
        Ok(numbers)
    }

    /// Writes the numbers of some items.
    fn copy<T: Number>(
        &self,
        items: &[u32],
        mut to: &mut [MaybeUninit<T>],
        convert: impl Fn(f64) -> T,
    ) -> Result<()> {
        let mut numbers = 0;
        for &place in items {
            let vector = self.vector(place);
            numbers += vector.len() + 8;
            if numbers > CHECK_EVERY {
                self.cancel.check()?;
                numbers = 0;
            }
            let (own, rest) = to.split_at_mut(vector.len());
            by_width!(vector, |numbers| {
                for (to, number) in own.iter_mut().zip(numbers) {
                    to.write(convert(number.wide()));
                }
            });
            to = rest;
        }
        Ok(())
    }
}
