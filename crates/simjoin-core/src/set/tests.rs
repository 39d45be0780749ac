//! Every strategy against a nested loop over sets, below the operator: both pairings, all
//! measures and roles, the three needs, tiny chunks and buffers.
//!
//! `SIMJOIN_TEST_CASES` multiplies the rounds over each shape (1 by default).

use std::fmt::Debug;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

pub(crate) use crate::harness::sets::{
    self as harness, Forced, NEEDS, check_each, check_shape, drive, forced, rounds, shapes,
    thresholds,
};

use self::harness::{Rows, Sides, spec};
use self::shapes::Shape;
use crate::engine::{
    Cursor, DevicePlace, MatchNeed, Pairing, PrepareContext, PreparedJoin, Strategy,
};
use crate::engine::{DeviceChoice, StrategyName};
use crate::error::Result;
use crate::memory::Memory;
use crate::set::bitsliced::BitSliced;
use crate::set::filter_verify::FilterVerify;
use crate::set::join::SetJoin;
use crate::set::join_spec::JoinSpec;
use crate::set::measure::{Measure, Role};
use crate::set::nested_loop::NestedLoop;
use crate::set::scancount::ScanCount;
use crate::set::strategies::STRATEGIES;
use crate::simd::Simd;

/// All strategies of the CPU as they choose their own parts.
fn on_cpu<'a>() -> impl Iterator<Item = &'a dyn Strategy<SetJoin>> {
    STRATEGIES.iter().copied().chain([&ForWantOfMemory as &dyn Strategy<SetJoin>])
}

forced!(ForWantOfMemory, ForcedParts);

impl PreparedJoin for NestedLoop {
    fn open(&self, _: &dyn Memory) -> Result<Box<dyn Cursor>> {
        Ok(self.cursor())
    }
}

/// Where there is no memory for another strategy.
#[derive(Debug)]
struct ForWantOfMemory;

impl Forced for ForWantOfMemory {
    fn prepare(
        &self,
        join: &SetJoin,
        _: Option<&Arc<dyn DevicePlace>>,
        _: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        Ok(Arc::new(NestedLoop::new(Arc::clone(&join.build), join.spec)))
    }
}

/// A [`FilterVerify`] with parts that its estimate may never choose for so few sets.
#[derive(Debug)]
struct ForcedParts {
    strategy: FilterVerify,
    /// Words of the signatures of postings.
    words: usize,
    /// Whether the bitmap filter stands in front of verification.
    signed: bool,
}

impl ForcedParts {
    fn draw(rng: &mut StdRng) -> Self {
        let strategies = [FilterVerify::AllPairs, FilterVerify::PPJoin];
        Self {
            strategy: *strategies.choose(rng).unwrap(),
            words: *[0, 1, 2, 4].choose(rng).unwrap(),
            signed: rng.random_bool(0.7),
        }
    }
}

impl Forced for ForcedParts {
    fn prepare(
        &self,
        join: &SetJoin,
        _: Option<&Arc<dyn DevicePlace>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        let parts = (self.words, self.signed.then(|| join.scheme()));
        let build = Arc::clone(&join.build);
        Ok(Arc::new(self.strategy.candidates_with(build, join.spec, parts, context)?))
    }
}

/// Holds every strategy to the nested loop, each for one need; gives the number of matches.
fn check(rng: &mut StdRng, sides: &Sides, spec: JoinSpec) -> usize {
    let forced = [ForcedParts::draw(rng), ForcedParts::draw(rng)];
    let forced = forced.iter().map(|f| f as &dyn Strategy<SetJoin>);
    let strategies: Vec<_> = on_cpu().chain(forced).collect();
    check_each(rng, sides, spec, &strategies)
}

fn check_shapes(seed: u64, shapes: impl Fn(&mut StdRng) -> Vec<Shape>) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut matches = 0;
    for shape in shapes(&mut rng) {
        matches += check_shape(&mut rng, &shape, check);
    }
    assert!(matches > 1000, "only {matches} matches");
}

#[test]
fn sets_with_equal_prefixes() {
    check_shapes(1, |rng| vec![shapes::equal_prefixes(rng), shapes::equal_prefixes(rng)]);
}

#[test]
fn repeated_sets_under_few_keys() {
    check_shapes(2, |rng| vec![shapes::repeats(rng), shapes::keyed(rng)]);
}

#[test]
fn sets_of_one_size() {
    check_shapes(3, shapes::one_size);
}

#[test]
fn sizes_around_words_and_signatures() {
    check_shapes(4, |rng| vec![shapes::sizes(rng, 2500), shapes::sizes(rng, 100_000)]);
}

#[test]
fn universes_around_words_and_signatures() {
    check_shapes(5, |rng| {
        [1, 63, 64, 65, 128, 256, 257, 512, 513].map(|u| shapes::universe(rng, u)).into()
    });
}

#[test]
fn a_universe_far_beyond_signatures() {
    check_shapes(6, |rng| vec![shapes::universe(rng, 100_000)]);
}

#[test]
fn zipfian_tokens() {
    check_shapes(7, |rng| vec![shapes::zipfian(rng, 6), shapes::zipfian(rng, 60)]);
}

#[test]
fn every_token_in_every_set() {
    check_shapes(8, |rng| [2, 40, 64, 256, 300].map(|u| shapes::dense(rng, u)).into());
}

#[test]
fn build_sides_around_blocks() {
    check_shapes(9, shapes::counts);
}

#[test]
fn probe_sets_with_unknown_tokens() {
    check_shapes(10, |rng| vec![shapes::unknown(rng)]);
}

/// Counts of rare and frequent tokens add up, under keys, in every pairing and for every need: 800
/// random joins, times `SIMJOIN_TEST_CASES`.
#[test]
fn random_collections_are_counted() {
    let mut rng = StdRng::seed_from_u64(16);
    let mut matches = 0;
    for _ in 0..200 * rounds() {
        let universe = *[3.0, 20.0, 200.0, 5000.0_f64].choose(&mut rng).unwrap();
        let (keys, most) = (rng.random_range(1..4), *[2, 9, 40].choose(&mut rng).unwrap());
        let mut rows = |count: usize| -> Rows {
            let row = |rng: &mut StdRng| {
                let (key, size) = (rng.random_range(0..keys), rng.random_range(0..most));
                let tokens = (0..size).map(|_| universe.powf(rng.random::<f64>()) as u32);
                (key, tokens.collect())
            };
            (0..count).map(|_| row(&mut rng)).collect()
        };
        let (build, probe) = (rows(50), rows(20));
        for sides in [Sides::two("random", &build, &probe), Sides::itself("random", &build)] {
            let measure = *Measure::ALL.choose(&mut rng).unwrap();
            if sides.pairing == Pairing::Unordered && !measure.is_symmetric() {
                continue;
            }
            let mut spec = spec(measure, 1.0, sides.pairing);
            spec.probe_role = *[Role::First, Role::Second].choose(&mut rng).unwrap();
            let values = sides.values(&spec);
            for threshold in thresholds(&mut rng, measure, &values).into_iter().take(2) {
                spec.bounds.threshold = threshold;
                let expected = sides.expected(&spec);
                let needs = if sides.pairing == Pairing::Unordered { &NEEDS[1..] } else { &NEEDS };
                spec.need = *needs.choose(&mut rng).unwrap();
                spec.simd = *Simd::available().choose(&mut rng).unwrap();
                let mut drive = drive(&mut rng);
                drive.retire &= spec.need == MatchNeed::Exists;
                let counting: [&dyn Strategy<SetJoin>; 2] = [&ScanCount, &BitSliced];
                sides.check(*counting.choose(&mut rng).unwrap(), spec, drive, &expected);
                matches += expected.len();
            }
        }
    }
    assert!(matches > 1000, "only {matches} matches");
}

/// Sets of several blocks of columns are counted, some of them under keys.
#[test]
fn blocks_of_sets_are_summed_up() {
    let mut rng = StdRng::seed_from_u64(17);
    for keys in [1, 3] {
        let mut rows = |count: usize| -> Rows {
            let row = |rng: &mut StdRng| {
                let (key, size) = (rng.random_range(0..keys), rng.random_range(1..30));
                let tokens = (0..size).map(|_| 100_f64.powf(rng.random::<f64>()) as u32);
                (key, tokens.collect())
            };
            (0..count).map(|_| row(&mut rng)).collect()
        };
        let (build, probe) = (rows(2600), rows(70));
        for sides in [Sides::itself("blocks", &build), Sides::two("blocks", &build, &probe)] {
            for (measure, threshold) in [(Measure::Jaccard, 0.5), (Measure::Overlap, 9.0)] {
                let mut spec = spec(measure, threshold, sides.pairing);
                let expected = sides.expected(&spec);
                assert!(expected.len() > 50, "only {}", expected.len());
                for need in &NEEDS[1..] {
                    spec.need = *need;
                    spec.simd = *Simd::available().choose(&mut rng).unwrap();
                    let mut drive = drive(&mut rng);
                    drive.retire = false;
                    sides.check(&BitSliced, spec, drive, &expected);
                }
            }
        }
    }
}

/// Overlaps of few sets of thousands of tokens are counted, by cost as well.
#[test]
fn few_large_sets_are_counted() {
    let mut rng = StdRng::seed_from_u64(12);
    let mut rows = |count: usize| -> Rows {
        let mut set = || (0..4000).map(|_| 60_000_f64.powf(rng.random::<f64>()) as u32).collect();
        (0..count).map(|_| (0, set())).collect()
    };
    let (build, probe) = (rows(160), rows(8));
    let mut rng = StdRng::seed_from_u64(13);
    for sides in [Sides::itself("large", &build), Sides::two("large", &build, &probe)] {
        for threshold in [1.0, 700.0] {
            let spec = spec(Measure::Overlap, threshold, sides.pairing);
            check(&mut rng, &sides, spec);
        }
        let every = spec(Measure::Overlap, 1.0, sides.pairing);
        let choice = sides.choose(StrategyName::AUTO, DeviceChoice::Cpu, &every).unwrap();
        assert_eq!(choice.chosen().strategy, "scancount", "{choice}");
    }
}

/// Thresholds that no pair can reach, or NaN, give nothing and end.
#[test]
pub(in crate::set) fn thresholds_out_of_reach() {
    let mut rng = StdRng::seed_from_u64(11);
    let shape = shapes::keyed(&mut rng);
    for sides in
        [Sides::two("keyed", &shape.build, &shape.probe), Sides::itself("keyed", &shape.build)]
    {
        for measure in Measure::ALL {
            let symmetric = measure.is_symmetric() || sides.pairing == Pairing::All;
            for threshold in [1e6, f64::INFINITY, f64::NAN].into_iter().filter(|_| symmetric) {
                let found = check(&mut rng, &sides, spec(measure, threshold, sides.pairing));
                assert_eq!(found, 0);
            }
        }
    }
}

/// Small random joins; a failing one is shrunk to the few sets that make it fail.
#[test]
fn random_joins() {
    let rows = || {
        let row = (0..2_i64, proptest::collection::vec(0..14_u32, 1..9));
        proptest::collection::vec(row, 0..24)
    };
    let threshold = || (1..8_u32, 1..8_u32, 1..8_u32);
    let cases = (rows(), rows(), 0..6_usize, threshold(), any::<bool>(), any::<u64>());
    let config =
        Config { cases: 300 * rounds() as u32, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(
        config,
        proptest::test_runner::TestRng::deterministic_rng(
            proptest::test_runner::RngAlgorithm::ChaCha,
        ),
    );
    type Case = (Rows, Rows, usize, (u32, u32, u32), bool, u64);
    let law = |(build, probe, measure, (o, a, b), first, seed): Case| {
        let mut rng = StdRng::seed_from_u64(seed);
        let measure = Measure::ALL[measure];
        let threshold = measure.value(o.into(), o.max(a).into(), o.max(b).into());
        for sides in [Sides::two("random", &build, &probe), Sides::itself("random", &build)] {
            if sides.pairing == Pairing::All || measure.is_symmetric() {
                for threshold in [threshold.next_down(), threshold, threshold.next_up()] {
                    let mut spec = spec(measure, threshold, sides.pairing);
                    spec.probe_role = if first { Role::First } else { Role::Second };
                    check(&mut rng, &sides, spec);
                }
            }
        }
        Ok(())
    };
    runner.run(&cases, law).unwrap();
}
