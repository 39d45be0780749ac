//! Signatures and fronts of every width against the nested loop, whatever the estimate would pick.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::engine::MatchNeed;
use crate::set::bitmap::*;
use crate::set::filter::SignatureScheme;
use crate::set::measure::Measure;
use crate::set::tests::harness::{Drive, Sides, spec};
use crate::set::tests::shapes::{self, Shape};
use crate::set::tests::{Forced, forced};
use crate::simd::Simd;

/// [`BitmapBlocks`] with signatures and a front of fixed widths.
#[derive(Debug)]
pub struct Fixed {
    owned_words: usize,
    hashed_words: usize,
    front: Front,
}

forced!(Fixed);

impl Forced for Fixed {
    fn prepare(
        &self,
        join: &SetJoin,
        _: Option<&Arc<dyn DevicePlace>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        let (build, spec) = (Arc::clone(&join.build), join.spec);
        let scheme = SignatureScheme::with_widths(&build, self.owned_words, self.hashed_words);
        prepare(build, spec, scheme, self.front, context)
    }
}

/// All fronts within some widths, in all forms of the kernel.
fn check(rng: &mut StdRng, shape: &Shape) {
    let sides = [
        Sides::two(&shape.name, &shape.build, &shape.probe),
        Sides::itself(&shape.name, &shape.build),
    ];
    // Owned words alone must hold the universe: the last pair is for those that do.
    let universe = sides[0].build.universe() as usize;
    let mut widths = vec![(1, 1), (1, 2), (2, 1), (4, 4), (1, 8), (7, 1), (15, 1), (1, 15)];
    if universe <= 16 * 64 {
        widths.extend([(universe.div_ceil(64).max(1), 0), (16, 0)]);
    }
    for (owned_words, hashed_words) in widths {
        for front_words in FRONT_WIDTHS {
            if front_words > owned_words + hashed_words {
                continue;
            }
            let shapes: Vec<_> = UnionShape::all().map(Some).chain([None]).collect();
            let unions = *shapes.choose(rng).unwrap();
            let front = Front { words: front_words, unions };
            let strategy = Fixed { owned_words, hashed_words, front };
            for sides in &sides {
                let measure = *[Measure::Jaccard, Measure::Cosine, Measure::OverlapCoefficient]
                    .choose(rng)
                    .unwrap();
                let mut spec = spec(measure, 1.0, sides.pairing);
                let values = sides.values(&spec);
                let Some(value) = values[values.len() / 2..].choose(rng) else { continue };
                spec.bounds.threshold = *[0.3, 0.8, *value, value.next_up()].choose(rng).unwrap();
                spec.need = *[MatchNeed::Pairs, MatchNeed::Scores].choose(rng).unwrap();
                let expected = sides.expected(&spec);
                for &simd in Simd::available() {
                    spec.simd = simd;
                    let drive = Drive {
                        match_buffer: rng.random_range(1..40),
                        range: *[7, 50, u32::MAX].choose(rng).unwrap(),
                        retire: false,
                        ahead: 1,
                        empty: false,
                        drains: false,
                        device: None,
                    };
                    sides.check(&strategy, spec, drive, &expected);
                }
            }
        }
    }
}

#[test]
fn signatures_of_every_width_lose_no_pair() {
    let mut rng = StdRng::seed_from_u64(21);
    for shape in [
        shapes::equal_prefixes(&mut rng),
        shapes::keyed(&mut rng),
        shapes::universe(&mut rng, 64),
        shapes::universe(&mut rng, 513),
        shapes::universe(&mut rng, 1024),
        shapes::zipfian(&mut rng, 30),
        shapes::dense(&mut rng, 300),
        shapes::sizes(&mut rng, 2500),
        shapes::unknown(&mut rng),
    ] {
        check(&mut rng, &shape);
    }
}
