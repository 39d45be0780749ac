//! The width of signatures, the sets of a column and the kernel that suit a join, by a sample.

use simjoin_core::set::collection::SetCollection;
use simjoin_core::set::filter::size_bounds::{SizeBoundsCache, partners};
use simjoin_core::set::join::SetJoin;
use simjoin_core::set::join_spec::JoinSpec;
use simjoin_core::set::runs::SetId;
use simjoin_core::set::statistics::Statistics;

use crate::engine::{Cost, Pairing};
use crate::error::Result;
use crate::offload::tiles::capacity;
use crate::runtime::Device;
use crate::set::bitmap::scheme::TileScheme;
use crate::set::bitmap::shape::{TileKernel, TileShape, WIDTHS};
use crate::set::device::DeviceJoin;
use crate::set::device::sending;
use crate::util::evenly::Evenly;
use crate::util::parallel::{self, Threads};

/// Sets that a column may unite.
const MEMBERS: [u32; 3] = [1, 2, 4];
/// Joins with fewer pairs than this take less time than a sample.
const WORTH_SAMPLING: f64 = 2e10;
/// Rows of a sample, the pairs of a join for which there are as many again, up to `MOST_ROWS`, and groups
/// of neighbours that they are tried with.
const ROWS: u32 = 64;
const MOST_ROWS: u32 = 512;
const PAIRS_OF_ROWS: f64 = 1e12;
const GROUPS: u32 = 256;

/// Nanoseconds of an H200, for each pair that a hit leaves: reading two signatures at random places.
const HIT: f64 = 0.1;
/// Nanoseconds of an H200 for comparing the tokens of a pair: always, and for each token.
const COMPARE: f64 = 0.4;
const COMPARE_TOKEN: f64 = 0.01;
/// Nanoseconds of an H200 for signing a token.
const SIGN_TOKEN: f64 = 0.004;
/// Nanoseconds of a work: the device takes up nothing else meanwhile.
const SLICE: f64 = 1e7;
/// Nanoseconds of a join besides: plans, launches and answers of its first works.
const START: f64 = 2.3e6;

/// Pairs whose tokens a device compares in ten milliseconds, in sets of `average` tokens.
pub(super) fn compared_in_slice(average: f64) -> u64 {
    (SLICE / (HIT + COMPARE + COMPARE_TOKEN * average)) as u64
}

/// Pairs that a device of 132 multiprocessors tests in ten milliseconds.
pub(super) fn tested_in_slice(shape: &TileShape, members: u32) -> u64 {
    (SLICE * 132.0 * shape.kernel.rate(shape.width)) as u64 * u64::from(members)
}

/// The shape of tiles, of columns and of lists by which a join is tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::set) struct Fit {
    pub(super) shape: TileShape,
    pub(super) members: u32,
    pub(in crate::set) capacity: u32,
}

impl Fit {
    /// The tiles that suit a join on its devices, from a sample that `threads` threads look at.
    ///
    /// # Errors
    ///
    /// Where a thread fails.
    pub(in crate::set) fn choose(
        build: &SetCollection,
        spec: &JoinSpec,
        join: &DeviceJoin,
        statistics: &Statistics,
        threads: Threads,
    ) -> Result<Self> {
        let devices = join.devices.iter();
        let kernels = devices.map(|device| TileKernel::of(device.capability()));
        let kernel = kernels.reduce(|a, b| if a == b { a } else { TileKernel::Counts });
        let kernel = kernel.unwrap_or(TileKernel::Counts);
        let widest = TileScheme::exact_width(build.universe()).unwrap_or(WIDTHS[2]);
        let (width, members) = match statistics.admissible_pairs > WORTH_SAMPLING {
            true => {
                let rows = statistics.admissible_pairs / PAIRS_OF_ROWS * f64::from(ROWS);
                let rows = (rows as u32).clamp(ROWS, MOST_ROWS);
                TileSample::draw(build, spec, rows).best(kernel, widest, threads)?
            }
            false => (widest.min(WIDTHS[1]), 1),
        };
        Ok(Self::new(kernel, width, members, spec, join.devices.memory))
    }

    /// Given choices.
    pub(in crate::set) fn new(
        kernel: TileKernel,
        width: u32,
        members: u32,
        spec: &JoinSpec,
        memory: u64,
    ) -> Self {
        let capacity = capacity(memory, spec.gpu.candidate_memory, members);
        Self { shape: TileShape::new(kernel, width), members, capacity }
    }
}

/// Rows and groups of neighbouring columns, evenly drawn.
struct TileSample<'a> {
    build: &'a SetCollection,
    rows: Vec<SampledRow>,
    /// The first set of each group.
    groups: Vec<SetId>,
}

/// The words of columns, by their members.
type Unions = [Vec<u32>; MEMBERS.len()];

/// A set as a row: its partners, and the least overlap that it requires of a group, if any can match.
struct SampledRow {
    set: SetId,
    required: Vec<Option<u32>>,
}

impl<'a> TileSample<'a> {
    fn draw(build: &'a SetCollection, spec: &JoinSpec, rows: u32) -> Self {
        let most = MEMBERS[MEMBERS.len() - 1];
        let step = (build.len() / GROUPS).max(most);
        let groups: Vec<SetId> = (0..build.len().saturating_sub(most))
            .step_by(step as usize)
            .map(|set| set - set % most)
            .collect();
        let all = JoinSpec { pairing: Pairing::All, ..*spec };
        let mut cache = SizeBoundsCache::new(&all, build.runs());
        let rows = Evenly::new(build.len(), rows).iter().filter_map(|set| {
            let (mut partners, bounds) = partners(build, &all, &mut cache, set)?;
            if spec.pairing == Pairing::Unordered {
                partners.start = partners.start.max(set + 1);
            }
            let least = |first: SetId| {
                let members = first.max(partners.start)..(first + most).min(partners.end);
                let admitted = members.start < members.end;
                // Overlaps rise with sizes; sets of a group stand in their order.
                admitted.then(|| bounds.required(build.size(members.start)))
            };
            let required = groups.iter().map(|&first| least(first)).collect();
            Some(SampledRow { set, required })
        });
        let rows = rows.collect();
        Self { build, rows, groups }
    }

    /// The width and the members of a column with which a pair takes the least time.
    fn best(&self, kernel: TileKernel, widest: u32, threads: Threads) -> Result<(u32, u32)> {
        let average = self.build.token_count() as f64 / f64::from(self.build.len().max(1));
        let compare = COMPARE + COMPARE_TOKEN * average;
        let widths: Vec<u32> = WIDTHS.into_iter().filter(|&width| width <= widest).collect();
        let passing = self.passing(&widths, threads)?;
        let costs = widths.into_iter().zip(passing).flat_map(|(width, passing)| {
            let test = 1.0 / (132.0 * kernel.rate(width));
            MEMBERS.into_iter().zip(passing).map(move |(members, share)| {
                let members_of = f64::from(members);
                // Of the pairs behind hits few are left for their tokens, unless most columns pass.
                let hits = share * (HIT * members_of + compare * share.sqrt());
                ((width, members), (test + hits) / members_of)
            })
        });
        let best = costs.min_by(|a, b| a.1.total_cmp(&b.1));
        Ok(best.map_or((WIDTHS[1], 1), |(choice, _)| choice))
    }

    /// By width, the share of columns that pass, by their members.
    fn passing(&self, widths: &[u32], threads: Threads) -> Result<Vec<[f64; MEMBERS.len()]>> {
        /// Rows that a thread takes up at a time.
        const ROWS: usize = 32;
        let schemes = widths.iter().map(|&width| TileScheme::new(self.build, width)).collect();
        let signed = parallel::map(threads, schemes, |scheme| Ok((scheme, self.unions(&scheme))))?;
        let of_width =
            |(place, signed)| self.rows.chunks(ROWS).map(move |rows| (place, signed, rows));
        let tasks = signed.iter().enumerate().flat_map(of_width).collect();
        let passed = parallel::map(threads, tasks, |(place, (scheme, unions), rows)| {
            Ok((place, self.passed(scheme, unions, rows)))
        })?;
        let mut sums = vec![(0_u32, [0_u32; MEMBERS.len()]); widths.len()];
        for (place, (tried, passed)) in passed {
            let (all, sums) = &mut sums[place];
            *all += tried;
            sums.iter_mut().zip(passed).for_each(|(sum, passed)| *sum += passed);
        }
        let share = |(tried, passed): (u32, [u32; MEMBERS.len()])| {
            passed.map(|passed| f64::from(passed) / f64::from(tried.max(1)))
        };
        Ok(sums.into_iter().map(share).collect())
    }

    /// The words of each group as a column, by its members.
    fn unions(&self, scheme: &TileScheme) -> Vec<Unions> {
        let width = scheme.width as usize;
        let mut words = vec![0; width];
        let of_group = |&first: &SetId| {
            let mut unions = [vec![0; width], vec![0; width], vec![0; width]];
            for member in 0..MEMBERS[MEMBERS.len() - 1] {
                scheme.sign(self.build.tokens(first + member), &mut words);
                for (union, &members) in unions.iter_mut().zip(&MEMBERS) {
                    if member < members {
                        union.iter_mut().zip(&words).for_each(|(union, word)| *union |= word);
                    }
                }
            }
            unions
        };
        self.groups.iter().map(of_group).collect()
    }

    /// The number of columns that are tried with some rows, and of those that pass, by their
    /// members.
    fn passed(
        &self,
        scheme: &TileScheme,
        unions: &[Unions],
        rows: &[SampledRow],
    ) -> (u32, [u32; MEMBERS.len()]) {
        let mut words = vec![0; scheme.width as usize];
        let (mut tried, mut passed) = (0_u32, [0_u32; MEMBERS.len()]);
        for row in rows {
            let hidden = scheme.sign(self.build.tokens(row.set), &mut words);
            for (required, unions) in row.required.iter().zip(unions) {
                let Some(required) = *required else { continue };
                tried += 1;
                for (passed, union) in passed.iter_mut().zip(unions) {
                    let common = words.iter().zip(union).map(|(a, b)| (a & b).count_ones());
                    *passed += u32::from(common.sum::<u32>() + hidden >= required);
                }
            }
        }
        (tried, passed)
    }
}

/// The cost of tiles on the device that is taken where none is named, before it is known: as measured
/// on an H200, or by the device that is open.
pub(in crate::set) fn estimate(join: &SetJoin) -> Cost {
    let (statistics, spec) = (&join.statistics, &join.spec);
    let device = Device::opened(0);
    let (kernel, multiprocessors) = match &device {
        Some(device) => (TileKernel::of(device.capability()), device.multiprocessors()),
        None => (TileKernel::Products, 132),
    };
    let width = WIDTHS[1];
    let pairs = statistics.admissible_pairs;
    let candidates = pairs * join.signature_share(join.signature_words());
    let slower = 132.0 / f64::from(multiprocessors.max(1));
    let compare = HIT + COMPARE + COMPARE_TOKEN * statistics.candidate_size;
    let tests = pairs / (f64::from(multiprocessors.max(1)) * kernel.rate(width));
    // Tokens, offsets and signatures; tiles pin next to no memory on a device that is open.
    let bytes = 4.0 * statistics.tokens + statistics.sets * (16.0 + 4.0 * f64::from(width));
    let limit = spec.gpu.memory_limit.or(device.as_ref().map(|device| device.total_memory()));
    // What does not fit travels with the works, which take a part of the memory each.
    let work = limit.map_or(f64::INFINITY, |limit| limit as f64 / (8 * Device::SLOTS) as f64);
    let times = match limit.is_some_and(|limit| bytes > limit as f64) {
        true => (bytes / work).max(2.0) / 2.0,
        false => 1.0,
    };
    let rest = times * statistics.tokens * SIGN_TOKEN + candidates * compare;
    // The collection is copied to the device, and matches come back.
    let sent = sending(statistics, 0.0);
    let setup = if device.is_some() { 0.0 } else { sent.setup };
    Cost { device: tests + slower * rest + START, transfer: times * sent.transfer, setup, ..sent }
}
