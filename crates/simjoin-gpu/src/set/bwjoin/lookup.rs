//! The ways in which rows find their candidates in an index.

use std::fmt::Debug;

use simjoin_core::set::join_spec::JoinSpec;

use crate::runtime::{DeviceError, Images, LaunchGrid, Stage};
use crate::set::bwjoin::abi::{INDEXED, IndexWork};

/// Threads of a block, unless a lookup says otherwise.
pub(super) const THREADS: u32 = 128;
/// Blocks of a multiprocessor that look up, or decide, at most.
const BLOCKS: u32 = 16;
/// Warps that fill a multiprocessor.
const WARPS: u32 = 64;

/// A way for rows to find their candidates. Kernels take an [`IndexWork`].
pub trait CandidateLookup: Debug + Send + Sync {
    /// The kernel, in metrics.
    fn kernel(&self) -> &'static str;

    /// Postings that a work reads in about ten milliseconds of an H200, and a row in three.
    fn budgets(&self) -> (u64, u64);

    /// The most sets that are indexed together.
    fn part_sets(&self) -> u32 {
        u32::MAX
    }

    /// Whether sets are indexed, and rows looked up, by all of their tokens in place of their prefixes.
    fn takes_all_tokens(&self) -> bool {
        false
    }

    /// The number of candidates that are written together: a work has room for as many at least.
    fn least_capacity(&self) -> u32 {
        32
    }

    /// Whether a work has a cell for each row and each column of a part.
    fn has_cells(&self) -> bool {
        false
    }

    /// Launches the kernels that write candidates.
    ///
    /// # Errors
    ///
    /// Where the device fails.
    fn filter(&self, launcher: &mut Launcher<'_, '_>) -> Result<(), DeviceError>;

    /// The kernels that decide the candidates: to give matches, and to count them.
    fn deciding(&self) -> (&'static Images, [&'static str; 2]) {
        (&INDEXED, ["index_decide_pairs", "index_decide_count"])
    }
}

/// The product's own: a warp a row decides each posting by itself.
#[derive(Debug)]
pub struct ByWarps;

impl CandidateLookup for ByWarps {
    fn kernel(&self) -> &'static str {
        "index_warps"
    }

    fn budgets(&self) -> (u64, u64) {
        (1 << 31, 1 << 17)
    }

    fn filter(&self, launcher: &mut Launcher<'_, '_>) -> Result<(), DeviceError> {
        launcher.warp_a_row(&INDEXED, self.kernel())
    }
}

/// The number of tokens of a set of this size that a lookup has indexed.
pub(super) fn indexed_tokens(lookup: &dyn CandidateLookup, spec: &JoinSpec, size: u32) -> u32 {
    if lookup.takes_all_tokens() { size } else { spec.indexed_prefix(size) }
}

/// Launches the kernels of one work.
#[derive(Debug)]
pub struct Launcher<'a, 'b> {
    stage: &'a mut Stage<'b>,
    multiprocessors: u32,
    work: IndexWork,
}

impl<'a, 'b> Launcher<'a, 'b> {
    /// # Safety
    ///
    /// The addresses of the work are those of memory that the stage keeps, with room for what the
    /// kernels read and write.
    pub(super) unsafe fn new(
        stage: &'a mut Stage<'b>,
        multiprocessors: u32,
        work: IndexWork,
    ) -> Self {
        Self { stage, multiprocessors, work }
    }

    /// A kernel whose warps take up rows.
    ///
    /// # Errors
    ///
    /// Where the device fails.
    pub fn warp_a_row(
        &mut self,
        program: &'static Images,
        name: &'static str,
    ) -> Result<(), DeviceError> {
        self.launch(program, name, self.grid(self.work.row_count.div_ceil(THREADS / 32)))
    }

    /// A kernel whose threads take up rows.
    ///
    /// # Errors
    ///
    /// Where the device fails.
    pub fn thread_a_row(
        &mut self,
        program: &'static Images,
        name: &'static str,
    ) -> Result<(), DeviceError> {
        self.launch(program, name, self.grid(self.work.row_count.div_ceil(THREADS)))
    }

    /// A kernel whose blocks, of so many threads and words of shared memory, take up rows.
    ///
    /// # Errors
    ///
    /// Where the device fails.
    pub fn block_a_row(
        &mut self,
        program: &'static Images,
        name: &'static str,
        (threads, shared_words): (u32, u32),
    ) -> Result<(), DeviceError> {
        let most = WARPS * 32 / threads * self.multiprocessors;
        let blocks = self.work.row_count.clamp(1, most);
        self.launch(program, name, LaunchGrid { blocks, threads, shared_words })
    }

    /// The kernel that decides candidates.
    pub(super) fn decide(
        &mut self,
        (program, [pairs, count]): (&'static Images, [&'static str; 2]),
        counts: bool,
    ) -> Result<(), DeviceError> {
        let name = if counts { count } else { pairs };
        self.launch(program, name, self.grid(self.work.capacity.div_ceil(THREADS)))
    }

    fn grid(&self, wanted: u32) -> LaunchGrid {
        let blocks = wanted.clamp(1, BLOCKS * self.multiprocessors);
        LaunchGrid { blocks, threads: THREADS, shared_words: 0 }
    }

    fn launch(
        &mut self,
        program: &'static Images,
        name: &'static str,
        grid: LaunchGrid,
    ) -> Result<(), DeviceError> {
        let kernel = self.stage.kernel(program, name)?;
        // SAFETY: the kernel takes an `IndexWork`, of which the caller of `new` says that it holds.
        unsafe { self.stage.launch(kernel, grid, self.work) }
    }
}
