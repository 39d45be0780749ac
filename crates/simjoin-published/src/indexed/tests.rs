//! Published filters by inverted index against the nested loop, with buffers and budgets so small that
//! rows are left again and again. Without a GPU the kernels run on the host.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::*;
use crate::device_harness::sets::on_devices::{
    OnDevices, check_faults, check_faults_of_one_of_two, check_shapes, tests_on_devices,
};
use crate::device_harness::sets::without_memory::check_works_without_memory;
use crate::device_harness::sets::{FixedIndex, RANGES};
use crate::harness::sets::{Forced, forced, shapes};

const FILTERS: [PublishedIndex; 3] =
    [PublishedIndex::Bwjoin, PublishedIndex::FgssJoin, PublishedIndex::SfGssJoin];

/// A published lookup with given room and budgets.
#[derive(Debug)]
struct Fixed(FixedIndex);

impl OnDevices for Fixed {
    fn draw(rng: &mut StdRng) -> Self {
        let threads = if rng.random_bool(0.7) { 32 } else { 64 };
        let part_sets = *[1, 17, 100, 50_000].choose(rng).unwrap();
        let lookup = FILTERS.choose(rng).unwrap().lookup(threads, part_sets);
        Self(FixedIndex::drawn(rng, lookup))
    }

    fn ranges(&self) -> &'static [u32] {
        &RANGES
    }
}

forced!(Fixed);

impl Forced for Fixed {
    fn prepare(
        &self,
        join: &SetJoin,
        place: Option<&Arc<dyn DevicePlace>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        Forced::prepare(&self.0, join, place, context)
    }
}

tests_on_devices!(Fixed, 51, (40, 30), 40);

#[test]
fn works_without_memory_are_done_in_smaller_ones() {
    let fixed = FILTERS.map(|filter| FixedIndex::roomy(filter.lookup(32, 50_000)));
    let strategies: Vec<_> = fixed.iter().map(|fixed| fixed as &dyn Strategy<SetJoin>).collect();
    check_works_without_memory(&strategies);
}
