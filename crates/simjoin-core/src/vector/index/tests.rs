//! Indexes against all pairs.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::VectorIndex;
use super::boxes::{FANOUT, PANEL, TreeShape};
use crate::engine::{
    Funnel, Match, MatchBuffer, MatchSpec, Orders, PrepareContext, ProbeUnit, Progress,
    RowPairCounts, Strategy, Terms,
};
use crate::memory::Budget;
use crate::predicate::Side;
use crate::simd::Simd;
use crate::tuning::Tuning;
use crate::util::cancel::CancelFlag;
use crate::util::parallel::Threads;
use crate::vector::bounds::Frame;
use crate::vector::collection::{Content, ReadRow, ReadRows, Vectors};
use crate::vector::join::VectorJoin;
use crate::vector::metric::{ArgumentOrder, Joining, Metric, Threshold};
use crate::vector::nested_loop::BLOCK;
use crate::vector::strategies::{Directory, NestedLoop};
use crate::vector::width::round;

/// Vectors in runs by key; a key of three has no run that a tree grows in.
fn collection(rng: &mut StdRng, count: usize, d: usize, shape: usize, keys: u32) -> Vectors {
    let mut read = ReadRows::default();
    let centres: Vec<f64> = (0..8).map(|_| rng.random_range(-10.0..10.0)).collect();
    // Points of a plane in all dimensions, and one point.
    let plane: Vec<[f64; 2]> =
        (0..d).map(|_| [0; 2].map(|_: i32| rng.random_range(-1.0..1.0))).collect();
    let is_narrow = rng.random_bool(0.5);
    for row in 0..count as u32 {
        let centre = *centres.choose(rng).unwrap();
        let place = [0; 2].map(|_: i32| rng.random_range(0.0..1.0));
        let mut vector: Vec<f64> = (0..d)
            .map(|dim| match shape {
                0 => rng.random_range(0.0..1.0),
                1 => f64::from(rng.random_range(0_i8..6)),
                2 => centre + rng.random_range(-0.1..0.1),
                3 => 1e6 + rng.random_range(0.0..1e-3),
                4 => plane[dim][0] * place[0] + plane[dim][1] * place[1],
                5 => plane[dim][0],
                _ => rng.random_range(-1.0..1.0) * 10_f64.powi(rng.random_range(-9..3)),
            })
            .collect();
        match rng.random_range(0..300) {
            0 => vector[0] = f64::NAN,
            1 => vector[d - 1] = f64::INFINITY,
            2 => vector[0] = 1e200,
            3 => vector.fill(0.0),
            _ => {}
        }
        if is_narrow {
            round(&mut vector);
        }
        let key = if keys > 1 && row % 50 == 0 { 1 + row / 50 % 2 } else { 0 };
        let (start, len) = (read.numbers.len(), d as u32);
        let content = if row % 97 == 96 { Content::WithNull } else { Content::Vector };
        read.rows.push(ReadRow { row, key, content, len, start });
        if content == Content::Vector {
            read.numbers.extend(vector);
        }
    }
    Vectors::of(vec![read], &CancelFlag::default()).unwrap()
}

/// A join of two inputs whose pairs are wanted.
pub(super) fn spec_of(simd: Simd) -> MatchSpec {
    MatchSpec {
        candidate_chunk: 64,
        match_buffer: 64,
        simd,
        tuning: Tuning::small(),
        ..MatchSpec::default()
    }
}

/// The sorted pairs that a cursor gives, what it counts, and how it found them.
pub(in crate::vector) struct Found {
    pub pairs: Vec<[u32; 2]>,
    pub counts: RowPairCounts,
    pub funnel: Funnel,
}

/// All matches of a strategy; and how they were found.
pub(in crate::vector) fn matches(
    strategy: &dyn Strategy<VectorJoin>,
    probe: &Arc<Vectors>,
    build: &Arc<Vectors>,
    threshold: Threshold,
    spec: &MatchSpec,
    threads: Threads,
) -> (Vec<[u32; 2]>, Funnel) {
    let Found { pairs, funnel, .. } = found(strategy, probe, build, threshold, spec, threads);
    (pairs, funnel)
}

/// All that the cursor of a strategy gives, which is fed units of some items and a small buffer.
pub(in crate::vector) fn found(
    strategy: &dyn Strategy<VectorJoin>,
    probe: &Arc<Vectors>,
    build: &Arc<Vectors>,
    threshold: Threshold,
    spec: &MatchSpec,
    threads: Threads,
) -> Found {
    let pool = Budget::unlimited();
    let reservation = pool.reservation();
    let cancel = CancelFlag::default();
    let context = PrepareContext::new(&reservation, &cancel, threads);
    let joining = Joining { threshold, orders: ArgumentOrder::of(spec, Side::Left), spec: *spec };
    let mut join = VectorJoin::new(Arc::clone(build), joining);
    let terms = Terms { is_only: true, open_device: None, context };
    let estimate = strategy.estimate(&mut join, &terms).unwrap();
    let prepared = strategy.prepare(&join, &estimate, None, context).unwrap();
    let mut cursor = prepared.open(&reservation).unwrap();
    let unit = 1 + probe.len() / 3;
    for (number, start) in (0..).zip((0..probe.len()).step_by(unit as usize)) {
        let range = start..probe.len().min(start + unit);
        cursor.feed(ProbeUnit::new(number, Arc::clone(probe) as _, range)).unwrap();
    }
    cursor.finish();
    let (mut pairs, mut counts) = (vec![], RowPairCounts::default());
    let mut buffer = MatchBuffer::new(spec.match_buffer);
    loop {
        let polled = cursor.poll(&mut Context::from_waker(Waker::noop()), &mut buffer);
        let Poll::Ready(progress) = polled else { panic!("no device works") };
        pairs.extend(buffer.matches().iter().map(|&Match { probe, build, .. }| [probe, build]));
        counts += buffer.counts();
        buffer.clear();
        if progress.unwrap() == Progress::Ended {
            pairs.sort_unstable();
            return Found { pairs, counts, funnel: cursor.funnel() };
        }
    }
}

/// Every pair by definition.
pub(in crate::vector) fn expected(
    probe: &Vectors,
    build: &Vectors,
    threshold: Threshold,
) -> Vec<[u32; 2]> {
    let mut pairs = vec![];
    for p in 0..probe.len() {
        let Some(run) = probe.run_of(p).and_then(|run| build.run(run.key)) else { continue };
        for b in run.items.clone().filter(|&b| build.is_vector(b) && probe.is_vector(p)) {
            if threshold.matches(probe.vector(p), build.vector(b)).unwrap() {
                pairs.push([p, b]);
            }
        }
    }
    pairs
}

#[test]
fn indexes_find_the_pairs_of_the_definition() {
    let mut rng = StdRng::seed_from_u64(15);
    let mut some = 0;
    for round in 0..70_usize {
        let (shape, d) = (round % 7, [1, 2, 3, 5, 8, 9, 17, 40, 17, 64][round % 10]);
        let metric = if round % 4 == 3 { Metric::Cosine } else { Metric::Euclidean };
        let keys = 1 + round as u32 % 2;
        let count = if round % 11 == 0 { 1500 } else { 300 };
        let build = Arc::new(collection(&mut rng, count, d, shape, keys));
        let unordered = round % 3 == 0;
        let probe = match unordered {
            true => Arc::clone(&build),
            false => Arc::new(collection(&mut rng, 120, d, shape, keys)),
        };
        // The distance of a pair, so that pairs lie on the boundary.
        let vector = |of: &Vectors| {
            let items: Vec<_> = (0..of.len()).filter(|&item| of.is_vector(item)).collect();
            items[round * 7 % items.len()]
        };
        let (x, y) = (vector(&probe), (vector(&build) + 1) % build.len());
        let value = metric.value(probe.vector(x), build.vector(y)).ok().flatten();
        let value = value.filter(|v| v.is_finite() && build.is_vector(y)).unwrap_or(0.3);
        let bound = [value, value * 0.3, value * 1e-6, value.next_down()][round / 2 % 4];
        let threshold = Threshold::of_round(metric, bound, round);
        let mut pairs = expected(&probe, &build, threshold);
        some += pairs.len();
        for &simd in Simd::available() {
            let spec = MatchSpec {
                orders: if unordered { Orders::Unordered } else { Orders::Given },
                candidate_chunk: 64,
                match_buffer: 7,
                simd,
                tuning: Tuning::small(),
                ..MatchSpec::default()
            };
            let (mut found, _) = matches(
                &Directory,
                &probe,
                &build,
                threshold,
                &spec,
                Threads::small(1 + round % 3),
            );
            if unordered {
                for pair in &mut found {
                    pair.sort_unstable();
                }
                found.sort_unstable();
                pairs.retain(|pair| pair[0] <= pair[1]);
            }
            assert_eq!(found, pairs, "{round} {simd} {threshold:?} {d}");
        }
    }
    assert!(some > 500, "{some}");
}

/// Every level has a node for each sixteen below it, up to one.
#[test]
fn trees_have_a_root() {
    for points in [1, PANEL, PANEL + 1, FANOUT * PANEL, FANOUT * PANEL + 1, 1_000_000] {
        let shape = TreeShape::of(points);
        assert_eq!(shape.levels[shape.height() - 1], 1, "{points}");
        assert_eq!(shape.panels as usize, points.div_ceil(PANEL));
    }
    assert_eq!(TreeShape::of(0).height(), 0);
}

#[test]
fn several_threads_make_the_same_index() {
    let mut rng = StdRng::seed_from_u64(31);
    let pool = Budget::unlimited();
    let reservation = pool.reservation();
    let cancel = CancelFlag::default();
    for (count, d) in [(3_000, 2), (20_000, 5), (700, 11), (3_000, 40)] {
        let vectors = Arc::new(collection(&mut rng, count, d, 0, 2));
        let threshold = Threshold::new(Metric::Euclidean, 0.1);
        let frame = Frame::of(&vectors, threshold, &cancel).unwrap();
        let [one, four] = [1, 4].map(|threads| {
            let context = PrepareContext::new(&reservation, &cancel, Threads::small(threads));
            let index = VectorIndex::of(Arc::clone(&vectors), frame.clone(), 1, context).unwrap();
            format!("{index:?}")
        });
        // Not assert_eq: they are long.
        assert!(one == four && one.len() > 10 * count, "{count} {d}");
    }
}

/// A partition takes few rows where each meets many vectors, and more where it meets few.
#[test]
fn rows_of_another_input_are_taken_by_their_work() {
    let mut rng = StdRng::seed_from_u64(16);
    let pool = Budget::unlimited();
    let reservation = pool.reservation();
    let cancel = CancelFlag::default();
    let context = PrepareContext::new(&reservation, &cancel, Threads::small(1));
    let threshold = Threshold::new(Metric::Euclidean, 0.1);
    // Other forms take less time for a row.
    let spec = spec_of(Simd::named("portable").unwrap());
    let mut rows_of = |count: usize, d: usize| {
        let build = Arc::new(collection(&mut rng, count, d, 0, 1));
        let joining = Joining { threshold, orders: ArgumentOrder::of(&spec, Side::Left), spec };
        let mut join = VectorJoin::new(build, joining);
        let terms = Terms { is_only: true, open_device: None, context };
        let estimate = NestedLoop.estimate(&mut join, &terms).unwrap();
        NestedLoop.prepare(&join, &estimate, None, context).unwrap().probe_rows()
    };
    let [few, some, many] = [(30_000, 64), (3_000, 64), (20, 64)].map(|(n, d)| rows_of(n, d));
    assert!(few < 512 && few < some && some < 4_096 && many > 8_192, "{few} {some} {many}");
    assert_eq!((few % BLOCK, some % BLOCK), (0, 0));
}
