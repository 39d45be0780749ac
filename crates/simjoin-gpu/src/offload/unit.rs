//! Units of which jobs are under way.

use std::ops::Range;

use crate::engine::{ItemId, Match, MatchOrder, ProbeUnit};

/// A unit under way.
#[derive(Debug)]
pub struct OpenUnit {
    pub(super) probe: ProbeUnit,
    /// The rows that are not planned.
    pub(super) left: Range<ItemId>,
    /// Jobs and deliveries of the unit, wherever they are.
    pub(super) pending: usize,
    /// By item of the range, where one match will do: whether it has one.
    matched: Vec<bool>,
}

/// Matches that are being given, or pairs that are being decided.
#[derive(Debug)]
pub(super) struct Delivery {
    pub unit: u32,
    /// The orders in which the matches hold.
    pub order: MatchOrder,
    pub matches: Vec<Match>,
    pub decided: bool,
    pub next: usize,
}

impl OpenUnit {
    /// `first_only`: one match for each probe item will do.
    pub(super) fn new(probe: ProbeUnit, left: Range<ItemId>, first_only: bool) -> Self {
        let matched = vec![false; if first_only { probe.range.len() } else { 0 }];
        Self { probe, left, pending: 0, matched }
    }

    /// Whether the unit is done.
    pub(super) fn is_complete(&self) -> bool {
        self.pending == 0 && self.left.is_empty()
    }

    /// Whether a probe item needs a match.
    pub(crate) fn needs(&self, probe: ItemId) -> bool {
        let place = probe.checked_sub(self.probe.range.start);
        !place.and_then(|place| self.matched.get(place as usize)).is_some_and(|&matched| matched)
    }

    /// Whether any of some probe items needs a match.
    pub(crate) fn needs_any(&self, mut probes: Range<ItemId>) -> bool {
        self.matched.is_empty() || probes.any(|probe| self.needs(probe))
    }

    /// Notes that a probe item has a match.
    pub(super) fn settle(&mut self, probe: ItemId) {
        if let Some(place) = probe.checked_sub(self.probe.range.start)
            && let Some(matched) = self.matched.get_mut(place as usize)
        {
            *matched = true;
        }
    }
}
