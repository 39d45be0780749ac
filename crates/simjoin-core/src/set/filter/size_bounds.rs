//! The integer bounds of one probe size, tabulated once.

use std::ops::Range;
use std::sync::Arc;

use crate::engine::Pairing;
use crate::set::collection::SetCollection;
use crate::set::join_spec::JoinSpec;
use crate::set::measure::{Bounds, Role};
use crate::set::runs::{Runs, SetId};

/// Partner sizes beyond this span are not tabulated: sets so large hide the cost.
const MAX_TABLE: u32 = 1 << 14;

/// The needs of a probe set of one size of its partners.
#[derive(Debug)]
pub struct SizeBounds {
    bounds: Bounds,
    role: Role,
    size: u32,
    /// Admissible partner sizes, limited to those of the build side.
    pub least: u32,
    pub greatest: u32,
    /// The length of the probe prefix.
    pub prefix: u32,
    /// The required overlap for partners of size `least..`; empty where the span is too large.
    required: Vec<u32>,
}

impl SizeBounds {
    /// `None` when no partner of a size in `sizes.0..=sizes.1` can match.
    pub(crate) fn new(spec: &JoinSpec, size: u32, sizes: (u32, u32)) -> Option<Self> {
        Self::with_table(spec, size, sizes, MAX_TABLE)
    }

    /// [`Self::new`] with a table of spans of fewer than `tabulated` sizes.
    fn with_table(
        spec: &JoinSpec,
        size: u32,
        (least_partner, greatest_partner): (u32, u32),
        tabulated: u32,
    ) -> Option<Self> {
        let (bounds, role) = (spec.bounds, spec.probe_role);
        let (least, greatest) = spec.partner_sizes(size)?;
        let (least, greatest) = (least.max(least_partner), greatest.min(greatest_partner));
        if least > greatest {
            return None;
        }
        let prefix = bounds.prefix_len(role, size, least);
        let required = if greatest - least < tabulated {
            let mut overlap = 1;
            let mut table = Vec::with_capacity((greatest - least) as usize + 1);
            for partner in least..=greatest {
                overlap = bounds.min_overlap_from(role, size, partner, overlap);
                table.push(overlap);
            }
            table
        } else {
            vec![]
        };
        Some(Self { bounds, role, size, least, greatest, prefix, required })
    }

    /// The least overlap with a partner of this size, which lies in `least..=greatest`.
    #[inline]
    pub fn required(&self, partner: u32) -> u32 {
        match self.required.get((partner - self.least) as usize) {
            Some(&required) => required,
            None => self.bounds.min_overlap(self.role, self.size, partner).unwrap_or(u32::MAX),
        }
    }
}

impl SizeBounds {
    /// The bytes of the bounds of a probe set, for a build side with these runs.
    pub(crate) fn footprint(build: &Runs) -> usize {
        let sizes = build.greatest_size().saturating_sub(build.least_size()).saturating_add(1);
        sizes.min(MAX_TABLE) as usize * size_of::<u32>() + size_of::<Self>()
    }

    /// The bytes of the table.
    fn table_bytes(&self) -> usize {
        self.required.capacity() * size_of::<u32>()
    }

    /// The required overlaps of partners of size `least..=greatest`; empty where these are too many
    /// to be tabulated.
    pub fn table(&self) -> &[u32] {
        &self.required
    }
}

/// The bounds of the sizes met last, direct-mapped by size: probe sets come ordered by blocking
/// key and size, so that sizes repeat. Where tables are large, the cache holds fewer of them.
#[derive(Debug)]
pub struct SizeBoundsCache {
    spec: JoinSpec,
    partners: (u32, u32),
    /// Spans of fewer partner sizes have a table.
    tabulated: u32,
    slots: Vec<Option<(u32, Option<Arc<SizeBounds>>)>>,
    /// The bytes of the tables held.
    held: usize,
    /// The slot that is emptied next where the tables take too much.
    hand: usize,
}

impl SizeBoundsCache {
    const SLOTS: usize = 64;
    /// The bytes of all tables of a cache, at most.
    const TABLES: usize = 4 * MAX_TABLE as usize * size_of::<u32>();

    /// A cache for a build side with these runs.
    pub fn new(spec: &JoinSpec, build: &Runs) -> Self {
        let partners = (build.least_size(), build.greatest_size());
        let slots = vec![None; Self::SLOTS];
        Self { spec: *spec, partners, tabulated: MAX_TABLE, slots, held: 0, hand: 0 }
    }

    /// A cache of bounds without tables, for probe sets that meet few partners each.
    pub(crate) fn without_tables(spec: &JoinSpec, build: &Runs) -> Self {
        Self { tabulated: 0, ..Self::new(spec, build) }
    }

    /// The bounds of a size, `None` when it has no admissible partner.
    pub fn get(&mut self, size: u32) -> Option<Arc<SizeBounds>> {
        let place = size as usize % Self::SLOTS;
        match &self.slots[place] {
            Some((cached, bounds)) if *cached == size => bounds.clone(),
            _ => {
                let new = SizeBounds::with_table(&self.spec, size, self.partners, self.tabulated);
                let new = new.map(Arc::new);
                self.empty(place);
                let bytes = new.as_ref().map_or(0, |bounds| bounds.table_bytes());
                while self.held > 0 && self.held + bytes > Self::TABLES {
                    self.empty(self.hand);
                    self.hand = (self.hand + 1) % Self::SLOTS;
                }
                self.held += bytes;
                self.slots[place] = Some((size, new.clone()));
                new
            }
        }
    }

    fn empty(&mut self, place: usize) {
        if let Some((_, Some(bounds))) = self.slots[place].take() {
            self.held -= bounds.table_bytes();
        }
    }

    /// The bytes that a cache takes at most, with the bounds that its caller works with.
    pub fn footprint(build: &Runs) -> usize {
        let sizes = build.greatest_size().saturating_sub(build.least_size()).saturating_add(1);
        Self::most_bytes(sizes as usize)
    }

    /// The most bytes where the build sets are of `sizes` sizes.
    pub(crate) fn most_bytes(sizes: usize) -> usize {
        let table = sizes.min(MAX_TABLE as usize) * size_of::<u32>();
        let slot = size_of::<SizeBounds>() + 32;
        (Self::SLOTS * table).min(Self::TABLES) + table + (Self::SLOTS + 1) * slot
    }
}

/// The build sets that a set of the collection itself would be compared with.
pub fn partners(
    build: &SetCollection,
    spec: &JoinSpec,
    cache: &mut SizeBoundsCache,
    probe: SetId,
) -> Option<(Range<SetId>, Arc<SizeBounds>)> {
    let (run, _) = build.runs().of_set(probe)?;
    let bounds = cache.get(run.size)?;
    let sets = build.runs().sets(run.key, bounds.least, bounds.greatest);
    let end = if spec.pairing == Pairing::Unordered { sets.end.min(probe) } else { sets.end };
    (sets.start < end).then_some((sets.start..end, bounds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Pairing;
    use crate::set::measure::Measure;
    use crate::set::tests::harness::{Sides, spec};

    #[test]
    fn large_tables_take_a_bounded_share() {
        let rows = [1, 16_000].map(|size| (0, (0..size).collect())).to_vec();
        let build = Sides::two("sizes", &rows, &vec![]).build;
        let spec = spec(Measure::Jaccard, 0.1, Pairing::All);
        let mut cache = SizeBoundsCache::new(&spec, build.runs());
        for size in (2000..2400).chain([2000, 2001]) {
            let found = cache.get(size).unwrap();
            let direct = SizeBounds::new(&spec, size, (1, 16_000)).unwrap();
            assert_eq!(found.table(), direct.table());
            let tables = cache.slots.iter().flatten().filter_map(|(_, bounds)| bounds.as_ref());
            let held: usize = tables.map(|bounds| bounds.table_bytes()).sum();
            assert_eq!(held, cache.held);
            assert!(held <= SizeBoundsCache::TABLES, "{held}");
        }
        assert!(SizeBoundsCache::footprint(build.runs()) < 400 << 10);
    }
}
