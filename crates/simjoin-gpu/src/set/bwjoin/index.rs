//! The inverted index of the build side on a device.

use std::ops::Range;
use std::sync::Arc;

use simjoin_core::set::collection::SetCollection;
use simjoin_core::set::runs::SetId;

use crate::offload::{ArrayLayout, run};
use crate::runtime::{Device, DeviceError, LaunchGrid, Resident, Stage};
use crate::set::bwjoin::abi::{
    DIGIT_BITS, INDEXED, IndexRun, Indexing, Postings, SORT_THREADS, SORT_TILE,
};
use crate::set::device::ResidentSets;

/// Bytes of a posting, and of one that is being sorted.
const POSTING_BYTES: u64 = 16;
const SORTED_BYTES: u64 = POSTING_BYTES + 16;

/// The postings that an index has: exact, and known before it is made.
#[derive(Debug)]
pub(super) struct IndexShape {
    runs: Vec<IndexRun>,
    /// The sizes of the sets, ascending.
    pub sizes: Vec<u32>,
    pub parts: Vec<IndexPart>,
    sets: u32,
    universe: u32,
    postings: u64,
}

/// Sets with an index of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IndexPart {
    pub sets: Range<SetId>,
    pub first_posting: u64,
    pub postings: u32,
}

impl IndexShape {
    /// The bytes that a shape takes on the host, while it is made.
    pub(super) fn footprint(build: &SetCollection) -> usize {
        build.runs().len() * (size_of::<IndexRun>() + 2 * size_of::<u32>())
    }

    /// The index of the first `prefix(size)` tokens of each set, in parts of at most `part_sets` sets
    /// and, where they have several, `part_postings` postings.
    pub(super) fn new(
        build: &SetCollection,
        prefix: impl Fn(u32) -> u32,
        part_sets: u32,
        part_postings: u32,
    ) -> Self {
        let mut sizes: Vec<u32> = build.runs().iter().map(|(run, _)| run.size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let prefixes: Vec<u32> = sizes.iter().map(|&size| prefix(size).min(size)).collect();
        let mut posting = 0;
        let mut parts = vec![];
        let mut part = IndexPart { sets: 0..0, first_posting: 0, postings: 0 };
        let runs = build.runs().iter().map(|(run, ids)| {
            let size_class = sizes.partition_point(|&size| size < run.size);
            let prefix = prefixes[size_class];
            let first = posting;
            let mut set = ids.start;
            while set < ids.end {
                let room = part_sets - (part.sets.end - part.sets.start);
                let of_postings = part_postings.saturating_sub(part.postings) / prefix.max(1);
                // A part has a set at least.
                let least = u32::from(part.sets.is_empty());
                let sets = room.min(of_postings.max(least)).min(ids.end - set);
                if sets == 0 {
                    let next = IndexPart { sets: set..set, first_posting: posting, postings: 0 };
                    parts.push(std::mem::replace(&mut part, next));
                    continue;
                }
                set += sets;
                part.sets.end = set;
                part.postings += sets * prefix;
                posting += u64::from(sets) * u64::from(prefix);
            }
            IndexRun {
                first: ids.start,
                prefix,
                size_class: size_class as u32,
                reserved: 0,
                posting: first,
            }
        });
        let runs = runs.collect();
        if !part.sets.is_empty() {
            parts.push(part);
        }
        let (sets, universe) = (build.len(), build.universe());
        Self { runs, sizes, parts, sets, universe, postings: posting }
    }

    /// The parts that have some of `columns`.
    pub(super) fn parts_of(&self, columns: &Range<SetId>) -> Range<usize> {
        let start = self.parts.partition_point(|part| part.sets.end <= columns.start);
        let end = self.parts.partition_point(|part| part.sets.start < columns.end);
        start..end.max(start)
    }

    /// The most sets of a part.
    pub(super) fn greatest_part(&self) -> u32 {
        self.parts.iter().map(|part| part.sets.end - part.sets.start).max().unwrap_or(0)
    }

    /// The bytes of the index on a device, and those that making it takes besides.
    pub(super) fn bytes(&self) -> (u64, u64) {
        (Places::of(self).end, SortRoom::of(self).end)
    }
}

/// Where the arrays of an index lie.
#[derive(Debug, Clone, Copy)]
struct Places {
    runs: u64,
    sizes: u64,
    classes: u64,
    offsets: u64,
    postings: Postings,
    end: u64,
}

impl Places {
    fn of(shape: &IndexShape) -> Self {
        let mut layout = ArrayLayout::default();
        let offsets = shape.parts.len() as u64 * (u64::from(shape.universe) + 1);
        Self {
            runs: layout.add(shape.runs.len() as u64, size_of::<IndexRun>() as u64),
            sizes: layout.add(shape.sizes.len() as u64, 4),
            classes: layout.add(u64::from(shape.sets), 4),
            offsets: layout.add(offsets, 4),
            postings: postings(&mut layout, shape.postings),
            end: layout.end(),
        }
    }
}

/// Where postings are sorted: room for the largest part.
#[derive(Debug, Clone, Copy)]
struct SortRoom {
    unsorted: Postings,
    tokens: [u64; 2],
    numbers: [u64; 2],
    counts: u64,
    end: u64,
}

impl SortRoom {
    fn of(shape: &IndexShape) -> Self {
        let most = shape.parts.iter().map(|part| part.postings).max().unwrap_or(0);
        let counts = (u64::from(most.div_ceil(SORT_TILE)) + 1) << DIGIT_BITS;
        let mut layout = ArrayLayout::default();
        let unsorted = postings(&mut layout, most.into());
        let [tokens, next_tokens, numbers, next_numbers] =
            [0; 4].map(|_| layout.add(most.into(), 4));
        let counts = layout.add(counts, 4);
        let (tokens, numbers) = ([tokens, next_tokens], [numbers, next_numbers]);
        Self { unsorted, tokens, numbers, counts, end: layout.end() }
    }
}

fn postings(layout: &mut ArrayLayout, count: u64) -> Postings {
    Postings {
        sets: layout.add(count, 4),
        places: layout.add(count, 8),
        signatures: layout.add(count, 4),
    }
}

impl Postings {
    /// The addresses of the postings from `posting` on, where the arrays lie behind `address`.
    fn at(&self, address: u64, posting: u64) -> Self {
        Self {
            sets: address + self.sets + 4 * posting,
            places: address + self.places + 8 * posting,
            signatures: address + self.signatures + 4 * posting,
        }
    }
}

/// The build side on a device with its index.
#[derive(Debug)]
pub(super) struct DeviceIndex {
    pub sets: ResidentSets,
    pub shape: Arc<IndexShape>,
    memory: Resident,
    places: Places,
}

impl DeviceIndex {
    /// Indexes the sets of a collection, which are on the device, and waits for it.
    ///
    /// # Errors
    ///
    /// [`DeviceError::OutOfMemory`] where the index does not fit.
    pub(super) fn make(
        device: &Arc<Device>,
        sets: ResidentSets,
        shape: &Arc<IndexShape>,
    ) -> Result<Arc<Self>, DeviceError> {
        let places = Places::of(shape);
        let memory = device.resident("the inverted index of the join", places.end, |upload| {
            upload.copy(places.runs, &shape.runs)?;
            upload.copy(places.sizes, &shape.sizes)
        })?;
        let this = Arc::new(Self { sets, shape: Arc::clone(shape), memory, places });
        let (index, blocks) = (Arc::clone(&this), 8 * device.multiprocessors());
        run(device, move |stage| index.fill(stage, blocks))?;
        Ok(this)
    }

    /// The addresses of the classes of sets, and of the sizes of classes.
    pub(super) fn classes(&self) -> [u64; 2] {
        [self.places.classes, self.places.sizes].map(|place| self.memory.address() + place)
    }

    /// The addresses of a part: of its offsets, and of its postings.
    pub(super) fn part(&self, number: usize) -> (u64, Postings) {
        let address = self.memory.address();
        let offsets = number as u64 * (u64::from(self.shape.universe) + 1);
        let first = self.shape.parts.get(number).map_or(0, |part| part.first_posting);
        (address + self.places.offsets + 4 * offsets, self.places.postings.at(address, first))
    }

    /// Whether a work at this stage can read it.
    pub(super) fn is_at(&self, stage: &Stage<'_>) -> bool {
        self.sets.is_at(stage) && stage.has(&self.memory)
    }

    /// Has the kernels index the sets, in up to so many blocks.
    fn fill(&self, stage: &mut Stage<'_>, most_blocks: u32) -> Result<(), DeviceError> {
        if !self.is_at(stage) {
            return Err(DeviceError::Internal("sets of another device are indexed".to_string()));
        }
        let scratch = SortRoom::of(&self.shape);
        let start = stage.reserve("the postings of the join, to be sorted,", scratch.end)?;
        let mut parts = self.shape.parts.iter().enumerate();
        parts.try_for_each(|part| self.make_part(stage, part, &scratch, (start, most_blocks)))
    }

    /// Indexes a part.
    fn make_part(
        &self,
        stage: &mut Stage<'_>,
        (number, part): (usize, &IndexPart),
        scratch: &SortRoom,
        (start, most_blocks): (u64, u32),
    ) -> Result<(), DeviceError> {
        let Self { sets, shape, memory, places } = self;
        let (offsets, sorted) = self.part(number);
        let at = |place: u64| start + place;
        let mut indexing = Indexing {
            sets: sets.sets(),
            runs: memory.address() + places.runs,
            classes: memory.address() + places.classes,
            unsorted: scratch.unsorted.at(start, 0),
            sorted,
            tokens: at(scratch.tokens[0]),
            numbers: at(scratch.numbers[0]),
            next_tokens: at(scratch.tokens[1]),
            next_numbers: at(scratch.numbers[1]),
            counts: at(scratch.counts),
            offsets,
            first_posting: part.first_posting,
            posting_count: part.postings,
            run_count: shape.runs.len() as u32,
            first_set: part.sets.start,
            end_set: part.sets.end,
            universe: shape.universe,
            shift: 0,
            tiles: part.postings.div_ceil(SORT_TILE),
            reserved: 0,
        };
        let blocks = |wanted: u32| LaunchGrid {
            blocks: wanted.clamp(1, most_blocks),
            threads: SORT_THREADS,
            shared_words: 0,
        };
        let of_sets = blocks((part.sets.end - part.sets.start).div_ceil(SORT_THREADS / 32));
        let of_tiles = blocks(indexing.tiles);
        let of_digits = blocks(1 << DIGIT_BITS);
        // SAFETY: the kernels take an `Indexing`, whose addresses are those of memory that the work
        // holds, with room for the postings of the part.
        unsafe { stage.launch(stage.kernel(&INDEXED, "index_fill")?, of_sets, indexing)? };
        let bits = u32::BITS - shape.universe.saturating_sub(1).leading_zeros();
        for shift in (0..bits).step_by(DIGIT_BITS as usize) {
            indexing.shift = shift;
            // SAFETY: as above.
            unsafe {
                stage.launch(stage.kernel(&INDEXED, "index_count")?, of_tiles, indexing)?;
                stage.launch(stage.kernel(&INDEXED, "index_sum")?, of_digits, indexing)?;
                stage.launch(stage.kernel(&INDEXED, "index_move")?, of_tiles, indexing)?;
            }
            std::mem::swap(&mut indexing.tokens, &mut indexing.next_tokens);
            std::mem::swap(&mut indexing.numbers, &mut indexing.next_numbers);
        }
        let wanted = part.postings.max(shape.universe).div_ceil(SORT_THREADS);
        // SAFETY: as above.
        unsafe { stage.launch(stage.kernel(&INDEXED, "index_finish")?, blocks(wanted), indexing) }
    }
}

/// The most postings of a part that can be sorted in `bytes` of memory.
pub(super) fn postings_within(bytes: u64) -> u32 {
    (bytes / SORTED_BYTES).clamp(1, 1 << 30) as u32
}
