//! The strategies that filter by an inverted index over prefixes, and verify candidates by merging.

use std::sync::Arc;

use crate::engine::{DevicePlace, Estimate, PrepareContext, PreparedJoin, Strategy, Terms};
use crate::error::Result;
use crate::set::candidate_join::CandidateJoin;
use crate::set::candidate_source::CandidateFilter;
use crate::set::collection::SetCollection;
use crate::set::costs::{self, Deciding, FilterChoice};
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
        let parts = self.cheapest(join, costs::on_cpu);
        Ok(Estimate::new(Some(parts.cost), parts))
    }

    fn prepare(
        &self,
        join: &SetJoin,
        estimate: &Estimate,
        _: Option<&Arc<dyn DevicePlace>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        Ok(Arc::new(self.candidates(join, *estimate.parts()?, context)?))
    }
}

impl FilterVerify {
    /// The parts that take the least time where candidates are decided at this cost.
    pub fn cheapest(self, join: &SetJoin, deciding: Deciding) -> FilterChoice {
        match self {
            Self::AllPairs => costs::all_pairs(join, deciding),
            Self::PPJoin => costs::positional(join, deciding),
        }
    }

    /// The join on the CPU with its cheapest parts, in place of a strategy for which devices lack the memory.
    ///
    /// # Errors
    ///
    /// When memory is refused, or the work cancelled.
    pub fn prepare_on_cpu(
        self,
        join: &SetJoin,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        Ok(Arc::new(self.candidates(join, self.cheapest(join, costs::on_cpu), context)?))
    }

    /// The join with given parts.
    ///
    /// # Errors
    ///
    /// When memory is refused, or the work cancelled.
    pub fn candidates(
        self,
        join: &SetJoin,
        FilterChoice { words, signed, .. }: FilterChoice,
        context: PrepareContext<'_>,
    ) -> Result<CandidateJoin> {
        let scheme = signed.then(|| join.scheme());
        self.candidates_with(Arc::clone(&join.build), join.spec, (words, scheme), context)
    }

    /// The join with posting signatures of `words` words of 32 bits (those of PPJoin: 0, 1, 2 or
    /// 4) and, where there is a scheme, the bitmap filter.
    ///
    /// # Errors
    ///
    /// When memory is refused, or the work cancelled.
    pub fn candidates_with(
        self,
        build: Arc<SetCollection>,
        spec: JoinSpec,
        (words, scheme): (usize, Option<SignatureScheme>),
        context: PrepareContext<'_>,
    ) -> Result<CandidateJoin> {
        let sets = Arc::clone(&build);
        let filter: Arc<dyn CandidateFilter> = match self {
            Self::AllPairs => Arc::new(PrefixIndex::try_new(sets, spec, context)?),
            Self::PPJoin => Arc::new(PositionalIndex::try_new(sets, spec, words, context)?),
        };
        CandidateJoin::new(build, spec, filter).signed(scheme, context)
    }
}
