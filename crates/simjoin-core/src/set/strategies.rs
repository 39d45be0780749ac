//! The strategies of sets, as the operator knows them.

use std::sync::Arc;

use crate::engine::{PrepareContext, Strategy};
use crate::error::Result;
use crate::set::bitmap::BitmapBlocks;
use crate::set::bitsliced::{self, BitSliced};
use crate::set::collection::SetCollection;
use crate::set::costs;
use crate::set::filter_verify::FilterVerify;
use crate::set::join::SetJoin;
use crate::set::join_spec::JoinSpec;
use crate::set::rising::Rising;
use crate::set::scancount::ScanCount;
use crate::set::statistics::Statistics;

/// Every strategy on the CPU that `auto` compares, in the order in which equal estimates are preferred.
pub static STRATEGIES: &[&dyn Strategy<SetJoin>] = &[
    &BitmapBlocks,
    &FilterVerify::PPJoin,
    &FilterVerify::AllPairs,
    &BitSliced,
    &ScanCount,
    &Rising,
];

/// A join for a choice among the strategies, with `probes` times as many probe rows as build rows.
///
/// # Errors
///
/// When memory is refused, or the work cancelled.
pub fn join(
    build: Arc<SetCollection>,
    spec: JoinSpec,
    probes: f64,
    context: PrepareContext<'_>,
) -> Result<SetJoin> {
    let statistics = Statistics::gather(&build, &spec, context)?;
    let statistics = match context.probes {
        Some(of_positions) => statistics.probed_by(&build, &spec, of_positions),
        None => statistics.with_probes(probes),
    };
    Ok(SetJoin::new(build, spec, statistics, costs::indexed, bitsliced::estimated))
}
