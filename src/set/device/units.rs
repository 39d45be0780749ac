//! The units whose candidates a device verifier holds.
//!
//! ```text
//!  packs      [ 4 4 4 4 | 5 5 | 6 6 6 ]   [ 6 6 6 6 6 6 6 6 ]   [ 6 | 7 7 7 …
//!             on the device               on the device         being filled
//!  open units  4 (1 pack)  5 (1 pack)  6 (3 packs)  7 (1 pack)
//! ```
//!
//! A unit is complete when it has ended and all its packs have come back. The units of a
//! self-join, which are ranges of one collection, share packs.

use std::ops::Range;

use crate::engine::MatchBuffer;
use crate::set::SetId;
use crate::set::device::Section;
use crate::set::device::abi::Group;
use crate::set::device::pack::Pack;

/// A pack and the units of its candidates.
#[derive(Debug)]
pub(crate) struct Load {
    pub pack: Pack,
    /// In the order of their groups; at least one once there are candidates.
    pub units: Vec<PackedUnit>,
}

/// A unit in a pack.
#[derive(Debug, Clone)]
pub(crate) struct PackedUnit {
    pub number: u32,
    /// The probe sets of the unit, which tell its matches from those of other units.
    pub range: Range<SetId>,
    /// The first of its groups in the pack.
    pub first_group: usize,
}

impl Load {
    pub(crate) fn new(pack: Pack) -> Self {
        Self { pack, units: vec![] }
    }

    /// Notes that the candidates packed next belong to a unit. Returns whether the unit is new to
    /// the pack.
    pub(crate) fn enter(&mut self, unit: &OpenUnit) -> bool {
        if self.units.last().is_some_and(|last| last.number == unit.number) {
            return false;
        }
        let first_group = self.pack.staging.len::<Group>(Section::Groups);
        let (number, range) = (unit.number, unit.range.clone());
        self.units.push(PackedUnit { number, range, first_group });
        true
    }

    /// The groups of the unit at a place in a sealed pack.
    pub(crate) fn groups_of(&self, place: usize) -> Range<usize> {
        let end = self.units.get(place + 1).map_or(self.pack.groups().len(), |u| u.first_group);
        self.units.get(place).map_or(end, |unit| unit.first_group)..end
    }
}

/// A unit with candidates that are not decided, or yet to come.
#[derive(Debug)]
pub(crate) struct OpenUnit {
    pub number: u32,
    pub range: Range<SetId>,
    /// Packs that hold candidates of it.
    packs: u32,
    /// No more candidates follow.
    ended: bool,
}

/// The open units of a verifier, a handful.
#[derive(Debug, Default)]
pub(crate) struct OpenUnits {
    units: Vec<OpenUnit>,
}

impl OpenUnits {
    pub(crate) fn open(&mut self, number: u32, range: Range<SetId>) {
        self.units.push(OpenUnit { number, range, packs: 0, ended: false });
    }

    /// Notes in a load that the candidates packed next belong to a unit.
    pub(crate) fn enter(&mut self, number: u32, load: &mut Load) {
        if let Some(unit) = self.units.iter_mut().find(|unit| unit.number == number) {
            unit.packs += u32::from(load.enter(unit));
        }
    }

    /// Notes that no more candidates of a unit follow. The former ones are packed or decided.
    pub(crate) fn end(&mut self, number: u32, matches: &mut MatchBuffer) {
        self.update(number, matches, |unit| unit.ended = true);
    }

    /// Notes that the candidates of a pack are decided, and their matches given.
    pub(crate) fn decided(&mut self, units: &[PackedUnit], matches: &mut MatchBuffer) {
        for packed in units {
            self.update(packed.number, matches, |unit| unit.packs -= 1);
        }
    }

    fn update(
        &mut self,
        number: u32,
        matches: &mut MatchBuffer,
        change: impl FnOnce(&mut OpenUnit),
    ) {
        let Some(place) = self.units.iter().position(|unit| unit.number == number) else { return };
        let unit = &mut self.units[place];
        change(unit);
        if unit.ended && unit.packs == 0 {
            self.units.swap_remove(place);
            matches.complete(number);
        }
    }
}
