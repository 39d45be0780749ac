//! Units of which jobs are under way.

use std::ops::Range;

use crate::engine::Match;
use crate::set::{SetId, SetUnit};

/// A unit under way.
#[derive(Debug)]
pub(in crate::set) struct OpenUnit {
    pub(super) unit: SetUnit,
    /// The sets that are not planned.
    pub(super) left: Range<SetId>,
    /// Jobs and deliveries of the unit, wherever they are.
    pub(super) pending: usize,
    /// By set of the range, where one match will do: whether it has one.
    matched: Vec<bool>,
}

/// Matches that are being given.
#[derive(Debug)]
pub(super) struct Delivery {
    pub unit: u32,
    pub matches: Vec<Match>,
    pub next: usize,
}

impl OpenUnit {
    /// `first_only`: one match for each probe set will do.
    pub(super) fn new(unit: SetUnit, left: Range<SetId>, first_only: bool) -> Self {
        let matched = vec![false; if first_only { unit.range.len() } else { 0 }];
        Self { unit, left, pending: 0, matched }
    }

    /// Whether the unit is done.
    pub(super) fn is_complete(&self) -> bool {
        self.pending == 0 && self.left.is_empty()
    }

    /// Whether a probe set needs a match.
    pub(in crate::set) fn needs(&self, probe: SetId) -> bool {
        let place = probe.checked_sub(self.unit.range.start);
        !place.and_then(|place| self.matched.get(place as usize)).is_some_and(|&matched| matched)
    }

    /// Whether any of some probe sets needs a match.
    pub(in crate::set) fn needs_any(&self, mut probes: Range<SetId>) -> bool {
        self.matched.is_empty() || probes.any(|probe| self.needs(probe))
    }

    /// Notes that a probe set has a match.
    pub(super) fn settle(&mut self, probe: SetId) {
        if let Some(place) = probe.checked_sub(self.unit.range.start)
            && let Some(matched) = self.matched.get_mut(place as usize)
        {
            *matched = true;
        }
    }
}
