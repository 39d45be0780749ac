//! The tokens of a collection by how many sets have them.

use super::bits::TokenBitmaps;
use super::lists::SliceLists;
use super::rates::heavy_from;
use super::walk::{SPAN, Walk, count, pieces};
use crate::engine::{Pairing, PrepareContext};
use crate::error::Result;
use crate::set::collection::SetCollection;
use crate::set::join_spec::JoinSpec;
use crate::util::parallel;

/// Lists of sets for rare tokens and bits for frequent ones.
#[derive(Debug)]
pub(super) struct Split {
    pub lists: SliceLists,
    pub bits: TokenBitmaps,
}

impl Split {
    pub(super) fn try_new(
        build: &SetCollection,
        spec: &JoinSpec,
        context: PrepareContext<'_>,
    ) -> Result<Self> {
        let (universe, threads) = (build.universe(), context.threads);
        let counting = universe as usize * size_of::<u32>()
            + threads.count() * Walk::footprint(build.len() as usize);
        context.reservation.try_grow(counting)?;
        let mut counts = parallel::filled(threads, universe as usize, 0_u32);
        parallel::for_each(threads, pieces(0, &mut counts, threads), |(first, counts)| {
            let how = (threads.tuning.size(SPAN), context.cancel);
            count(build, 0..build.len(), first, counts, how)
        })?;
        // A token of one set brings no two sets of one collection together.
        let first = match spec.pairing {
            Pairing::All => 0,
            Pairing::Unordered => counts.iter().take_while(|&&count| count <= 1).count(),
        };
        let least = heavy_from(u64::from(build.len()), spec.simd, spec.tuning);
        let others = counts[first..].iter().rev();
        let heavy = others.take_while(|&&count| u64::from(count) >= least).count();
        let end = universe as usize - heavy;
        let ranks = first as u32..end as u32;
        let lists = SliceLists::try_new(build, ranks, &counts[first..end], context)?;
        drop(counts);
        context.reservation.shrink(counting);
        Ok(Self { lists, bits: TokenBitmaps::try_new(build, end as u32, context)? })
    }
}
