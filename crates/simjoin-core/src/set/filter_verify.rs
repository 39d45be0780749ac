//! The strategies that filter by an inverted index over prefixes, and verify candidates by merging.

use std::sync::Arc;

use crate::engine::{Estimate, PrepareContext, PreparedJoin, Strategy, Terms};
use crate::error::Result;
use crate::set::candidate_join::CandidateJoin;
use crate::set::candidate_source::CandidateFilter;
use crate::set::collection::SetCollection;
use crate::set::costs::{self, Parts, Verification};
use crate::set::device::DeviceJoin;
use crate::set::filter::{PositionalIndex, PrefixIndex, SignatureScheme};
use crate::set::join::SetJoin;
use crate::set::join_spec::JoinSpec;

/// Candidates from an inverted index over prefixes, verified by merging.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterVerify {
    /// Prefix and length filter (Bayardo, Ma, Srikant: "Scaling up all pairs similarity search",
    /// WWW 2007).
    AllPairs,
    /// And the positional filter (Xiao, Wang, Lin, Yu: "Efficient similarity joins for near
    /// duplicate detection", WWW 2008).
    PPJoin,
}

impl Strategy<SetJoin> for FilterVerify {
    fn name(&self) -> &'static str {
        match self {
            Self::AllPairs => "allpairs",
            Self::PPJoin => "ppjoin",
        }
    }

    fn estimate(&self, join: &mut SetJoin, terms: &Terms<'_>) -> Result<Estimate> {
        if join.is_long() {
            join.sample(terms.context)?;
        }
        let parts = self.cheapest(join, Verification::Cpu);
        Ok(Estimate::new(Some(parts.cost), parts))
    }

    fn prepare(
        &self,
        join: &SetJoin,
        estimate: &Estimate,
        _: Option<&Arc<DeviceJoin>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        self.prepare_parts(join, *estimate.parts()?, None, context)
    }
}

impl FilterVerify {
    /// The parts that take the least time where candidates are verified there.
    pub fn cheapest(self, join: &SetJoin, place: Verification) -> Parts {
        match self {
            Self::AllPairs => costs::all_pairs(join, place),
            Self::PPJoin => costs::positional(join, place),
        }
    }

    /// The join on the CPU with its cheapest parts, in place of a strategy for which devices lack the memory.
    pub(crate) fn prepare_on_cpu(
        self,
        join: &SetJoin,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        self.prepare_parts(join, self.cheapest(join, Verification::Cpu), None, context)
    }

    /// The join with given parts, its candidates verified on devices where some are given.
    ///
    /// # Errors
    ///
    /// When memory is refused, or the work cancelled.
    pub fn prepare_parts(
        self,
        join: &SetJoin,
        Parts { words, signed, .. }: Parts,
        device: Option<&Arc<DeviceJoin>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        let scheme = signed.then(|| join.scheme());
        self.prepare_with(Arc::clone(&join.build), join.spec, (words, scheme), device, context)
    }

    /// The join with posting signatures of `words` words of 32 bits (those of PPJoin: 0, 1, 2 or
    /// 4) and, where there is a scheme, the bitmap filter.
    pub(crate) fn prepare_with(
        self,
        build: Arc<SetCollection>,
        spec: JoinSpec,
        (words, scheme): (usize, Option<SignatureScheme>),
        device: Option<&Arc<DeviceJoin>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        let sets = Arc::clone(&build);
        let filter: Arc<dyn CandidateFilter> = match self {
            Self::AllPairs => Arc::new(PrefixIndex::try_new(sets, spec, context)?),
            Self::PPJoin => Arc::new(PositionalIndex::try_new(sets, spec, words, context)?),
        };
        let join = CandidateJoin::new(build, spec, filter).signed(scheme, context)?;
        Ok(join.on(device, context.reservation))
    }
}
