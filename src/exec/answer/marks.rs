//! Counts of probe rows and marks of build rows, as matches tell them.

use std::ops::Range;

use datafusion::common::Result;

use crate::engine::{ItemId, Match};
use crate::exec::answer::batch::MatchCounts;
use crate::exec::answer::blocks::RowPairs;
use crate::exec::answer::pairs::PairColumns;
use crate::exec::build_side::BuildSide;
use crate::exec::layout::JoinLayout;

/// Adds matches of items to the counts of a batch whose first item is `first`.
pub(super) fn note_items(
    build: &BuildSide,
    matches: &[Match],
    first: ItemId,
    counted: &mut MatchCounts,
) {
    let groups = build.items.groups();
    add_to_groups(matches, first, &mut counted.matches, |build| {
        u64::from(groups.row_count_of(build))
    });
    for (counts, partners) in counted.non_null.iter_mut().zip(&build.partners) {
        if let Some(partners) = partners {
            add_to_groups(matches, first, counts, |build| {
                u64::from(partners.among(groups.slots(build..build + 1)))
            });
        }
    }
}

/// Notes the counts and marks that blocks of row pairs give for each of their rows.
pub(super) fn note_blocks(
    layout: &JoinLayout,
    build: &BuildSide,
    pairs: &RowPairs,
    counted: &mut MatchCounts,
) {
    let (probe_side, build_side) = (layout.probe as usize, layout.build() as usize);
    let mut marked = MarkedPlaces::default();
    for block in pairs.blocks() {
        let build_places =
            block.starts[build_side]..block.starts[build_side] + block.lens[build_side];
        if !counted.matches.is_empty() {
            let first = block.starts[probe_side] - counted.first_place;
            let rows = first as usize..(first + block.lens[probe_side]) as usize;
            let partners = u64::from(block.lens[build_side]);
            counted.matches[rows.clone()].iter_mut().for_each(|c| *c += partners);
            for (counts, partners) in counted.non_null.iter_mut().zip(&build.partners) {
                let Some(partners) = partners else { continue };
                let partners = u64::from(partners.among(build_places.clone()));
                counts[rows.clone()].iter_mut().for_each(|c| *c += partners);
            }
        }
        if let Some(visited) = &build.visited {
            for place in marked.add(build_places).into_iter().flatten() {
                visited.mark(place as usize);
            }
        }
    }
}

/// Notes the counts and marks of each row in pairs of rows that passed the residual.
pub(super) fn note_places(
    layout: &JoinLayout,
    build: &BuildSide,
    columns: &PairColumns<'_>,
    counted: &mut MatchCounts,
) -> Result<()> {
    if !counted.matches.is_empty() {
        let probe_places = columns.places(layout.probe)?.values();
        let row = |place: u32| (place - counted.first_place) as usize;
        probe_places.iter().for_each(|&place| counted.matches[row(place)] += 1);
        for (counts, partners) in counted.non_null.iter_mut().zip(&build.partners) {
            let Some(partners) = partners else { continue };
            let build_places = columns.places(layout.build())?.values();
            for (&probe, &build) in probe_places.iter().zip(build_places) {
                counts[row(probe)] += u64::from(partners.among(build..build + 1));
            }
        }
    }
    if let Some(visited) = &build.visited {
        let build_places = columns.places(layout.build())?.values();
        for &place in build_places {
            visited.mark(place as usize);
        }
    }
    Ok(())
}

/// Adds the weights of the build items to the count of their probe item. The matches of a probe
/// item follow each other.
fn add_to_groups(
    matches: &[Match],
    first: ItemId,
    counts: &mut [u64],
    weight: impl Fn(ItemId) -> u64,
) {
    for group in matches.chunk_by(|a, b| a.probe == b.probe) {
        let sum: u64 = group.iter().map(|found| weight(found.build)).sum();
        if let Some(count) = counts.get_mut((group[0].probe - first) as usize) {
            *count += sum;
        }
    }
}

/// Neighbouring places that have been marked last.
///
/// The partners of one row within an item are a stretch at the item's front or its end, and so are
/// the partners of the next row. Places that have just been marked are not marked again, so that
/// marking takes one step for each row, not for each pair.
#[derive(Debug, Default)]
struct MarkedPlaces {
    /// A stretch at the front of an item, one at its end, or the one that both have grown together
    /// to.
    stretches: [Range<u32>; 2],
}

impl MarkedPlaces {
    /// Notes `places` as marked. Returns the places that were not marked before.
    fn add(&mut self, places: Range<u32>) -> [Range<u32>; 2] {
        if places.is_empty() {
            return [0..0, 0..0];
        }
        let touches = |one: &Range<u32>, other: &Range<u32>| {
            one.start < one.end && one.start <= other.end && other.start <= one.end
        };
        let Some(known) = self.stretches.iter().position(|known| touches(known, &places)) else {
            self.stretches.swap(0, 1);
            self.stretches[0] = places.clone();
            return [places, 0..0];
        };
        let before = self.stretches[known].clone();
        let mut grown = before.start.min(places.start)..before.end.max(places.end);
        let other = &mut self.stretches[1 - known];
        if touches(other, &grown) {
            grown = grown.start.min(other.start)..grown.end.max(other.end);
            *other = 0..0;
        }
        self.stretches[known] = grown;
        [places.start..places.end.min(before.start), places.start.max(before.end)..places.end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Places are marked once, however the stretches of a set overlap.
    #[test]
    fn stretches_are_marked_once() {
        // Suffixes, prefixes, both in turn, and stretches of other sets.
        let suffixes: Vec<_> = [3, 7, 5, 2, 9, 0].map(|start| start..10).into();
        let prefixes: Vec<_> = [4, 2, 8, 10, 1].map(|end| 0..end).into();
        let both: Vec<_> = (0..10).flat_map(|row| [0..row, row + 1..10]).collect();
        let sets: Vec<_> =
            (0..5).flat_map(|set| [10 * set..10 * set + 3, 10 * set..10 * set + 9]).collect();
        for (stretches, most) in [(suffixes, 10), (prefixes, 10), (both, 10), (sets, 45)] {
            let mut marked = MarkedPlaces::default();
            let mut found = vec![];
            for places in &stretches {
                found.extend(marked.add(places.clone()).into_iter().flatten());
            }
            let steps = found.len();
            found.sort_unstable();
            found.dedup();
            let mut expected: Vec<u32> = stretches.into_iter().flatten().collect();
            expected.sort_unstable();
            expected.dedup();
            assert_eq!(found, expected);
            assert!(steps <= most, "{steps}");
        }
    }
}
