//! The proofs of products, for adversarial vectors and thresholds.

use crate::engine::{MatchSpec, PrepareContext};
use crate::memory::Budget;
use crate::simd::Simd;
use crate::tuning::Tuning;
use crate::util::cancel::CancelFlag;
use crate::util::parallel::Threads;
use crate::vector::bounds::Frame;
use crate::vector::bytes::{ByteFrame, MOST_DIMENSIONS, Quantised, Sums};
use crate::vector::choice::NumberForm;
use crate::vector::collection::{Content, ReadRow, ReadRows, Vectors};
use crate::vector::filter::{Filter, ProductBounds, RowBounds};
use crate::vector::metric::{Metric, Threshold};
use crate::vector::tile::{Element, PANEL, Panels, Rows, for_each_lane, products_of_panels};
use crate::vector::verify;
use crate::vector::width::round;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

/// The vectors as the items of a collection, and the item of each.
fn collection(vectors: &[Vec<f64>]) -> Vectors {
    let mut read = ReadRows::default();
    for (row, vector) in (0..).zip(vectors) {
        let (start, len) = (read.numbers.len(), vector.len() as u32);
        read.rows.push(ReadRow { row, key: 0, content: Content::Vector, len, start });
        read.numbers.extend_from_slice(vector);
    }
    Vectors::of(vec![read], &CancelFlag::default()).unwrap()
}

fn number(rng: &mut StdRng, shape: usize) -> f64 {
    let unit = rng.random_range(-1.0..1.0);
    match shape {
        0 => unit,
        1 => f64::from(rng.random_range(-3_i8..=3)),
        // Far from the origin, near each other.
        2 => 1e6 + unit * 1e-3,
        3 => unit * 10_f64.powi(rng.random_range(-30..=30)),
        4 => unit * f64::MIN_POSITIVE * rng.random_range(0.0..4.0),
        5 => f64::from(unit as f32) * 1e-42,
        6 => unit * 1e153,
        // See `vector`.
        8 | 9 => unit,
        _ => *[0.0, -0.0, 1.0, f64::INFINITY, f64::NAN, 5e-324, 1e300, -1e160].choose(rng).unwrap(),
    }
}

const SHAPES: usize = 10;

fn drawn_form(rng: &mut StdRng) -> Simd {
    let forms: Vec<Simd> = Simd::tested().collect();
    *forms.choose(rng).unwrap()
}

/// Build and probe vectors, some of them near each other.
fn sides(rng: &mut StdRng, shape: usize, d: usize) -> [Vec<Vec<f64>>; 2] {
    let vector = |rng: &mut StdRng| {
        let mut vector: Vec<f64> = (0..d).map(|_| number(rng, shape)).collect();
        let place = rng.random_range(0..d);
        match (shape, rng.random_range(0..6)) {
            // NaN among numbers, of either sign or both; vectors far from most; of all norms.
            (8, 0) => vector[place] = f64::NAN,
            (8, 1) => vector[place] = -f64::NAN,
            (8, 2) => {
                vector[place] = -f64::NAN;
                vector[d - 1] = *[f64::NAN, f64::INFINITY, 0.0].choose(rng).unwrap();
            }
            (8, 3) => vector.fill(0.0),
            (9, 0) => vector.iter_mut().for_each(|v| *v *= 1e9),
            (9, 1..4) => {
                let factor = 10_f64.powi(rng.random_range(0..7));
                vector.iter_mut().for_each(|v| *v *= factor);
            }
            _ => {}
        }
        vector
    };
    let build: Vec<_> = (0..40).map(|_| vector(rng)).collect();
    let probe = (0..24).map(|i| match i % 3 {
        0 => vector(rng),
        _ => {
            let mut near = build.choose(rng).unwrap().clone();
            let place = rng.random_range(0..d);
            near[place] += number(rng, shape) * 2_f64.powi(rng.random_range(-60..=0));
            near
        }
    });
    let probe: Vec<_> = probe.collect();
    let mut sides = [build, probe];
    // Sides of narrow numbers, or one of them.
    for side in &mut sides {
        if rng.random_bool(0.4) {
            side.iter_mut().for_each(|vector| round(vector));
        }
    }
    sides
}

/// A threshold, and both sides of a join.
struct Case {
    what: String,
    threshold: Threshold,
    sides: [Vectors; 2],
}

/// Holds what the products of a filter prove against the function, in every form of the kernel; how many
/// pairs were rejected, left open, and accepted.
fn proven<F: Filter>(filter: &F, case: &Case) -> [u64; 3] {
    let Case { what, threshold, sides: [build, probe] } = case;
    let (d, mut proven) = (build.dimensions(0) as usize, [0; 3]);
    let panels = (build.len() as usize).div_ceil(PANEL);
    let (places, items) = (F::places(d), panels * PANEL);
    let stride = places * PANEL;
    let (never, unsure) = (F::Element::NEVER, F::Element::UNSURE);
    let mut numbers = vec![F::Element::ZERO; panels * stride];
    let (mut reject, mut accept) = (vec![never; items], vec![unsure; items]);
    let mut scales = vec![];
    for panel in 0..panels {
        let own = panel * PANEL..build.len().min(((panel + 1) * PANEL) as u32) as usize;
        let scale = filter.panel_scale(own.clone().map(|i| build.vector(i as u32)));
        scales.push(scale);
        for i in own {
            let to = numbers[panel * stride..][..stride].iter_mut();
            let bounds = filter.build(build, i as u32, scale, to.skip(i % PANEL).step_by(PANEL));
            (reject[i], accept[i]) = (bounds.reject, bounds.accept);
        }
    }
    let fixed = RowBounds::Fixed(ProductBounds { reject: never, accept: unsure });
    for simd in Simd::tested() {
        let (layout, len) = (F::Element::layout(simd), probe.len() as usize);
        let rows = layout.padded(len);
        let mut own = vec![F::Element::ZERO; layout.len(len, places)];
        let mut row_bounds = vec![fixed; rows];
        for (row, bounds) in row_bounds.iter_mut().enumerate().take(len) {
            *bounds = filter.probe(probe, row as u32, layout.row(&mut own, row, places));
        }
        let mut found = vec![None; rows * items];
        for (panel, scale) in scales.iter().enumerate() {
            let at: Vec<_> = row_bounds.iter().map(|row| F::bounds_at(*row, *scale)).collect();
            let row_reject: Vec<_> = at.iter().map(|bounds| bounds.reject).collect();
            let of_rows = Rows { places, numbers: &own, reject: &row_reject };
            let first = panel * PANEL;
            let of_panel = Panels {
                numbers: &numbers[panel * stride..],
                stride,
                step: 1,
                reject: &reject[first..],
            };
            let of_panels: &[_; PANEL] = accept[first..][..PANEL].as_array().unwrap();
            products_of_panels(simd, of_rows, of_panel, 1, |row, _, mask, products| {
                let sure = F::Element::accepted(simd, products, at[row].accept, of_panels);
                for_each_lane(mask, |lane| {
                    let accept = [at[row].accept, of_panels[lane]];
                    let accepted = F::Element::is_accepted(products[lane], accept);
                    // Both say what is true; of floats in another precision.
                    let accepted = accepted || sure >> lane & 1 == 1;
                    assert!(found[row * items + first + lane].replace(accepted).is_none());
                });
            });
        }
        for p in 0..probe.len() {
            for b in 0..build.len() {
                let (x, y) = (probe.vector(p), build.vector(b));
                let matches = threshold.matches(x, y).unwrap();
                let (row, vector) = (p as usize, b as usize);
                let accepted = found[row * items + vector];
                let what = || format!("{what} {simd} {threshold:?} {filter:?}\n{x:?}\n{y:?}");
                match accepted {
                    None => assert!(!matches, "rejected: {}", what()),
                    Some(true) => assert!(matches, "accepted: {}", what()),
                    Some(false) => {}
                }
                proven[accepted.map_or(0, |accepted| 1 + usize::from(accepted))] += 1;
            }
        }
    }
    proven
}

/// A case of this round: its threshold is the value of a pair, or lies beside one.
fn case(rng: &mut StdRng, round: usize) -> Case {
    let (shape, metric) = (round % SHAPES, Metric::ALL[round / SHAPES % 3]);
    let d = *[1, 2, 3, 4, 5, 8, 31, 130].choose(rng).unwrap();
    let [build, probe] = sides(rng, shape, d);
    let (x, y) = (probe.choose(rng).unwrap(), build.choose(rng).unwrap());
    let value = metric.value(x, y).unwrap().filter(|v| v.is_finite()).unwrap_or(0.5);
    let bound = match round % 5 {
        0 => value,
        1 => value.next_up(),
        2 => value.next_down(),
        3 => value * (1.0 + 1e-7),
        _ => value * 1.5,
    };
    let sides = [collection(&build), collection(&probe)];
    let threshold = Threshold::of_round(metric, bound, round);
    Case { what: format!("round {round}"), threshold, sides }
}

/// No product rejects a pair that matches or accepts one that does not.
#[test]
fn products_prove_only_what_is_true() {
    let mut rng = StdRng::seed_from_u64(15);
    let mut all = [[0_u64; 3]; SHAPES];
    for round in 0..1200 {
        let case = case(&mut rng, round);
        let frame = Frame::of(&case.sides[0], case.threshold, &CancelFlag::default()).unwrap();
        let proven = proven(&frame, &case);
        all[round % SHAPES].iter_mut().zip(proven).for_each(|(all, of_case)| *all += of_case);
    }
    // On numbers of usual range the products decide nearly all pairs.
    for [rejected, open, accepted] in &all[..2] {
        assert!(rejected + accepted > 20 * open, "{all:?}");
    }
}

/// Bounds of bytes are tried with centres and scales that fit the vectors, and others.
#[test]
fn products_of_bytes_prove_only_what_is_true() {
    let mut rng = StdRng::seed_from_u64(16);
    let (mut all, mut fitting) = ([[0_u64; 3]; SHAPES], 0);
    let pool = Budget::unlimited();
    let memory = pool.reservation();
    let spec = MatchSpec {
        candidate_chunk: 1024,
        match_buffer: 1024,
        tuning: Tuning::small(),
        ..MatchSpec::default()
    };
    for round in 0..1200 {
        let case = case(&mut rng, round);
        let threshold = case.threshold;
        let cancel = CancelFlag::default();
        let context = PrepareContext::new(&memory, &cancel, Threads::small(1));
        let chosen = NumberForm::of(&case.sides[0], threshold, &spec, context).unwrap();
        assert_eq!(memory.size(), 0);
        let of_choice = match chosen {
            NumberForm::Bytes { frame, .. } if round % 4 < 3 => {
                fitting += 1;
                Some(frame)
            }
            _ => None,
        };
        let is_fitting = of_choice.is_some();
        let frame = of_choice.unwrap_or_else(|| {
            let d = case.sides[0].dimensions(0) as usize;
            let centre = match threshold.metric {
                Metric::InnerProduct => vec![],
                _ => (0..rng.random_range(0..=d + 1)).map(|_| number(&mut rng, 0)).collect(),
            };
            let scale = 10_f64.powf(rng.random_range(-8.0..8.0));
            let ratio = 10_f64.powf(rng.random_range(-3.0..6.0));
            ByteFrame::new(drawn_form(&mut rng), threshold, centre, scale, ratio)
        });
        let proven = proven(&frame, &case);
        if is_fitting {
            all[round % SHAPES].iter_mut().zip(proven).for_each(|(all, of_case)| *all += of_case);
        }
    }
    assert!(fitting > 500, "{fitting}");
    // Numbers between 0 and 1, and integers.
    assert!(all[0][0] + all[0][2] > 4 * all[0][1], "{all:?}");
    assert!(all[1][0] + all[1][2] > 10 * all[1][1], "{all:?}");
}

/// Sums of the longest vectors, of coordinates at the ends of the range, stay within 32 bits with their
/// bounds. Of longer vectors products tell nothing.
#[test]
fn products_of_the_longest_vectors_stay_in_range() {
    let mut rng = StdRng::seed_from_u64(18);
    for (round, d) in (0..6).map(|round| (round, MOST_DIMENSIONS + round / 3)) {
        let metric = Metric::ALL[round % 3];
        let mut vectors = vec![vec![127.0; d], vec![-127.0; d], vec![0.0; d], vec![126.5; d]];
        vectors.push((0..d).map(|k| if k % 2 == 0 { 127.0 } else { -127.0 }).collect());
        vectors.push((0..d).map(|k| if k < d / 2 { 127.0 } else { 0.0 }).collect());
        let ends = (0..d).map(|_| if rng.random_bool(0.5) { 127.0 } else { -127.0 });
        vectors.push(ends.collect());
        // Far outside.
        vectors.push((0..d).map(|k| if k == d / 3 { 1e9 } else { 1.0 }).collect());
        let mut bounds = vec![];
        for (x, y) in vectors.iter().flat_map(|x| vectors.iter().map(move |y| (x, y))) {
            bounds.extend(metric.value(x, y).unwrap());
        }
        bounds.sort_by(f64::total_cmp);
        bounds.dedup();
        // Of NaN, kinds tell.
        if d <= MOST_DIMENSIONS {
            vectors.push((0..d).map(|k| if k == d - 1 { f64::NAN } else { 1.0 }).collect());
        }
        let mut all = [0; 3];
        for bound in bounds.into_iter().step_by(2) {
            let threshold = Threshold::new(metric, bound);
            let sides = [collection(&vectors), collection(&vectors)];
            let case = Case { what: format!("{d} dimensions"), threshold, sides };
            // The coordinates of vectors of length 1 are small.
            let scale = if metric == Metric::Cosine { 127.0 * (d as f64).sqrt() } else { 1.0 };
            for ratio in [1.0, 1e3] {
                let simd = drawn_form(&mut rng);
                let frame = ByteFrame::new(simd, threshold, vec![], scale, ratio);
                all.iter_mut().zip(proven(&frame, &case)).for_each(|(all, of)| *all += of);
            }
        }
        let [rejected, _, accepted] = all;
        match d > MOST_DIMENSIONS {
            // A vector of zeros has no cosine.
            true => {
                assert!((rejected == 0 || metric == Metric::Cosine) && accepted == 0, "{all:?}")
            }
            false => assert!(rejected > 100 && accepted > 100, "{metric:?} {all:?}"),
        }
    }
}

/// Sums in lanes decide as the function does, and most pairs.
#[test]
fn sums_in_lanes_decide_as_the_function_does() {
    let mut rng = StdRng::seed_from_u64(17);
    let (mut decided, mut open) = (0, 0);
    for round in 0..1200 {
        let Case { what, threshold, sides: [build, probe] } = case(&mut rng, round);
        for (p, b) in (0..probe.len()).flat_map(|p| (0..build.len()).map(move |b| (p, b))) {
            let (x, y) = (probe.vector(p), build.vector(b));
            let expected = threshold.matches(x, y).unwrap();
            for &simd in Simd::available() {
                let found = verify::is_match(simd, threshold, x, y);
                assert!(
                    found.is_none_or(|found| found == expected),
                    "{what} {simd} {threshold:?}\n{x:?}\n{y:?}"
                );
                if round % SHAPES < 2 && x.len() > 16 {
                    decided += usize::from(found.is_some());
                    open += usize::from(found.is_none());
                }
            }
        }
    }
    assert!(decided > 20 * open, "{decided} {open}");
}

/// Integers are those of the definition, and so are their sums: equal in every form, to the bit.
#[test]
fn vectors_become_the_same_integers_in_every_form() {
    let mut rng = StdRng::seed_from_u64(26);
    for round in 0..2000 {
        let d: usize = rng.random_range(1..=70);
        let vector: Vec<f64> = (0..d).map(|_| number(&mut rng, round % 4)).collect();
        let centre: Vec<f64> =
            (0..rng.random_range(0..=d + 9)).map(|_| number(&mut rng, 0)).collect();
        let scale = 10_f64.powf(rng.random_range(-4.0..4.0));
        let threshold = Threshold::new(Metric::Euclidean, 1.0);
        let bias = *[0, 128].choose(&mut rng).unwrap();
        let of_form = |simd| {
            let frame = ByteFrame::new(simd, threshold, centre.clone(), scale, 1.0);
            let mut integers = vec![0_i32; d.div_ceil(4)];
            match frame.quantise((&vector).into(), scale, bias, integers.iter_mut()) {
                Quantised::Usual(sums) => (integers, sums),
                other => panic!("{other:?} of {vector:?}"),
            }
        };
        let (integers, sums) = of_form(Simd::available()[0]);
        let (mut sum, mut square, mut off) = (0.0, 0.0, 0.0);
        for (k, v) in vector.iter().enumerate() {
            let exact = (v - centre.get(k).unwrap_or(&0.0)) * scale;
            let byte = integers[k / 4].to_ne_bytes()[k % 4].wrapping_sub(bias);
            let q = f64::from(byte as i8);
            assert_eq!(q, exact.clamp(-127.0, 127.0).round_ties_even(), "{round} {k}");
            (sum, square) = (sum + q, square + q * q);
            off += (q - exact).powi(2);
        }
        assert_eq!((sum, square), (sums.sum, sums.square));
        assert!(sums.all_off >= off.sqrt() * (1.0 - 1e-12) && sums.off <= sums.all_off * 1.01);
        for simd in Simd::tested() {
            let (others, of_others) = of_form(simd);
            assert_eq!(others, integers, "{simd}");
            let bits =
                |sums: Sums| [sums.sum, sums.square, sums.off, sums.all_off].map(f64::to_bits);
            assert_eq!(bits(of_others), bits(sums), "{simd}");
        }
    }
}
