//! Published filters by inverted index against the nested loop, with buffers and budgets so small that
//! rows are left again and again. Without a GPU the kernels run on the host.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::*;
use crate::set::indexed::tests::FixedIndex;
use crate::set::offload::tests::check_works_without_memory;
use crate::set::tests::on_devices::{
    OnDevices, check_faults, check_faults_of_one_of_two, check_shapes,
};
use crate::set::tests::shapes;

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
        self.0.ranges()
    }
}

impl Strategy<SetJoin> for Fixed {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn runs_on(&self, placement: Placement) -> bool {
        self.0.runs_on(placement)
    }

    fn estimate(&self, join: &mut SetJoin, terms: &Terms<'_>) -> Result<Estimate> {
        self.0.estimate(join, terms)
    }

    fn prepare(
        &self,
        join: &SetJoin,
        estimate: &Estimate,
        device: Option<&Arc<DeviceJoin>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        self.0.prepare(join, estimate, device, context)
    }
}

#[test]
fn published_indexes_under_keys() {
    check_shapes::<Fixed>(51, |rng| vec![shapes::repeats(rng), shapes::keyed(rng)]);
}

#[test]
fn published_indexes_of_large_sets_and_unknown_tokens() {
    check_shapes::<Fixed>(52, |rng| vec![shapes::sizes(rng, 2500), shapes::unknown(rng)]);
}

#[test]
fn published_indexes_of_frequent_tokens() {
    check_shapes::<Fixed>(53, |rng| vec![shapes::zipfian(rng, 12), shapes::dense(rng, 300)]);
}

#[test]
fn the_cpu_goes_on_where_a_failing_device_has_left_a_row() {
    check_faults::<Fixed>(56, 40, 30);
}

#[test]
fn a_device_takes_up_the_rows_that_another_one_drops() {
    check_faults_of_one_of_two::<Fixed>(57, 40);
}

#[test]
fn works_without_memory_are_done_in_smaller_ones() {
    let fixed = FILTERS.map(|filter| FixedIndex::roomy(filter.lookup(32, 50_000)));
    let strategies: Vec<_> = fixed.iter().map(|fixed| fixed as &dyn Strategy<SetJoin>).collect();
    check_works_without_memory(&strategies);
}
