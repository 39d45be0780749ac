//! From pairs of items to blocks of pairs of rows.
//!
//! The rows of an item have neighbouring places, so that a match of two items is one rectangle of
//! places, or a few stretches of it where a row order cuts it. Nothing is done per pair of rows
//! before the columns are written.

use std::ops::Range;

use datafusion::common::Result;
use datafusion::logical_expr::Operator;

use crate::engine::{ItemPair, Match, MatchOrder, Orders, RowGroups};
use crate::exec::answer::batch::ProbeBatch;
use crate::exec::build_side::BuildSide;
use crate::exec::layout::{JoinLayout, RowOrder};
use crate::spec::Side;

/// Stretches looked at in one call of [`Expansion::fill`]: some milliseconds.
const STEPS_PER_FILL: usize = 1 << 17;

/// Every pair of some neighbouring places of the left side with some of the right side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    /// Per side, the first place and the number of places.
    pub starts: [u32; 2],
    pub lens: [u32; 2],
    /// The left and the right item, and what their scores are computed from.
    pub pair: ItemPair,
}

impl Block {
    /// The number of pairs.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.lens[0] as usize * self.lens[1] as usize
    }

    /// The side whose places change from pair to pair; each place of the other one is repeated. It
    /// is the side with more places, so that copied stretches and runs of a repeated value are
    /// long.
    #[inline]
    pub(crate) fn inner(&self) -> usize {
        usize::from(self.lens[1] >= self.lens[0])
    }

    /// The places of a side, as indices.
    #[inline]
    pub(crate) fn places(&self, side: usize) -> Range<usize> {
        let start = self.starts[side] as usize;
        start..start + self.lens[side] as usize
    }
}

/// Pairs of rows, as blocks.
#[derive(Debug, Clone, Default)]
pub(crate) struct RowPairs {
    blocks: Vec<Block>,
    len: usize,
}

impl RowPairs {
    /// The number of pairs.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    pub(crate) fn clear(&mut self) {
        self.blocks.clear();
        self.len = 0;
    }

    /// Exchanges the sides of all pairs.
    pub(crate) fn mirror(&mut self) {
        for block in &mut self.blocks {
            block.starts.swap(0, 1);
            block.lens.swap(0, 1);
            block.pair.items.swap(0, 1);
        }
    }

    /// Gives `part` the pairs in parts of at most `most` bytes each, or of a single pair, with the
    /// bytes of each part. `bytes_at` tells those of a row by its side and place.
    pub(crate) fn cut(
        &self,
        most: usize,
        bytes_at: impl Fn(usize, u32) -> usize,
        mut part: impl FnMut(&Self, usize) -> Result<()>,
    ) -> Result<()> {
        let mut next = Self::default();
        let mut held = 0;
        let mut add = |block: Block, bytes: usize| -> Result<()> {
            if held + bytes > most && !next.is_empty() {
                part(&next, held)?;
                next.clear();
                held = 0;
            }
            next.push(block);
            held += bytes;
            Ok(())
        };
        for block in &self.blocks {
            let (inner, outer) = (block.inner(), 1 - block.inner());
            let sum = |side: usize| -> usize {
                block.places(side).map(|place| bytes_at(side, place as u32)).sum()
            };
            let (inner_len, inner_bytes) = (block.lens[inner] as usize, sum(inner));
            let whole = block.lens[outer] as usize * inner_bytes + inner_len * sum(outer);
            if whole <= most {
                add(*block, whole)?;
                continue;
            }
            for place in block.places(outer) {
                let own = bytes_at(outer, place as u32);
                let mut row = *block;
                (row.starts[outer], row.lens[outer]) = (place as u32, 1);
                if inner_len * own + inner_bytes <= most {
                    add(row, inner_len * own + inner_bytes)?;
                    continue;
                }
                for place in block.places(inner) {
                    (row.starts[inner], row.lens[inner]) = (place as u32, 1);
                    add(row, own + bytes_at(inner, place as u32))?;
                }
            }
        }
        match next.is_empty() {
            true => Ok(()),
            false => part(&next, held),
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, block: Block) {
        self.len += block.len();
        self.blocks.push(block);
    }
}

/// Expands matches to blocks of row pairs, a bounded number at a time.
#[derive(Debug, Default)]
pub(crate) struct Expansion {
    /// The match being expanded.
    next: usize,
    /// Within the match: whether left and right have been exchanged, the next probe row, and the
    /// next build row for it.
    mirrored: bool,
    probe_row: u32,
    build_row: u32,
}

/// The collections and ranks by which matches are expanded.
pub(crate) struct ExpansionInput<'a> {
    pub probe: &'a RowGroups,
    pub build: &'a RowGroups,
    /// The side that the rows of `probe` are on.
    pub probe_side: Side,
    /// Whether a match of two items is expanded as given, and whether with left and right
    /// exchanged. An item has one order with itself.
    pub orders: [bool; 2],
    pub order: Option<RankedOrder<'a>>,
}

/// A row order, with the ranks by place of the rows that it compares.
#[derive(Clone, Copy)]
pub(crate) struct RankedOrder<'a> {
    pub order: RowOrder,
    pub probe: &'a [u32],
    /// Ascending within the rows of an item.
    pub build: &'a [u32],
    /// The side whose rows are the first ones of their items, of those in one collection: that of the lesser
    /// rows.
    pub firsts: Option<Side>,
    /// By probe item, the place of its first row; `None` where it is the first place.
    pub probe_firsts: Option<&'a [u32]>,
}

impl<'a> ExpansionInput<'a> {
    /// The input for matches that hold in the orders `matched`. `mirrored` exchanges the sides.
    pub(crate) fn new(
        layout: &JoinLayout,
        batch: &'a ProbeBatch,
        build: &'a BuildSide,
        (matched, mirrored): (MatchOrder, bool),
    ) -> Self {
        let order = layout.row_order.zip(build.ranks.as_ref()).map(|(order, ranks)| {
            let probe = batch.ranks.as_deref().unwrap_or(&ranks.by_place);
            let firsts = order.lesser().filter(|_| layout.gives_firsts(ranks.all_distinct));
            let probe_firsts = batch.firsts.as_deref();
            RankedOrder { order, probe, build: &ranks.by_place, firsts, probe_firsts }
        });
        Self {
            probe: batch.items.groups(),
            build: build.items.groups(),
            probe_side: if mirrored { layout.build() } else { layout.probe },
            orders: match layout.spec.orders {
                Orders::Unordered => matched.of_both(),
                Orders::Given | Orders::Mirrored => [true, false],
            },
            order,
        }
    }

    /// All pairs of the rows of two matching items, the probe rows on their side or (`mirrored`) on
    /// the other one.
    fn rectangle(&self, found: &Match, mirrored: bool) -> Block {
        let probe = self.probe.slots(found.probe..found.probe + 1);
        let build = self.build.slots(found.build..found.build + 1);
        let sides = |probe: u32, build: u32| match (self.probe_side == Side::Left) != mirrored {
            true => [probe, build],
            false => [build, probe],
        };
        Block {
            starts: sides(probe.start, build.start),
            lens: sides(probe.len() as u32, build.len() as u32),
            pair: ItemPair { items: sides(found.probe, found.build), detail: found.detail },
        }
    }
}

impl Expansion {
    /// Starts with the first match again.
    pub(crate) fn restart(&mut self) {
        *self = Self::default();
    }

    /// Adds blocks until `pairs` holds `limit` pairs, some milliseconds have passed, or no match is
    /// left. Returns whether no match is left.
    pub(crate) fn fill(
        &mut self,
        input: &ExpansionInput<'_>,
        matches: &[Match],
        limit: usize,
        pairs: &mut RowPairs,
    ) -> bool {
        let probe_side = input.probe_side as usize;
        let mut steps = STEPS_PER_FILL;
        while let Some(found) = matches.get(self.next) {
            if !input.orders[usize::from(self.mirrored)] {
                self.advance(input, found);
                continue;
            }
            let block = input.rectangle(found, self.mirrored);
            let probe_side = if self.mirrored { 1 - probe_side } else { probe_side };
            let done = match input.order {
                None => self.add_rectangle(&block, probe_side, limit, &mut steps, pairs),
                Some(order) => {
                    self.add_ordered(&block, probe_side, order, limit, &mut steps, pairs)
                }
            };
            if !done {
                return false;
            }
            (self.probe_row, self.build_row) = (0, 0);
            self.advance(input, found);
        }
        true
    }

    /// Goes on with the other order of a match, or with the next match.
    #[inline]
    fn advance(&mut self, input: &ExpansionInput<'_>, found: &Match) {
        self.mirrored = !self.mirrored && input.orders[1] && found.probe != found.build;
        self.next += usize::from(!self.mirrored);
    }

    /// Adds the rest of a rectangle. Returns whether all of it could be added.
    fn add_rectangle(
        &mut self,
        block: &Block,
        probe_side: usize,
        limit: usize,
        steps: &mut usize,
        pairs: &mut RowPairs,
    ) -> bool {
        let build_side = 1 - probe_side;
        let (probe_rows, build_rows) = (block.lens[probe_side], block.lens[build_side]);
        while self.probe_row < probe_rows {
            let room = limit.saturating_sub(pairs.len());
            if room == 0 || *steps == 0 {
                return false;
            }
            *steps -= 1;
            // Whole probe rows where they fit, otherwise a part of one.
            let whole = match self.build_row {
                0 => room / build_rows as usize,
                _ => 0,
            };
            let mut part = *block;
            part.starts[probe_side] += self.probe_row;
            part.starts[build_side] += self.build_row;
            if whole > 0 {
                part.lens[probe_side] =
                    (probe_rows - self.probe_row).min(whole.min(u32::MAX as usize) as u32);
                self.probe_row += part.lens[probe_side];
            } else {
                part.lens[probe_side] = 1;
                part.lens[build_side] = (build_rows - self.build_row).min(room as u32);
                self.build_row += part.lens[build_side];
                if self.build_row == build_rows {
                    (self.probe_row, self.build_row) = (self.probe_row + 1, 0);
                }
            }
            pairs.push(part);
        }
        true
    }

    /// Adds the rest of the pairs of a rectangle that a row order admits. The rows of an item
    /// ascend by rank, so that the partners of one row are one stretch, or two.
    fn add_ordered(
        &mut self,
        block: &Block,
        probe_side: usize,
        ranked: RankedOrder<'_>,
        limit: usize,
        steps: &mut usize,
        pairs: &mut RowPairs,
    ) -> bool {
        let build_side = 1 - probe_side;
        let build = &ranked.build[block.places(build_side)];
        let is_first = |side: usize| ranked.firsts.is_some_and(|first| first as usize == side);
        let (probe_start, probe_rows) = match is_first(probe_side) {
            false => (block.starts[probe_side], block.lens[probe_side]),
            true => {
                let item = block.pair.items[probe_side] as usize;
                let first = ranked.probe_firsts.map(|places| places[item]);
                (first.unwrap_or(block.starts[probe_side]), 1)
            }
        };
        let last_partner = if is_first(build_side) { 1 } else { u32::MAX };
        while self.probe_row < probe_rows {
            if *steps == 0 {
                return false;
            }
            let place = probe_start + self.probe_row;
            let partners = ranked.order.partners(probe_side, ranked.probe[place as usize], build);
            for mut stretch in partners {
                stretch.end = stretch.end.min(last_partner);
                let from = stretch.start.max(self.build_row);
                if from >= stretch.end {
                    continue;
                }
                let room = limit.saturating_sub(pairs.len());
                if room == 0 {
                    return false;
                }
                let mut part = *block;
                (part.starts[probe_side], part.lens[probe_side]) = (place, 1);
                part.starts[build_side] += from;
                part.lens[build_side] = ((stretch.end - from) as usize).min(room) as u32;
                self.build_row = from + part.lens[build_side];
                pairs.push(part);
                if self.build_row < stretch.end {
                    return false;
                }
            }
            *steps -= 1;
            (self.probe_row, self.build_row) = (self.probe_row + 1, 0);
        }
        true
    }
}

impl RowOrder {
    /// The side of the lesser row of a pair; `None` where either side may have it.
    fn lesser(self) -> Option<Side> {
        match self.operator {
            Operator::Lt | Operator::LtEq => Some(Side::Left),
            Operator::Gt | Operator::GtEq => Some(Side::Right),
            _ => None,
        }
    }

    /// The partners of a row of rank `rank` on side `side` among `others`, the ascending ranks of
    /// rows of the other side: two ascending stretches, of which either may be empty. Rank 0 is
    /// NULL; NULL matches nothing.
    #[inline]
    fn partners(self, side: usize, rank: u32, others: &[u32]) -> [Range<u32>; 2] {
        if rank == 0 {
            return [0..0, 0..0];
        }
        let point = |holds: &dyn Fn(u32) -> bool| others.partition_point(|&o| holds(o)) as u32;
        let first = || point(&|o| o == 0);
        let (below, up_to) = (|| point(&|o| o < rank), || point(&|o| o <= rank));
        let end = others.len() as u32;
        // The comparison is `left <operator> right`.
        match (self.operator, side) {
            (Operator::Lt, 0) | (Operator::Gt, 1) => [up_to()..end, 0..0],
            (Operator::LtEq, 0) | (Operator::GtEq, 1) => [below()..end, 0..0],
            (Operator::Gt, 0) | (Operator::Lt, 1) => [first()..below(), 0..0],
            (Operator::GtEq, 0) | (Operator::LtEq, 1) => [first()..up_to(), 0..0],
            _ => [first()..below(), up_to()..end],
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, ListArray};
    use arrow::datatypes::Int64Type;
    use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, UnboundedMemoryPool};
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::engine::EncodeInput;
    use crate::exec::rows::ranks::Ranks;
    use crate::set::{BuildEncoder, SetCollection};
    use crate::util::cancel::CancelFlag;
    use crate::util::parallel::Threads;

    /// Rows with `kinds` different sets of one token; some rows have none.
    fn collection(rng: &mut StdRng, rows: usize, kinds: i64) -> SetCollection {
        let tokens = (0..rows).map(|_| rng.random_range(0..=kinds));
        let lists = tokens.map(|t| (t < kinds).then(|| vec![Some(t)]));
        let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(lists);
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        let reservation = MemoryConsumer::new("test").register(&pool);
        let mut encoder = BuildEncoder::default();
        let input = EncodeInput { values: &lists, keys: None, filter: None };
        encoder.push(&input, &mut Default::default(), &reservation, 0).unwrap();
        encoder.finish(&reservation, 0, &|| {}, &CancelFlag::default()).unwrap().0
    }

    fn holds(operator: Operator, left: u32, right: u32) -> bool {
        left != 0
            && right != 0
            && match operator {
                Operator::Lt => left < right,
                Operator::LtEq => left <= right,
                Operator::Gt => left > right,
                Operator::GtEq => left >= right,
                _ => left != right,
            }
    }

    fn spelled_out(block: &Block) -> Vec<[u32; 2]> {
        let place = |side: usize, nth: usize| block.starts[side] + nth as u32;
        let inner = block.inner();
        let lens = block.lens.map(|l| l as usize);
        (0..lens[1 - inner])
            .flat_map(|o| (0..lens[inner]).map(move |i| (o, i)))
            .map(|(o, i)| match inner {
                1 => [place(0, o), place(1, i)],
                _ => [place(0, i), place(1, o)],
            })
            .collect()
    }

    /// Blocks stand for exactly the pairs that two loops over the rows of each match find, at any
    /// bound on their number, and never exceed it.
    #[test]
    fn blocks_are_the_pairs_of_rows() {
        let mut rng = StdRng::seed_from_u64(7);
        let operators =
            [Operator::Lt, Operator::LtEq, Operator::Gt, Operator::GtEq, Operator::NotEq];
        for round in 0..200 {
            let operator = (round % 6 > 0).then(|| operators[round % 6 - 1]);
            let unordered = round % 2 == 0;
            let probe_side = [Side::Left, Side::Right][round / 2 % 2];
            let mut sets = collection(&mut rng, 60, 12);
            let mut ranks = None;
            if operator.is_some() {
                let column = (0..60).map(|_| Some(rng.random_range(0..40)).filter(|&v| v > 3));
                let column: ArrayRef = Arc::new(column.collect::<Int64Array>());
                let cancel = CancelFlag::default();
                let groups = sets.groups_mut();
                ranks = Some(
                    Ranks::of_rows(0, &column, &[], groups, false, Threads::small(2), &cancel)
                        .unwrap(),
                );
            }
            let mut matches = vec![];
            for probe in 0..sets.len() {
                for build in 0..if unordered { probe + 1 } else { sets.len() } {
                    if probe == build || rng.random() {
                        matches.push(Match { probe, build, detail: 0 });
                    }
                }
            }
            let mut expected = vec![];
            for found in &matches {
                for a in sets.groups().slots(found.probe..found.probe + 1) {
                    for b in sets.groups().slots(found.build..found.build + 1) {
                        let pair = if probe_side == Side::Left { [a, b] } else { [b, a] };
                        expected.push(pair);
                        if unordered && found.probe != found.build {
                            expected.push([pair[1], pair[0]]);
                        }
                    }
                }
            }
            if let (Some(operator), Some(ranks)) = (operator, &ranks) {
                let rank = |place: u32| ranks.by_place[place as usize];
                expected.retain(|&[left, right]| holds(operator, rank(left), rank(right)));
            }
            let order = operator.map(|operator| RowOrder { columns: [0, 0], operator });
            let firsts = order.and_then(RowOrder::lesser).filter(|_| rng.random_bool(0.5));
            if let Some(lesser) = firsts.filter(|_| ranks.is_some()) {
                let groups = sets.groups();
                let first_places: Vec<u32> =
                    (0..groups.len()).map(|item| groups.slots(item..item + 1).start).collect();
                expected.retain(|pair| first_places.contains(&pair[lesser as usize]));
            }
            expected.sort_unstable();
            let input = ExpansionInput {
                probe: sets.groups(),
                build: sets.groups(),
                probe_side,
                orders: [true, unordered],
                order: order.zip(ranks.as_ref()).map(|(order, ranks)| RankedOrder {
                    order,
                    probe: &ranks.by_place,
                    build: &ranks.by_place,
                    firsts,
                    probe_firsts: None,
                }),
            };
            let limit = [1, 3, 50, usize::MAX][rng.random_range(0..4)];
            let (mut expansion, mut pairs) = (Expansion::default(), RowPairs::default());
            let mut found = vec![];
            loop {
                let done = expansion.fill(&input, &matches, limit, &mut pairs);
                assert!(pairs.len() <= limit);
                let blocks = pairs.blocks().iter();
                assert_eq!(blocks.clone().map(Block::len).sum::<usize>(), pairs.len());
                found.extend(blocks.flat_map(spelled_out));
                pairs.clear();
                if done {
                    break;
                }
            }
            found.sort_unstable();
            assert_eq!(found, expected, "{operator:?} unordered {unordered} limit {limit}");
        }
    }

    /// Parts hold every pair once, and no more bytes than they may.
    #[test]
    fn parts_hold_few_bytes_and_every_pair_once() {
        let mut rng = StdRng::seed_from_u64(5);
        for most in [1, 50, 400, 5000, usize::MAX] {
            let sizes: [Vec<usize>; 2] = [(); 2]
                .map(|()| (0..40).map(|_| if rng.random_bool(0.1) { 300 } else { 7 }).collect());
            let mut pairs = RowPairs::default();
            for _ in 0..30 {
                let lens = [(); 2].map(|()| rng.random_range(1..5_u32));
                let starts = lens.map(|len| rng.random_range(0..40 - len));
                let pair = ItemPair { items: [0, 0], detail: 0 };
                pairs.push(Block { starts, lens, pair });
            }
            let mut found: Vec<[u32; 2]> = vec![];
            let bytes_at = |side: usize, place: u32| sizes[side][place as usize];
            let bytes = |pair: &[u32; 2]| bytes_at(0, pair[0]) + bytes_at(1, pair[1]);
            pairs
                .cut(most, bytes_at, |part, held| {
                    let some: Vec<_> = part.blocks().iter().flat_map(spelled_out).collect();
                    assert_eq!(some.iter().map(bytes).sum::<usize>(), held);
                    assert!(held <= most || part.len() == 1, "{held} of {most}");
                    assert_eq!(some.len(), part.len());
                    found.extend(some);
                    Ok(())
                })
                .unwrap();
            let mut all: Vec<_> = pairs.blocks().iter().flat_map(spelled_out).collect();
            all.sort_unstable();
            found.sort_unstable();
            assert_eq!(found, all);
        }
    }
}
