//! A technique as work for a device.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use simjoin_gpu::offload::{bytes_of, fetch};
use simjoin_gpu::runtime::{DeviceError, DeviceWork, LaunchGrid, Results, Stage, Usage};
use simjoin_gpu::set::device::abi::Sets;

use super::abi::{PairsWork, RunPair};
use super::plan::{Places, TechniquePlan};
use super::{INTERSECTION, Overlaps, PinnedSets, Technique};

/// Where one run is this many times as long as the other, the values of the shorter one are searched.
const SKEWED: u64 = 8;
/// Values of both runs of a tile, and threads; for runs of fewer values than `FEW`, smaller tiles.
const TILE: (u64, u32) = (8192, 256);
const SHORT_TILE: (u64, u32) = (2048, 128);
const FEW: u64 = 4 << 20;
/// Values of the shorter run that a block searches.
const SEARCHED: u64 = 1024;

/// Intersects the pairs of some sets.
#[derive(Debug)]
pub(super) struct TechniqueWork {
    sets: Arc<PinnedSets>,
    plan: TechniquePlan,
    places: Places,
    found: Vec<u32>,
    sender: Sender<Result<Overlaps, DeviceError>>,
}

impl TechniqueWork {
    pub(super) fn new(
        sets: Arc<PinnedSets>,
        plan: TechniquePlan,
        sender: Sender<Result<Overlaps, DeviceError>>,
    ) -> Self {
        let places = Places::of(&plan, &sets);
        Self { sets, plan, places, found: vec![], sender }
    }

    /// Issues a round, for the values at `values`.
    fn round(&self, launcher: &mut Launcher<'_, '_>, values: u64) -> Result<(), DeviceError> {
        let (plan, places, start) = (&self.plan, &self.places, launcher.start);
        if plan.technique == Technique::Ours {
            return self.intersect(launcher, values);
        }
        let work = PairsWork {
            sets: Sets { tokens: values, offsets: start + places.offsets },
            overlaps: start + places.overlaps,
            room: start + places.room,
            counts: start + places.counts,
            offsets: start + places.postings,
            works: start + places.works,
            sums: start + places.sums,
            first_pair: 0,
            end_pair: self.sets.pairs(),
            room_words: plan.room_words,
            word_count: plan.word_count,
            first_value: 0,
            set_count: self.sets.len() as u32,
            parts: plan.parts,
            buckets: plan.buckets,
            capacity: plan.capacity,
            current: 0,
            universe: self.sets.universe.min(u32::MAX.into()) as u32,
        };
        let items = plan.grid(self.sets.pairs() * u64::from(plan.parts));
        match plan.technique {
            Technique::Ours | Technique::IntersectPath => {
                launcher.run("published_ip", items, 0, work)
            }
            Technique::Searches => launcher.run("published_obs", items, 0, work),
            Technique::PathAndSearches => launcher.run("published_ip_obs", items, 0, work),
            Technique::Hashes => launcher.run("published_hi", items, 0, work),
            Technique::PathAndHashes => {
                launcher.run("published_ip_hi", items, plan.room_words as u32, work)
            }
            Technique::Bitmaps | Technique::Bitmap => self.mark(launcher, work),
            Technique::Postings => self.index(launcher, work),
        }
    }

    /// The project's own kernels, pair by pair.
    fn intersect(&self, launcher: &mut Launcher<'_, '_>, values: u64) -> Result<(), DeviceError> {
        let mut common = launcher.start + self.places.overlaps;
        for second in 1..self.sets.len() {
            for first in 0..second {
                let of = |set: usize| (values + 4 * self.sets.offsets[set], self.sets.size(set));
                let (mut a, mut b) = (of(first), of(second));
                if a.1 > b.1 {
                    std::mem::swap(&mut a, &mut b);
                }
                let pair = RunPair { a: a.0, b: b.0, a_count: a.1, b_count: b.1, common };
                let all = a.1 + b.1;
                let (name, values, (each, threads)) = if b.1 / SKEWED > a.1 {
                    ("published_search_u32", a.1, (SEARCHED, 256))
                } else if all < FEW {
                    ("published_merge_u32_short", all, SHORT_TILE)
                } else {
                    ("published_merge_u32", all, TILE)
                };
                let blocks = values.div_ceil(each).clamp(1, 1 << 30) as u32;
                launcher.launch(name, LaunchGrid { blocks, threads, shared_words: 0 }, pair)?;
                common += 8;
            }
        }
        Ok(())
    }

    /// Bitmaps, slice by slice.
    fn mark(
        &self,
        launcher: &mut Launcher<'_, '_>,
        mut work: PairsWork,
    ) -> Result<(), DeviceError> {
        let plan = &self.plan;
        let words = self.sets.universe.div_ceil(32);
        for slice in (0..words).step_by(plan.word_count.max(1) as usize) {
            work.first_value = 32 * slice;
            if plan.technique == Technique::Bitmaps {
                launcher.stage.clear(self.places.room, plan.room_bytes as usize)?;
                launcher.run("published_bi_all", plan.blocks, 0, work)?;
                let items = self.sets.pairs() * u64::from(plan.parts);
                launcher.run("published_bi_naive", plan.grid(items), 0, work)?;
                continue;
            }
            for current in 1..work.set_count {
                work.current = current;
                launcher.stage.clear(self.places.room, plan.room_bytes as usize)?;
                let one = PairsWork { parts: plan.blocks, ..work };
                launcher.run("published_bi_one", plan.blocks, 0, one)?;
                let items = u64::from(current) * u64::from(plan.parts);
                launcher.run("published_bi_dynamic", plan.grid(items), 0, work)?;
            }
        }
        Ok(())
    }

    /// A full index, and the pairs of its postings.
    fn index(&self, launcher: &mut Launcher<'_, '_>, work: PairsWork) -> Result<(), DeviceError> {
        let plan = &self.plan;
        launcher.stage.clear(self.places.counts, 4 * self.sets.universe as usize)?;
        launcher.run("published_sf_gssjoin_count", plan.blocks, 0, work)?;
        launcher.run("published_sf_gssjoin_pieces", plan.blocks, 0, work)?;
        let one = LaunchGrid { blocks: 1, threads: 32, shared_words: 0 };
        launcher.launch("published_sf_gssjoin_sums", one, work)?;
        launcher.run("published_sf_gssjoin_tokens", plan.blocks, 0, work)?;
        launcher.run("published_sf_gssjoin_fill", plan.blocks, 0, work)?;
        launcher.run("published_sf_gssjoin", plan.blocks, 0, work)
    }

    /// The overlaps of all rounds as those of one.
    fn of_one_round(&self, sums: impl Iterator<Item = u64>) -> Result<Vec<u32>, DeviceError> {
        let rounds = u64::from(self.plan.rounds);
        let each = sums.map(|sum| match sum % rounds {
            0 => Ok((sum / rounds) as u32),
            _ => Err(DeviceError::Internal(format!("{sum} common values in {rounds} rounds"))),
        });
        each.collect()
    }
}

/// Launches the kernels of one work.
pub(super) struct Launcher<'a, 'b> {
    stage: &'a mut Stage<'b>,
    start: u64,
    threads: u32,
}

impl Launcher<'_, '_> {
    fn run(
        &mut self,
        name: &'static str,
        blocks: u32,
        shared_words: u32,
        work: PairsWork,
    ) -> Result<(), DeviceError> {
        self.launch(name, LaunchGrid { blocks, threads: self.threads, shared_words }, work)
    }

    fn launch<A: Copy>(
        &mut self,
        name: &'static str,
        grid: LaunchGrid,
        work: A,
    ) -> Result<(), DeviceError> {
        let kernel = self.stage.kernel(&INTERSECTION, name)?;
        // SAFETY: the kernels take a `RunPair` or `PairsWork` as their names say. Its addresses are
        // those of memory of this stage, with as much room as the plan says.
        unsafe { self.stage.launch(kernel, grid, work) }
    }
}

impl DeviceWork for TechniqueWork {
    fn issue(&mut self, stage: &mut Stage<'_>) -> Result<(), DeviceError> {
        let (plan, places) = (self.plan, self.places);
        let start = stage.reserve("the sets that are intersected", places.end)?;
        // SAFETY: the work holds the sets until it is answered.
        unsafe {
            stage.copy(places.offsets, bytes_of(&self.sets.offsets))?;
            for round in 0..u64::from(plan.rounds) {
                stage.copy(places.values + round * places.values_step, self.sets.bytes())?;
            }
        }
        stage.clear(places.overlaps, 8 * self.sets.pairs() as usize)?;
        let mut launcher = Launcher { stage, start, threads: plan.threads };
        for round in 0..u64::from(plan.rounds) {
            self.round(&mut launcher, start + places.values + round * places.values_step)?;
        }
        Ok(())
    }

    fn finish(&mut self, results: &mut Results<'_>) -> Result<(), DeviceError> {
        let pairs = self.sets.pairs() as usize;
        self.found = match self.plan.technique {
            Technique::Ours => {
                self.of_one_round(fetch::<u64>(results, self.places.overlaps, pairs)?.into_iter())?
            }
            _ => {
                let sums = fetch::<u32>(results, self.places.overlaps, pairs)?;
                self.of_one_round(sums.into_iter().map(u64::from))?
            }
        };
        Ok(())
    }

    fn answer(self: Box<Self>, outcome: Result<Usage, DeviceError>) {
        let Self { plan, found, sender, .. } = *self;
        let rounds = u64::from(plan.rounds);
        // The receiver waits.
        let _ = sender.send(outcome.map(|usage| Overlaps {
            overlaps: found,
            kernel_nanos: usage.times.kernel_nanos / rounds,
            copy_nanos: usage.times.to_device_nanos / rounds,
        }));
    }
}
