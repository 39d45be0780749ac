//! The sizes of a search, its arrays in the memory of a device, and the arguments of its kernels.

use std::ops::Range;
use std::sync::Arc;

use simjoin_core::vector::metric::Metric;

use crate::offload::Arena;
use crate::offload::tiles::TileUnit;
use crate::tuning::Tuning;
use crate::vector::abi::{VectorSide, VectorTally, VectorWork};
use crate::vector::nearest::abi::{BINS, NearestPreparing, NearestTally, NearestWork};
use crate::vector::nearest::plan::{SampledStages, padded};
use crate::vector::nearest::side::DeviceSide;
use crate::vector::shape::{NumberType, VectorKernel, VectorShape};

/// Pairs for which a warp takes room in the list at once.
const CHUNK: u32 = 64;

/// The rows of a side, or some of them, and the columns that they are held against.
#[derive(Debug)]
pub(super) struct DeviceSearch {
    pub metric: Metric,
    pub dimensions: u32,
    pub shape: VectorShape,
    pub multiprocessors: u32,
    pub neighbours: u32,
    pub with_ties: bool,
    pub sample: SampledStages,
    /// Whether rows are columns of the same number.
    pub same: bool,
    /// By dimension, the bits of what is subtracted.
    pub centre: Arc<Vec<u64>>,
    pub left: Arc<DeviceSide>,
    pub rows: Range<u32>,
    pub right: Arc<DeviceSide>,
    /// The tiles of both passes.
    pub sampled: Vec<TileUnit>,
    pub tiles: Vec<TileUnit>,
    pub list_room: u64,
    pub bucket_room: u64,
    pub found_room: u32,
    pub tuning: Tuning,
}

/// The arrays of a search in the memory of a device.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrays {
    pub tally: u64,
    pub greatest: u64,
    pub centre: u64,
    pub zeros: u64,
    pub order: u64,
    pub column_numbers: u64,
    pub column_tails: u64,
    pub row_numbers: u64,
    pub row_tails: u64,
    pub units: [u64; 2],
    pub failed: u64,
    pub redo: u64,
    /// The argument without the tiles.
    pub work: NearestWork,
}

impl DeviceSearch {
    /// The number of rows.
    pub(super) fn row_count(&self) -> u32 {
        self.rows.end - self.rows.start
    }

    /// Whether all columns are rows.
    pub(super) fn is_whole(&self) -> bool {
        self.same && self.row_count() == self.right.count
    }

    /// The number that the kernels give the first row: rows that are columns keep theirs.
    pub(super) fn first_number(&self) -> u32 {
        if self.same { self.rows.start } else { 0 }
    }

    /// The steps of products.
    pub(super) fn steps(&self) -> u32 {
        self.shape.numbers.steps(self.dimensions)
    }

    /// The bytes that the arrays take.
    pub(super) fn bytes(&self) -> u64 {
        let mut arena = Arena::at(0);
        self.declare(&mut arena);
        arena.bytes()
    }

    /// Declares the arrays, the tally at the start.
    pub(super) fn declare<'a>(&'a self, arena: &mut Arena<'a>) -> Arrays {
        const STEP_BYTES: u64 = 32;
        let columns = u64::from(self.right.count);
        let row_padded = self.of_rows(padded(self.row_count()).into());
        let column_padded = u64::from(padded(self.right.count));
        // A term of four bytes lies behind the integers of all vectors for each.
        let of_term = if self.shape.numbers == NumberType::Integers { 4 } else { 0 };
        let step_bytes = STEP_BYTES * u64::from(self.steps()) + of_term;
        let units = self.tiles.len().max(self.sampled.len()) as u64;
        let tally = arena.zeroed::<NearestTally>(1);
        let order = arena.room::<u32>(columns);
        Arrays {
            tally,
            greatest: arena.zeroed::<u64>(1),
            centre: arena.copied(&self.centre),
            zeros: arena.zeroed::<u32>(column_padded / u64::from(self.shape.stage_columns)),
            order,
            column_numbers: arena.room_of(column_padded, step_bytes),
            column_tails: arena.room_of(self.of_same(column_padded), STEP_BYTES),
            row_numbers: arena.room_of(row_padded, step_bytes),
            row_tails: arena.room_of(row_padded, STEP_BYTES),
            units: [arena.copied(&self.sampled), arena.copied(&self.tiles)],
            failed: arena.room::<u32>(units),
            redo: arena.room::<u32>(units),
            work: self.declare_work(arena, tally, order),
        }
    }

    /// Declares the arrays that kernels know by their argument.
    fn declare_work(&self, arena: &mut Arena<'_>, tally: u64, order: u64) -> NearestWork {
        let rows = u64::from(self.row_count());
        let row_padded = padded(self.row_count());
        let bins = self.of_same(BINS + 1);
        let numbers = u64::from(self.first_number()) + rows;
        NearestWork {
            tiles: self.tiles_of(([0; 2], 0), [0; 2], 0),
            groups: arena.room::<u32>(rows * u64::from(self.sample.groups)),
            thresholds: arena.room::<f32>(row_padded.into()),
            row_order: match self.is_whole() {
                true => order,
                false if self.same => arena.room::<u32>(rows),
                false => 0,
            },
            column_order: order,
            bins: arena.zeroed::<u32>(bins),
            bin_next: arena.room::<u32>(bins),
            bin_lowest: arena.zeroed::<u32>(bins),
            sorted_order: arena.room::<u32>(self.of_same(self.right.count.into())),
            sorted_thresholds: arena.room::<f32>(self.of_same(row_padded.into())),
            list: arena.room_of(self.list_room, 8),
            list_keys: arena.room::<u32>(self.list_room),
            counts: arena.zeroed::<u32>(rows),
            starts: arena.room::<u32>(rows + 1),
            next: arena.room::<u32>(rows),
            buckets: arena.room_of(self.bucket_room, 8),
            found_starts: arena.room::<u32>(numbers),
            found_counts: arena.room::<u32>(numbers),
            found_columns: arena.room::<u32>(self.found_room.into()),
            found_values: arena.room::<f64>(self.found_room.into()),
            summary: tally,
            gamma: f64::from(self.steps()) * VectorKernel::Warpgroups.rounding() * 1.02,
            bucket_room: self.bucket_room,
            found_room: self.found_room,
            row_count: self.row_count(),
            row_padded,
            neighbours: self.neighbours,
            group_count: self.sample.groups,
            group_stages: self.sample.group_stages,
            sample_stages: self.sample.stages,
            with_ties: self.with_ties.into(),
            integers: (self.shape.numbers == NumberType::Integers).into(),
            reserved: 0,
        }
    }

    /// A count of what rows need beside columns.
    fn of_rows(&self, count: u64) -> u64 {
        if self.is_whole() { 0 } else { count }
    }

    /// A count of what rows need that are columns.
    fn of_same(&self, count: u64) -> u64 {
        if self.same { count } else { 0 }
    }

    /// The tiles of a pass: numbers and tails of rows, with the number of vectors that lie there, and numbers of
    /// columns.
    fn tiles_of(
        &self,
        ([numbers, tails], among): ([u64; 2], u32),
        [columns, zeros]: [u64; 2],
        tally: u64,
    ) -> VectorWork {
        let side =
            |side: &DeviceSide, first: u32, numbers: u64, tails: u64, count: u32| VectorSide {
                values: side.address() + DeviceSide::bytes(first, self.dimensions, side.wide),
                numbers,
                tails,
                padded: padded(count),
                wide: side.wide.into(),
                ..VectorSide::default()
            };
        VectorWork {
            rows: side(&self.left, self.rows.start - self.first_number(), numbers, tails, among),
            columns: side(&self.right, 0, columns, 0, self.right.count),
            stage_sure: zeros,
            runs: 0,
            units: 0,
            stages: 0,
            hits: 0,
            failed: 0,
            redo: 0,
            matches: 0,
            seen: 0,
            tally,
            bound: 0.0,
            first_row: 0,
            end_row: self.row_count(),
            first_probe: 0,
            column_count: self.right.count,
            run_count: 0,
            unit_count: 0,
            dimensions: self.dimensions,
            steps: self.steps(),
            blocked: self.shape.blocked.into(),
            metric: self.metric as u32,
            strip_rows: self.shape.strip_rows,
            stage_columns: self.shape.stage_columns,
            capacity: self.list_room as u32,
            room: 0,
            chunk: CHUNK,
            undecided_room: 0,
            same: self.same.into(),
            counts_sure: 0,
            boxes: Default::default(),
        }
    }

    /// The argument of a pass over the units of a number.
    pub(super) fn pass(&self, arrays: &Arrays, number: usize) -> NearestWork {
        // Rows that are columns lie in front of the others once they are sorted.
        let rows = match self.is_whole() || self.same && number == 1 {
            true => ([arrays.column_numbers, arrays.column_tails], self.right.count),
            false => ([arrays.row_numbers, arrays.row_tails], self.row_count()),
        };
        let tally = arrays.tally + (number * size_of::<VectorTally>()) as u64;
        let tiles = self.tiles_of(rows, [arrays.column_numbers, arrays.zeros], tally);
        let units = [&self.sampled, &self.tiles][number].len() as u32;
        let tiles = VectorWork {
            units: arrays.units[number],
            failed: arrays.failed,
            redo: arrays.redo,
            unit_count: units,
            ..tiles
        };
        NearestWork { tiles, ..arrays.work }
    }

    /// The side as the kernel prepares it, in an order of its vectors.
    pub(super) fn preparing(&self, arrays: &Arrays, is_row: bool, order: u64) -> NearestPreparing {
        let (side, count) = match is_row {
            true => (&self.left, self.row_count()),
            false => (&self.right, self.right.count),
        };
        let first = if is_row { self.rows.start - self.first_number() } else { 0 };
        let (numbers, tails) = match is_row {
            true => (arrays.row_numbers, arrays.row_tails),
            false => (arrays.column_numbers, if self.same { arrays.column_tails } else { 0 }),
        };
        let is_moved = self.metric == Metric::Euclidean;
        NearestPreparing {
            values: side.address() + DeviceSide::bytes(first, self.dimensions, side.wide),
            centre: if is_moved { arrays.centre } else { 0 },
            greatest: arrays.greatest,
            order,
            numbers,
            tails,
            tally: arrays.tally,
            count,
            padded: padded(count),
            dimensions: self.dimensions,
            steps: self.steps(),
            blocked: self.shape.blocked.into(),
            metric: self.metric as u32,
            wide: side.wide.into(),
            reserved: 0,
        }
    }
}
