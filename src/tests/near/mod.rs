//! Integers within a distance: the smallest family there can be.
//!
//! `int_distance(a, b) <= d` joins `Int32` columns. The items are the distinct integers of each blocking key in
//! ascending order, and the only strategy looks partners up by bisection. It shows all that a family has to
//! bring (docs/contributing.md goes through it step by step), and proves that nothing above the boundary knows
//! sets: join types, filters, keys, counts, disk and the cluster's grid run with it unchanged.

mod encode;
mod function;
mod sql;

use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::DataType;
use simjoin_core::memory::Memory;

use self::encode::Values;
use self::function::INT_DISTANCE;
use crate::engine::{
    AnyMatcher, Argument, Axis, Collection, Cost, Cursor, DevicePlace, Estimate, Family, ItemId,
    ItemPair, Lookup, Match, MatchSpec, Matcher, Pairing, PlaceReader, PrepareContext,
    PreparedJoin, RowPlaces, Strategy, Terms, Unit, check_arguments, lookup_cursor,
};
use crate::error::Result;
use crate::spec::{Call, Function, Predicate, Side};

/// Step 1: the family.
#[derive(Debug)]
pub(crate) struct NearFamily;

impl Family for NearFamily {
    fn name(&self) -> &'static str {
        INT_DISTANCE.family()
    }

    fn functions(&self) -> Vec<Function> {
        vec![INT_DISTANCE]
    }

    fn selectivity(&self, predicate: &Predicate) -> [f64; 2] {
        [-predicate.bound, 0.0]
    }

    fn bind(&self, of: Predicate, arguments: [Argument<'_>; 2]) -> Result<Arc<dyn AnyMatcher>> {
        let names = ["Int32 columns", " to INT"];
        check_arguments(&of.call, arguments, |of| *of == DataType::Int32, names)?;
        Ok(Arc::new(Near::from(of)))
    }

    fn axis(&self, of: Predicate) -> Result<Arc<dyn Axis>> {
        Ok(Arc::new(Near::from(of)))
    }

    fn place_reader(&self, of: Predicate, _: Side, _: &DataType) -> Result<Box<dyn PlaceReader>> {
        Ok(Box::new(RowPlaces::new(Near::from(of))))
    }
}

/// The predicate: the greatest distance of a match, negative where nothing matches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Near(i64);

impl From<Predicate> for Near {
    /// Where the bound is not a number, no distance qualifies.
    fn from(predicate: Predicate) -> Self {
        Self(predicate.bound.floor().max(-1.0) as i64)
    }
}

/// Step 2: the axis, by which the pieces on disk and the tiles of a cluster are made. Two neighbouring
/// integers share a position.
impl Axis for Near {
    fn reach(&self, _: Side, positions: Range<u32>) -> Option<Range<u64>> {
        let steps = u64::try_from(self.0).ok()? / 2 + 1;
        let least = u64::from(positions.start).saturating_sub(steps).max(1);
        Some(least..u64::from(positions.end) + steps)
    }
}

/// Step 4: the matcher.
impl Matcher for Near {
    type Join = NearJoin;

    fn strategies(&self) -> &[&'static dyn Strategy<NearJoin>] {
        &[&Bisection]
    }

    fn join(&self, build: &Arc<Values>, of: &MatchSpec, _: PrepareContext<'_>) -> Result<NearJoin> {
        Ok(NearJoin { build: Arc::clone(build), reach: self.0, spec: *of })
    }

    fn scores(&self, _: Call, of: [&Values; 2], at: &[ItemPair], to: &mut Vec<f64>) -> Result<()> {
        let value = |side: usize, pair: &ItemPair| of[side].items[pair.items[side] as usize].1;
        to.extend(at.iter().map(|pair| value(0, pair).abs_diff(value(1, pair)) as f64));
        Ok(())
    }
}

/// The join of a build side.
#[derive(Debug, Clone)]
pub(crate) struct NearJoin {
    build: Arc<Values>,
    reach: i64,
    spec: MatchSpec,
}

/// Step 6: a strategy, which looks the partners of a probe item up among the build items, which are sorted.
#[derive(Debug)]
struct Bisection;

impl Strategy<NearJoin> for Bisection {
    fn name(&self) -> &'static str {
        "bisection"
    }

    fn estimate(&self, join: &mut NearJoin, _: &Terms<'_>) -> Result<Estimate> {
        let items = f64::from(join.build.groups().len());
        Ok(Estimate::new(Some(Cost::cpu(items * (items + 2.0).log2())), ()))
    }

    fn prepare(
        &self,
        join: &NearJoin,
        _: &Estimate,
        _: Option<&Arc<dyn DevicePlace>>,
        _: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        Ok(Arc::new(join.clone()))
    }
}

impl PreparedJoin for NearJoin {
    fn open(&self, _: &dyn Memory) -> Result<Box<dyn Cursor>> {
        let lookup = Bisecting { join: self.clone(), probe: 0, partners: 0..0 };
        let MatchSpec { need, tuning, .. } = self.spec;
        Ok(lookup_cursor(lookup, &self.build, (need, self.spec.pairing()), tuning))
    }
}

/// The item that was looked up last, and its partners that have not been given.
struct Bisecting {
    join: NearJoin,
    probe: ItemId,
    partners: Range<ItemId>,
}

impl Lookup for Bisecting {
    type Items = Values;

    fn look_up(&mut self, of: &mut Unit<Values>, found: &mut Vec<Match>) -> Result<Option<u64>> {
        let NearJoin { build, reach, spec } = &self.join;
        if self.partners.is_empty() {
            let Some(probe) = of.range.next() else { return Ok(None) };
            let mut partners = build.partners(of.items.items[probe as usize], *reach);
            if spec.pairing() == Pairing::Unordered {
                // With itself and those before it.
                partners.end = partners.end.min(probe + 1);
            }
            (self.probe, self.partners) = (probe, partners);
        }
        let partners = self.partners.by_ref().take(1000);
        found.extend(partners.map(|build| Match { probe: self.probe, build, detail: 0 }));
        Ok(Some(0))
    }
}
