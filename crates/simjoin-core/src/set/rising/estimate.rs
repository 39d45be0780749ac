//! The work of searches for single sets, beside that of joins with bounds.

use std::ops::Range;
use std::sync::Arc;

use super::lists::{Lists, TokenLists};
use super::scan::SetScan;
use crate::engine::{Cost, NearestPartners, PrepareContext};
use crate::error::Result;
use crate::set::collection::SetCollection;
use crate::set::join::SetJoin;
use crate::set::join_spec::JoinSpec;
use crate::set::runs::SetId;
use crate::util::evenly::Evenly;

/// The most rows of partners: the best ones so far are a list in order.
const MOST_ROWS: usize = 256;

/// Sets whose tokens are looked at, and sets that are searched for.
const LOOKED_AT: u32 = 1 << 10;
const TRIED: u32 = 64;

/// The share of the sets that the rarer half of a set's tokens may find, for which a set is searched for.
const MOST_FOUND: f64 = 0.18;

/// Steps for which no join finds the neighbours of a probe set.
const LEAST_OF_JOINS: f64 = 6e3;

/// The cost of searches for nearest sets, where it is less than that of joins with bounds, and the lists made for it.
/// With small sizes it counts as less, but for a third of the collections.
///
/// # Errors
///
/// When the work is cancelled.
pub(super) fn estimate(
    join: &SetJoin,
    nearest: NearestPartners,
    context: PrepareContext<'_>,
) -> Result<(Option<Cost>, Lists)> {
    let SetJoin { build, spec, statistics, .. } = join;
    let is_beyond = nearest.rows > MOST_ROWS
        || build.is_empty()
        || build.runs().greatest_size() > SetScan::MOST_TOKENS;
    // With small sizes some searches go through rounds, so that tests meet both.
    let is_small = spec.tuning.is_small();
    if is_beyond || is_small && build.row_count().is_multiple_of(3) {
        return Ok((None, None));
    }
    let lists = TokenLists::of(build, context)?;
    if !is_small && share_found(build, &lists) > MOST_FOUND {
        return Ok((None, None));
    }
    let nanos = steps_of_set(build, &lists, *spec, context)? * statistics.probed;
    let of_joins = nearest.joins.unwrap_or(LEAST_OF_JOINS * statistics.probed);
    if !is_small && nanos > of_joins {
        return Ok((None, None));
    }
    Ok((Some(Cost::cpu(nanos)), Some(lists)))
}

/// The sets of the key of a set.
fn of_same_key(build: &SetCollection, set: SetId) -> Range<SetId> {
    build.runs().of_set(set).map_or(0..0, |(run, _)| build.runs().of_one_key(run.key))
}

/// The share of the sets of its key that the rarer half of a set's tokens finds, by some sets.
fn share_found(build: &SetCollection, lists: &TokenLists) -> f64 {
    let (mut found, mut all) = (0, 0);
    for set in Evenly::new(build.len(), LOOKED_AT).iter() {
        let Range { start, end } = of_same_key(build, set);
        let tokens = build.tokens(set);
        let rarer = &tokens[..tokens.len().div_ceil(2)];
        found +=
            rarer.iter().map(|token| lists.within(*token, start, end).len() - 1).sum::<usize>();
        all += (end - start) as usize;
    }
    found as f64 / all.max(1) as f64
}

/// The steps of the search for a set, by some of them.
fn steps_of_set(
    build: &Arc<SetCollection>,
    lists: &Arc<TokenLists>,
    spec: JoinSpec,
    context: PrepareContext<'_>,
) -> Result<f64> {
    let mut scan = SetScan::try_new(build, lists, spec, context.reservation.new_empty())?;
    let tried = Evenly::new(build.len(), TRIED).iter();
    let sets = tried.len().max(1) as f64;
    for set in tried {
        context.cancel.check()?;
        scan.search(build, set, None);
    }
    Ok(scan.steps() as f64 / sets)
}
