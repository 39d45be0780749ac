//! Boxes around vectors as `kernels/vector_boxed.cuh` reads them: those of groups of 16, those of blocks of
//! 64, and those of stages. Four neighbours lie side by side, a chunk of four coordinates behind the other, so that
//! lanes which compare them read neighbouring places.

use std::ops::Range;

use simjoin_core::vector::boxes::{BLOCK_ITEMS, BOX_ITEMS, Boxes};
use simjoin_core::vector::collection::Vectors;
use simjoin_core::vector::order::Reach;

use crate::engine::Pairing;
use crate::offload::Arena;
use crate::tuning::Tuning;
use crate::vector::abi::VectorBoxes;

/// Coordinates of a chunk.
pub(super) const BOX_CHUNK: u32 = 4;
/// The most chunks of a box.
pub(super) const MOST_BOX_CHUNKS: u32 = 4;
/// Boxes that lie side by side.
const FANOUT: u32 = 4;
/// Vectors of a stage: 32 blocks.
pub(super) const BOX_STAGE: u32 = 32 * BLOCK_ITEMS;
/// The ends of a chunk of these: the lower ones of each, then the upper ones.
const ENDS: u32 = 2 * FANOUT * BOX_CHUNK;

/// Kernels that read boxes take five times as long for a pair of groups in reach as others take for as
/// many pairs, but the others test all of a strip and a stage in reach, sixteen groups each or about so.
const TIME_OF_PAIR: f32 = 5.0;

/// The boxes that had better be read by the kernel of a join: it is one of vectors with themselves, each
/// unordered pair once, and groups pass by most pairs of tiles in reach. Of small sizes, they are always read.
pub(super) fn boxes_to_read(build: &Vectors, pairing: Pairing, tuning: Tuning) -> Option<&Boxes> {
    let boxes = build.boxes().filter(|_| pairing == Pairing::Unordered)?;
    (is_quicker(boxes.shares()) || tuning.is_small()).then_some(boxes)
}

/// Whether the kernel that reads boxes is the quicker one: of the shares of pairs of groups, and of
/// tiles, that are in reach.
fn is_quicker([of_groups, of_tiles]: [f32; 2]) -> bool {
    TIME_OF_PAIR * of_groups <= of_tiles
}

/// Ends of a box in the coordinates of a chunk.
type Chunk = [f32; BOX_CHUNK as usize];

/// The addresses of the boxes of padded vectors.
#[derive(Debug, Clone, Copy)]
pub(super) struct BoxArrays {
    groups: u64,
    blocks: u64,
    stages: u64,
    padded: u32,
    chunks: u32,
}

/// The ends of boxes in the order of the kernels.
#[derive(Debug)]
pub(super) struct BoxEnds<'a> {
    /// Where they lie, in memory from 0 on.
    pub place: u64,
    of: Enclosing<'a>,
    /// Boxes with those that enclose nothing.
    count: u32,
    /// Coordinates of a box.
    dims: u32,
    chunks: u32,
}

/// Boxes around neighbours.
#[derive(Debug)]
enum Enclosing<'a> {
    /// Around as many groups each.
    Groups(&'a Boxes, u32),
    Stages(&'a Reach),
}

impl BoxArrays {
    /// Declares the arrays of boxes around `padded` vectors (whole stages), with coordinates in `chunks` chunks.
    pub(super) fn declare(arena: &mut Arena<'_>, padded: u32, chunks: u32) -> Self {
        let sizes = [BOX_ITEMS, BLOCK_ITEMS, BOX_STAGE];
        let [groups, blocks, stages] =
            sizes.map(|items| arena.room::<f32>(ends(padded / items, chunks)));
        Self { groups, blocks, stages, padded, chunks }
    }

    /// The ends that these arrays are to hold, of boxes with those around their stages.
    pub(super) fn ends<'a>(&self, boxes: &'a Boxes, stages: &'a Reach) -> [BoxEnds<'a>; 3] {
        let Self { padded, chunks, .. } = *self;
        let (dims, groups) = (boxes.dims, |items: u32| Enclosing::Groups(boxes, items / BOX_ITEMS));
        let ends = |place: u64, items: u32, of| {
            let count = padded / items;
            BoxEnds { place, of, count, dims, chunks }
        };
        [
            ends(self.groups, BOX_ITEMS, groups(BOX_ITEMS)),
            ends(self.blocks, BLOCK_ITEMS, groups(BLOCK_ITEMS)),
            ends(self.stages, BOX_STAGE, Enclosing::Stages(stages)),
        ]
    }

    /// The boxes as kernels read them.
    pub(super) fn boxes(&self, limit: f32) -> VectorBoxes {
        let Self { groups, blocks, stages, chunks, .. } = *self;
        VectorBoxes { groups, blocks, stages, chunks, limit }
    }
}

/// The ends of some boxes.
fn ends(boxes: u32, chunks: u32) -> u64 {
    u64::from(boxes.div_ceil(FANOUT)) * u64::from(chunks * ENDS)
}

impl BoxEnds<'_> {
    pub(super) fn len(&self) -> usize {
        ends(self.count, self.chunks) as usize
    }

    /// Writes the ends from a place on: 0 in coordinates that boxes have not; of boxes that enclose
    /// nothing infinite if it is a lower one, and minus infinite if it is an upper one.
    pub(super) fn write(&self, places: Range<usize>, to: &mut [f32]) {
        let [fanout, chunk] = [FANOUT, BOX_CHUNK].map(|number| number as usize);
        let (mut to, mut skipped) = (to.iter_mut(), places.start % chunk);
        // Chunks of four neighbours, and the next of them.
        let of_four = 2 * fanout * self.chunks as usize;
        let (mut four, mut rest) = (places.start / chunk / of_four, places.start / chunk % of_four);
        while to.len() > 0 {
            let number = four * fanout + rest % fanout;
            let ends = self.chunk(number, rest / (2 * fanout) * chunk, rest / fanout % 2 == 1);
            ends[skipped..].iter().zip(to.by_ref()).for_each(|(end, place)| *place = *end);
            (skipped, rest) = (0, rest + 1);
            if rest == of_four {
                (four, rest) = (four + 1, 0);
            }
        }
    }

    /// The ends of a box in coordinates from one on.
    fn chunk(&self, number: usize, coordinate: usize, is_upper: bool) -> Chunk {
        let dims = self.dims as usize;
        let count = dims.saturating_sub(coordinate).min(BOX_CHUNK as usize);
        let mut ends = [if is_upper { f32::NEG_INFINITY } else { f32::INFINITY }; 4];
        let encloses_some = match self.of {
            Enclosing::Groups(boxes, width) => {
                let (width, known) = (width as usize, boxes.groups());
                let from = coordinate + if is_upper { dims } else { 0 };
                for group in (number * width).min(known)..((number + 1) * width).min(known) {
                    let of_group = &boxes.ends_of(group)[from..from + count];
                    for (end, &value) in ends.iter_mut().zip(of_group) {
                        *end = if is_upper { end.max(value) } else { end.min(value) };
                    }
                }
                number * width < known
            }
            Enclosing::Stages(stages) => {
                let end = |k: usize| stages.end(number as u32, k, is_upper);
                for (k, place) in ends[..count].iter_mut().enumerate() {
                    *place = end(coordinate + k).unwrap_or(*place);
                }
                end(0).is_some()
            }
        };
        if encloses_some {
            ends[count..].fill(0.0);
        }
        ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::parallel::Threads;

    #[test]
    fn boxes_of_groups_leave_few_pairs() {
        // Groups in a row, each of them in reach of two.
        let ends = |group: usize| [group as f32, group as f32 + 0.5];
        let boxes = |groups: usize, limit| Boxes {
            dims: 1,
            ends: (0..groups).flat_map(ends).collect(),
            limit,
            ..Boxes::default()
        };
        let share = |groups, limit, of_tile| boxes(groups, limit).share_of_tiles(of_tile);
        assert_eq!(share(100, 0.3, 1), 99.0 / (50.0 * 99.0));
        assert_eq!(share(100, 0.2, 1), 0.0);
        // Tiles begin one group apart, and the last is a half.
        assert_eq!(share(104, 0.3, 16), 6.0 / 21.0);
        assert_eq!(share(104, 17.0 * 17.0, 16), 11.0 / 21.0);
        // Of these a sample has neighbours that lie farther from each other.
        assert_eq!(share(12_800, 99.0 * 99.0, 1), 0.0);
        assert_eq!(share(1000, f32::MAX, 1), 1.0);
        assert_eq!(share(1, 0.0, 16), 1.0);
    }

    /// The kernel that reads boxes tests a pair in five times the time of others.
    #[test]
    fn boxes_are_read_where_groups_leave_out_most_of_tiles() {
        for (shares, quicker) in [
            ([0.01, 0.05], true),
            ([0.0101, 0.05], false),
            ([0.0, 0.0], true),
            ([1.0, 1.0], false),
            ([0.2, 1.0], true),
            ([1e-6, 1e-6], false),
        ] {
            assert_eq!(is_quicker(shares), quicker, "{shares:?}");
        }
    }

    #[test]
    fn ends_lie_where_kernels_read_them() {
        // Six groups in five coordinates, of a padded stage.
        let ends = |group: usize| {
            let low = (0..5).map(move |k| (10 * group + k) as f32);
            low.clone().chain(low.map(|end| end + 0.5)).collect::<Vec<_>>()
        };
        let ends = (0..6).flat_map(ends).collect();
        let boxes = Boxes { dims: 5, ends, limit: 1.0, ..Boxes::default() };
        let stages = Reach::of(&boxes, 96, BOX_STAGE, Threads::small(1));
        let mut arena = Arena::at(0);
        let places = BoxArrays::declare(&mut arena, BOX_STAGE, 2);
        let all = places.ends(&boxes, &stages);
        assert_eq!(all.each_ref().map(BoxEnds::len), [128, 32, 4].map(|boxes| boxes * 2 * 2 * 4));
        for [ends, next] in [[&all[0], &all[1]], [&all[1], &all[2]]] {
            assert!(next.place >= ends.place + 4 * ends.len() as u64);
        }
        assert!(arena.bytes() >= all[2].place + 4 * all[2].len() as u64);
        let expected = |from: usize, to: usize, coordinate: usize, is_upper: bool| {
            let some = from.min(6)..to.min(6);
            match (some.is_empty(), coordinate < 5, is_upper) {
                (true, _, false) => f32::INFINITY,
                (true, _, true) => f32::NEG_INFINITY,
                (_, false, _) => 0.0,
                (_, _, false) => (10 * some.start + coordinate) as f32,
                (_, _, true) => (10 * (some.end - 1) + coordinate) as f32 + 0.5,
            }
        };
        for (ends, width) in all.iter().zip([1, 4, 128]) {
            let mut place = 0;
            for four in 0..(ends.count as usize).div_ceil(4) {
                for (chunk, is_upper) in [(0, false), (0, true), (1, false), (1, true)] {
                    for (member, k) in (0..16).map(|i| (i / 4, i % 4)) {
                        let (own, coordinate) = ((4 * four + member) * width, 4 * chunk + k);
                        let wanted = expected(own, own + width, coordinate, is_upper);
                        let mut end = [f32::NAN];
                        ends.write(place..place + 1, &mut end);
                        assert_eq!(end, [wanted], "{place}");
                        place += 1;
                    }
                }
            }
            assert_eq!(place, ends.len());
            let mut pieces = vec![f32::NAN; ends.len()];
            let (one, other) = pieces.split_at_mut(5);
            ends.write(0..5, one);
            ends.write(5..ends.len(), other);
            let mut whole = vec![f32::NAN; ends.len()];
            ends.write(0..ends.len(), &mut whole);
            assert_eq!(pieces, whole);
        }
    }
}
