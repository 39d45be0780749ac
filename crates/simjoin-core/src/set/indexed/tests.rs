//! Filters by inverted index against the nested loop, with buffers and budgets so small that rows are
//! left again and again. Without a GPU the kernels run on the host.

use std::sync::Arc;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::engine::{PrepareContext, PreparedJoin};
use crate::error::Result;
use crate::set::device::DeviceJoin;
use crate::set::indexed::lookup::{ByWarps, Lookup};
use crate::set::indexed::work::JobSettings;
use crate::set::indexed::{IndexShape, IndexedJoin, on_cpu, on_devices, settings};
use crate::set::join::SetJoin;
use crate::set::tests::harness::Sides;
use crate::set::tests::on_devices::{
    OnDevices, check_faults, check_faults_of_one_of_two, check_left_to_cpu, check_shapes,
    check_tiles_in_place, tests_on_devices,
};
use crate::set::tests::{Forced, shapes};

/// An index with given room and budgets.
#[derive(Debug)]
pub(crate) struct FixedIndex {
    lookup: Arc<dyn Lookup>,
    capacity: u32,
    budget: u64,
    row_budget: u64,
}

impl FixedIndex {
    /// The product's own lookup, with room for many candidates.
    pub(in crate::set) fn with_room() -> Self {
        Self::roomy(Arc::new(ByWarps))
    }

    /// A lookup with room for many candidates.
    pub(crate) fn roomy(lookup: Arc<dyn Lookup>) -> Self {
        Self { lookup, capacity: 1 << 16, budget: u64::MAX, row_budget: u64::MAX }
    }

    /// A lookup with buffers so small that rows are left, among others.
    pub(crate) fn drawn(rng: &mut StdRng, lookup: Arc<dyn Lookup>) -> Self {
        Self {
            lookup,
            capacity: *[1, 200, 1 << 16].choose(rng).unwrap(),
            budget: *[1000, 20_000, u64::MAX].choose(rng).unwrap(),
            row_budget: *[32, 200, u64::MAX].choose(rng).unwrap(),
        }
    }
}

impl OnDevices for FixedIndex {
    fn draw(rng: &mut StdRng) -> Self {
        Self::drawn(rng, Arc::new(ByWarps))
    }

    fn ranges(&self) -> &'static [u32] {
        &[3, 64, u32::MAX]
    }
}

impl Forced for FixedIndex {
    fn prepare(
        &self,
        join: &SetJoin,
        device: Option<&Arc<DeviceJoin>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        let Self { lookup, capacity, budget, row_budget } = self;
        let cpu = || on_cpu(join, context);
        let Some(device) = device else { return cpu().into_prepared() };
        let capacity = (*capacity).max(lookup.least_capacity());
        let settings = settings(Arc::clone(lookup), &join.spec, device);
        let settings =
            JobSettings { capacity, budget: *budget, row_budget: *row_budget, ..settings };
        match on_devices(&join.build, join.spec, device, settings, cpu()) {
            Ok(prepared) => Ok(prepared),
            Err(error) if device.devices.demanded => Err(error.into()),
            Err(_) => cpu().into_prepared(),
        }
    }
}

tests_on_devices!(FixedIndex, 51, (30, 30), 40);

/// An index that does not fit on the device is left to the CPU; the reason is told. Where the query
/// insists on the device, tiles join in pieces, and the query fails where not even a piece fits.
#[test]
fn an_index_that_does_not_fit_is_left_to_the_cpu() {
    check_left_to_cpu::<FixedIndex>(58, "without an index: ");
    check_tiles_in_place(&IndexedJoin, "without an index: ");
}

/// Parts hold every set once, no more sets than they may, and no more postings where they have several
/// sets.
#[test]
fn parts_keep_to_their_bounds() {
    let mut rng = StdRng::seed_from_u64(59);
    for _ in 0..50 {
        let shape = shapes::keyed(&mut rng);
        let build = Sides::itself(&shape.name, &shape.build).build;
        let (sets, postings) = (rng.random_range(1..80), rng.random_range(1..60));
        let share = rng.random_range(0..4);
        let index = IndexShape::new(&build, |size| size * share / 3, sets, postings);
        let mut first = (0, 0);
        for part in &index.parts {
            let tokens =
                part.sets.clone().map(|set| (build.size(set) * share / 3).min(build.size(set)));
            assert_eq!((part.sets.start, part.first_posting), first);
            assert_eq!(part.postings, tokens.sum::<u32>());
            assert!(part.sets.len() <= sets as usize && !part.sets.is_empty());
            assert!(part.postings <= postings || part.sets.len() == 1, "{part:?}");
            first = (part.sets.end, part.first_posting + u64::from(part.postings));
        }
        assert_eq!(first.0, build.len());
    }
}
