//! Sinks of pairs: a list of all pairs, and a callback.

use std::ops::ControlFlow;
use std::sync::Arc;

use parking_lot::Mutex;

use super::expand::PairSink;
use super::pairs::{Pair, Pairs};
use super::search::PairSearch;
use crate::error::Result;
use crate::memory::{Memory, Reservation};
use crate::util::parallel::sort_unstable_by;

/// Pairs that are collected.
pub(super) struct Collected {
    pairs: Vec<Pair>,
    memory: Reservation,
}

impl Collected {
    pub(super) fn new(memory: Reservation) -> Self {
        Self { pairs: vec![], memory }
    }

    /// Adds pairs, whose memory is reserved before.
    pub(super) fn extend(&mut self, pairs: &[Pair]) -> Result<()> {
        let needed = self.pairs.len() + pairs.len();
        if needed > self.pairs.capacity() {
            let capacity = needed.max(2 * self.pairs.capacity());
            // While they move, the former place is taken, too.
            let former = self.memory.size();
            self.memory.try_grow(capacity * size_of::<Pair>())?;
            self.pairs.reserve_exact(capacity - self.pairs.len());
            self.memory.shrink(former);
        }
        self.pairs.extend_from_slice(pairs);
        Ok(())
    }

    /// All pairs of several threads, in an order by a key that no two pairs share.
    pub(super) fn sorted<K: Ord>(
        all: Vec<Self>,
        search: &PairSearch<'_>,
        key: impl Fn(&Pair) -> K + Copy + Sync,
    ) -> Result<Pairs> {
        let (cancel, threads) = (&search.options.cancel, search.options.threads());
        let mut all = all.into_iter();
        let mut first = all.next().unwrap_or_else(|| Self::new(search.memory.reservation()));
        for Self { pairs, memory } in all {
            first.extend(&pairs)?;
            drop((pairs, memory));
        }
        let mut pairs = first.pairs;
        sort_unstable_by(threads, &mut pairs, cancel, |a, b| key(a).cmp(&key(b)))?;
        Ok(Pairs::new(pairs))
    }
}

impl PairSink for Collected {
    fn give(&mut self, pairs: &mut Vec<Pair>) -> Result<ControlFlow<()>> {
        self.extend(pairs)?;
        pairs.clear();
        Ok(ControlFlow::Continue(()))
    }
}

/// A function that is called back with batches of pairs, by one thread at a time, until it breaks.
pub(super) struct Callback<B, F> {
    state: Arc<Mutex<CallState<B, F>>>,
}

struct CallState<B, F> {
    call: F,
    /// The value that the function broke with.
    broken: Option<B>,
    /// The function runs, or has panicked.
    is_running: bool,
}

impl<B, F> Callback<B, F> {
    pub(super) fn new(call: F) -> Self {
        Self { state: Arc::new(Mutex::new(CallState { call, broken: None, is_running: false })) }
    }

    /// The value that the function broke with.
    pub(super) fn broken(self) -> Option<B> {
        self.state.lock().broken.take()
    }
}

impl<B, F> Clone for Callback<B, F> {
    fn clone(&self) -> Self {
        Self { state: Arc::clone(&self.state) }
    }
}

impl<B: Send, F: FnMut(&[Pair]) -> ControlFlow<B> + Send> PairSink for Callback<B, F> {
    fn give(&mut self, pairs: &mut Vec<Pair>) -> Result<ControlFlow<()>> {
        let mut state = self.state.lock();
        if state.broken.is_some() || state.is_running {
            return Ok(ControlFlow::Break(()));
        }
        state.is_running = true;
        let flow = (state.call)(pairs);
        state.is_running = false;
        pairs.clear();
        Ok(match flow {
            ControlFlow::Continue(()) => ControlFlow::Continue(()),
            ControlFlow::Break(value) => {
                state.broken = Some(value);
                ControlFlow::Break(())
            }
        })
    }
}
