//! Rounds of strategies over shapes of data, for all measures, roles and needs.

use std::fmt::Debug;
use std::sync::Arc;

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use simjoin_core::engine::{
    DevicePlace, MatchNeed, Pairing, PrepareContext, PreparedJoin, Strategy,
};
use simjoin_core::error::Result;
use simjoin_core::set::{JoinSpec, Measure, Role, SetJoin};
use simjoin_core::simd::Simd;

use super::shapes::Shape;
use super::{Drive, Sides, spec};

/// Parts of a strategy that tests force on any join: no estimate chooses it.
pub(crate) trait Forced: Debug + Send + Sync {
    /// [`Strategy::prepare`].
    fn prepare(
        &self,
        join: &SetJoin,
        place: Option<&Arc<dyn DevicePlace>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>>;
}

/// Makes strategies of types that are [`Forced`].
macro_rules! forced {
    ($($strategy:ty),+) => {$(
        impl simjoin_core::engine::Strategy<simjoin_core::set::SetJoin> for $strategy {
            fn name(&self) -> &'static str {
                stringify!($strategy)
            }

            fn placement(&self) -> simjoin_core::engine::Placement {
                simjoin_core::engine::Placement::Gpu
            }

            fn estimate(
                &self,
                _: &mut simjoin_core::set::SetJoin,
                _: &simjoin_core::engine::Terms<'_>,
            ) -> simjoin_core::error::Result<simjoin_core::engine::Estimate> {
                Ok(simjoin_core::engine::Estimate::new(None, ()))
            }

            fn prepare(
                &self,
                join: &simjoin_core::set::SetJoin,
                _: &simjoin_core::engine::Estimate,
                place: Option<&std::sync::Arc<dyn simjoin_core::engine::DevicePlace>>,
                context: simjoin_core::engine::PrepareContext<'_>,
            ) -> simjoin_core::error::Result<std::sync::Arc<dyn simjoin_core::engine::PreparedJoin>> {
                $crate::harness::sets::Forced::prepare(self, join, place, context)
            }
        }
    )+};
}

pub(crate) use forced;

pub(crate) const NEEDS: [MatchNeed; 4] =
    [MatchNeed::Exists, MatchNeed::Count, MatchNeed::Pairs, MatchNeed::Scores];

/// How many rounds there are over each shape.
pub(crate) fn rounds() -> usize {
    std::env::var("SIMJOIN_TEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(1)
}

/// A drive with drawn options.
pub(crate) fn drive(rng: &mut StdRng) -> Drive {
    Drive {
        match_buffer: *[1, 2, 7, 1000, 1000].choose(rng).unwrap(),
        range: *[1, 3, 64, u32::MAX, u32::MAX].choose(rng).unwrap(),
        ahead: *[1, 2, 5].choose(rng).unwrap(),
        empty: rng.random(),
        drains: rng.random(),
        retire: rng.random(),
        device: None,
    }
}

/// Holds strategies to the nested loop, each for one need; gives the number of matches.
pub(crate) fn check_each(
    rng: &mut StdRng,
    sides: &Sides,
    mut spec: JoinSpec,
    strategies: &[&dyn Strategy<SetJoin>],
) -> usize {
    let expected = sides.expected(&spec);
    for &strategy in strategies {
        // Existence has no meaning where either set of a pair may be the probe.
        let needs = if spec.pairing == Pairing::Unordered { &NEEDS[1..] } else { &NEEDS };
        spec.need = *needs.choose(rng).unwrap();
        spec.simd = *Simd::available().choose(rng).unwrap();
        spec.candidate_chunk = *[1, 2, 5, 1000, 1000].choose(rng).unwrap();
        let mut drive = drive(rng);
        drive.retire &= spec.need == MatchNeed::Exists;
        sides.check(strategy, spec, drive, &expected);
    }
    expected.len()
}

/// Thresholds at large, and some of the `values` of pairs with their neighbours.
pub(crate) fn thresholds(rng: &mut StdRng, measure: Measure, values: &[f64]) -> Vec<f64> {
    let mut thresholds = match measure {
        Measure::Overlap => vec![1.0, 2.0, 3.5, 20.0],
        _ => vec![f64::MIN_POSITIVE, 0.2, 0.5, 0.8, 0.9, 1.0],
    };
    while thresholds.len() > 1 {
        thresholds.swap_remove(rng.random_range(0..thresholds.len()));
    }
    // The upper half is where joins are used.
    if let Some(t) = values[values.len() / 2 * rng.random_range(0..2)..].choose(rng) {
        thresholds.extend([t.next_down(), *t, t.next_up()]);
    }
    thresholds
}

/// All measures and thresholds over a shape, two-sided and joined with itself.
pub(crate) fn check_shape(
    rng: &mut StdRng,
    shape: &Shape,
    check: fn(&mut StdRng, &Sides, JoinSpec) -> usize,
) -> usize {
    let sides = [
        Sides::two(&shape.name, &shape.build, &shape.probe),
        Sides::itself(&shape.name, &shape.build),
    ];
    let mut matches = 0;
    for sides in &sides {
        for measure in Measure::ALL {
            let mut spec = spec(measure, 1.0, sides.pairing);
            if sides.pairing == Pairing::Unordered && !measure.is_symmetric() {
                continue;
            }
            // Roles differ where the measure is not symmetric.
            let roles = [Role::First, Role::Second];
            let roles = if measure.is_symmetric() { &roles[..1] } else { &roles };
            for &role in roles {
                spec.probe_role = role;
                let values = sides.values(&spec);
                for _ in 0..rounds() {
                    for threshold in thresholds(rng, measure, &values) {
                        spec.bounds.threshold = threshold;
                        matches += check(rng, sides, spec);
                    }
                }
            }
        }
    }
    matches
}
