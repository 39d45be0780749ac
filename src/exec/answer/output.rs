//! Output batches of the session's batch size.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array,
};
use arrow::compute::BatchCoalescer;
use datafusion::common::{Result, internal_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryLimit;

use crate::exec::layout::JoinLayout;
use crate::exec::rows::payload::Payload;
use crate::spec::{CountOf, OutputColumn, Side};

/// The limits of an output batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchLimits {
    /// The session's batch size.
    pub rows: usize,
    /// About the most bytes of a batch, which has one row in any case.
    pub bytes: usize,
}

impl BatchLimits {
    /// The most rows of a batch, whatever the session's batch size is.
    const MOST_ROWS: usize = 1 << 20;
    const MOST_BYTES: usize = 64 << 20;
    const LEAST_BYTES: usize = 64 << 10;
    /// The batches that all tasks are making may take this part of a memory limit.
    const PART_OF_LIMIT: usize = 32;

    /// The limits of each task, where `tasks` tasks make batches at the same time.
    pub(crate) fn of(context: &TaskContext, tasks: usize) -> Self {
        let bytes = match context.memory_pool().memory_limit() {
            MemoryLimit::Finite(bytes) => (bytes / Self::PART_OF_LIMIT / tasks.max(1))
                .clamp(Self::LEAST_BYTES, Self::MOST_BYTES),
            MemoryLimit::Infinite | MemoryLimit::Unknown => Self::MOST_BYTES,
        };
        let rows = context.session_config().batch_size().clamp(1, Self::MOST_ROWS);
        Self { rows, bytes }
    }
}

/// The number of matches of each of some probe rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowCounts<'a> {
    pub matches: &'a [u64],
    /// For each of [`JoinLayout::counted_columns`], the matches in which the column is not NULL; empty
    /// where all matches count.
    pub non_null: &'a [Vec<u64>],
}

/// Gathers output rows into batches.
pub(crate) struct Output {
    layout: Arc<JoinLayout>,
    limits: BatchLimits,
    coalescer: BatchCoalescer,
    /// Rows of a schema without columns, which the coalescer does not count.
    bare_rows: usize,
    /// The bytes of the rows gathered, where these differ.
    gathered_bytes: usize,
    /// Whether all rows have been added.
    finished: bool,
}

impl Output {
    pub(crate) fn new(layout: Arc<JoinLayout>, limits: BatchLimits) -> Self {
        let schema = Arc::clone(&layout.join.schema);
        // Large pieces pass through uncopied.
        let coalescer = BatchCoalescer::new(schema, limits.rows)
            .with_biggest_coalesce_batch_size(Some(limits.rows / 2));
        Self { layout, limits, coalescer, bare_rows: 0, gathered_bytes: 0, finished: false }
    }

    pub(crate) fn limits(&self) -> BatchLimits {
        self.limits
    }

    /// Whether a batch of any rows is small enough, when none of them takes more than `widest` bytes.
    pub(crate) fn holds_any_rows(&self, widest: usize) -> bool {
        self.limits.rows.saturating_mul(widest) <= self.limits.bytes
    }

    /// Ends the current batch where it has no room for rows of `bytes` bytes that come next.
    pub(crate) fn make_room(&mut self, bytes: usize) -> Result<()> {
        if self.coalescer.get_buffered_rows() == 0 {
            self.gathered_bytes = 0;
        } else if self.gathered_bytes + bytes > self.limits.bytes {
            self.coalescer.finish_buffered_batch()?;
            self.gathered_bytes = 0;
        }
        self.gathered_bytes += bytes;
        Ok(())
    }

    /// The number of rows to materialise at once, when one of them takes `row_bytes` bytes.
    pub(crate) fn rows_at_once(&self, row_bytes: usize) -> usize {
        self.limits.rows.min(self.limits.bytes / row_bytes.max(1)).max(1)
    }

    /// Ends the current batch where the `rows_at_once` rows just added are the most that a batch
    /// may hold.
    pub(crate) fn cut_after(&mut self, rows_at_once: usize) -> Result<()> {
        match rows_at_once < self.limits.rows {
            true => Ok(self.coalescer.finish_buffered_batch()?),
            false => Ok(()),
        }
    }

    /// The number of rows that complete the current batch. Pieces behind it are full batches, which
    /// pass through uncopied.
    pub(crate) fn rows_to_full(&self) -> usize {
        self.limits.rows - self.coalescer.get_buffered_rows().min(self.limits.rows - 1)
    }

    /// Adds rows.
    pub(crate) fn push(&mut self, batch: RecordBatch) -> Result<()> {
        if batch.num_columns() == 0 {
            self.bare_rows += batch.num_rows();
            return Ok(());
        }
        if batch.num_rows() > 0 {
            self.coalescer.push_batch(batch)?;
        }
        Ok(())
    }

    /// Adds a row for each place of one side, the other side's columns and the scores NULL.
    /// `counts` gives the multiplicities, where there are any.
    pub(crate) fn push_rows(
        &mut self,
        side: Side,
        payload: &Payload,
        mut places: Vec<u32>,
        counts: Option<RowCounts<'_>>,
    ) -> Result<()> {
        let output = &self.layout.join.output;
        let only_counts =
            !output.is_empty() && output.iter().all(|c| matches!(c, OutputColumn::Count(_)));
        if only_counts || self.holds_any_rows(payload.widest_row()) {
            return self.push_some_rows(side, payload, places, counts, only_counts);
        }
        let mut from = 0;
        while !places.is_empty() {
            let mut bytes = 0;
            let mut fits = |place: u32| {
                let own = payload.bytes_at(place);
                let fits = bytes == 0 || bytes + own <= self.limits.bytes;
                bytes += if fits { own } else { 0 };
                fits
            };
            let len = places.iter().take_while(|&&place| fits(place)).count().max(1);
            let rest = places.split_off(len);
            let matches = counts.map_or(&[][..], |counts| &counts.matches[from..from + len]);
            let non_null = counts.map_or(&[][..], |counts| counts.non_null).iter();
            let non_null: Vec<_> = non_null
                .map(|all| if all.is_empty() { vec![] } else { all[from..from + len].to_vec() })
                .collect();
            let some = counts.map(|_| RowCounts { matches, non_null: &non_null });
            self.make_room(bytes)?;
            self.push_some_rows(side, payload, places, some, false)?;
            (places, from) = (rest, from + len);
        }
        Ok(())
    }

    /// [`Self::push_rows`] for rows that fit a batch. `only_counts`: as one row with the sums of the counts.
    fn push_some_rows(
        &mut self,
        side: Side,
        payload: &Payload,
        places: Vec<u32>,
        counts: Option<RowCounts<'_>>,
        only_counts: bool,
    ) -> Result<()> {
        if places.is_empty() {
            return Ok(());
        }
        let layout = Arc::clone(&self.layout);
        let len = if only_counts { 1 } else { places.len() };
        let places = UInt32Array::from(places);
        let columns =
            layout.join.output.iter().zip(layout.join.schema.fields()).map(|(column, field)| {
                match column {
                    OutputColumn::Input(of, index) if *of == side => {
                        match layout.carried_index(side, *index) {
                            Some(carried) => payload.take(carried, &places),
                            None => internal_err!("column {index} of the {side} side is gone"),
                        }
                    }
                    OutputColumn::Input(..) | OutputColumn::Score(_) => {
                        Ok(new_null_array(field.data_type(), len))
                    }
                    OutputColumn::Count(of) => {
                        let values = count_values(&layout, *of, side, payload, &places, counts)?;
                        Ok(Arc::new(if only_counts {
                            Int64Array::from_iter_values([values.iter().sum::<i64>()])
                        } else {
                            Int64Array::from(values)
                        }) as ArrayRef)
                    }
                }
            });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(len));
        let schema = Arc::clone(&layout.join.schema);
        self.push(RecordBatch::try_new_with_options(schema, columns, &options)?)
    }

    /// Adds one row that holds counts only.
    pub(crate) fn push_total(&mut self, total: u64) -> Result<()> {
        let columns = self.layout.join.output.iter().map(|column| match column {
            OutputColumn::Count(_) => {
                Ok(Arc::new(Int64Array::from_iter_values([total as i64])) as ArrayRef)
            }
            other => internal_err!("a total cannot give {other:?}"),
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        let schema = Arc::clone(&self.layout.join.schema);
        self.push(RecordBatch::try_new_with_options(schema, columns, &options)?)
    }

    /// Ends the output: the buffered rows become a batch.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.finished = true;
        Ok(self.coalescer.finish_buffered_batch()?)
    }

    /// Whether the output has ended.
    pub(crate) fn is_finished(&self) -> bool {
        self.finished
    }

    /// The next batch, if there is a full one or the rows have ended.
    pub(crate) fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let bare = self.bare_rows.min(self.limits.rows);
        if bare == self.limits.rows || (self.finished && bare > 0) {
            self.bare_rows -= bare;
            let options = RecordBatchOptions::new().with_row_count(Some(bare));
            let schema = Arc::clone(&self.layout.join.schema);
            return Ok(Some(RecordBatch::try_new_with_options(schema, vec![], &options)?));
        }
        Ok(self.coalescer.next_completed_batch())
    }
}

/// A count column for rows of one side. A row without a match stands for itself, padded.
fn count_values(
    layout: &JoinLayout,
    of: CountOf,
    side: Side,
    payload: &Payload,
    places: &UInt32Array,
    counts: Option<RowCounts<'_>>,
) -> Result<Vec<i64>> {
    let non_null = match of {
        CountOf::NonNull(_, column) => layout
            .counted_columns()
            .position(|c| c == column)
            .zip(counts)
            .and_then(|(nth, counts)| counts.non_null.get(nth))
            .filter(|counts| !counts.is_empty()),
        CountOf::Rows | CountOf::Matched(_) => None,
    };
    // The row itself counts where the column counted is its own and not NULL.
    let own = match of {
        CountOf::NonNull(counted, column) if counted == side => {
            match layout.carried_index(side, column) {
                Some(carried) => Some(payload.take(carried, places)?),
                None => return internal_err!("column {column} of the {side} side is gone"),
            }
        }
        _ => None,
    };
    let nulls = own.as_ref().and_then(|own| own.logical_nulls());
    let value = |i: usize| match counts.map_or(0, |c| c.matches[i]) {
        0 => match of {
            CountOf::Rows => 1,
            CountOf::Matched(counted) => i64::from(counted == side),
            CountOf::NonNull(counted, _) => {
                i64::from(counted == side && nulls.as_ref().is_none_or(|n| n.is_valid(i)))
            }
        },
        matches => non_null.map_or(matches, |counts| counts[i]) as i64,
    };
    Ok((0..places.len()).map(value).collect())
}
