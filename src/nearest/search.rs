//! One execution: left rows, a piece at a time, against the right rows, a window at a time.
//!
//! ```text
//!  left input ─► piece ─► parts ─► search in each window ─► pairs of each window ─► output
//!  right input ─► memory, or disk ─► windows ─┘                    └─ the best pairs of a part are carried
//! ```
//!
//! Right rows that fit into memory are one window. Otherwise the best pairs that left rows have found in a
//! window bound the search in the next one, and their rows are read once more for the output.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use arrow::array::RecordBatch;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{JoinType, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::metrics::{MetricBuilder, Time};
use futures::{Stream, StreamExt, TryStreamExt, stream};
use tokio::sync::mpsc::Sender;

use super::left::{LeftInput, LeftPiece};
use super::output::PairOutput;
use super::right::{Reading, Right, Window};
use super::run::{InMemorySearch, OnRound};
use super::table::RowTable;
use super::tasks::was_ended;
use crate::config::{SimJoinOptions, SpillChoice};
use crate::exec::ProcessCores;
use crate::families::Families;
use crate::operator::errors::is_out_of_memory;
use crate::spec::{NearestJoin, OutputColumn, Side};
use crate::top::TopK;
use crate::util::attached::Attached;

/// The output, as far as it is asked for.
pub(super) struct Out {
    pub to: Sender<Result<RecordBatch>>,
    /// The rows that are still asked for; `None` for all.
    pub fetch: Option<usize>,
}

impl Out {
    /// Sends a batch. Returns whether more are asked for.
    async fn send(&mut self, batch: RecordBatch) -> bool {
        let rows = self.fetch.map_or(batch.num_rows(), |fetch| fetch.min(batch.num_rows()));
        self.fetch = self.fetch.map(|fetch| fetch - rows);
        let is_taken = self.to.send(Ok(batch.slice(0, rows))).await.is_ok();
        is_taken && self.fetch != Some(0)
    }

    /// The left rows that are first searched for, where `most` may be: few where few rows of the output are asked for.
    fn first_rows(&self, most: usize, neighbours: usize) -> usize {
        /// Left rows that are searched for together, at least: fewer take hardly less time.
        const LEAST: usize = 1 << 4;
        self.fetch.map_or(most, |fetch| fetch.div_ceil(neighbours).max(LEAST).min(most))
    }
}

/// A search, before its inputs are read.
pub(super) struct NearestSearch {
    pub join: Arc<NearestJoin>,
    pub families: Families,
    pub options: SimJoinOptions,
    pub reading: Reading,
    pub on_round: OnRound,
    /// [`InMemorySearch::hardly_repeat`].
    pub hardly_repeat: Arc<AtomicBool>,
    /// The time that finding neighbours takes.
    pub searched: Time,
}

/// Left rows whose neighbours are found together, by the numbers of the rows, and the candidates among them by
/// their places.
type Part = (Range<u32>, Range<usize>);

impl NearestSearch {
    /// Reads both sides, `right` first, and sends the neighbours of all left rows. Without `right` the rows of
    /// `left` are both sides.
    ///
    /// # Errors
    ///
    /// The errors of the inputs, of the joins and of the disk; and when memory is refused that a part of one row
    /// needs.
    pub(super) async fn run(
        self,
        left: SendableRecordBatchStream,
        right: Option<SendableRecordBatchStream>,
        mut out: Out,
    ) -> Result<()> {
        let itself = right.is_none();
        let (left, right) = match right {
            Some(right) => (Some(left), right),
            None => (None, left),
        };
        let mut right = Right::read(right, itself, &self.reading).await?;
        let metrics = &self.reading.metrics;
        let pieces = right.is_on_disk().then(|| {
            MetricBuilder::new(metrics).counter("right_pieces", 0).add(right.pieces());
            MetricBuilder::new(metrics).counter("left_pieces", 0)
        });
        let mut left = LeftInput::new(left);
        while let Some(piece) = left.next(&mut right, &self.reading.memory).await? {
            if let Some(pieces) = &pieces {
                pieces.add(1);
            }
            if !self.piece(&piece, &mut right, &mut out).await? {
                break;
            }
        }
        Ok(())
    }

    /// Sends the neighbours of the rows of a piece. Returns whether more are asked for.
    async fn piece(&self, piece: &LeftPiece, right: &mut Right, out: &mut Out) -> Result<bool> {
        /// The left rows of a part by those of the part before, where few rows are asked for.
        const MORE: usize = 4;
        let candidates: Arc<[u32]> = {
            let window = Window { table: Arc::new(right.empty()), first: 0, pieces: 0..0 };
            self.in_window(piece, &window, false).candidates()?.into()
        };
        let listed = self.reading.memory.new_empty();
        listed.try_grow(candidates.len() * size_of::<u32>())?;
        let heaps = if right.pieces() > 1 { 2 } else { 1 };
        let of_row = TopK::bytes(1, self.count(right)).saturating_mul(heaps);
        let mut most = (right.budget().heaps() / of_row).max(1);
        let mut wanted = out.first_rows(most, self.count(right));
        let (mut row, mut place) = (0, 0_usize);
        loop {
            let end = candidates.len().min(place.saturating_add(wanted.min(most)));
            let started = Instant::now();
            let found = self.part(piece, &candidates[place..end], right).await;
            self.searched.add_elapsed(started);
            let (best, windows) = match found {
                // Fewer rows take less, of either side.
                Err(error) if is_out_of_memory(&error) => {
                    let rows = end - place;
                    if rows > right.window_rows() || !right.narrow() {
                        if rows <= 1 {
                            return Err(error);
                        }
                        most = rows / 2;
                    }
                    continue;
                }
                found => found?,
            };
            let last = candidates.get(end).map_or(piece.table.rows() as u32, |next| *next);
            let part = (row..last, place..end);
            if !self.send(piece, &candidates, part, (best, windows), right, out).await? {
                return Ok(false);
            }
            if end == candidates.len() {
                return Ok(true);
            }
            (row, place) = (last, end);
            wanted = wanted.saturating_mul(MORE);
        }
    }

    /// The most neighbours that a row can have without ties.
    fn count(&self, right: &Right) -> usize {
        self.join.nearest.count.get().min(right.rows()).max(1)
    }

    /// A search of the rows of a piece in a window, which has all right rows or some of them.
    fn in_window(&self, piece: &LeftPiece, window: &Window, has_all: bool) -> InMemorySearch {
        let itself = piece.own.is_some() && Arc::ptr_eq(&piece.table, &window.table);
        let mut options = self.options.clone();
        if !has_all && options.spill == SpillChoice::Always {
            // These rows have been on disk.
            options.spill = SpillChoice::Auto;
        }
        InMemorySearch {
            join: Arc::clone(&self.join),
            left: Arc::clone(&piece.table),
            right: Arc::clone(&window.table),
            itself,
            order: None,
            families: self.families.clone(),
            options,
            context: Arc::clone(&self.reading.context),
            memory: Arc::clone(&self.reading.memory),
            on_round: Arc::clone(&self.on_round),
            hardly_repeat: Arc::clone(&self.hardly_repeat),
            kept: None,
        }
    }

    /// The best pairs of some candidates of a piece, and the pieces of the windows in which they were found.
    async fn part(
        &self,
        piece: &LeftPiece,
        candidates: &[u32],
        right: &mut Right,
    ) -> Result<(Arc<TopK>, Vec<Range<usize>>)> {
        let (with_ties, memory) = (self.join.nearest.with_ties, &self.reading.memory);
        let best = |count: usize| {
            let memory = Box::new(memory.new_empty());
            TopK::try_new(candidates.len(), count, with_ties, memory).map(Arc::new)
        };
        let carried = best(self.count(right))?;
        let kept = Arc::<Attached>::default();
        let mut windows = vec![];
        let mut next = 0;
        while next < right.pieces() && !candidates.is_empty() {
            let all = right.pieces();
            let window = right.window(next..all, piece.own.as_ref()).await?;
            let has_all = window.pieces == (0..all);
            let run = self.in_window(piece, &window, has_all);
            let run = InMemorySearch { kept: (!has_all).then(|| Arc::clone(&kept)), ..run };
            if has_all {
                run.find(candidates, &carried, None).await?;
            } else {
                let found = best(run.count())?;
                run.find(candidates, &found, Some(&carried)).await?;
                take_in(&carried, &found, (candidates.len(), window.first)).await?;
            }
            next = window.pieces.end;
            windows.push(window.pieces);
        }
        Ok((carried, windows))
    }

    /// Sends the neighbours of a part of a piece. Returns whether more are asked for.
    async fn send(
        &self,
        piece: &LeftPiece,
        candidates: &Arc<[u32]>,
        (rows, places): Part,
        (best, windows): (Arc<TopK>, Vec<Range<usize>>),
        right: &mut Right,
        out: &mut Out,
    ) -> Result<bool> {
        let candidates: Arc<[u32]> = candidates[places].into();
        let is_outer = self.join.join_type == JoinType::Left;
        let made = |right: Arc<RowTable>, window: Range<u32>, is_outer: bool| SearchedPart {
            output: PairOutput {
                columns: self.join.output.clone(),
                schema: Arc::clone(&self.join.schema),
                order: self.join.order,
                is_outer,
                left: Arc::clone(&piece.table),
                right,
                window,
            },
            candidates: Arc::clone(&candidates),
            best: Arc::clone(&best),
            batch_size: self.reading.context.session_config().batch_size(),
        };
        let threads = ProcessCores::threads(self.reading.context.session_config());
        let is_whole = right.pieces() == 1 && !windows.is_empty();
        let reads_right = self
            .join
            .output
            .iter()
            .any(|column| matches!(column, OutputColumn::Input(Side::Right, _)));
        if !reads_right {
            let all = made(Arc::new(right.empty()), 0..u32::MAX, is_outer);
            return sent(all.batches(rows, threads), out).await;
        }
        if is_outer && !is_whole {
            // Left rows without a neighbour.
            let others = made(Arc::new(right.empty()), 0..0, true);
            if !sent(others.batches(rows.clone(), threads), out).await? {
                return Ok(false);
            }
        }
        // The last window is in memory still.
        for pieces in windows.into_iter().rev() {
            let mut next = pieces.start;
            while next < pieces.end {
                let window = right.window(next..pieces.end, piece.own.as_ref()).await?;
                next = window.pieces.end;
                let numbers = window.first..window.first + window.table.rows() as u32;
                let made = made(window.table, numbers, is_outer && is_whole);
                if !sent(made.batches(rows.clone(), threads), out).await? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

/// Sends batches. Returns whether more are asked for.
async fn sent(batches: impl Stream<Item = Result<RecordBatch>>, out: &mut Out) -> Result<bool> {
    let mut batches = std::pin::pin!(batches);
    while let Some(batch) = batches.next().await {
        if !out.send(batch?).await {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The neighbours of a part of the left rows, which become batches.
struct SearchedPart {
    output: PairOutput,
    candidates: Arc<[u32]>,
    best: Arc<TopK>,
    batch_size: usize,
}

impl SearchedPart {
    /// The batches of some left rows, in their order, made by some tasks.
    fn batches(
        self,
        rows: Range<u32>,
        tasks: usize,
    ) -> impl Stream<Item = Result<RecordBatch>> + Send + use<> {
        /// Batches that a task makes, about, and their bytes: nobody accounts for them.
        const BATCHES: usize = 8;
        const BYTES: usize = 8 << 20;
        let most = rows.len().max(1);
        let of_row = self.best.most_of_row().max(1);
        let made = (BATCHES * self.batch_size).min(BYTES / self.output.row_bytes().max(1));
        let step = (made / of_row).clamp(1, most);
        let starts = rows.clone().step_by(step);
        let made = Arc::new(self);
        let chunks = starts.map(move |start| {
            let chunk = start..rows.end.min(start.saturating_add(step as u32));
            let made = Arc::clone(&made);
            SpawnedTask::spawn(async move {
                let Self { output, candidates, best, batch_size } = &*made;
                let batches = output.batches(chunk, candidates, best, *batch_size);
                batches.collect::<Result<Vec<_>>>()
            })
        });
        let chunks = stream::iter(chunks).map(|task| async move {
            let made = task.join().await;
            made.map_err(was_ended)?
        });
        chunks
            .buffered(tasks.max(1))
            .map_ok(|batches| stream::iter(batches.into_iter().map(Ok)))
            .try_flatten()
    }
}

/// Gives `to` the pairs of all `rows` left rows of `found`, whose right rows begin at `first`.
async fn take_in(to: &TopK, found: &TopK, (rows, first): (usize, u32)) -> Result<()> {
    /// Left rows between two chances for other tasks.
    const ROWS: u32 = 1 << 10;
    let rows = rows as u32;
    for start in (0..rows).step_by(ROWS as usize) {
        to.take_in(found, start..rows.min(start.saturating_add(ROWS)), first)?;
        tokio::task::yield_now().await;
    }
    Ok(())
}
