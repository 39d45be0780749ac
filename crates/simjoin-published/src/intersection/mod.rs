//! Intersections of large sets by the project's kernels for a pair and by those of the literature, side
//! by side, for measurements and tests (Bellas, Gounaris: "A methodology for large set intersection on
//! GPUs", DOLAP 2021). `kernels/published_intersection.cu` names the techniques' sources.

mod abi;
mod plan;
#[cfg(test)]
mod tests;
mod work;

use std::sync::Arc;
use std::sync::mpsc::channel;

use simjoin_gpu::runtime::{Device, DeviceError, Images, PinnedBuffer, images};

use self::plan::TechniquePlan;
pub use self::plan::TechniqueSettings;
use self::work::TechniqueWork;

/// The kernels of all techniques.
static INTERSECTION: Images = images!("published_intersection");

/// A way to intersect all pairs of some sets on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Technique {
    /// Merge path in tiles of shared memory, or searches where one set is much longer.
    Ours,
    /// Intersect path with count augmentation, IP.
    IntersectPath,
    /// Optimized binary search, OBS.
    Searches,
    /// IP over blocks, OBS in a block.
    PathAndSearches,
    /// Hash-based intersection, HI.
    Hashes,
    /// IP over blocks, HI in a block.
    PathAndHashes,
    /// A bitmap for each set, BI-naive.
    Bitmaps,
    /// A bitmap of one set at a time, BI-dynamic.
    Bitmap,
    /// A full inverted index, as sf-gSSJoin counts.
    Postings,
}

impl Technique {
    /// Every technique.
    pub const ALL: [Self; 9] = [
        Self::Ours,
        Self::IntersectPath,
        Self::Searches,
        Self::PathAndSearches,
        Self::Hashes,
        Self::PathAndHashes,
        Self::Bitmaps,
        Self::Bitmap,
        Self::Postings,
    ];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::IntersectPath => "ip",
            Self::Searches => "obs",
            Self::PathAndSearches => "ip-obs",
            Self::Hashes => "hi",
            Self::PathAndHashes => "ip-hi",
            Self::Bitmaps => "bi-naive",
            Self::Bitmap => "bi-dynamic",
            Self::Postings => "sf-gssjoin",
        }
    }
}

/// Sets whose pairs are intersected, in memory that a device has pinned.
#[derive(Debug)]
pub struct PinnedSets {
    /// Values of all sets, one set behind the other.
    memory: PinnedBuffer,
    offsets: Vec<u64>,
    /// One more than the greatest value.
    universe: u64,
}

impl PinnedSets {
    /// Ascending different values of each set.
    ///
    /// # Errors
    ///
    /// Where the device cannot pin as much.
    pub fn new(device: &Device, sets: &[Vec<u32>]) -> Result<Arc<Self>, DeviceError> {
        let mut offsets = vec![0];
        for set in sets {
            offsets.push(offsets[offsets.len() - 1] + set.len() as u64);
        }
        let count = offsets[sets.len()] as usize;
        let memory = device.pinned((count * size_of::<u32>()).max(1))?;
        let mut to = memory.start().cast::<u32>().as_ptr();
        for set in sets {
            // SAFETY: the buffer has room for all sets, and nothing else reaches for it.
            unsafe {
                to.copy_from_nonoverlapping(set.as_ptr(), set.len());
                to = to.add(set.len());
            }
        }
        let greatest = sets.iter().filter_map(|set| set.last()).max();
        let universe = greatest.map_or(1, |&value| u64::from(value) + 1);
        Ok(Arc::new(Self { memory, offsets, universe }))
    }

    /// The number of sets.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The pairs of different sets.
    pub fn pairs(&self) -> u64 {
        let sets = self.len() as u64;
        sets * sets.saturating_sub(1) / 2
    }

    /// The values of a set.
    fn size(&self, set: usize) -> u64 {
        self.offsets[set + 1] - self.offsets[set]
    }

    /// The values of all sets.
    fn values(&self) -> u64 {
        self.offsets[self.len()]
    }

    fn longest(&self) -> u64 {
        (0..self.len()).map(|set| self.size(set)).max().unwrap_or(0)
    }

    fn bytes(&self) -> &[u8] {
        let count = self.values() as usize * size_of::<u32>();
        // SAFETY: `new` has filled them, and nothing writes to them since.
        unsafe { std::slice::from_raw_parts(self.memory.start().as_ptr(), count) }
    }
}

/// The overlaps that a technique has found, and the time it took on the device.
#[derive(Debug, Default)]
pub struct Overlaps {
    /// By pair: (0, 1), (0, 2), (1, 2), (0, 3), ...
    pub overlaps: Vec<u32>,
    /// Nanoseconds of kernels for each round.
    pub kernel_nanos: u64,
    /// Nanoseconds of copies to the device for each round.
    pub copy_nanos: u64,
}

/// Intersects the pairs of some sets.
///
/// # Errors
///
/// Where the device fails or lacks the memory.
pub fn overlaps(
    device: &Device,
    sets: &Arc<PinnedSets>,
    technique: Technique,
    tuning: TechniqueSettings,
) -> Result<Overlaps, DeviceError> {
    if sets.pairs() == 0 {
        return Ok(Overlaps::default());
    }
    let plan = TechniquePlan::new(sets, technique, tuning, device.multiprocessors())?;
    let (sender, receiver) = channel();
    device.submit(Box::new(TechniqueWork::new(Arc::clone(sets), plan, sender)));
    let lost = || DeviceError::Internal("an intersection has no answer".to_string());
    receiver.recv().map_err(|_| lost())?
}
