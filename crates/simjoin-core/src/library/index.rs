//! The side of a search that is indexed.

use std::sync::Arc;

use super::search::PairSearch;
use crate::engine::probing::prepare;
use crate::engine::{
    Collection, Encoded, EncodedPart, FinishContext, KeyDictionary, MatchSpec, PrepareContext,
    PreparedJoin, ProbeEncoder,
};
use crate::error::{Result, internal_err};
use crate::memory::{Memory, Reservation};
use crate::predicate::Side;
use crate::util::parallel::map;

/// Rows that a thread is worth for encoding, at least.
const LEAST_ROWS: usize = 1 << 10;

/// The items of the build side, ready to be probed.
#[derive(Debug)]
pub(super) struct BuildIndex {
    pub items: Arc<dyn Collection>,
    pub encoder: Arc<dyn ProbeEncoder>,
    pub keys: KeyDictionary,
    pub prepared: Arc<dyn PreparedJoin>,
    pub spec: MatchSpec,
    /// The memory of all of these.
    _memory: Reservation,
}

impl BuildIndex {
    /// Indexes the build side of a search.
    ///
    /// # Errors
    ///
    /// When a row cannot be an item, memory is refused, or the search is cancelled.
    pub(super) fn build(search: &PairSearch<'_>) -> Result<Self> {
        let memory = search.memory.reservation();
        let parts = encode(search, search.probe.other(), &memory)?;
        let threads = search.options.threads();
        let context = FinishContext {
            reservation: &memory,
            base: 0,
            peak: &|| {},
            cancel: &search.options.cancel,
            threads,
            meets_others: !search.itself,
            self_join: search.itself,
            probe: Some(search.probe),
        };
        let Encoded { items, encoder, keys } = search.matcher.finish(parts, &context)?;
        let held = items.size_in_bytes() + encoder.size_in_bytes() + keys.size_in_bytes();
        memory.try_resize(held)?;
        let (items, spec): (Arc<dyn Collection>, _) = (items.into(), search.spec());
        let context = PrepareContext::new(&memory, &search.options.cancel, threads);
        let by = (search.strategy, search.options.device);
        let join = (&spec, search.itself);
        let prepared = prepare(search.matcher.as_ref(), by, &items, join, context, |_| Ok(true))?;
        let Some(prepared) = prepared else { return internal_err!("a join was not prepared") };
        Ok(Self { items, encoder, keys, prepared, spec, _memory: memory })
    }
}

/// Reads the rows of a side, several threads some each.
fn encode(search: &PairSearch<'_>, side: Side, memory: &dyn Memory) -> Result<Vec<EncodedPart>> {
    let rows = search.rows(side);
    let (threads, cancel) = (search.options.threads(), &search.options.cancel);
    let slice = rows.rows_per_slice(search.options.memory_limit());
    let share = rows.len().div_ceil(threads.at_most(rows.len() / LEAST_ROWS).count()).max(1);
    let shares = (0..rows.len().max(1)).step_by(share).collect();
    map(threads, shares, |first: usize| {
        let (mut encoder, mut keys) =
            (search.matcher.encoder(side, None)?, KeyDictionary::default());
        let end = rows.len().min(first + share);
        for start in (first..end).step_by(slice) {
            cancel.check()?;
            rows.with_slice(start, slice.min(end - start), |input| {
                encoder.push(start as u32, input, &mut keys, memory, 0)
            })?;
        }
        Ok((encoder, keys))
    })
}
