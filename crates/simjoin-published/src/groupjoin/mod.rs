//! GroupJoin on the CPU: PPJoin's filters, once for all sets with the same prefix. A device may verify its
//! candidates.
//!
//! GroupJoin was the quickest at two of the 34 stored points at which it ran (`benches/runs`), by 3 and 8%
//! before `ppjoin` and others, where collections have many equal prefixes. A join that knows so
//! beforehand may name it.

mod index;
mod source;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use simjoin_gpu::set::device::{DeviceJoin, OPENER, sending};

use self::source::GroupFilter;
use crate::engine::{
    DeviceOpener, DevicePlace, Estimate, PrepareContext, PreparedJoin, Strategy, Terms,
    required_place,
};
use crate::error::Result;
use crate::set::costs::{self, Deciding, FilterChoice, Filtered, cheapest, nanos};
use crate::set::filter::SignatureScheme;
use crate::set::{CandidateJoin, JoinSpec, SetCollection, SetJoin};
use crate::verified::verified_on_devices;

/// The strategy `groupjoin` (Bouros, Ge, Mamoulis: "Spatio-textual similarity joins", PVLDB 2012).
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupJoin(
    /// The place of verification.
    pub Verification,
);

/// The processor that verifies candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verification {
    Cpu,
    Device,
}

impl Verification {
    fn deciding(self) -> Deciding {
        match self {
            Self::Cpu => costs::on_cpu,
            Self::Device => sending,
        }
    }
}

impl GroupJoin {
    /// The bitmap filter in front of verification or none, and the cost.
    fn parts(join: &SetJoin, place: Verification) -> FilterChoice {
        /// Groups are looked up in both sides' order, by two lists each now and then.
        const LOOKUPS: f64 = 2.5;
        let statistics = &join.statistics;
        let nanos = LOOKUPS * nanos::lookups(statistics) + statistics.postings * nanos::COUNT;
        let candidates = statistics.postings * join.suffix_share(0);
        cheapest(join, place.deciding(), &[Filtered::without_signatures(join, nanos, candidates)])
    }

    /// The join with the bitmap filter, where there is a scheme.
    ///
    /// # Errors
    ///
    /// When memory is refused, or the work cancelled.
    fn prepare_with(
        build: Arc<SetCollection>,
        spec: JoinSpec,
        scheme: Option<SignatureScheme>,
        device: Option<&Arc<DeviceJoin>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        let filter = Arc::new(GroupFilter::try_new(Arc::clone(&build), spec, context)?);
        let join = CandidateJoin::new(build, spec, filter).signed(scheme, context)?;
        match device {
            Some(device) => verified_on_devices(join, device, context.reservation),
            None => Ok(Arc::new(join)),
        }
    }
}

impl Strategy<SetJoin> for GroupJoin {
    fn name(&self) -> &'static str {
        "groupjoin"
    }

    fn devices(&self) -> Option<&'static dyn DeviceOpener<SetJoin>> {
        match self.0 {
            Verification::Cpu => None,
            Verification::Device => Some(&OPENER),
        }
    }

    fn estimate(&self, join: &mut SetJoin, terms: &Terms<'_>) -> Result<Estimate> {
        if join.is_long() {
            join.sample(terms.context)?;
        }
        let parts = Self::parts(join, self.0);
        Ok(Estimate::new(Some(parts.cost), parts))
    }

    fn prepare(
        &self,
        join: &SetJoin,
        estimate: &Estimate,
        place: Option<&Arc<dyn DevicePlace>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        let scheme = estimate.parts::<FilterChoice>()?.signed.then(|| join.scheme());
        let device = match self.0 {
            Verification::Cpu => None,
            Verification::Device => Some(required_place(place)?),
        };
        let build = Arc::clone(&join.build);
        Self::prepare_with(build, join.spec, scheme, device.as_ref(), context)
    }
}
