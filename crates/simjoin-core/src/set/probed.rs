//! Figures of a join whose probe rows are known, before any of them is read.

use std::ops::Range;

use crate::engine::{Pairing, Probes};
use crate::set::collection::SetCollection;
use crate::set::join_spec::JoinSpec;
use crate::set::statistics::Statistics;

/// Sizes that stand for those of a range.
const SIZES: u32 = 3;

impl Statistics {
    /// The figures of a join with `probes`, from the figures of a join whose probe sets are like the build
    /// sets. A probe set has as many partners as the build side has sets in reach of its size, and its
    /// tokens are about as frequent as tokens of build sets.
    pub(crate) fn probed_by(self, build: &SetCollection, spec: &JoinSpec, probes: &Probes) -> Self {
        let runs = build.runs();
        let ends = runs.iter().next().zip(runs.iter().last());
        let Some(((first, _), (last, _))) = ends.filter(|_| spec.pairing == Pairing::All) else {
            return self;
        };
        // Rows of one set are probed once, where they come together.
        let distinct = self.sets / build.groups().row_count().max(1) as f64;
        let sets = probes.len() as f64 * distinct;
        if first.key != last.key {
            let times = sets / self.sets;
            return self.scaled(times);
        }
        let mut found =
            Self { probed: 0.0, probe_tokens: 0.0, lookups: 0.0, postings: 0.0, ..self };
        let (mut pairs, mut common, mut sizes) = (0.0, 0.0, 0.0);
        let parts = probes.parts.iter().flat_map(|(range, rows)| {
            let sets = *rows as f64 * distinct / f64::from(SIZES);
            sizes_of(range).map(move |size| (size, sets))
        });
        for (size, sets) in parts {
            let Some((least, greatest)) = spec.partner_sizes(size) else { continue };
            let partners = runs.sets(first.key, least, greatest).len() as f64;
            if partners == 0.0 {
                continue;
            }
            let least = least.max(runs.least_size());
            let prefix = f64::from(spec.bounds.prefix_len(spec.probe_role, size, least));
            let size = f64::from(size);
            found.probed += sets;
            found.probe_tokens += sets * size;
            found.lookups += sets * prefix;
            found.postings += sets * prefix * found.list_length * partners / found.sets;
            pairs += sets * partners;
            common += sets * partners * size * size;
            sizes += sets * partners * size * size * size;
        }
        found.admissible_pairs = pairs;
        found.candidate_size = if common > 0.0 { sizes / common } else { 0.0 };
        found
    }

    /// The figures of `times` as many probe sets.
    fn scaled(self, times: f64) -> Self {
        Self {
            probed: self.probed * times,
            probe_tokens: self.probe_tokens * times,
            lookups: self.lookups * times,
            postings: self.postings * times,
            admissible_pairs: self.admissible_pairs * times,
            ..self
        }
    }
}

/// Sizes in the middle of equal parts of a range.
fn sizes_of(range: &Range<u32>) -> impl Iterator<Item = u32> + use<> {
    let (start, len) = (u64::from(range.start), range.len() as u64);
    (0..u64::from(SIZES)).map(move |i| (start + len * (2 * i + 1) / u64::from(2 * SIZES)) as u32)
}

#[cfg(test)]
mod tests {
    use crate::util::parallel::Threads;
    use std::sync::Arc;

    use rand::rngs::StdRng;
    use rand::seq::index::sample;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::engine::PrepareContext;
    use crate::set::join::SetJoin;
    use crate::set::measure::Measure;
    use crate::set::runs::SetId;
    use crate::set::strategies::join;
    use crate::set::tests::harness::{Rows, Sides, reservation, spec};
    use crate::util::cancel::CancelFlag;

    fn rows(rng: &mut StdRng, count: usize, sizes: Range<usize>) -> Rows {
        let row = |rng: &mut StdRng| {
            let size = rng.random_range(sizes.clone());
            (0, sample(rng, 600, size).into_iter().map(|t| t as u32).collect())
        };
        (0..count).map(|_| row(rng)).collect()
    }

    fn join_of(sides: &Sides, spec: JoinSpec, probes: Option<&Probes>) -> SetJoin {
        let (reservation, cancel) = (reservation(), CancelFlag::default());
        let context = PrepareContext {
            probes,
            ..PrepareContext::new(&reservation, &cancel, Threads::small(1))
        };
        join(Arc::clone(&sides.build), spec, 1.0, context).unwrap()
    }

    /// The pairs of admissible sizes, and the postings that the prefixes of the probe sets meet.
    fn counted(sides: &Sides, spec: &JoinSpec) -> [f64; 2] {
        let (build, probe) = (&sides.build, &sides.probe);
        let (mut pairs, mut postings) = (0.0, 0.0);
        let prefix = |set: SetId| {
            let prefix = spec.indexed_prefix(build.size(set)) as usize;
            &build.tokens(set)[..prefix]
        };
        for p in 0..probe.len() {
            let Some((least, greatest)) = spec.partner_sizes(probe.size(p)) else { continue };
            let partners = build.runs().sets(0, least, greatest);
            let least = least.max(build.runs().least_size());
            let len = spec.bounds.prefix_len(spec.probe_role, probe.size(p), least) as usize;
            let tokens = &probe.tokens(p)[..len.min(probe.tokens(p).len())];
            for b in partners {
                pairs += 1.0;
                postings += prefix(b).iter().filter(|&t| tokens.contains(t)).count() as f64;
            }
        }
        [pairs, postings]
    }

    /// A piece of sizes from 20 to 30 is probed by larger sets, of which only some are in its reach.
    #[test]
    fn pairs_and_postings_are_those_of_the_probe_rows() {
        let mut rng = StdRng::seed_from_u64(41);
        let build = rows(&mut rng, 500, 20..30);
        let probe = rows(&mut rng, 3000, 28..48);
        let sides = Sides::two("a piece and rows behind it", &build, &probe);
        let parts = (28..48).step_by(4).map(|start| {
            let sizes = start..start + 4;
            let rows = (0..sides.probe.len()).filter(|&p| sizes.contains(&sides.probe.size(p)));
            (start..start + 4, rows.count() as u64)
        });
        let probes = Probes { parts: parts.collect() };
        for threshold in [0.5, 0.7, 0.8] {
            let spec = spec(Measure::Jaccard, threshold, Pairing::All);
            let found = join_of(&sides, spec, Some(&probes)).statistics;
            let [pairs, postings] = counted(&sides, &spec);
            let near = |found: f64, counted: f64, factor: f64| {
                assert!(
                    found < factor * counted && counted < factor * found,
                    "{threshold}: {found} {counted}"
                );
            };
            near(found.admissible_pairs, pairs, 1.3);
            near(found.postings, postings, 2.0);
        }
    }

    /// Indexing a piece is little work beside that of all rows that probe it: the pairs of these are
    /// what strategies are compared by.
    #[test]
    fn a_small_piece_with_many_probe_rows_is_a_long_join() {
        let mut rng = StdRng::seed_from_u64(43);
        let sides = Sides::two("a piece", &rows(&mut rng, 400, 20..30), &vec![]);
        let spec = spec(Measure::Jaccard, 0.7, Pairing::All);
        let few = join_of(&sides, spec, None);
        assert!(!few.is_long() && few.statistics.probed == 400.0);
        let probes = Probes { parts: vec![(20..30, 1_000_000)] };
        let many = join_of(&sides, spec, Some(&probes));
        assert!(many.is_long());
        let [few, many] = [few, many].map(|join| join.statistics);
        assert_eq!((many.indexed, many.tokens), (few.indexed, few.tokens));
        assert_eq!(many.probed, 1_000_000.0);
        assert!(many.lookups > 1000.0 * few.lookups && many.postings > 1000.0 * few.postings);
        // With many keys, by the number of rows alone.
        let mut keyed = rows(&mut rng, 400, 20..30);
        keyed.iter_mut().enumerate().for_each(|(i, row)| row.0 = i as i64 % 5);
        let sides = Sides::two("keys", &keyed, &vec![]);
        let (few, many) = (join_of(&sides, spec, None), join_of(&sides, spec, Some(&probes)));
        let times = many.statistics.admissible_pairs / few.statistics.admissible_pairs;
        assert!((times - 2500.0).abs() < 1.0, "{times}");
    }
}
