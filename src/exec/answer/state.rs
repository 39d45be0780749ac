//! The answer of one partition while it is made.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::{Result, internal_err};
use datafusion::physical_plan::metrics::{Count, Time};

use crate::exec::answer::batch::ProbeBatch;
use crate::exec::answer::blocks::{Expansion, RowPairs};
use crate::exec::answer::gather::{GatheredBatch, PairBatch};
use crate::exec::answer::links::Links;
use crate::exec::answer::listing::Listing;
use crate::exec::answer::output::{BatchLimits, Output};
use crate::exec::answer::totals;
use crate::exec::build_side::BuildSide;
use crate::exec::layout::JoinLayout;
use crate::exec::metrics::ProbeCounters;
use crate::exec::sink::PairSink;

/// Turns the matches of open batches into output batches.
///
/// Batches are opened when their items have been fed to a cursor, matches of any of them come in
/// runs, and a batch closes when its last match has been taken: then its rows that are listed one
/// by one are given out.
pub(crate) struct Answer {
    pub(super) layout: Arc<JoinLayout>,
    pub(super) build: Arc<BuildSide>,
    /// Whether matches of items tell everything.
    pub(super) items_suffice: bool,
    /// The next run of the buffer that is being taken.
    pub(super) next_run: usize,
    /// A part of this run has been taken.
    pub(super) is_amid_run: bool,
    /// The open batches.
    pub(super) batches: Vec<ProbeBatch>,
    pub(super) expansion: Expansion,
    /// The pairs that connect, where these are asked for.
    pub(super) links: Links,
    /// The matches are being expanded a second time, in the other order.
    pub(super) mirrored: bool,
    /// Pairs of rows that are not yet decided, and their batch.
    pub(super) pairs: RowPairs,
    pub(super) gathered: Option<GatheredBatch>,
    /// Decided pairs of rows of very different sizes.
    pub(super) parts: VecDeque<PairBatch>,
    pub(super) total: u64,
    pub(super) listing: Option<Listing>,
    pub(super) output: Output,
    /// Pairs of rows offered to the residual filter.
    pub(super) residual_rows: Count,
    pub(super) output_time: Time,
}

impl Answer {
    pub(crate) fn new(
        layout: Arc<JoinLayout>,
        build: Arc<BuildSide>,
        limits: BatchLimits,
        counters: &ProbeCounters,
    ) -> Self {
        Self {
            items_suffice: totals::items_suffice(&layout, build.ranks.as_ref()),
            next_run: 0,
            is_amid_run: false,
            batches: vec![],
            expansion: Expansion::default(),
            links: Links::default(),
            mirrored: false,
            pairs: RowPairs::default(),
            gathered: None,
            parts: VecDeque::new(),
            total: 0,
            listing: None,
            output: Output::new(Arc::clone(&layout), limits),
            residual_rows: counters.residual_rows.clone(),
            output_time: counters.output_time.clone(),
            layout,
            build,
        }
    }

    /// The next batch of output that is full, or the last one.
    pub(crate) fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.output.next_batch()? {
                return Ok(Some(batch));
            }
            if !self.push_part()? {
                return Ok(None);
            }
        }
    }

    /// Whether all rows are in the output.
    pub(crate) fn is_finished(&self) -> bool {
        self.output.is_finished() && self.parts.is_empty()
    }

    /// Opens a batch: matches of it may come. Returns whether those will do that connect something anew.
    pub(crate) fn open(&mut self, mut batch: ProbeBatch) -> bool {
        let row_bytes = match Arc::ptr_eq(&batch.payload, &self.build.payload) {
            true => 2 * self.build.row_bytes,
            false => batch.payload.row_bytes() + self.build.row_bytes,
        };
        batch.rows_at_once = self.output.rows_at_once(row_bytes);
        batch.items_suffice =
            self.items_suffice || totals::batch_suffices(&self.layout, &batch, &self.build);
        self.batches.push(batch);
        self.connects(self.batches.len() - 1)
    }

    /// The number of open batches.
    pub(crate) fn open_batches(&self) -> usize {
        self.batches.len()
    }

    /// The bytes reserved for them.
    pub(crate) fn open_bytes(&self) -> usize {
        self.batches.iter().map(|batch| batch.bytes).sum()
    }

    /// Closes a batch of which all matches have been taken.
    pub(super) fn close(&mut self, unit: u32) -> Result<()> {
        let Some(place) = self.batches.iter().position(|batch| batch.number == unit) else {
            return internal_err!("probe unit {unit} is complete, but not open");
        };
        let mut batch = self.batches.remove(place);
        let flushed = {
            let output_time = self.output_time.clone();
            let _timer = output_time.timer();
            self.flush_batch(&mut batch)
        };
        self.begin_list(batch);
        flushed
    }

    /// Ends the input. The answer calls `is_last` once the marks of this partition are complete, to
    /// learn whether the marks of all other partitions are: the last partition gives out the build
    /// rows.
    pub(crate) fn finish(&mut self, is_last: impl FnOnce() -> bool) -> Result<()> {
        self.flush()?;
        if self.layout.sink.pairs == PairSink::Total {
            self.output.push_total(self.total)?;
        }
        if is_last() && self.layout.marks_build() {
            self.begin_build_list();
            return Ok(());
        }
        self.output.finish()
    }
}
