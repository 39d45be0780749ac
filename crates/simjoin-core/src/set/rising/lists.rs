//! The sets of each token, ascending: those of one key together, small ones first.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::engine::PrepareContext;
use crate::error::Result;
use crate::memory::Reservation;
use crate::set::collection::SetCollection;
use crate::set::runs::SetId;

/// The lists that an estimate has made.
pub(super) type Lists = Option<Arc<TokenLists>>;

/// The lists of the sets of a search, for further estimates.
#[derive(Debug, Default)]
struct KeptLists(Mutex<Option<(Arc<TokenLists>, Reservation)>>);

/// The sets of each token.
#[derive(Debug)]
pub(super) struct TokenLists {
    /// The sets of token `t` are `sets[starts[t]..starts[t + 1]]`, ascending.
    starts: Vec<u64>,
    sets: Vec<SetId>,
}

impl TokenLists {
    /// The lists of a collection, which other estimates for the same items may have made.
    ///
    /// # Errors
    ///
    /// When memory is refused, or the work cancelled.
    pub(super) fn of(collection: &SetCollection, context: PrepareContext<'_>) -> Result<Arc<Self>> {
        let Some(kept) = context.kept else {
            return Self::try_new(collection, context).map(Arc::new);
        };
        let kept = kept.get::<KeptLists>();
        let mut kept = kept.0.lock();
        if let Some((lists, _)) = &*kept {
            return Ok(Arc::clone(lists));
        }
        let memory = context.reservation.new_empty();
        let of_kept = PrepareContext { reservation: &memory, ..context };
        let lists = Arc::new(Self::try_new(collection, of_kept)?);
        *kept = Some((Arc::clone(&lists), memory));
        Ok(lists)
    }

    /// The bytes of the lists of sets with `tokens` tokens together, `universe` of them different.
    pub(super) fn bytes(tokens: usize, universe: usize) -> usize {
        (universe + 2) * size_of::<u64>() + tokens * size_of::<SetId>()
    }

    /// The lists of a collection. The reservation of `context` grows by their bytes.
    ///
    /// # Errors
    ///
    /// When memory is refused, or the work cancelled.
    pub(super) fn try_new(collection: &SetCollection, context: PrepareContext<'_>) -> Result<Self> {
        let PrepareContext { reservation, cancel, .. } = context;
        let universe = collection.universe() as usize;
        reservation.try_grow(Self::bytes(collection.token_count(), universe))?;
        let mut starts = vec![0_u64; collection.universe() as usize + 2];
        let (_, tokens) = collection.csr();
        // The place behind the next token counts a token: filling moves it to where that one begins.
        tokens.iter().for_each(|token| starts[*token as usize + 2] += 1);
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        let mut sets = vec![0; tokens.len()];
        for set in 0..collection.len() {
            cancel.check_at(set as usize)?;
            for token in collection.tokens(set) {
                let place = &mut starts[*token as usize + 1];
                sets[*place as usize] = set;
                *place += 1;
            }
        }
        Ok(Self { starts, sets })
    }

    /// The sets of a token, ascending.
    #[inline]
    pub(super) fn sets(&self, token: u32) -> &[SetId] {
        let [start, end] = [0, 1].map(|next| self.starts[token as usize + next] as usize);
        &self.sets[start..end]
    }

    /// The sets of a token from one on and before another one.
    #[inline]
    pub(super) fn within(&self, token: u32, first: SetId, end: SetId) -> &[SetId] {
        let list = self.sets(token);
        let from = if first == 0 { 0 } else { list.partition_point(|set| *set < first) };
        let list = &list[from..];
        match list.last() {
            Some(last) if *last >= end => &list[..list.partition_point(|set| *set < end)],
            _ => list,
        }
    }
}
