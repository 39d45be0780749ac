//! The kernels of a search, one after the other.

use std::ops::Range;

use simjoin_core::vector::metric::Metric;

use crate::runtime::{DeviceError, Kernel, LaunchGrid, Stage};
use crate::vector::abi::Preparing;
use crate::vector::nearest::abi::{
    BINS, NearestPreparing, NearestShuffle, NearestSum, NearestWork,
};
use crate::vector::nearest::arrays::{Arrays, DeviceSearch};
use crate::vector::nearest::plan::{padded, stride};
use crate::vector::nearest::side::DeviceSide;
use crate::vector::shape::{NEAREST, NumberType, VECTORS, VectorShape};

/// By steps, from one on: the kernels that look at groups, and those that list pairs.
const TILES: [[&str; 2]; 9] = [
    ["nearest_bests_1", "nearest_pairs_1"],
    ["nearest_bests_2", "nearest_pairs_2"],
    ["nearest_bests_3", "nearest_pairs_3"],
    ["nearest_bests_4", "nearest_pairs_4"],
    ["nearest_bests_5", "nearest_pairs_5"],
    ["nearest_bests_6", "nearest_pairs_6"],
    ["nearest_bests_7", "nearest_pairs_7"],
    ["nearest_bests_8", "nearest_pairs_8"],
    ["nearest_bests_9", "nearest_pairs_9"],
];
/// The kernels of integers, likewise.
const INTEGER_TILES: [[&str; 2]; 9] = [
    ["nearest_integer_bests_1", "nearest_integer_pairs_1"],
    ["nearest_integer_bests_2", "nearest_integer_pairs_2"],
    ["nearest_integer_bests_3", "nearest_integer_pairs_3"],
    ["nearest_integer_bests_4", "nearest_integer_pairs_4"],
    ["nearest_integer_bests_5", "nearest_integer_pairs_5"],
    ["nearest_integer_bests_6", "nearest_integer_pairs_6"],
    ["nearest_integer_bests_7", "nearest_integer_pairs_7"],
    ["nearest_integer_bests_8", "nearest_integer_pairs_8"],
    ["nearest_integer_bests_9", "nearest_integer_pairs_9"],
];
const SHARED_TILES: [&str; 2] = ["nearest_bests_shared", "nearest_pairs_shared"];

impl DeviceSearch {
    /// Launches all kernels.
    ///
    /// # Safety
    ///
    /// The arrays lie in memory of this stage, where those that begin with zeros and those that are copied
    /// are so.
    pub(super) unsafe fn launch(
        &self,
        arrays: &Arrays,
        stage: &mut Stage<'_>,
    ) -> Result<(), DeviceError> {
        let mut launch = Launcher { stage, multiprocessors: self.multiprocessors };
        let columns = self.right.count;
        let prepare = match self.shape.numbers {
            NumberType::Halves => "nearest_prepare",
            NumberType::Integers => "nearest_prepare_integers",
        };
        // SAFETY: the kernels take what they are given here, whose addresses are those of arrays with room
        // for rows, columns and units of the search, and of the sides, which the work holds.
        unsafe {
            if self.metric == Metric::Euclidean && self.shape.numbers == NumberType::Halves {
                self.measure(arrays, &mut launch)?;
            }
            launch.order(arrays.order, 0..columns, stride(columns))?;
            let lanes = |count: u32| 8 * u64::from(padded(count));
            let prepared = self.preparing(arrays, false, arrays.order);
            launch.threads(prepare, lanes(columns), prepared)?;
            if !self.is_whole() {
                let order = arrays.work.row_order;
                if self.same {
                    launch.order(order, self.rows.clone(), 1)?;
                }
                let prepared = self.preparing(arrays, true, order);
                launch.threads(prepare, lanes(self.row_count()), prepared)?;
            }
            let sampled = self.pass(arrays, 0);
            launch.tiles(self, 0, sampled)?;
            launch.warps("nearest_thresholds", sampled.row_padded, sampled)?;
            let mut work = self.pass(arrays, 1);
            if self.same {
                work = self.sort(arrays, work, &mut launch)?;
                let prepared = self.preparing(arrays, false, work.row_order);
                launch.threads(prepare, lanes(columns), prepared)?;
            }
            launch.tiles(self, 1, work)?;
            self.choose(work, &mut launch)
        }
    }

    /// Finds the greatest norm of both sides.
    ///
    /// # Safety
    ///
    /// As of [`Self::launch`].
    unsafe fn measure(
        &self,
        arrays: &Arrays,
        launch: &mut Launcher<'_, '_>,
    ) -> Result<(), DeviceError> {
        let sides = [(true, !self.same), (false, true)];
        for (is_row, _) in sides.into_iter().filter(|(_, measured)| *measured) {
            let NearestPreparing { values, centre, count, padded, wide, .. } =
                self.preparing(arrays, is_row, 0);
            let preparing = Preparing {
                values,
                present: 0,
                centre,
                greatest: arrays.greatest,
                limit: f64::INFINITY,
                numbers: 0,
                tails: 0,
                bounds: 0,
                stage_sure: 0,
                bound: 0.0,
                rounding: 0.0,
                count,
                padded,
                dimensions: self.dimensions,
                steps: self.steps(),
                blocked: 0,
                metric: self.metric as u32,
                wide,
                stage_columns: self.shape.stage_columns,
                nan_misses: 0,
                reserved: 0,
            };
            let kernel = launch.stage.kernel(&VECTORS, "vectors_measure")?;
            let grid = launch.grid(8 * u64::from(padded), 256);
            // SAFETY: the kernel takes a `Preparing`, and reads the numbers and the centre.
            unsafe { launch.stage.launch(kernel, grid, preparing)? };
        }
        Ok(())
    }

    /// Sorts rows by rising threshold, in front of all other columns; the search in that order.
    ///
    /// # Safety
    ///
    /// As of [`Self::launch`].
    unsafe fn sort(
        &self,
        arrays: &Arrays,
        work: NearestWork,
        launch: &mut Launcher<'_, '_>,
    ) -> Result<NearestWork, DeviceError> {
        let NearestWork { bins, bin_next, sorted_order, sorted_thresholds, .. } = arrays.work;
        let sum = NearestSum { counts: bins, starts: 0, next: bin_next, count: BINS + 1 };
        let Range { start, end } = self.rows;
        let behind = |count: u32| sorted_order + DeviceSide::bytes(count, 1, false);
        // SAFETY: as the caller promises.
        unsafe {
            launch.order(behind(end - start), 0..start, 1)?;
            launch.order(behind(end), end..self.right.count, 1)?;
            launch.threads("nearest_bins", work.row_count.into(), work)?;
            launch.block("nearest_sum", sum)?;
            launch.threads("nearest_sort", work.row_padded.into(), work)?;
        }
        Ok(NearestWork {
            row_order: sorted_order,
            column_order: sorted_order,
            thresholds: sorted_thresholds,
            ..work
        })
    }

    /// Chooses the neighbours among the pairs that are listed.
    ///
    /// # Safety
    ///
    /// As of [`Self::launch`].
    unsafe fn choose(
        &self,
        work: NearestWork,
        launch: &mut Launcher<'_, '_>,
    ) -> Result<(), DeviceError> {
        let NearestWork { counts, starts, next, row_count, .. } = work;
        let sum = NearestSum { counts, starts, next, count: row_count.into() };
        // SAFETY: as the caller promises.
        unsafe {
            launch.threads("nearest_count", self.list_room, work)?;
            launch.block("nearest_sum", sum)?;
            launch.threads("nearest_fill", self.list_room, work)?;
            launch.warps("nearest_choose", row_count, work)
        }
    }
}

/// Launches the kernels of a search.
pub(super) struct Launcher<'a, 'b> {
    stage: &'a mut Stage<'b>,
    multiprocessors: u32,
}

impl Launcher<'_, '_> {
    /// A grid of blocks of some threads, for so many threads at most.
    fn grid(&self, wanted: u64, threads: u32) -> LaunchGrid {
        let most = u64::from(16 * self.multiprocessors);
        let blocks = wanted.div_ceil(threads.into()).clamp(1, most) as u32;
        LaunchGrid { blocks, threads, shared_words: 0 }
    }

    fn kernel(&self, name: &'static str) -> Result<Kernel, DeviceError> {
        self.stage.kernel(&NEAREST, name)
    }

    /// Writes the numbers of some vectors, each `stride` behind the one before.
    ///
    /// # Safety
    ///
    /// As of [`Stage::launch`], here and below.
    unsafe fn order(
        &mut self,
        order: u64,
        numbers: Range<u32>,
        stride: u32,
    ) -> Result<(), DeviceError> {
        let (first, count) = (numbers.start, numbers.len() as u32);
        if count == 0 {
            return Ok(());
        }
        let shuffle = NearestShuffle { order, count, stride, first, reserved: 0 };
        // SAFETY: as the caller promises.
        unsafe { self.threads("nearest_shuffle", count.into(), shuffle) }
    }

    unsafe fn threads<A: Copy>(
        &mut self,
        name: &'static str,
        wanted: u64,
        argument: A,
    ) -> Result<(), DeviceError> {
        let grid = self.grid(wanted, 256);
        // SAFETY: as the caller promises.
        unsafe { self.stage.launch(self.kernel(name)?, grid, argument) }
    }

    unsafe fn warps<A: Copy>(
        &mut self,
        name: &'static str,
        warps: u32,
        argument: A,
    ) -> Result<(), DeviceError> {
        let grid = self.grid(32 * u64::from(warps), 128);
        // SAFETY: as the caller promises.
        unsafe { self.stage.launch(self.kernel(name)?, grid, argument) }
    }

    unsafe fn block<A: Copy>(
        &mut self,
        name: &'static str,
        argument: A,
    ) -> Result<(), DeviceError> {
        let grid = LaunchGrid { blocks: 1, threads: 1024, shared_words: 0 };
        // SAFETY: as the caller promises.
        unsafe { self.stage.launch(self.kernel(name)?, grid, argument) }
    }

    unsafe fn tiles(
        &mut self,
        search: &DeviceSearch,
        pass: usize,
        work: NearestWork,
    ) -> Result<(), DeviceError> {
        let VectorShape { threads, blocks, shared_words, .. } = search.shape;
        let of_steps = match search.shape.numbers {
            NumberType::Halves => &TILES,
            NumberType::Integers => &INTEGER_TILES,
        };
        let names = of_steps.get(search.steps() as usize - 1).unwrap_or(&SHARED_TILES);
        let blocks = (blocks * self.multiprocessors).min(work.tiles.unit_count).max(1);
        let grid = LaunchGrid { blocks, threads, shared_words };
        // SAFETY: as the caller promises.
        unsafe { self.stage.launch(self.kernel(names[pass])?, grid, work) }
    }
}
