//! GroupJoin against the nested loop, with the bitmap filter and without.

use rand::SeedableRng;
use rand::rngs::StdRng;

use super::*;
use crate::device_harness::sets::place_of;
use crate::engine::Pairing;
use crate::harness::sets::shapes::{self, Shape};
use crate::harness::sets::{Forced, Sides, check_each, check_shape, forced, spec};
use crate::set::Measure;

/// GroupJoin with a part that its estimate may never choose for so few sets.
#[derive(Debug)]
struct ForcedParts {
    signed: bool,
}

forced!(ForcedParts);

impl Forced for ForcedParts {
    fn prepare(
        &self,
        join: &SetJoin,
        place: Option<&Arc<dyn DevicePlace>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        let device = place_of(place)?;
        let scheme = self.signed.then(|| join.scheme());
        GroupJoin::prepare_with(
            Arc::clone(&join.build),
            join.spec,
            scheme,
            device.as_ref(),
            context,
        )
    }
}

fn check(rng: &mut StdRng, sides: &Sides, spec: JoinSpec) -> usize {
    check_each(
        rng,
        sides,
        spec,
        &[
            &GroupJoin(Verification::Cpu),
            &ForcedParts { signed: true },
            &ForcedParts { signed: false },
        ],
    )
}

fn check_shapes(seed: u64, shapes: impl Fn(&mut StdRng) -> Vec<Shape>) {
    let mut rng = StdRng::seed_from_u64(seed);
    let shapes = shapes(&mut rng);
    let matches: usize = shapes.iter().map(|shape| check_shape(&mut rng, shape, check)).sum();
    assert!(matches > 1000, "only {matches} matches");
}

#[test]
fn groups_of_equal_prefixes() {
    check_shapes(1, |rng| vec![shapes::equal_prefixes(rng), shapes::equal_prefixes(rng)]);
}

#[test]
fn groups_of_repeated_sets_under_few_keys() {
    check_shapes(2, |rng| vec![shapes::repeats(rng), shapes::keyed(rng)]);
}

#[test]
fn groups_of_one_size_and_of_many() {
    check_shapes(3, shapes::one_size);
    check_shapes(4, |rng| vec![shapes::sizes(rng, 2500), shapes::universe(rng, 257)]);
}

#[test]
fn groups_of_frequent_and_unknown_tokens() {
    check_shapes(7, |rng| vec![shapes::zipfian(rng, 6), shapes::dense(rng, 64)]);
    check_shapes(10, |rng| vec![shapes::unknown(rng)]);
}

/// Many threads would give a device more candidates than it reads meanwhile: they filter first.
#[test]
fn the_filters_of_many_threads_stand_in_front_of_a_device() {
    let shape = shapes::zipfian(&mut StdRng::seed_from_u64(37), 60);
    let sides = Sides::itself(&shape.name, &shape.build);
    let spec = spec(Measure::Jaccard, 0.7, Pairing::Unordered);
    let mut join = sides.join(&spec);
    let statistics = &mut join.statistics;
    // A join of 300,000 sets of 88 tokens, with the shares of the small collection.
    (statistics.sets, statistics.probed) = (3e5, 3e5);
    statistics.tokens = 3e5 * 88.0;
    (statistics.indexed, statistics.lookups, statistics.postings) = (3e6, 6e6, 6e9);
    statistics.threads = 1024;
    assert!(GroupJoin::parts(&join, Verification::Device).signed);
}
