//! GroupJoin on the CPU: PPJoin's filters, once for all sets with the same prefix.
//!
//! Of 34 stored points at which it ran (`benches/runs`) it was the quickest at two, by 3 and 8% before
//! `ppjoin` and others, where collections have many equal prefixes. A join that knows so beforehand may
//! name it.

mod index;
mod source;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use self::source::GroupFilter;
use crate::engine::{Cost, Cursor, Pairing, Placement, PreparedJoin};
use crate::set::costs::{Filtered, Parts, Verification, cheapest_of, nanos};
use crate::set::filter::{SignatureScheme, Signatures};
use crate::set::filter_verify::{SignatureFilter, Verifiers};
use crate::set::{JoinSpec, JoinStrategy, PrepareContext, SetCollection, Statistics};

/// The strategy `groupjoin` (Bouros, Ge, Mamoulis: "Spatio-textual similarity joins", PVLDB 2012).
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupJoin;

impl GroupJoin {
    /// The bitmap filter in front of verification or none, and the cost.
    fn parts(statistics: &Statistics, spec: &JoinSpec, place: Verification) -> Parts {
        /// Groups are looked up in both sides' order, by two lists each now and then.
        const LOOKUPS: f64 = 2.5;
        let lookups = nanos::lookups(statistics);
        let filtered = Filtered {
            words: 0,
            nanos: LOOKUPS * lookups + statistics.postings * nanos::COUNT,
            candidates: statistics.postings * statistics.suffix_share(0),
            signed: statistics.signed_share(0),
        };
        cheapest_of(&[filtered], statistics, spec, place)
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
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        let filter = Arc::new(GroupFilter::try_new(Arc::clone(&build), spec, context)?);
        let signatures = match scheme {
            Some(scheme) => Some(Arc::new(Signatures::try_new(&build, scheme, context)?)),
            None => None,
        };
        let verifiers = Verifiers::new(build, spec, context.device);
        Ok(Arc::new(PreparedGroupJoin { filter, signatures, pairing: spec.pairing, verifiers }))
    }
}

impl JoinStrategy for GroupJoin {
    fn name(&self) -> &'static str {
        "groupjoin"
    }

    fn runs_on(&self, _: Placement) -> bool {
        true
    }

    fn estimate(&self, statistics: &Statistics, spec: &JoinSpec, placement: Placement) -> Cost {
        let place = match placement {
            Placement::Cpu => Verification::Cpu,
            Placement::Gpu => Verification::Device,
        };
        Self::parts(statistics, spec, place).cost
    }

    fn prepare(
        &self,
        build: Arc<SetCollection>,
        spec: JoinSpec,
        statistics: &Statistics,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        let Parts { signed, .. } = Self::parts(statistics, &spec, context.verification());
        let scheme = signed.then(|| statistics.scheme(&build));
        Self::prepare_with(build, spec, scheme, context)
    }
}

#[derive(Debug)]
struct PreparedGroupJoin {
    filter: Arc<GroupFilter>,
    signatures: Option<Arc<Signatures>>,
    pairing: Pairing,
    verifiers: Verifiers,
}

impl PreparedJoin for PreparedGroupJoin {
    fn open(&self, reservation: &MemoryReservation) -> Result<Box<dyn Cursor>> {
        let signatures = self.signatures.clone();
        let signatures = signatures.map(|all| SignatureFilter::new(all, self.pairing));
        let source = || GroupFilter::source(&self.filter, reservation);
        self.verifiers.open(source, signatures, reservation)
    }
}
