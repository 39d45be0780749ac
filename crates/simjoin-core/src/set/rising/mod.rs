//! The nearest sets of each set, by a bound of its own that rises while they are found.
//!
//! ```text
//! lists.rs     the sets of each token
//! best.rs      the best sets of a set, whose bound rises as they are found
//! scan.rs      the search of a set: tokens rarest first, until no other set can be among the best
//! estimate.rs  whether this is less work than joins with bounds
//! ```
//!
//! The rarest tokens of a probe set find sets that share several, whose values make the bound; the other tokens are
//! looked up only for sizes of sets that may still reach it: a prefix filter by the bound and the size of each pair, one
//! token longer than is needed where that rules out sets that share one alone (Wang, Li, Feng, "Can we beat the prefix
//! filtering?", SIGMOD 2012, section 4). Where most tokens are frequent, bit-sliced joins are better.
//!
//! A join of all pairs has the same bound for all sets, which does not rise.

mod best;
mod estimate;
mod lists;
mod scan;

use std::sync::Arc;

use self::estimate::estimate;
use self::lists::{Lists, TokenLists};
use self::scan::SetScan;
use crate::engine::{
    Cost, Cursor, DevicePlace, Estimate, Lookup, Match, Pairing, PrepareContext, PreparedJoin,
    Strategy, Terms, lookup_cursor,
};
use crate::error::{Result, exec_err};
use crate::memory::Memory;
use crate::set::collection::SetCollection;
use crate::set::join::SetJoin;
use crate::set::join_spec::{JoinSpec, SetUnit};
use crate::tuning::Size;

/// The strategy `rising`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rising;

impl Strategy<SetJoin> for Rising {
    fn name(&self) -> &'static str {
        "rising"
    }

    fn finds_nearest(&self) -> bool {
        true
    }

    fn estimate(&self, join: &mut SetJoin, terms: &Terms<'_>) -> Result<Estimate> {
        let (cost, lists) = match join.spec.nearest {
            Some(nearest) => estimate(join, nearest, terms.context)?,
            // A join of all pairs has better strategies, but for one that names this.
            None => (terms.is_only.then(|| Cost::cpu(join.indexed)), None),
        };
        Ok(Estimate::new(cost, lists))
    }

    fn prepare(
        &self,
        join: &SetJoin,
        estimate: &Estimate,
        _: Option<&Arc<dyn DevicePlace>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        let most = join.build.runs().greatest_size();
        if most > SetScan::MOST_TOKENS {
            return exec_err!(
                "simjoin.strategy = 'rising' joins sets of at most {} tokens, and one has {most}; use \
                 'auto' or 'scancount'",
                SetScan::MOST_TOKENS
            );
        }
        let lists = match estimate.parts::<Lists>()? {
            Some(lists) => Arc::clone(lists),
            None => TokenLists::of(&join.build, context)?,
        };
        Ok(Arc::new(PreparedLists { build: Arc::clone(&join.build), spec: join.spec, lists }))
    }
}

impl Rising {
    /// A bound on the bytes that [`Strategy::prepare`] reserves, by the numbers of sets and of their tokens.
    pub(super) fn prepared_bytes(tokens: usize) -> usize {
        TokenLists::bytes(tokens, tokens)
    }

    /// A bound on the bytes of a cursor of a join of all pairs.
    pub(super) fn cursor_bytes(sets: usize) -> usize {
        SetScan::bytes(sets, None)
    }
}

#[derive(Debug)]
struct PreparedLists {
    build: Arc<SetCollection>,
    spec: JoinSpec,
    lists: Arc<TokenLists>,
}

impl PreparedJoin for PreparedLists {
    fn open(&self, reservation: &dyn Memory) -> Result<Box<dyn Cursor>> {
        let memory = reservation.new_empty();
        let scan = SetScan::try_new(&self.build, &self.lists, self.spec, memory)?;
        let JoinSpec { need, pairing, tuning, .. } = self.spec;
        let lookup = RisingLookup { scan, spec: self.spec };
        Ok(lookup_cursor(lookup, &self.build, (need, pairing), tuning))
    }
}

/// Searches for the partners of the sets of a unit.
struct RisingLookup {
    scan: SetScan,
    spec: JoinSpec,
}

impl Lookup for RisingLookup {
    type Items = SetCollection;

    fn look_up(&mut self, unit: &mut SetUnit, found: &mut Vec<Match>) -> Result<Option<u64>> {
        /// Steps of about a nanosecond between two looks at the clock.
        const STEPS: Size<u64> = Size { usual: 1_000_000, small: 20 };
        if unit.range.is_empty() {
            return Ok(None);
        }
        let JoinSpec { bounds, probe_role, pairing, .. } = self.spec;
        let (decided, until) =
            (self.scan.decided(), self.scan.steps() + self.spec.tuning.size(STEPS));
        for probe in unit.range.by_ref() {
            let bound = unit.bounds.as_ref().and_then(|bounds| bounds.get(probe as usize));
            self.scan.search(&unit.items, probe, bound.copied());
            let partners = self.scan.found();
            found.extend(partners.map(|(build, detail)| Match { probe, build, detail }));
            let detail = unit.items.size(probe);
            if pairing == Pairing::Unordered && bounds.sizes_can_match(probe_role, detail, detail) {
                found.push(Match { probe, build: probe, detail });
            }
            if self.scan.steps() >= until {
                break;
            }
        }
        Ok(Some(self.scan.decided() - decided))
    }
}
