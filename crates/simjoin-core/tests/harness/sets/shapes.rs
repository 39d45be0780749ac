//! Data in which strategies go wrong.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::index;

use super::Rows;

/// Build and probe rows under a name; the build rows are joined with themselves as well.
pub struct Shape {
    pub name: String,
    pub build: Rows,
    pub probe: Rows,
}

impl Shape {
    fn new(name: impl Into<String>, build: Rows, probe: Rows) -> Self {
        Self { name: name.into(), build, probe }
    }
}

/// Sizes at and beside the widths of words, blocks and signatures.
const SIZES: [usize; 14] = [1, 2, 63, 64, 65, 127, 128, 129, 255, 256, 257, 512, 513, 2000];

fn unkeyed(sets: impl IntoIterator<Item = Vec<u32>>) -> Rows {
    sets.into_iter().map(|tokens| (0, tokens)).collect()
}

fn random_set(rng: &mut StdRng, size: usize, universe: usize) -> Vec<u32> {
    let size = size.min(universe);
    index::sample(rng, universe, size).into_iter().map(|t| t as u32).collect()
}

/// A copy in which some tokens are replaced, and one is dropped or added now and then.
fn perturbed(rng: &mut StdRng, set: &[u32], changes: usize, universe: usize) -> Vec<u32> {
    let mut copy = set.to_vec();
    for _ in 0..changes {
        let at = rng.random_range(0..copy.len());
        copy[at] = rng.random_range(0..universe as u32);
    }
    match rng.random_range(0..4) {
        0 if copy.len() > 1 => drop(copy.pop()),
        1 => copy.push(rng.random_range(0..universe as u32)),
        _ => {}
    }
    copy
}

/// Random sets, half of them perturbed copies of others.
fn mixed(rng: &mut StdRng, count: usize, sizes: std::ops::Range<usize>, universe: usize) -> Rows {
    let mut sets: Vec<Vec<u32>> = vec![];
    for i in 0..count {
        let set = if i > 0 && rng.random_bool(0.5) {
            let copied = rng.random_range(0..i);
            let changes = rng.random_range(0..1 + sets[copied].len() / 4);
            perturbed(rng, &sets[copied].clone(), changes, universe)
        } else {
            let size = rng.random_range(sizes.clone());
            random_set(rng, size, universe)
        };
        sets.push(set);
    }
    unkeyed(sets)
}

/// Families of sets that share their rarest tokens and differ in frequent ones.
pub(crate) fn equal_prefixes(rng: &mut StdRng) -> Shape {
    let families = |rng: &mut StdRng, count: usize| {
        let mut sets = vec![];
        for _ in 0..count {
            let family = rng.random_range(0..6_u32);
            let shared = 1 + family;
            let rare = (0..shared).map(|i| 100 + family * 10 + i);
            let size = [6, 6, 6, 7, 12][rng.random_range(0..5)];
            let frequent = random_set(rng, size, 14);
            sets.push(rare.chain(frequent).collect());
        }
        unkeyed(sets)
    };
    Shape::new("equal prefixes", families(rng, 150), families(rng, 60))
}

/// Equal sets many times, under few keys.
pub fn repeats(rng: &mut StdRng) -> Shape {
    let sets: Vec<Vec<u32>> = (0..6)
        .map(|_| {
            let size = rng.random_range(1..8);
            random_set(rng, size, 12)
        })
        .collect();
    let rows = |rng: &mut StdRng, count: usize| {
        (0..count).map(|_| (rng.random_range(0..3), sets[rng.random_range(0..6)].clone())).collect()
    };
    Shape::new("repeats", rows(rng, 90), rows(rng, 40))
}

/// Keys of very different frequency, on sets that overlap across them.
pub fn keyed(rng: &mut StdRng) -> Shape {
    let side = |rng: &mut StdRng, count| {
        let mut rows = mixed(rng, count, 1..12, 40);
        rows.iter_mut().for_each(|row| row.0 = rng.random_range(0..20_i64).min(6) - 2);
        rows
    };
    Shape::new("keyed", side(rng, 120), side(rng, 60))
}

pub fn one_size(rng: &mut StdRng) -> Vec<Shape> {
    let side = |rng: &mut StdRng, size, count, universe| {
        let sets: Vec<_> = (0..count).map(|_| random_set(rng, size, universe)).collect();
        unkeyed(sets)
    };
    let shapes = [(1, 30), (2, 12), (8, 14), (64, 80)].map(|(size, universe)| {
        let (build, probe) = (side(rng, size, 100, universe), side(rng, size, 40, universe));
        Shape::new(format!("only size {size}"), build, probe)
    });
    shapes.into()
}

/// Sets of every size in [`SIZES`] with copies that are near and further off, and subsets.
pub fn sizes(rng: &mut StdRng, universe: usize) -> Shape {
    let mut sets: Vec<Vec<u32>> = vec![];
    for (i, size) in SIZES.into_iter().enumerate() {
        let base = random_set(rng, size, universe);
        for share in [0, 1, size / 20, size / 10, size / 4] {
            sets.push(perturbed(rng, &base, share, universe));
        }
        if let Some(&less) = i.checked_sub(1).and_then(|i| SIZES.get(i)) {
            sets.push(base[..less.min(base.len())].to_vec());
        }
        sets.push(base);
    }
    let probe: Vec<_> = sets.iter().map(|set| perturbed(rng, set, 1, universe)).collect();
    Shape::new(format!("sizes over {universe} tokens"), unkeyed(sets), unkeyed(probe))
}

/// A build side that knows exactly `universe` tokens.
pub fn universe(rng: &mut StdRng, universe: usize) -> Shape {
    let largest = (universe / 2).clamp(2, 60);
    let mut build = mixed(rng, 90, 1..largest, universe);
    let step = (universe / 40).max(3);
    let all: Vec<u32> = (0..universe as u32).collect();
    build.extend(unkeyed(all.chunks(step).map(<[u32]>::to_vec)));
    // A tenth of what the probe side draws from is unknown to the build side.
    let probe = mixed(rng, 50, 1..largest, universe + universe.div_ceil(10));
    Shape::new(format!("universe of {universe}"), build, probe)
}

/// Tokens as frequent as words are.
pub(crate) fn zipfian(rng: &mut StdRng, average: usize) -> Shape {
    let side = |rng: &mut StdRng, count: usize| {
        let mut sets: Vec<Vec<u32>> = vec![];
        for i in 0..count {
            if i > 0 && rng.random_bool(0.3) {
                let copied = sets[rng.random_range(0..i)].clone();
                sets.push(perturbed(rng, &copied, copied.len() / 10, 3000));
                continue;
            }
            let size = rng.random_range(1..2 * average);
            // The density 1/x over 1..3000.
            let token = |rng: &mut StdRng| 3000_f64.powf(rng.random::<f64>()) as u32 - 1;
            sets.push((0..size).map(|_| token(rng)).collect());
        }
        unkeyed(sets)
    };
    Shape::new(format!("Zipfian, {average} tokens"), side(rng, 160), side(rng, 60))
}

/// Every token in (nearly) every set.
pub(crate) fn dense(rng: &mut StdRng, universe: u32) -> Shape {
    let side = |rng: &mut StdRng, count| {
        let sets = (0..count).map(|i| {
            let missing = [rng.random_range(0..universe), rng.random_range(0..universe)];
            let missing = &missing[..i % 3];
            (0..universe).filter(|t| !missing.contains(t)).collect()
        });
        unkeyed(sets.collect::<Vec<_>>())
    };
    Shape::new(format!("all {universe} tokens"), side(rng, 50), side(rng, 20))
}

/// Build sides around the number of sets in a block.
pub fn counts(rng: &mut StdRng) -> Vec<Shape> {
    let shapes = [0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65].map(|count| {
        // Distinct sets, so that as many are left when repeats are dropped.
        let build = (0..count).map(|i: u32| {
            let mut set = random_set(rng, 1 + (i % 5) as usize, 9);
            set.extend([1000 + i / 8, 1100 + i % 8]);
            set
        });
        let build = unkeyed(build.collect::<Vec<_>>());
        let mut probe = mixed(rng, 17, 1..7, 9);
        probe.extend(build.iter().take(20).cloned());
        Shape::new(format!("{count} build sets"), build, probe)
    });
    shapes.into()
}

/// Probe sets of which few, many or all tokens are unknown to the build side.
pub fn unknown(rng: &mut StdRng) -> Shape {
    let build = mixed(rng, 80, 1..20, 50);
    let mut probe: Rows = unkeyed((0..10).map(|i| (1000 + i..1004 + 2 * i).collect()));
    for (i, (_, set)) in build.iter().enumerate().take(60) {
        let kept = rng.random_range(0..=set.len());
        let others = (0..rng.random_range(0..8)).map(|j| 2000 + j * (i as u32 % 3));
        probe.push((0, set[..kept].iter().copied().chain(others).collect()));
    }
    Shape::new("unknown probe tokens", build, probe)
}
