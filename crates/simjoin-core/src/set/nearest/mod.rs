//! Nearest sets at once on the CPU.
//!
//! ```text
//! side.rs   the sets of a side, from the rows that take part
//! index.rs  the sets of each token, small ones first, and their sizes
//! best.rs   the best sets of a set, whose bound rises as they are found
//! scan.rs   the search of a set: tokens rarest first, until no other set can be among the best
//! pays.rs   whether this is less work than joins with bounds
//! ```
//!
//! Each left set has a bound of its own. Its rarest tokens find sets that share several, whose values make the bound;
//! the other tokens are looked up only for sizes of sets that may still reach it: a prefix filter by the bound and the
//! size of each pair, one token longer than is needed where that rules out sets that share one alone (Wang, Li, Feng,
//! "Can we beat the prefix filtering?", SIGMOD 2012, section 4). Where most tokens are frequent, bit-sliced joins are
//! better.

mod best;
mod index;
mod pays;
mod scan;
mod side;

use parking_lot::Mutex;

use self::best::Best;
use self::index::SizeOrderedIndex;
use self::pays::{Tried, suits};
use self::scan::{Searched, SetScan};
use self::side::{LeftSets, SetSide};
use crate::engine::{DeviceChoice, NeighbourRequest, NeighbourSearch, Neighbours};
use crate::error::{Result, resources_err};
use crate::memory::Memory;
use crate::predicate;
use crate::set::collection::SetCollection;
use crate::set::matcher::SetMatcher;
use crate::set::measure::{Measure, Role};
use crate::set::runs::SetId;
use crate::tuning::Size;
use crate::util::parallel::map;

/// The most neighbours of a row that are found at once.
const MOST_NEIGHBOURS: usize = 256;

/// Left sets that a thread takes on at a time.
const SHARE: Size = Size { usual: 256, small: 7 };

/// Whether the work is enough, and the CPU may do it.
fn pays(request: &NeighbourRequest<'_>) -> bool {
    const LEAST: Size = Size { usual: 1_000_000, small: 1 };
    let tuning = request.threads.tuning;
    let least = tuning.size(LEAST);
    let [left, right] = request.sides.map(|side| side.rows.len());
    // Of small sizes, some searches go the other way.
    let is_other_way = tuning.is_small() && right.is_multiple_of(3);
    left.saturating_mul(right) >= least
        && !is_other_way
        && request.count <= MOST_NEIGHBOURS
        && !matches!(request.device, DeviceChoice::Cuda(_))
}

/// The neighbours of some left sets: where those of each set begin among all, and behind the last one.
struct ShareNeighbours {
    share: Share,
    starts: Vec<u32>,
    partners: Vec<u32>,
    values: Vec<f64>,
}

/// Some left sets of one collection.
#[derive(Debug, Clone, Copy)]
struct Share {
    collection: usize,
    first: SetId,
    end: SetId,
}

/// The neighbours of the left rows of a request.
///
/// # Errors
///
/// The errors of evaluating arguments, when memory is refused, and when the work is cancelled.
pub(super) fn neighbours(
    matcher: &SetMatcher,
    request: &NeighbourRequest<'_>,
) -> Result<NeighbourSearch> {
    let declined = Ok(NeighbourSearch::Declined(None));
    if !pays(request) || !suits(matcher, request)? {
        return declined;
    }
    let right = if request.itself { predicate::Side::Left } else { predicate::Side::Right };
    let right = SetSide::read(matcher, request, right)?;
    if right.sets.is_empty() || right.sets.runs().greatest_size() > SetScan::MOST_TOKENS {
        return declined;
    }
    let left = match request.itself {
        true => LeftSets::itself(),
        false => LeftSets::read(matcher, request, &right)?,
    };
    let memory = request.reservation.new_empty();
    memory.try_grow(SizeOrderedIndex::bytes(&right.sets))?;
    let index = SizeOrderedIndex::new(&right.sets, request.cancel)?;
    let search = SetSearch { request, right: &right.sets, left: &left, index: &index };
    match search.run()? {
        Some(neighbours) => Ok(NeighbourSearch::Found(neighbours)),
        None => declined,
    }
}

struct SetSearch<'a> {
    request: &'a NeighbourRequest<'a>,
    right: &'a SetCollection,
    left: &'a LeftSets,
    index: &'a SizeOrderedIndex,
}

impl SetSearch<'_> {
    fn lefts(&self, collection: usize) -> &SetCollection {
        self.left.collection(collection).unwrap_or(self.right)
    }

    /// The number of collections of left sets.
    fn collections(&self) -> usize {
        self.left.len().unwrap_or(1)
    }

    /// A scan with its memory.
    fn scan(&self) -> Result<SetScan<'_>> {
        let call = self.request.predicate.call;
        let measure = Measure::of(call.function)?;
        let best = Best::new(self.request.count, self.request.with_ties);
        let memory = self.request.reservation.new_empty();
        let of_best = Best::most_bytes(self.right.len() as usize, self.request.with_ties);
        memory.try_grow(SetScan::bytes(self.right) + of_best)?;
        let role = Role::of(call, predicate::Side::Left);
        Ok(SetScan::new(self.right, self.index, (measure, role), best, self.request, memory))
    }

    /// Searches for the neighbours of all left sets; `None` where that takes too long.
    fn run(&self) -> Result<Option<Neighbours>> {
        let mut scan = self.scan()?;
        if !self.pays(&mut scan)? {
            return Ok(None);
        }
        let scans = Mutex::new(vec![scan]);
        let share = self.request.threads.tuning.size(SHARE);
        let shares = (0..self.collections()).flat_map(|collection| {
            let sets = self.lefts(collection).len();
            (0..sets).step_by(share).map(move |first| {
                let end = sets.min(first.saturating_add(share as u32));
                Share { collection, first, end }
            })
        });
        let held = self.request.reservation.new_empty();
        let found = map(self.request.threads, shares.collect(), |share: Share| {
            let scan = scans.lock().pop();
            let mut scan = if let Some(scan) = scan { scan } else { self.scan()? };
            let found = self.share(&mut scan, share, &held)?;
            scans.lock().push(scan);
            Ok(found)
        })?;
        self.in_rows(found).map(Some)
    }

    /// Whether the search of some left sets takes less than joins with bounds.
    fn pays(&self, scan: &mut SetScan<'_>) -> Result<bool> {
        let mut tried = Tried::default();
        let collection = self.collections() / 2;
        let lefts = self.lefts(collection);
        for set in Tried::sets(lefts.len()) {
            let before = scan.steps();
            scan.search(lefts.tokens(set), lefts.size(set))?;
            tried.add(scan.steps() - before);
        }
        Ok(tried.pays(self.right.len(), self.request.threads.tuning))
    }

    /// The neighbours of some left sets. `held` grows by what they take.
    fn share(
        &self,
        scan: &mut SetScan<'_>,
        share: Share,
        held: &dyn Memory,
    ) -> Result<ShareNeighbours> {
        let Share { collection, first, end } = share;
        let lefts = self.lefts(collection);
        let mut found =
            ShareNeighbours { share, starts: vec![0], partners: vec![], values: vec![] };
        for set in first..end {
            scan.search(lefts.tokens(set), lefts.size(set))?;
            let before = found.partners.len();
            let rows = match self.request.with_ties {
                true => scan.rows(),
                false => scan.rows().min(self.request.count),
            };
            // Vectors double as they grow.
            held.try_grow(2 * (rows * 12 + 4))?;
            for Searched { set, value } in scan.found() {
                let rows = self.right.groups().rows(set);
                // Of rows in a tie any do, where not all are wanted.
                let most = match self.request.with_ties {
                    true => rows.len(),
                    false => rows.len().min(self.request.count + before - found.partners.len()),
                };
                found.partners.extend(&rows[..most]);
                found.values.extend(std::iter::repeat_n(value, most));
            }
            found.starts.push(found.partners.len() as u32);
        }
        Ok(found)
    }

    /// The neighbours of rows, from the neighbours of their sets.
    fn in_rows(&self, found: Vec<ShareNeighbours>) -> Result<Neighbours> {
        let rows = self.request.sides[0].rows;
        let all: usize = found.iter().map(|found| found.partners.len()).sum();
        if all > u32::MAX as usize {
            return resources_err!("{all} neighbours are more than 2^32");
        }
        let memory = self.request.reservation.new_empty();
        memory.try_grow(all * 12 + rows.len() * 8)?;
        // A row without a set has no neighbours.
        let (starts, counts) = (vec![0; rows.len()], vec![0; rows.len()]);
        let (partners, values) = (Vec::with_capacity(all), Vec::with_capacity(all));
        let (device, memory) = ("cpu".to_string(), vec![memory]);
        let mut neighbours = Neighbours { starts, counts, partners, values, device, memory };
        let place_of = |row: u32| match rows.get(row as usize) {
            Some(same) if *same == row => Some(row as usize),
            _ => rows.binary_search(&row).ok(),
        };
        for ShareNeighbours { share: Share { collection, first, end }, starts, partners, values } in
            found
        {
            let before = neighbours.partners.len() as u32;
            let first_row = self.left.first_row(collection);
            for (set, of_set) in (first..end).zip(starts.windows(2)) {
                for row in self.lefts(collection).groups().rows(set) {
                    let Some(place) = place_of(first_row + row) else { continue };
                    neighbours.starts[place] = before + of_set[0];
                    neighbours.counts[place] = of_set[1] - of_set[0];
                }
            }
            neighbours.partners.extend(partners);
            neighbours.values.extend(values);
        }
        Ok(neighbours)
    }
}
