//! The probe sets that can have a partner on the build side, by their sizes and known tokens.

use crate::set::measure::{Bounds, Role};
use crate::set::runs::Runs;

/// Sizes whose least overlaps are kept: finding one takes as long as reading some dozen tokens.
const KEPT: usize = 1 << 10;
/// In place of a least overlap: the sets have no partner, or it has not been looked for.
const NONE: u32 = u32::MAX;
const UNKNOWN: u32 = 0;

/// The build side as probe sets need it for a match.
#[derive(Debug, Clone, Copy)]
pub struct BuildSizes {
    bounds: Bounds,
    /// The role of the probe sets.
    role: Role,
    /// The sizes of the build sets.
    least_size: u32,
    greatest_size: u32,
}

impl BuildSizes {
    pub fn new(bounds: Bounds, role: Role, build: &Runs) -> Self {
        let (least_size, greatest_size) = (build.least_size(), build.greatest_size());
        Self { bounds, role, least_size, greatest_size }
    }

    /// The tokens that a probe set of this size has in common with any partner, at least.
    fn least_overlap(&self, size: u32) -> u32 {
        let Some((least, greatest)) = self.bounds.size_range(self.role, size) else { return NONE };
        let partner = least.max(self.least_size);
        if partner > greatest.min(self.greatest_size) {
            return NONE;
        }
        // It never falls while the partner grows.
        self.bounds.min_overlap(self.role, size, partner).unwrap_or(NONE)
    }
}

impl PartialEq for BuildSizes {
    /// Compares the bits of the thresholds: NaN is equal to itself.
    fn eq(&self, other: &Self) -> bool {
        let parts = |of: &Self| {
            let Self { bounds, role, least_size, greatest_size } = *of;
            (bounds.measure, bounds.threshold.to_bits(), role, least_size, greatest_size)
        };
        parts(self) == parts(other)
    }
}

/// Least overlaps by size, each found once.
#[derive(Debug, Default)]
pub(super) struct LeastOverlaps {
    /// `None` where nothing is known of the build side.
    of: Option<BuildSizes>,
    by_size: Vec<u32>,
}

impl LeastOverlaps {
    /// The bytes allocated, at most.
    pub(super) const FOOTPRINT: usize = KEPT * size_of::<u32>();

    /// Forgets the overlaps for another build side.
    pub(super) fn start(&mut self, of: Option<BuildSizes>) {
        if self.of != of {
            self.of = of;
            self.by_size.clear();
        }
    }

    /// Whether a probe set of this size, some of whose tokens are `known` on the build side, can have
    /// a partner there.
    #[inline]
    pub(super) fn admit(&mut self, size: usize, known: usize) -> bool {
        let Some(partners) = &self.of else { return true };
        // Larger sets than are allowed are told of elsewhere.
        let Ok(size_in_u32) = u32::try_from(size) else { return true };
        if size >= KEPT {
            return known as u64 >= u64::from(partners.least_overlap(size_in_u32));
        }
        if self.by_size.len() <= size {
            self.by_size.reserve_exact(KEPT - self.by_size.len());
            self.by_size.resize(size + 1, UNKNOWN);
        }
        let overlap = &mut self.by_size[size];
        if *overlap == UNKNOWN {
            *overlap = partners.least_overlap(size_in_u32);
        }
        known as u64 >= u64::from(*overlap)
    }

    pub(super) fn size_in_bytes(&self) -> usize {
        self.by_size.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::set::measure::Measure;

    /// A set is left out exactly where no build size and no overlap make a match.
    #[test]
    fn sets_without_a_partner_are_left_out() {
        for measure in Measure::ALL {
            for threshold in [0.3, 0.8, 1.0, 2.5, 1.5, f64::NAN] {
                for role in [Role::First, Role::Second] {
                    for (least, greatest) in [(1, 1), (3, 9), (20, 24)] {
                        let runs = Runs::of([(0, least, 2), (0, greatest + 1, 1)].into_iter());
                        let bounds = Bounds::new(measure, threshold);
                        let mut overlaps = LeastOverlaps::default();
                        overlaps.start(Some(BuildSizes::new(bounds, role, &runs)));
                        for size in (1..40).chain(KEPT as u32 - 1..KEPT as u32 + 2) {
                            for known in 1..=size.min(40) {
                                let matches = |partner: u32| {
                                    let most = known.min(partner);
                                    let value = measure.value_in_role(
                                        most.into(),
                                        role,
                                        size.into(),
                                        partner.into(),
                                    );
                                    value >= threshold
                                };
                                let expected = (least..=greatest + 1).any(matches);
                                let found = overlaps.admit(size as usize, known as usize);
                                assert_eq!(found, expected, "{measure} {threshold} {size} {known}");
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn the_batches_of_a_join_share_what_was_found() {
        let runs = Runs::of([(0, 2, 1), (0, 9, 1)].into_iter());
        for threshold in [0.5, f64::NAN] {
            let partners = |threshold| {
                let bounds = Bounds::new(Measure::Jaccard, threshold);
                Some(BuildSizes::new(bounds, Role::First, &runs))
            };
            let mut overlaps = LeastOverlaps::default();
            overlaps.start(partners(threshold));
            overlaps.admit(5, 5);
            overlaps.start(partners(threshold));
            assert_eq!(overlaps.by_size.len(), 6, "{threshold}");
            overlaps.start(partners(0.25));
            assert!(overlaps.by_size.is_empty(), "{threshold}");
        }
    }
}
