//! Pairs of rows, from being gathered until they are noted and given out.

use std::sync::Arc;

use datafusion::common::Result;

use crate::engine::{MatchOrder, Orders};
use crate::exec::answer::Answer;
use crate::exec::answer::batch::{MatchCounts, ProbeBatch};
use crate::exec::answer::blocks::RowPairs;
use crate::exec::answer::marks::{note_blocks, note_places};
use crate::exec::answer::pairs::PairColumns;
use crate::exec::rows::payload::Payload;
use crate::exec::sink::PairSink;
use crate::spec::Residual;

/// The batch that gathered pairs of rows belong to.
pub(super) struct GatheredBatch {
    unit: u32,
    payload: Arc<Payload>,
    /// Whether the pairs are given with the probe row on the probe side, and whether on the other
    /// one.
    orders: [bool; 2],
    /// Whether the pairs were taken because they connect: no condition is left to decide.
    connects: bool,
}

/// Pairs that are to be given out: few enough for a batch, by the bytes of their rows.
pub(super) struct PairBatch {
    pairs: RowPairs,
    bytes: usize,
    /// The rows of the left and of the right side.
    payloads: [Arc<Payload>; 2],
}

impl Answer {
    /// Flushes the pairs gathered so far, unless they can go together with pairs of the batch at
    /// `place` that match in some orders.
    pub(super) fn gather_for(&mut self, place: usize, order: MatchOrder) -> Result<()> {
        let connects = self.connects(place);
        let batch = &self.batches[place];
        let (unit, payload) = (batch.number, Arc::clone(&batch.payload));
        let orders = match self.layout.spec.orders {
            // Either order of a pair connects its rows.
            _ if connects => [true, false],
            Orders::Mirrored if self.expands_twice() => [!self.mirrored, self.mirrored],
            Orders::Mirrored => order.of_both(),
            Orders::Given | Orders::Unordered => [true, false],
        };
        // Batches of a self-join have one payload.
        let goes_on = self.gathered.as_ref().is_some_and(|gathered| {
            let joinable = Arc::ptr_eq(&gathered.payload, &payload) && !batch.is_counted();
            let alike = gathered.orders == orders && gathered.connects == connects;
            alike && (gathered.unit == unit || joinable)
        });
        if !goes_on {
            self.flush()?;
            self.gathered = Some(GatheredBatch { unit, payload, orders, connects });
        }
        Ok(())
    }

    /// Gives out the pairs gathered of a complete batch, unless pairs of later batches may join
    /// them.
    pub(super) fn flush_batch(&mut self, batch: &mut ProbeBatch) -> Result<()> {
        let joinable = Arc::ptr_eq(&batch.payload, &self.build.payload) && !batch.is_counted();
        let ends = |gathered: &mut GatheredBatch| gathered.unit == batch.number && !joinable;
        match self.gathered.take_if(ends) {
            Some(gathered) => self.flush_orders(&gathered, &mut batch.counted),
            None => Ok(()),
        }
    }

    /// Decides the gathered pairs of rows and gives them out.
    pub(super) fn flush(&mut self) -> Result<()> {
        let Some(gathered) = self.gathered.take() else { return Ok(()) };
        let place = self.batches.iter().position(|batch| batch.number == gathered.unit);
        let taken = place.map(|place| std::mem::take(&mut self.batches[place].counted));
        let mut counted = taken.unwrap_or_default();
        let flushed = self.flush_orders(&gathered, &mut counted);
        if let Some(place) = place {
            self.batches[place].counted = counted;
        }
        self.gathered = Some(gathered);
        flushed
    }

    /// Decides the gathered pairs, in one order of their sides or in both, and gives them out.
    fn flush_orders(&mut self, gathered: &GatheredBatch, counted: &mut MatchCounts) -> Result<()> {
        if self.pairs.is_empty() {
            return Ok(());
        }
        let GatheredBatch { payload, orders: [given, exchanged], connects, .. } = gathered;
        let build = Arc::clone(&self.build.payload);
        let (left, right) = self.layout.left_right(payload, &build);
        if *given {
            self.flush_pairs([left, right], *connects, counted)?;
        }
        if *exchanged {
            if !self.expands_twice() {
                self.pairs.mirror();
            }
            self.flush_pairs([right, left], *connects, counted)?;
        }
        self.pairs.clear();
        Ok(())
    }

    /// Whether matches are expanded once for each of the two orders of a pair: ranks admit
    /// different rows in each order.
    pub(super) fn expands_twice(&self) -> bool {
        self.layout.spec.orders == Orders::Mirrored
            && self.layout.row_order.is_some()
            && self.build.ranks.is_some()
    }

    /// The condition to evaluate for pairs of rows.
    fn residual(&self) -> Option<&Residual> {
        self.layout.residual(self.build.ranks.is_some())
    }

    /// Whether columns are made of pairs of rows, whose number then has a bound.
    pub(super) fn makes_columns(&self) -> bool {
        self.layout.sink.pairs.is_output() || self.residual().is_some()
    }

    /// Decides the gathered pairs, whose left and right rows `payloads` hold: as many at a time as the
    /// bytes of their rows allow, where columns are made of them.
    fn flush_pairs(
        &mut self,
        payloads: [&Arc<Payload>; 2],
        connects: bool,
        counted: &mut MatchCounts,
    ) -> Result<()> {
        let pairs = std::mem::take(&mut self.pairs);
        let most = self.output.limits().bytes;
        let flushed = if !self.makes_columns() || self.output.holds_any_rows(widest_pair(payloads))
        {
            self.flush_part(&pairs, None, payloads, connects, counted)
        } else {
            let bytes_at = |side: usize, place| payloads[side].bytes_at(place);
            pairs.cut(most, bytes_at, |part, bytes| {
                self.flush_part(part, Some(bytes), payloads, connects, counted)
            })
        };
        self.pairs = pairs;
        flushed
    }

    /// Decides some pairs. Those whose rows take `bytes`, where these differ, wait until a batch is
    /// asked for.
    fn flush_part(
        &mut self,
        pairs: &RowPairs,
        bytes: Option<usize>,
        payloads: [&Arc<Payload>; 2],
        connects: bool,
        counted: &mut MatchCounts,
    ) -> Result<()> {
        let of_sides = payloads.map(|payload| payload.as_ref());
        let mut columns = PairColumns::new(&self.layout, pairs, of_sides);
        if !connects && let Some(residual) = self.residual() {
            self.residual_rows.add(columns.len());
            columns.filter(residual)?;
            note_places(&self.layout, &self.build, &columns, counted)?;
        } else if self.layout.row_order.is_some() {
            note_blocks(&self.layout, &self.build, pairs, counted);
        }
        match self.layout.sink.pairs {
            PairSink::Output | PairSink::Connections | PairSink::Firsts => match bytes {
                None => {
                    let batch = columns.to_batch()?;
                    self.output.push(batch)?;
                }
                Some(bytes) => {
                    let bytes = bytes * columns.len() / pairs.len().max(1);
                    let pairs = columns.kept_pairs()?;
                    self.parts.push_back(PairBatch {
                        pairs,
                        bytes,
                        payloads: payloads.map(Arc::clone),
                    });
                }
            },
            PairSink::Total => self.total += columns.len() as u64,
            PairSink::Rows => {}
        }
        Ok(())
    }

    /// Gives out pairs that wait; `false` where there are none.
    pub(super) fn push_part(&mut self) -> Result<bool> {
        let Some(PairBatch { pairs, bytes, payloads }) = self.parts.pop_front() else {
            return Ok(false);
        };
        let of_sides = payloads.each_ref().map(|payload| payload.as_ref());
        let batch = PairColumns::new(&self.layout, &pairs, of_sides).to_batch()?;
        self.output.make_room(bytes)?;
        self.output.push(batch)?;
        if self.parts.is_empty() && self.output.is_finished() {
            self.output.finish()?;
        }
        Ok(true)
    }
}

/// A bound on the bytes of a pair of rows.
fn widest_pair(payloads: [&Arc<Payload>; 2]) -> usize {
    payloads.map(|payload| payload.widest_row()).iter().sum()
}
