//! What becomes of matching sets: marks, counts, or pairs of rows.

use std::ops::Range;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::logical_expr::Operator::{Gt, GtEq, Lt, LtEq, NotEq};

use crate::engine::{Match, MatchNeed, Pairing};
use crate::exec::answer::blocks::{ExpansionInput, total_pairs};
use crate::exec::answer::pairs::PairColumns;
use crate::exec::answer::payload::Payload;
use crate::exec::answer::ranks::Ranks;
use crate::exec::build::BuildSide;
use crate::exec::layout::{Layout, Yield};
use crate::exec::probe::{Running, Unit};
use crate::set::SetId;
use crate::spec::Residual;

/// How often the probe rows of a unit match.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    /// The row pairs found, by set of the unit's range or, where a residual decides, by place.
    pub matches: Vec<u64>,
    /// Of these, by counted column, those in which it is not NULL; empty where that is all.
    pub non_null: Vec<Vec<u64>>,
    /// The place of the unit's first row.
    pub first_place: u32,
}

impl Counted {
    /// Nothing found yet for the sets of `unit`, where `layout` wants to know.
    pub fn of_unit(layout: &Layout, unit: &Unit, build: &BuildSide) -> Self {
        let places = unit.sets.row_places(unit.range.clone());
        let Some(len) = Self::len(layout, unit) else { return Self::default() };
        let partners = build.partners.iter();
        Self {
            matches: vec![0; len],
            non_null: partners.map(|p| vec![0; if p.is_some() { len } else { 0 }]).collect(),
            first_place: places.start,
        }
    }

    /// How many sets or rows of a unit are counted for; `None` where nobody asks.
    fn len(layout: &Layout, unit: &Unit) -> Option<usize> {
        let rows = unit.sets.row_places(unit.range.clone()).len();
        match (layout.counts_probe(), layout.sets_decide()) {
            (false, _) => None,
            (true, true) => Some(unit.range.len()),
            (true, false) => Some(rows),
        }
    }

    /// The bytes that [`Self::of_unit`] takes.
    pub fn bytes_of_unit(layout: &Layout, unit: &Unit, build: &BuildSide) -> usize {
        let columns = build.partners.iter().flatten().count();
        Self::len(layout, unit).map_or(0, |len| (1 + columns) * len * size_of::<u64>())
    }

    /// The bytes for so many rows of an input joined with itself, of which all may have one set,
    /// and so many counted columns. Where sets decide, units are short.
    pub fn footprint(layout: &Layout, rows: usize, columns: usize) -> usize {
        match layout.counts_probe() && !layout.sets_decide() {
            true => (1 + columns) * rows * size_of::<u64>(),
            false => 0,
        }
    }
}

impl Running {
    /// What a pair of sets says about all its rows.
    pub(crate) fn note_matches(&mut self, unit: &mut Unit) {
        if !self.layout.sets_decide() {
            return;
        }
        let matches = self.matches.matches();
        if !unit.counted.matches.is_empty() {
            let first = unit.range.start;
            let sets = &self.build.sets;
            add_to_groups(matches, first, &mut unit.counted.matches, |build| {
                u64::from(sets.row_count_of(build))
            });
            for (counts, partners) in unit.counted.non_null.iter_mut().zip(&self.build.partners) {
                if let Some(partners) = partners {
                    add_to_groups(matches, first, counts, |build| {
                        u64::from(partners.among(sets.row_places(build..build + 1)))
                    });
                }
            }
        }
        if let Some(visited) = &self.build.visited {
            for found in matches {
                visited.mark(found.build as usize);
            }
        }
        if self.layout.spec.need == MatchNeed::Exists
            && let Some(found) = matches.last()
        {
            self.cursor.retire(0, found.probe);
        }
    }

    /// Turns the buffered matches into what the join yields, stopping at a full batch.
    pub(crate) fn consume(&mut self, unit: &mut Unit) -> Result<()> {
        let output_time = self.metrics.output_time.clone();
        let _timer = output_time.timer();
        if self.layout.yields == Yield::Total
            && let Some(total) = self.total_of_matches(unit)
        {
            self.total += total;
            self.matches.clear();
            return Ok(());
        }
        if self.layout.sets_decide() && self.layout.yields != Yield::Pairs {
            self.matches.clear();
            return Ok(());
        }
        // Blocks that are only counted need no bound on their pairs.
        let materialised = self.layout.yields == Yield::Pairs || self.residual().is_some();
        let limit = match (materialised, self.layout.yields) {
            (false, _) => usize::MAX,
            (true, Yield::Pairs) => unit.rows_at_once.min(self.output.rows_to_full()),
            (true, _) => unit.rows_at_once,
        };
        let input = ExpansionInput::new(&self.layout, unit, &self.build, self.mirrored);
        let matches = self.matches.matches();
        let all = self.expansion.fill(&input, matches, limit, &mut self.pairs);
        let last_probe = matches.last().map(|m| m.probe);
        if all {
            self.expansion.restart();
            if self.expands_twice() {
                // Pairs of one order at a time: their columns come from different collections.
                self.flush(&unit.payload, &mut unit.counted)?;
                self.mirrored = !self.mirrored;
            }
            if !self.mirrored {
                self.matches.clear();
            }
        }
        // A semi join with a residual may stop looking at a set once all its rows have a match.
        let flush_early = !materialised || all && matches!(self.layout.yields, Yield::RowsOf(..));
        if self.pairs.len() >= limit || flush_early {
            self.flush(&unit.payload, &mut unit.counted)?;
            if self.layout.yields == Yield::Pairs {
                self.output.cut_after(unit.rows_at_once)?;
            }
            if let Some(set) = last_probe.filter(|&set| self.is_settled(unit, set)) {
                self.cursor.retire(0, set);
            }
        }
        Ok(())
    }

    /// Whether every row of a probe set has a match and none needs another one.
    fn is_settled(&self, unit: &Unit, set: SetId) -> bool {
        let counted = &unit.counted;
        let has_match = |place: u32| {
            let index = (place - counted.first_place) as usize;
            counted.matches.get(index).is_some_and(|&c| c > 0)
        };
        matches!(self.layout.yields, Yield::RowsOf(side, _) if side == self.layout.probe)
            && !self.layout.sets_decide()
            && unit.sets.row_places(set..set + 1).all(has_match)
    }

    /// The pairs of rows behind the buffered matches, where sets alone tell.
    fn total_of_matches(&self, unit: &Unit) -> Option<u64> {
        if !sets_tell_total(&self.layout, self.build.ranks.as_ref()) {
            return None;
        }
        let (matches, counts) = (self.matches.matches(), self.matches.counts());
        let build = &self.build.sets;
        if self.layout.spec.pairing == Pairing::All {
            let orders = if self.layout.both_orders { 2 } else { 1 };
            let total = total_pairs(matches, &unit.sets, build, |_| None, orders);
            return Some(orders * counts.cross + total);
        }
        // A comparison holds in one order of two rows that differ, and all rows do.
        let operator = self.layout.row_order.map(|order| order.operator);
        let with_itself = |squares: u64, rows: u64| match operator {
            None => squares,
            Some(Lt | Gt) => (squares - rows) / 2,
            Some(LtEq | GtEq) => (squares + rows) / 2,
            Some(_) => squares - rows,
        };
        let of_match = |found: &Match| {
            let rows = u64::from(build.row_count_of(found.probe));
            (found.probe == found.build).then_some(with_itself(rows * rows, rows))
        };
        let orders = match operator {
            None | Some(NotEq) => 2,
            Some(_) => 1,
        };
        let counted = orders * counts.cross + with_itself(counts.squares, counts.rows);
        Some(counted + total_pairs(matches, build, build, of_match, orders))
    }

    /// Decides the gathered pairs of rows and gives them out. `payload` is that of their probe
    /// rows.
    pub(crate) fn flush(&mut self, payload: &Arc<Payload>, counted: &mut Counted) -> Result<()> {
        if self.pairs.is_empty() {
            return Ok(());
        }
        let build = Arc::clone(&self.build.payload);
        let (left, right) = self.layout.left_right(&**payload, &*build);
        match self.mirrored {
            false => self.flush_pairs([left, right], counted)?,
            true => self.flush_pairs([right, left], counted)?,
        }
        if self.layout.both_orders && !self.expands_twice() {
            self.pairs.mirror();
            self.flush_pairs([right, left], counted)?;
        }
        self.pairs.clear();
        Ok(())
    }

    /// Whether matches are expanded once for each of the two orders of a pair: ranks admit other
    /// rows in one than in the other.
    fn expands_twice(&self) -> bool {
        self.layout.both_orders && self.layout.row_order.is_some() && self.build.ranks.is_some()
    }

    /// What is to be evaluated for pairs of rows.
    fn residual(&self) -> Option<&Residual> {
        self.layout.residual(self.build.ranks.is_some())
    }

    /// Decides the gathered pairs, whose left and right rows are those of `payloads`.
    fn flush_pairs(&mut self, payloads: [&Payload; 2], counted: &mut Counted) -> Result<()> {
        let mut columns = PairColumns::new(&self.layout, &self.pairs, payloads);
        if let Some(residual) = self.residual() {
            self.metrics.residual_rows.add(columns.len());
            columns.filter(residual)?;
            note_places(&self.layout, &self.build, &columns, counted)?;
        } else if self.layout.row_order.is_some() {
            self.note_blocks(counted);
        }
        match self.layout.yields {
            Yield::Pairs => {
                let batch = columns.to_batch()?;
                self.output.push(batch)?;
            }
            Yield::Total => self.total += columns.len() as u64,
            Yield::RowsOf(..) | Yield::CountsPerProbeRow => {}
        }
        Ok(())
    }

    /// What blocks of row pairs say about each of their rows.
    fn note_blocks(&self, counted: &mut Counted) {
        let (probe, build) = (self.layout.probe as usize, self.layout.build() as usize);
        let mut marked = MarkedPlaces::default();
        for block in self.pairs.blocks() {
            let build_places = block.starts[build]..block.starts[build] + block.lens[build];
            if !counted.matches.is_empty() {
                let first = block.starts[probe] - counted.first_place;
                let rows = first as usize..(first + block.lens[probe]) as usize;
                let partners = u64::from(block.lens[build]);
                counted.matches[rows.clone()].iter_mut().for_each(|c| *c += partners);
                for (counts, partners) in counted.non_null.iter_mut().zip(&self.build.partners) {
                    let Some(partners) = partners else { continue };
                    let partners = u64::from(partners.among(build_places.clone()));
                    counts[rows.clone()].iter_mut().for_each(|c| *c += partners);
                }
            }
            if let Some(visited) = &self.build.visited {
                for place in marked.add(build_places).into_iter().flatten() {
                    visited.mark(place as usize);
                }
            }
        }
    }
}

/// Neighbouring places that have been marked last.
///
/// The rows of a set that go with one row are a stretch at its front or its end, and so are those
/// that go with the next one: what has just been marked is not marked again, so that marking takes
/// as many steps as there are rows, not pairs.
#[derive(Debug, Default)]
struct MarkedPlaces {
    /// One at the front of a set, one at its end, or what both have grown together to.
    stretches: [Range<u32>; 2],
}

impl MarkedPlaces {
    /// Notes `places` as marked; gives those that were not.
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

/// Whether matching sets alone tell how many of their rows' pairs match.
pub(crate) fn sets_tell_total(layout: &Layout, ranks: Option<&Ranks>) -> bool {
    layout.residual(ranks.is_some()).is_none()
        && match (layout.row_order, layout.spec.pairing) {
            (None, _) => true,
            (Some(_), Pairing::Unordered) => ranks.is_some_and(|r| r.distinct),
            (Some(_), Pairing::All) => false,
        }
}

/// What pairs of rows that passed the residual say about each of their rows.
fn note_places(
    layout: &Layout,
    build: &BuildSide,
    columns: &PairColumns<'_>,
    counted: &mut Counted,
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

/// Adds what the build sets weigh to the count of their probe set. The matches of a probe set
/// follow each other.
fn add_to_groups(
    matches: &[Match],
    first: SetId,
    counts: &mut [u64],
    weight: impl Fn(SetId) -> u64,
) {
    for group in matches.chunk_by(|a, b| a.probe == b.probe) {
        let sum: u64 = group.iter().map(|found| weight(found.build)).sum();
        if let Some(count) = counts.get_mut((group[0].probe - first) as usize) {
            *count += sum;
        }
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
