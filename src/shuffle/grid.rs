//! A join that is shared by tasks.

use std::ops::{Deref, Range};

use crate::engine::{ANYWHERE, Axis};
use crate::shuffle::place::{KEY_CLASSES, Place};
use crate::spec::{Predicate, Side};

/// The pairs of rows that meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum GridPairs {
    /// Each left row meets each right row that it may match.
    #[default]
    All,
    /// Rows near to each other, of an input that is both sides. Each row is sent once, to be
    /// joined with the others of its tile, and with itself. The left side stands for both.
    Within,
    /// The other pairs of rows, in one order of the two, of an input that is both sides. Sent as
    /// left and as right rows to be joined with each other, each pair for both orders.
    Across,
}

/// The join, as far as senders of rows need to know it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GridSpec {
    /// The condition of the join.
    pub predicate: Predicate,
    /// The number of tasks that share the work, at least 1.
    pub tasks: usize,
    /// Per side, whether each of its rows must be sent to exactly one task: where the answer lists
    /// rows of the side one by one.
    pub visits_once: [bool; 2],
    /// The pairs of rows that meet.
    pub pairs: GridPairs,
}

/// A join that is shared by tasks, and the axis on which its rows lie.
#[derive(Clone, Copy)]
pub struct Grid<'a> {
    /// The join.
    pub spec: GridSpec,
    /// The axis of its rows.
    pub axis: &'a dyn Axis,
}

impl Deref for Grid<'_> {
    type Target = GridSpec;

    fn deref(&self) -> &GridSpec {
        &self.spec
    }
}

impl Grid<'_> {
    /// The least and the greatest position that partners of rows of `side` may have, which lie between
    /// `least` and `greatest`; besides [`ANYWHERE`].
    pub(crate) fn partners(&self, side: Side, least: u32, greatest: u32) -> Option<(u32, u32)> {
        if self.is_anywhere(greatest) {
            return Some((0, u32::MAX));
        }
        let reach = self.axis.reach(side, least..greatest.saturating_add(1))?;
        let greatest = u32::try_from(reach.end.checked_sub(1)?).unwrap_or(u32::MAX);
        Some((u32::try_from(reach.start).ok()?, greatest))
    }

    /// Whether rows whose greatest position is this one may lie anywhere.
    pub(crate) fn is_anywhere(&self, greatest: u32) -> bool {
        greatest >= ANYWHERE && self.axis.has_anywhere()
    }
}

/// The rows that one task joins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tile {
    /// Classes of blocking keys.
    pub keys: Range<u32>,
    /// Per side.
    pub places: [Range<Place>; 2],
}

impl Tile {
    /// All pairs of rows.
    pub(crate) fn whole() -> Self {
        Self { keys: 0..KEY_CLASSES, places: [0..Place::MAX, 0..Place::MAX] }
    }

    /// The positions of a side's items that lie in the tile, some of them at least.
    pub(super) fn positions(&self, side: Side) -> (u32, u32) {
        let places = &self.places[side as usize];
        ((places.start >> 32) as u32, (places.end.saturating_sub(1) >> 32) as u32)
    }
}
