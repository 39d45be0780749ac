//! The strategies of sets, as the operator knows them.

use std::sync::Arc;

use datafusion::common::Result;

use crate::engine::{
    self, Collection, Cost, DevicePlace, Evidence, Placement, PreparedJoin, StartTimes, Strategy,
};
use crate::set::{
    BitmapBlocks, DeviceJoin, FilterVerify, IndexedJoin, JoinSpec, JoinStrategy, PrepareContext,
    ScanCount, SetCollection, Statistics,
};

/// Every strategy that `auto` compares, in the order in which equal estimates are preferred.
pub(crate) static STRATEGIES: [&dyn Strategy; 5] =
    [&BitmapBlocks, &FilterVerify::PPJoin, &FilterVerify::AllPairs, &ScanCount, &IndexedJoin];

/// Joins estimated to take less (nanoseconds of a core) are not worth a sample.
const WORTH_SAMPLING: f64 = 12e6;

/// Figures of a collection and the join it is for.
#[derive(Debug)]
pub(crate) struct SetEvidence {
    pub statistics: Statistics,
    pub spec: JoinSpec,
}

impl Evidence for SetEvidence {}

impl SetEvidence {
    /// Gathers the figures by which `strategies` are compared, for `probes` times as many probe rows as
    /// build rows. Pairs of sets are tried only where the join is long enough for that to pay.
    pub(crate) fn gather(
        build: &SetCollection,
        spec: JoinSpec,
        probes: f64,
        strategies: &[&'static dyn Strategy],
        context: engine::PrepareContext<'_>,
    ) -> Result<Self> {
        let statistics = Statistics::gather(build, &spec, context.into())?;
        let mut statistics = match context.probes {
            Some(of_positions) => statistics.probed_by(build, &spec, of_positions),
            None => statistics.with_probes(probes),
        };
        let ppjoin = FilterVerify::PPJoin;
        let indexed = JoinStrategy::estimate(&ppjoin, &statistics, &spec, Placement::Cpu);
        let bitmap = JoinStrategy::name(&BitmapBlocks);
        let counted = JoinStrategy::name(&ScanCount);
        let is_only = |name: &str| matches!(strategies, [one] if one.name() == name);
        let is_long = indexed.cpu > WORTH_SAMPLING;
        if is_only(counted) || is_long && statistics.has_large_sets() {
            statistics.count_frequencies(build, &spec, indexed.cpu, context.into())?;
        }
        if is_only(bitmap) || is_long && !is_only(counted) {
            statistics.sample(build, &spec, indexed.cpu, context.into())?;
        }
        Ok(Self { statistics, spec })
    }
}

impl<S: JoinStrategy> Strategy for S {
    fn name(&self) -> &'static str {
        JoinStrategy::name(self)
    }

    fn runs_on(&self, placement: Placement) -> bool {
        JoinStrategy::runs_on(self, placement)
    }

    fn estimate(&self, evidence: &dyn Evidence, placement: Placement) -> Result<Cost> {
        let SetEvidence { statistics, spec } = evidence.of()?;
        Ok(JoinStrategy::estimate(self, statistics, spec, placement))
    }

    fn prepare(
        &self,
        build: &Arc<dyn Collection>,
        evidence: &dyn Evidence,
        device: Option<&Arc<dyn DevicePlace>>,
        context: engine::PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        let SetEvidence { statistics, spec } = evidence.of()?;
        let device = device.map(|device| device.shared::<DeviceJoin>()).transpose()?;
        let context = PrepareContext { device: device.as_ref(), ..context.into() };
        JoinStrategy::prepare(self, build.shared()?, *spec, statistics, context)
    }
}

impl DevicePlace for DeviceJoin {
    fn has_refused(&self) -> bool {
        self.devices.have_refused()
    }

    fn start_times(&self) -> StartTimes {
        self.devices.start_times()
    }
}
