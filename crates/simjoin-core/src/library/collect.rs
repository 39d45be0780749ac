//! Sinks of pairs: a list of all pairs, and a callback.

use std::ops::ControlFlow;
use std::sync::Arc;

use parking_lot::Mutex;

use super::expand::PairSink;
use super::pairs::{Pair, Pairs};
use super::search::PairSearch;
use crate::error::Result;
use crate::memory::{CountedVec, Memory};
use crate::util::parallel::sort_unstable_by;

/// Pairs that are collected.
pub(super) struct Collected(CountedVec<Pair>);

impl Collected {
    pub(super) fn new(memory: &dyn Memory) -> Self {
        Self(CountedVec::new(memory))
    }

    /// Adds pairs, whose memory is reserved before.
    pub(super) fn extend(&mut self, pairs: &[Pair]) -> Result<()> {
        self.0.try_extend(pairs.iter().copied())
    }

    /// All pairs of several threads, in an order by a key that no two pairs share.
    pub(super) fn sorted<K: Ord>(
        all: Vec<Self>,
        search: &PairSearch<'_>,
        key: impl Fn(&Pair) -> K + Copy + Sync,
    ) -> Result<Pairs> {
        let (cancel, threads) = (&search.options.cancel, search.options.threads());
        let mut all = all.into_iter();
        let mut first = all.next().unwrap_or_else(|| Self::new(&search.memory.reservation()));
        for Self(pairs) in all {
            first.0.try_append(pairs)?;
        }
        let mut pairs = first.0.into_vec();
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
