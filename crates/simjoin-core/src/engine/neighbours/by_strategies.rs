//! Neighbours by a strategy that finds the nearest partners of items.

use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use super::sides::{LeftItems, RightItems};
use super::{NeighbourRequest, NeighbourSearch, Neighbours};
use crate::engine::{
    AnyMatcher, Collection, Cursor, DeviceChoice, ItemBounds, ItemId, ItemPair, Match, MatchBuffer,
    MatchNeed, MatchSpec, NearestPartners, PrepareContext, PreparedJoin, ProbeRows, ProbeUnit,
    Progress,
};
use crate::error::{Result, internal_err, resources_err};
use crate::memory::{Memory, Reservation};
use crate::top::{Entry, ScoreKey, key_of, score_of};
use crate::tuning::Size;
use crate::util::parallel::map;

/// Left items that a thread takes on at a time.
const SHARE: Size = Size { usual: 256, small: 7 };

/// Pairs of rows that are worth a search.
const LEAST_PAIRS: Size = Size { usual: 1_000_000, small: 1 };

/// The neighbours of the left rows of a request.
///
/// # Errors
///
/// The errors of evaluating arguments, when memory is refused, and when the work is cancelled.
pub(in crate::engine) fn by_strategies(
    matcher: &dyn AnyMatcher,
    request: &NeighbourRequest<'_>,
) -> Result<NeighbourSearch> {
    let [left, right] = request.sides.map(|side| side.rows.len());
    let pays = left.saturating_mul(right) >= request.threads.tuning.size(LEAST_PAIRS)
        || !request.strategy.is_auto();
    if !pays
        || !matcher.finds_nearest(request.strategy)
        || matches!(request.device, DeviceChoice::Cuda(_))
    {
        return Ok(NeighbourSearch::Declined(None));
    }
    let memory = request.reservation.new_empty();
    let right = RightItems::read(matcher, request, &memory)?;
    let spec = MatchSpec {
        need: MatchNeed::Scores,
        nearest: Some(NearestPartners { rows: request.count, with_ties: request.with_ties }),
        probe_rows: ProbeRows::expected(left as u64),
        simd: request.simd,
        gpu: request.gpu,
        tuning: request.threads.tuning,
        ..MatchSpec::default()
    };
    let context = PrepareContext {
        reservation: &memory,
        cancel: request.cancel,
        threads: request.threads,
        probes: None,
    };
    let Some(prepared) = matcher.nearest(request.strategy, &right.items, &spec, context)? else {
        return Ok(NeighbourSearch::Declined(None));
    };
    let left = right.read_left(matcher, request)?;
    let bounds = left.iter().map(|left| bounds_of(request, left)).collect();
    let search = ItemSearch { matcher, request, spec, prepared, right: &right.items, left, bounds };
    search.run().map(NeighbourSearch::Found)
}

/// The place of a left row among those that take part.
fn place_of(request: &NeighbourRequest<'_>, row: u32) -> Option<usize> {
    let rows = request.sides[0].rows;
    match rows.get(row as usize) {
        Some(same) if *same == row => Some(row as usize),
        _ => rows.binary_search(&row).ok(),
    }
}

/// The bounds of some items: of the rows of an item, the one that admits most.
fn bounds_of(request: &NeighbourRequest<'_>, left: &LeftItems) -> Option<ItemBounds> {
    let of_rows = request.bounds?;
    let order = request.predicate.call.function.info().order;
    let groups = left.items.groups();
    let of_item = |item: ItemId| {
        let rows =
            groups.rows(item).iter().filter_map(|row| place_of(request, left.first_row + row));
        let keys = rows.map(|place| key_of(of_rows[place], order));
        score_of(keys.max().unwrap_or(ScoreKey::MAX), order)
    };
    Some((0..groups.len()).map(of_item).collect())
}

/// A search for the neighbours of items.
struct ItemSearch<'a> {
    matcher: &'a dyn AnyMatcher,
    request: &'a NeighbourRequest<'a>,
    spec: MatchSpec,
    prepared: Arc<dyn PreparedJoin>,
    right: &'a Arc<dyn Collection>,
    left: Vec<LeftItems>,
    /// The bounds of the items of each collection, where there are some.
    bounds: Vec<Option<ItemBounds>>,
}

/// Some left items of one collection.
#[derive(Debug, Clone)]
struct Share {
    collection: usize,
    range: Range<ItemId>,
}

/// The neighbours of some left items: where those of each item begin among all, and behind the last one.
struct ShareNeighbours {
    share: Share,
    starts: Vec<u32>,
    partners: Vec<u32>,
    values: Vec<f64>,
}

/// A thread's way to matches.
struct ItemCursor {
    cursor: Box<dyn Cursor>,
    buffer: MatchBuffer,
    next: u32,
    found: Vec<Match>,
    values: Vec<f64>,
    entries: Vec<Entry>,
    /// The memory of the cursor, and that of the matches of some items.
    _memory: Reservation,
    held: Reservation,
}

impl ItemCursor {
    fn open(search: &ItemSearch<'_>) -> Result<Self> {
        let memory = search.request.reservation.new_empty();
        memory.try_grow(search.spec.buffer_bytes())?;
        let cursor = search.prepared.open(&memory)?;
        let buffer = MatchBuffer::new(search.spec.match_buffer);
        let (found, values, entries) = (vec![], vec![], vec![]);
        let held = memory.new_empty();
        Ok(Self { cursor, buffer, next: 0, found, values, entries, _memory: memory, held })
    }

    /// Takes the matches from the buffer. Where ties count, an item may match all others.
    fn take_matches(&mut self) -> Result<()> {
        /// The bytes of a match, of the pair and the value that are made of it, and of its entry.
        const BYTES: usize =
            size_of::<Match>() + size_of::<ItemPair>() + size_of::<f64>() + size_of::<Entry>();
        let matches = self.buffer.matches();
        // Vectors double as they grow, and keep what they have.
        let needed = 2 * BYTES * (self.found.len() + matches.len());
        self.held.try_grow(needed.saturating_sub(self.held.size()))?;
        self.found.extend_from_slice(matches);
        self.buffer.clear_matches();
        Ok(())
    }

    /// Takes all matches of some items, by item.
    fn find(&mut self, search: &ItemSearch<'_>, share: &Share) -> Result<()> {
        let items = Arc::clone(&search.left[share.collection].items);
        let number = self.next;
        self.next = number.wrapping_add(1);
        let (range, bounds) = (share.range.clone(), search.bounds[share.collection].clone());
        self.cursor.feed(ProbeUnit { number, items, range, bounds })?;
        self.found.clear();
        let mut cx = Context::from_waker(Waker::noop());
        loop {
            search.request.cancel.check()?;
            let Poll::Ready(progress) = self.cursor.poll(&mut cx, &mut self.buffer) else {
                return internal_err!("a strategy on the CPU waits");
            };
            let progress = progress?;
            self.take_matches()?;
            let mut is_complete = false;
            while let Some(completed) = self.buffer.pop_completed() {
                is_complete |= completed == number;
            }
            match progress {
                _ if is_complete => break,
                Progress::Full | Progress::Yield => {}
                Progress::NeedsInput | Progress::Ended => {
                    return internal_err!("a cursor has lost a unit");
                }
            }
        }
        // Matches of one item mostly come one after the other.
        if !self.found.is_sorted_by_key(|found| found.probe) {
            self.found.sort_by_key(|found| found.probe);
        }
        Ok(())
    }
}

impl ItemSearch<'_> {
    /// Finds the neighbours of all left rows.
    fn run(&self) -> Result<Neighbours> {
        let step = self.request.threads.tuning.size(SHARE);
        let shares = self.left.iter().enumerate().flat_map(|(collection, left)| {
            let items = left.items.groups().len();
            (0..items).step_by(step).map(move |start| {
                let range = start..items.min(start.saturating_add(step as u32));
                Share { collection, range }
            })
        });
        let cursors = Mutex::new(vec![]);
        let held = self.request.reservation.new_empty();
        let found = map(self.request.threads, shares.collect(), |share: Share| {
            let cursor = cursors.lock().pop();
            let mut cursor =
                if let Some(cursor) = cursor { cursor } else { ItemCursor::open(self)? };
            let found = self.share(&mut cursor, share, &held)?;
            cursors.lock().push(cursor);
            Ok(found)
        })?;
        self.in_rows(found)
    }

    /// The neighbours of some left items. `held` grows by what they take.
    fn share(
        &self,
        cursor: &mut ItemCursor,
        share: Share,
        held: &dyn Memory,
    ) -> Result<ShareNeighbours> {
        cursor.find(self, &share)?;
        let ItemCursor { found, values, entries, .. } = cursor;
        let pairs: Vec<ItemPair> = found
            .iter()
            .map(|found| ItemPair { items: [found.probe, found.build], detail: found.detail })
            .collect();
        values.clear();
        let (call, left) = (self.request.predicate.call, &self.left[share.collection].items);
        self.matcher.scores(call, [left.as_ref(), self.right.as_ref()], &pairs, values)?;
        let mut of_share =
            ShareNeighbours { share, starts: vec![0], partners: vec![], values: vec![] };
        let mut next = 0;
        for item in of_share.share.range.clone() {
            entries.clear();
            while let Some(found) = found.get(next).filter(|found| found.probe == item) {
                let key = key_of(values[next] + 0.0, call.function.info().order);
                entries.push((key, found.build));
                next += 1;
            }
            entries.sort_unstable();
            self.add_rows(entries, &mut of_share, held)?;
        }
        Ok(of_share)
    }

    /// Adds the rows of the nearest ones of some items, in order.
    fn add_rows(
        &self,
        entries: &[Entry],
        to: &mut ShareNeighbours,
        held: &dyn Memory,
    ) -> Result<()> {
        let NeighbourRequest { predicate, count, with_ties, .. } = self.request;
        let order = predicate.call.function.info().order;
        let before = to.partners.len();
        let mut last = None;
        for (key, item) in entries {
            let missing = (before + count).saturating_sub(to.partners.len());
            // Of rows in a tie any do, where not all are wanted.
            if missing == 0 && !(*with_ties && last == Some(*key)) {
                break;
            }
            let rows = self.right.groups().rows(*item);
            let rows = if *with_ties { rows } else { &rows[..rows.len().min(missing)] };
            // Vectors double as they grow.
            held.try_grow(2 * rows.len() * 12)?;
            to.partners.extend(rows);
            to.values.extend(std::iter::repeat_n(score_of(*key, order), rows.len()));
            last = Some(*key);
        }
        held.try_grow(2 * size_of::<u32>())?;
        to.starts.push(to.partners.len() as u32);
        Ok(())
    }

    /// The neighbours of rows, from the neighbours of their items.
    fn in_rows(&self, found: Vec<ShareNeighbours>) -> Result<Neighbours> {
        let rows = self.request.sides[0].rows;
        let all: usize = found.iter().map(|found| found.partners.len()).sum();
        if all > u32::MAX as usize {
            return resources_err!("{all} neighbours are more than 2^32");
        }
        let memory = self.request.reservation.new_empty();
        memory.try_grow(all * 12 + rows.len() * 8)?;
        // A row without an item has no neighbours.
        let (starts, counts) = (vec![0; rows.len()], vec![0; rows.len()]);
        let (partners, values) = (Vec::with_capacity(all), Vec::with_capacity(all));
        let (device, memory) = ("cpu".to_string(), vec![memory]);
        let mut neighbours = Neighbours { starts, counts, partners, values, device, memory };
        for ShareNeighbours { share, starts, partners, values } in found {
            let before = neighbours.partners.len() as u32;
            let LeftItems { first_row, items, .. } = &self.left[share.collection];
            for (item, of_item) in share.range.zip(starts.windows(2)) {
                for row in items.groups().rows(item) {
                    let Some(place) = place_of(self.request, first_row + row) else { continue };
                    neighbours.starts[place] = before + of_item[0];
                    neighbours.counts[place] = of_item[1] - of_item[0];
                }
            }
            neighbours.partners.extend(partners);
            neighbours.values.extend(values);
        }
        Ok(neighbours)
    }
}
