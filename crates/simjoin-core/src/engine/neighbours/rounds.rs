//! Joins by wider and wider bounds, until every left row has its neighbours.
//!
//! A join by a bound finds every pair whose score is within the bound. A left row that has `k` matches then has its
//! neighbours among them: its `k`-th best score is within the bound. The other left rows are joined with the same
//! right items by a wider bound. The last bound is that of the request.

use std::cell::OnceCell;

use super::bounds::RoundBounds;
use super::search::SearchedRows;
use super::served::{ItemSearch, place_of};
use super::sides::RightItems;
use super::{NeighbourRequest, Neighbours, Round, Way};
use crate::engine::probing::prepare;
use crate::engine::{
    AnyMatcher, DeviceChoice, Family, MatchNeed, MatchSpec, NearestPartners, Orders,
    PrepareContext, PreparedJoin, ProbeRows,
};
use crate::error::{Result, internal_err};
use crate::memory::Memory;
use crate::predicate::Order;
use crate::top::{RoundSample, ScoreKey, TopK, key_of};
use crate::tuning::Size;
use crate::util::evenly::one_of_each;

/// Pairs of rows for which lists of single items are worth making.
const LEAST_PAIRS: Size = Size { usual: 1_000_000, small: 1 };

/// Finds the neighbours of some left rows of a request, and enters them.
///
/// # Errors
///
/// When no strategy can be had, an argument has no value, memory is refused, or the work is cancelled.
pub(super) fn find_by_items(
    family: &dyn Family,
    request: &NeighbourRequest<'_>,
    active: Vec<u32>,
    found: &mut Neighbours,
) -> Result<()> {
    let matcher = family.bind(request.predicate, request.sides.map(|side| side.bound()))?;
    matcher.admit(request.strategy, request.device)?;
    let right = RightItems::read(matcher.as_ref(), request)?;
    let matcher = matcher.as_ref();
    let rounds = Rounds { family, request, matcher, right: &right, sample: OnceCell::new() };
    rounds.run(active, found)
}

/// The joins of some left rows with right items.
struct Rounds<'a> {
    family: &'a dyn Family,
    request: &'a NeighbourRequest<'a>,
    /// The predicate of the last round.
    matcher: &'a dyn AnyMatcher,
    right: &'a RightItems,
    /// The items of some right rows, once they are needed.
    sample: OnceCell<RightItems>,
}

impl Rounds<'_> {
    fn run(&self, mut active: Vec<u32>, found: &mut Neighbours) -> Result<()> {
        let mut asks = self.may_find_at_once(active.len());
        // A search that takes less time than any join needs no sample.
        if asks && let Some(searched) = self.at_once(&active, None)? {
            self.enter(searched, Way::AtOnce("cpu".to_string()), &mut active, found)?;
            asks = false;
        }
        let mut bounds = RoundBounds::new(self.request);
        while !active.is_empty() {
            let rows = [active.len(), self.right_rows().len()];
            let bound = bounds.next(rows, || self.sampled(&active))?;
            let (searched, way) = self.join(&active, bound, std::mem::take(&mut asks))?;
            self.enter(searched, way, &mut active, found)?;
        }
        Ok(())
    }

    /// Whether a strategy may find the neighbours of so many rows at once.
    fn may_find_at_once(&self, rows: usize) -> bool {
        let NeighbourRequest { strategy, device, condition, threads, .. } = *self.request;
        let pairs = rows.saturating_mul(self.right.items.groups().row_count());
        let pays = pairs >= threads.tuning.size(LEAST_PAIRS) || !strategy.is_auto();
        pays && self.matcher.finds_nearest(strategy)
            && !matches!(device, DeviceChoice::Cuda(_))
            && condition.is_none()
    }

    /// Enters what a search has found of the active rows. Its other rows stay active.
    ///
    /// # Errors
    ///
    /// A resources error where there are too many neighbours for their places.
    fn enter(
        &self,
        SearchedRows { found, others }: SearchedRows,
        way: Way,
        active: &mut Vec<u32>,
        to: &mut Neighbours,
    ) -> Result<()> {
        let rows = active.len();
        // A row without an item has no neighbours.
        for place in active.iter().filter_map(|row| place_of(self.request, *row)) {
            to.counts[place] = 0;
        }
        for found in found {
            found.enter(self.request, to)?;
        }
        *active = others;
        to.rounds.push(Round { way, rows, served: rows - active.len() });
        Ok(())
    }

    /// Searches for the nearest partners of items, where a strategy does so in less time than `joins`.
    fn at_once(&self, active: &[u32], joins: Option<f64>) -> Result<Option<SearchedRows>> {
        let NeighbourRequest { strategy, count, with_ties, .. } = *self.request;
        let nearest = Some(NearestPartners { rows: count, with_ties, joins });
        let spec = MatchSpec { nearest, ..self.spec(active.len()) };
        let memory = self.request.reservation.new_empty();
        let context = self.context(memory.as_ref());
        let searched = match self.matcher.nearest(strategy, &self.right.items, &spec, context) {
            Ok(Some(prepared)) => {
                let left = self.right.left(self.matcher, self.request, active)?;
                self.search(prepared.as_ref(), &spec, None).run(&left)
            }
            Ok(None) => return Ok(None),
            Err(error) => Err(error),
        };
        match searched {
            // Rounds take less.
            Err(error) if error.is_out_of_memory() => Ok(None),
            searched => searched.map(Some),
        }
    }

    /// Joins some left rows by a bound, or by that of the last round. Where it `asks`, it searches at once instead if that
    /// takes less time than all rounds.
    fn join(&self, active: &[u32], bound: Option<f64>, asks: bool) -> Result<(SearchedRows, Way)> {
        /// The time of all rounds by that of the first one.
        const ALL_ROUNDS: f64 = 1.5;
        let NeighbourRequest { predicate, sides, strategy, device, .. } = *self.request;
        let narrower = match bound {
            Some(bound) => {
                let arguments = sides.map(|side| side.bound());
                Some(self.family.bind(predicate.with_bound(bound), arguments)?)
            }
            None => None,
        };
        let matcher = narrower.as_deref().unwrap_or(self.matcher);
        let memory = self.request.reservation.new_empty();
        let is_unordered = self.request.itself
            && active.len() == sides[0].rows.len()
            && predicate.call.function.is_symmetric();
        let mut spec = self.spec(active.len());
        if is_unordered {
            (spec.orders, spec.probe_rows) = (Orders::Unordered, ProbeRows::UNKNOWN);
        }
        let (items, context) = (&self.right.items, self.context(memory.as_ref()));
        let (by, join) = ((strategy, device), (&spec, is_unordered));
        let mut at_once = None;
        let prepared = prepare(matcher, by, items, join, context, |chosen| {
            if asks {
                at_once = self.at_once(active, Some(ALL_ROUNDS * chosen.work))?;
            }
            Ok(at_once.is_none())
        })?;
        if let Some(searched) = at_once {
            return Ok((searched, Way::AtOnce("cpu".to_string())));
        }
        let Some(prepared) = prepared else { return internal_err!("a join was not prepared") };
        let left = self.right.left(self.matcher, self.request, active)?;
        let key = bound.map(|bound| key_of(bound, self.order()));
        let way = Way::Bound(bound.unwrap_or(predicate.bound));
        Ok((self.search(prepared.as_ref(), &spec, key).run(&left)?, way))
    }

    fn search<'a>(
        &'a self,
        prepared: &'a dyn PreparedJoin,
        spec: &'a MatchSpec,
        bound: Option<ScoreKey>,
    ) -> ItemSearch<'a> {
        let Self { request, matcher, right, .. } = *self;
        let condition = request.condition;
        ItemSearch { request, matcher, prepared, spec, right, condition, bound }
    }

    fn spec(&self, left: usize) -> MatchSpec {
        let NeighbourRequest { simd, gpu, threads, .. } = *self.request;
        MatchSpec {
            need: MatchNeed::Scores,
            probe_rows: ProbeRows::expected(left as u64),
            simd,
            gpu,
            tuning: threads.tuning,
            ..MatchSpec::default()
        }
    }

    fn context<'a>(&'a self, reservation: &'a dyn Memory) -> PrepareContext<'a> {
        let NeighbourRequest { cancel, threads, .. } = *self.request;
        let kept = Some(&self.right.kept);
        PrepareContext { kept, ..PrepareContext::new(reservation, cancel, threads) }
    }

    /// The numbers of the right rows.
    fn right_rows(&self) -> &[u32] {
        self.request.sides[usize::from(!self.request.itself)].rows
    }

    fn order(&self) -> Order {
        self.request.predicate.call.function.info().order
    }

    /// Scores within which most left rows of a sample have their neighbours, the narrowest one at the end: none where
    /// that is the last one.
    fn sampled(&self, active: &[u32]) -> Result<Vec<f64>> {
        let request = self.request;
        let rights = self.right_rows();
        let sizes =
            RoundSample::of([active.len(), rights.len()], request.count, request.threads.tuning);
        let (lefts, rights) = (some_of(active, sizes.left, 1), some_of(rights, sizes.right, 2));
        let mut sides = request.sides;
        (sides[0].rows, sides[1].rows) = (&lefts, &rights);
        let sample = NeighbourRequest {
            count: sizes.count,
            with_ties: false,
            bounds: None,
            sides,
            itself: false,
            kept: None,
            ..*request
        };
        let right = match self.sample.get() {
            Some(right) => right,
            None => {
                let right = RightItems::read(self.matcher, &sample)?;
                self.sample.get_or_init(|| right)
            }
        };
        let Self { family, matcher, .. } = *self;
        let rounds = Rounds { family, request: &sample, matcher, right, sample: OnceCell::new() };
        let mut found = Neighbours::none(&sample)?;
        let (searched, _) = rounds.join(&lefts, None, false)?;
        for rows in searched.found {
            rows.enter(&sample, &mut found)?;
        }
        let best = TopK::try_new(lefts.len(), sizes.count, false, request.reservation.new_empty())?;
        for place in 0..lefts.len() {
            let Some((partners, values)) = found.of(place) else { continue };
            let keys = values.iter().map(|value| key_of(*value, self.order()));
            best.offer(partners.iter().zip(keys).map(|(right, key)| (place as u32, *right, key)));
        }
        let mut bounds = best.bounds_of_most(self.order());
        bounds.reverse();
        Ok(bounds)
    }
}

/// At most `count` of some numbers: one at random of each few that follow each other, as rows may repeat at equal
/// distances.
fn some_of(numbers: &[u32], count: usize, seed: u64) -> Vec<u32> {
    let places = one_of_each(numbers.len(), numbers.len().div_ceil(count.max(1)), seed);
    places.map(|place| numbers[place as usize]).collect()
}
