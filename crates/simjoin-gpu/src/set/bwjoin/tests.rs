//! Filters by inverted index against the nested loop, with buffers and budgets so small that rows are
//! left again and again. Without a GPU the kernels run on the host.

use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::device_harness::sets::on_devices::{
    OnDevices, check_faults, check_faults_of_one_of_two, check_left_to_cpu, check_shapes,
    check_tiles_in_place, tests_on_devices,
};
use crate::device_harness::sets::{FixedIndex, RANGES};
use crate::harness::sets::Sides;
use crate::harness::sets::shapes;
use crate::set::bwjoin::{ByWarps, IndexShape, IndexedJoin};

impl OnDevices for FixedIndex {
    fn draw(rng: &mut StdRng) -> Self {
        Self::drawn(rng, Arc::new(ByWarps))
    }

    fn ranges(&self) -> &'static [u32] {
        &RANGES
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
