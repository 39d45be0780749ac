//! Matches become what the join yields: marks, counts, or pairs of rows.

use std::sync::Arc;

use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::Operator::{Gt, GtEq, Lt, LtEq, NotEq};

use crate::engine::{ItemId, Match, MatchNeed, MatchOrder, MatchRun, Orders, RowPairCounts};
use crate::exec::answer::Answer;
use crate::exec::answer::batch::{Counted, ProbeBatch};
use crate::exec::answer::blocks::{ExpansionInput, RowPairs, total_pairs};
use crate::exec::answer::marks::{note_blocks, note_items, note_places};
use crate::exec::answer::pairs::PairColumns;
use crate::exec::layout::{Layout, Yield};
use crate::exec::rows::payload::Payload;
use crate::exec::rows::ranks::Ranks;
use crate::spec::Residual;

/// How far a run of matches was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Taken {
    /// The whole run was taken; otherwise the caller takes the same run again.
    pub done: bool,
    /// A probe item of which no further match is needed.
    pub settled: Option<ItemId>,
}

impl Taken {
    const ALL: Self = Self { done: true, settled: None };
}

/// The batch that gathered pairs of rows belong to.
pub(super) struct Gathered {
    unit: u32,
    payload: Arc<Payload>,
    /// Whether the pairs are given with the probe row on the probe side, and whether on the other
    /// one.
    orders: [bool; 2],
}

/// Pairs that are to be given out: few enough for a batch, by the bytes of their rows.
pub(super) struct Part {
    pairs: RowPairs,
    bytes: usize,
    /// Of the left and the right side.
    payloads: [Arc<Payload>; 2],
}

impl Answer {
    /// Notes the counts and marks that a run of matches of an open batch gives for all rows of
    /// their items, once for each run. Returns a probe item of which no further match is needed.
    pub(crate) fn note(&mut self, run: MatchRun<'_>) -> Option<ItemId> {
        if !self.layout.items_decide() {
            return None;
        }
        let matches = run.matches;
        let batch = self.batches.iter_mut().find(|batch| batch.number == run.unit)?;
        if batch.is_counted() {
            note_items(&self.build, matches, batch.range.start, &mut batch.counted);
        }
        if let Some(visited) = &self.build.visited {
            for found in matches {
                visited.mark(found.build as usize);
            }
        }
        match self.layout.spec.need {
            MatchNeed::Exists => matches.last().map(|found| found.probe),
            _ => None,
        }
    }

    /// Adds matches that were counted without being given.
    pub(crate) fn add_counts(&mut self, counts: RowPairCounts) {
        self.total += self.orders() * counts.cross + self.with_itself(counts.squares, counts.rows);
    }

    /// Turns a run of matches of an open batch into counts, marks or pairs of rows, and stops at a
    /// full batch of output.
    pub(crate) fn take(&mut self, run: MatchRun<'_>) -> Result<Taken> {
        let MatchRun { unit, order, matches } = run;
        let output_time = self.output_time.clone();
        let _timer = output_time.timer();
        let Some(place) = self.batches.iter().position(|batch| batch.number == unit) else {
            return internal_err!("matches of probe unit {unit}, which is not open");
        };
        if self.layout.yields == Yield::Total
            && items_tell_total(&self.layout, self.build.ranks.as_ref())
            && (self.layout.row_order.is_none() || order == MatchOrder::All)
        {
            self.total += self.total_of_matches(&self.batches[place], run);
            return Ok(Taken::ALL);
        }
        if self.layout.items_decide() && self.layout.yields != Yield::Pairs {
            return Ok(Taken::ALL);
        }
        let expands_twice = self.expands_twice();
        if expands_twice && order == MatchOrder::Exchanged {
            self.mirrored = true;
        }
        self.gather_for(place, order)?;
        let batch = &self.batches[place];
        let rows_at_once = batch.rows_at_once;
        // Blocks that are only counted need no bound on their pairs.
        let materialised = self.layout.yields == Yield::Pairs || self.residual().is_some();
        let limit = match (materialised, self.layout.yields) {
            (false, _) => usize::MAX,
            (true, Yield::Pairs) => rows_at_once.min(self.output.rows_to_full()),
            (true, _) => rows_at_once,
        };
        let input = ExpansionInput::new(&self.layout, batch, &self.build, (order, self.mirrored));
        let all = self.expansion.fill(&input, matches, limit, &mut self.pairs);
        if all {
            self.expansion.restart();
            if expands_twice {
                // Pairs of one order at a time: their columns come from different collections.
                self.flush()?;
                self.mirrored = !self.mirrored && order == MatchOrder::All;
            }
        }
        let done = all && !self.mirrored;
        // A semi join with a residual may stop looking at an item once all its rows have a match.
        let flush_early = !materialised || all && matches!(self.layout.yields, Yield::RowsOf(..));
        if self.pairs.len() < limit && !flush_early {
            return Ok(Taken { done, settled: None });
        }
        self.flush()?;
        if self.layout.yields == Yield::Pairs {
            self.output.cut_after(rows_at_once)?;
        }
        let last = matches.last().map(|found| found.probe);
        let settled = last.filter(|&item| self.is_settled(&self.batches[place], item));
        Ok(Taken { done, settled })
    }

    /// Flushes the pairs gathered so far, unless they can go together with pairs of the batch at
    /// `place` that match in some orders.
    fn gather_for(&mut self, place: usize, order: MatchOrder) -> Result<()> {
        let batch = &self.batches[place];
        let (unit, payload) = (batch.number, Arc::clone(&batch.payload));
        let orders = match self.layout.spec.orders {
            Orders::Mirrored if self.expands_twice() => [!self.mirrored, self.mirrored],
            Orders::Mirrored => order.of_both(),
            Orders::Given | Orders::Unordered => [true, false],
        };
        // Batches of a self-join have one payload.
        let goes_on = self.gathered.as_ref().is_some_and(|gathered| {
            let joinable = Arc::ptr_eq(&gathered.payload, &payload) && !batch.is_counted();
            gathered.orders == orders && (gathered.unit == unit || joinable)
        });
        if !goes_on {
            self.flush()?;
            self.gathered = Some(Gathered { unit, payload, orders });
        }
        Ok(())
    }

    /// Gives out the pairs gathered of a complete batch, unless pairs of later batches may join
    /// them.
    pub(super) fn flush_batch(&mut self, batch: &mut ProbeBatch) -> Result<()> {
        let joinable = Arc::ptr_eq(&batch.payload, &self.build.payload) && !batch.is_counted();
        let ends = |gathered: &mut Gathered| gathered.unit == batch.number && !joinable;
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
    fn flush_orders(&mut self, gathered: &Gathered, counted: &mut Counted) -> Result<()> {
        if self.pairs.is_empty() {
            return Ok(());
        }
        let Gathered { payload, orders: [given, exchanged], .. } = gathered;
        let build = Arc::clone(&self.build.payload);
        let (left, right) = self.layout.left_right(payload, &build);
        if *given {
            self.flush_pairs([left, right], counted)?;
        }
        if *exchanged {
            if !self.expands_twice() {
                self.pairs.mirror();
            }
            self.flush_pairs([right, left], counted)?;
        }
        self.pairs.clear();
        Ok(())
    }

    /// Whether every row of a probe item has a match and none needs another one.
    fn is_settled(&self, batch: &ProbeBatch, item: ItemId) -> bool {
        let counted = &batch.counted;
        let has_match = |place: u32| {
            let index = (place - counted.first_place) as usize;
            counted.matches.get(index).is_some_and(|&c| c > 0)
        };
        matches!(self.layout.yields, Yield::RowsOf(side, _) if side == self.layout.probe)
            && !self.layout.items_decide()
            && batch.items.groups().slots(item..item + 1).all(has_match)
    }

    /// How often a match of two different items counts.
    fn orders(&self) -> u64 {
        match (self.layout.spec.orders, self.layout.row_order.map(|order| order.operator)) {
            (Orders::Given, _) => 1,
            (Orders::Mirrored, _) | (Orders::Unordered, None | Some(NotEq)) => 2,
            // A comparison holds in one order of two rows that differ, and all rows do.
            (Orders::Unordered, Some(_)) => 1,
        }
    }

    /// The number of row pairs of items that match themselves. `squares` is the sum of the squares
    /// of their row counts, `rows` the sum of these counts.
    fn with_itself(&self, squares: u64, rows: u64) -> u64 {
        match self.layout.row_order.map(|order| order.operator) {
            None => squares,
            Some(Lt | Gt) => (squares - rows) / 2,
            Some(LtEq | GtEq) => (squares + rows) / 2,
            Some(_) => squares - rows,
        }
    }

    /// The number of row pairs behind some matches, where items alone decide.
    fn total_of_matches(&self, batch: &ProbeBatch, run: MatchRun<'_>) -> u64 {
        let (probe, build) = (batch.items.groups(), self.build.items.groups());
        let unordered = self.layout.spec.orders == Orders::Unordered;
        let of_match = |found: &Match| {
            (unordered && found.probe == found.build).then(|| {
                let rows = u64::from(probe.row_count_of(found.probe));
                self.with_itself(rows * rows, rows)
            })
        };
        let orders = if run.order == MatchOrder::All { self.orders() } else { 1 };
        total_pairs(run.matches, probe, build, of_match, orders)
    }

    /// Whether matches are expanded once for each of the two orders of a pair: ranks admit
    /// different rows in each order.
    fn expands_twice(&self) -> bool {
        self.layout.spec.orders == Orders::Mirrored
            && self.layout.row_order.is_some()
            && self.build.ranks.is_some()
    }

    /// The condition to evaluate for pairs of rows.
    fn residual(&self) -> Option<&Residual> {
        self.layout.residual(self.build.ranks.is_some())
    }

    /// Decides the gathered pairs, whose left and right rows `payloads` hold: as many at a time as the
    /// bytes of their rows allow, where columns are made of them.
    fn flush_pairs(&mut self, payloads: [&Arc<Payload>; 2], counted: &mut Counted) -> Result<()> {
        let pairs = std::mem::take(&mut self.pairs);
        let materialised = self.layout.yields == Yield::Pairs || self.residual().is_some();
        let most = self.output.limits().bytes;
        let flushed = if !materialised || self.output.holds_any_rows(widest_pair(payloads)) {
            self.flush_part(&pairs, None, payloads, counted)
        } else {
            let bytes_at = |side: usize, place| payloads[side].bytes_at(place);
            pairs.cut(most, bytes_at, |part, bytes| {
                self.flush_part(part, Some(bytes), payloads, counted)
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
        counted: &mut Counted,
    ) -> Result<()> {
        let of_sides = payloads.map(|payload| payload.as_ref());
        let mut columns = PairColumns::new(&self.layout, pairs, of_sides);
        if let Some(residual) = self.residual() {
            self.residual_rows.add(columns.len());
            columns.filter(residual)?;
            note_places(&self.layout, &self.build, &columns, counted)?;
        } else if self.layout.row_order.is_some() {
            note_blocks(&self.layout, &self.build, pairs, counted);
        }
        match self.layout.yields {
            Yield::Pairs => match bytes {
                None => {
                    let batch = columns.to_batch()?;
                    self.output.push(batch)?;
                }
                Some(bytes) => {
                    let bytes = bytes * columns.len() / pairs.len().max(1);
                    let pairs = columns.kept_pairs()?;
                    self.parts.push_back(Part { pairs, bytes, payloads: payloads.map(Arc::clone) });
                }
            },
            Yield::Total => self.total += columns.len() as u64,
            Yield::RowsOf(..) | Yield::CountsPerProbeRow => {}
        }
        Ok(())
    }

    /// Gives out pairs that wait; `false` where there are none.
    pub(super) fn push_part(&mut self) -> Result<bool> {
        let Some(Part { pairs, bytes, payloads }) = self.parts.pop_front() else {
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

/// Whether matching items alone tell how many of their rows' pairs match.
pub(crate) fn items_tell_total(layout: &Layout, ranks: Option<&Ranks>) -> bool {
    layout.residual(ranks.is_some()).is_none()
        && match (layout.row_order, layout.spec.orders) {
            (None, _) => true,
            (Some(_), Orders::Unordered) => ranks.is_some_and(|r| r.distinct),
            (Some(_), Orders::Given | Orders::Mirrored) => false,
        }
}
