//! The integer bounds of one probe size, tabulated once.

use std::sync::Arc;

use crate::set::{Bounds, JoinSpec, Role, Runs};

/// Partner sizes beyond this span are not tabulated: sets so large hide the cost.
const MAX_TABLE: u32 = 1 << 14;

/// What a probe set of one size needs of its partners.
#[derive(Debug)]
pub(crate) struct SizeBounds {
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
    /// `None` when no partner of a size in `least_partner..=greatest_partner` can match.
    pub(crate) fn new(
        spec: &JoinSpec,
        size: u32,
        (least_partner, greatest_partner): (u32, u32),
    ) -> Option<Self> {
        let (bounds, role) = (spec.bounds, spec.probe_role);
        let (least, greatest) = spec.partner_sizes(size)?;
        let (least, greatest) = (least.max(least_partner), greatest.min(greatest_partner));
        if least > greatest {
            return None;
        }
        let prefix = bounds.prefix_len(role, size, least);
        let required = if greatest - least < MAX_TABLE {
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
    pub(crate) fn required(&self, partner: u32) -> u32 {
        match self.required.get((partner - self.least) as usize) {
            Some(&required) => required,
            None => self.bounds.min_overlap(self.role, self.size, partner).unwrap_or(u32::MAX),
        }
    }
}

impl SizeBounds {
    /// The bytes that the bounds take at most, for a build side with these runs.
    pub(crate) fn footprint(build: &Runs) -> usize {
        let span = build
            .greatest_size()
            .saturating_sub(build.least_size())
            .saturating_add(1)
            .min(MAX_TABLE);
        span as usize * size_of::<u32>() + size_of::<Self>()
    }

    /// The required overlaps of partners of size `least..=greatest`; empty where these are too many
    /// to be tabulated.
    pub(crate) fn table(&self) -> &[u32] {
        &self.required
    }
}

/// The bounds of the sizes met last, direct-mapped by size: probe sets come ordered by blocking
/// key and size, so that sizes repeat.
#[derive(Debug)]
pub(crate) struct SizeBoundsCache {
    spec: JoinSpec,
    partners: (u32, u32),
    slots: Vec<Option<(u32, Option<Arc<SizeBounds>>)>>,
}

impl SizeBoundsCache {
    const SLOTS: usize = 64;

    /// For a build side with these runs.
    pub(crate) fn new(spec: &JoinSpec, build: &Runs) -> Self {
        let partners = (build.least_size(), build.greatest_size());
        Self { spec: *spec, partners, slots: vec![None; Self::SLOTS] }
    }

    /// The bounds of a size, `None` when it has no admissible partner.
    pub(crate) fn get(&mut self, size: u32) -> Option<Arc<SizeBounds>> {
        let slot = &mut self.slots[size as usize % Self::SLOTS];
        match slot {
            Some((cached, bounds)) if *cached == size => bounds.clone(),
            _ => {
                let new = SizeBounds::new(&self.spec, size, self.partners);
                let new = new.map(Arc::new);
                *slot = Some((size, new.clone()));
                new
            }
        }
    }

    /// The bytes that a full cache takes at most.
    pub(crate) fn footprint(build: &Runs) -> usize {
        Self::SLOTS * (SizeBounds::footprint(build) + 32)
    }
}
