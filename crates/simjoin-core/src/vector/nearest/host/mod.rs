//! Nearest vectors at once on the CPU.
//!
//! ```text
//! forms.rs    vectors as bytes and as points in f32, and what these prove
//! written.rs  the vectors of a side in both forms
//! kept.rs     left vectors, for searches among other right rows
//! sample.rs   a limit for each row, from the best of groups of a sample
//! tiles.rs    products of bytes leave pairs within a limit, of which f32 leaves few
//! lists.rs    the pairs of each row, whose limit falls as they are found
//! decide.rs   f64, by the function, for the few near the last neighbour
//! ```
//!
//! Rows that are columns lie by falling limits: a pair that is found for the row, whose limit is the greater
//! one, is found for the column, too, and half of the pairs are compared.

mod decide;
mod forms;
mod kept;
mod lists;
mod sample;
mod tiles;
mod written;

use std::sync::Arc;

use parking_lot::Mutex;

use self::decide::{Decided, Judge};
use self::forms::Forms;
pub(crate) use self::kept::KeptVectors;
use self::kept::WrittenRows;
use self::lists::NeighbourLists;
use self::sample::{ColumnSample, OfRow};
use self::tiles::{StripeGrid, panel_reject};
use self::written::{BLOCK, Roles, Written};
use super::side::SideColumn;
use crate::engine::NeighbourRequest;
use crate::error::Result;
use crate::memory::Memory;
use crate::simd::Simd;
use crate::tuning::Size;
use crate::util::cancel::CancelFlag;
use crate::util::parallel::{Threads, map};
use crate::vector::bands::{Bands, NeighbourBand};
use crate::vector::bytes::MOST_DIMENSIONS;
use crate::vector::metric::Metric;
use crate::vector::middle::{is_usual, spread};

/// The most neighbours of a row that are found at once.
const MOST_NEIGHBOURS: usize = 256;

/// Vectors of fewer dimensions are nearer to each other in few boxes.
const LEAST_DIMENSIONS: Size<u32> = Size { usual: 12, small: 1 };

/// A search of the CPU.
pub(super) struct HostSearch<'a> {
    metric: Metric,
    neighbours: usize,
    with_ties: bool,
    /// By place among the left rows, the greatest value of a neighbour that is needed.
    bounds: Option<&'a [f64]>,
    left: &'a SideColumn,
    /// `None` where the left vectors are both sides.
    right: Option<&'a SideColumn>,
    threads: Threads,
    simd: Simd,
    memory: &'a dyn Memory,
    cancel: &'a CancelFlag,
}

/// The distances beyond which no column is a neighbour of a row.
enum DistanceLimits {
    Known(Vec<f64>),
    /// Vectors lie in clusters.
    Unsuited,
    /// A vector has no form.
    Unusual,
}

/// The neighbours, or the reason why none were looked for.
pub(super) type BandsOrReason = std::result::Result<Bands, Option<String>>;

/// Whether the CPU may find neighbours at once, and the work is enough for it.
pub(super) fn pays(request: &NeighbourRequest<'_>) -> bool {
    const LEAST: Size<f64> = Size { usual: 4e3, small: 1.0 };
    let least = request.threads.tuning.size(LEAST);
    let [left, right] = request.sides.map(|side| side.rows.len());
    left as f64 * right as f64 >= least && request.count <= MOST_NEIGHBOURS
}

impl<'a> HostSearch<'a> {
    pub(super) fn new(
        metric: Metric,
        request: &NeighbourRequest<'a>,
        left: &'a SideColumn,
        right: Option<&'a SideColumn>,
    ) -> Self {
        /// Pairs that are worth a thread: a millisecond.
        const PAIRS_PER_THREAD: Size = Size { usual: 1 << 20, small: 1 };
        let [rows, columns] = [left, right.unwrap_or(left)].map(|side| side.len() as usize);
        let of_thread = request.threads.tuning.size(PAIRS_PER_THREAD);
        let threads = request.threads.at_most(rows.saturating_mul(columns) / of_thread);
        Self {
            metric,
            neighbours: request.count,
            with_ties: request.with_ties,
            bounds: request.bounds,
            left,
            right,
            threads,
            simd: request.simd,
            memory: request.reservation,
            cancel: request.cancel,
        }
    }

    fn columns(&self) -> &'a SideColumn {
        self.right.unwrap_or(self.left)
    }

    /// Finds the neighbours of all left vectors. `kept` has their forms, or receives them.
    ///
    /// # Errors
    ///
    /// When the work is cancelled.
    pub(super) fn find(&self, kept: Option<&KeptVectors>) -> Result<BandsOrReason> {
        let declined = |why: &str| Ok(Err(Some(why.to_string())));
        let dimensions = self.left.dimensions;
        let fits = self.threads.tuning.size(LEAST_DIMENSIONS)..=MOST_DIMENSIONS as u32;
        if !fits.contains(&dimensions) {
            return Ok(Err(None));
        }
        let lists = self.memory.new_empty();
        let count = self.left.len() as usize + self.right.map_or(0, |side| side.len() as usize);
        // The numbers of vectors, what a sample tells of rows, and the answer.
        let of_answer = self.left.len() as usize * (40 + self.neighbours * 24);
        if lists.try_grow(count * 2 * size_of::<u32>() + of_answer).is_err() {
            return declined("memory was refused");
        }
        let written = kept.and_then(KeptVectors::written);
        let rows = match &written {
            Some(written) => Some(written.rows.numbers.clone()),
            None => self.numbers(self.left)?,
        };
        let (Some(rows), Some(columns)) = (rows, self.right_numbers()?) else {
            return declined("numbers that are not finite, or too great");
        };
        let columns = columns.unwrap_or_else(|| rows.clone());
        if columns.len() < 2 * self.neighbours || rows.is_empty() {
            return Ok(Err(None));
        }
        let forms = match &written {
            Some(written) => Arc::clone(&written.forms),
            None => Arc::new(Forms::of(self.metric, self.columns(), self.simd, self.cancel)?),
        };
        match self.compare(&forms, (rows, written), columns, kept) {
            Ok(Some(found)) => Ok(found),
            Ok(None) => declined("numbers that are not finite, or too great"),
            Err(error) => {
                // Rounds take less memory.
                self.cancel.check()?;
                Ok(Err(Some(error.first_line())))
            }
        }
    }

    /// The numbers of the vectors of a side that have a value with others; `None` where one is not usual.
    fn numbers(&self, side: &SideColumn) -> Result<Option<Vec<u32>>> {
        const SHARE: usize = 1 << 10;
        let shares =
            (0..side.len()).step_by(SHARE).map(|first| first..side.len().min(first + SHARE as u32));
        let of_shares = map(self.threads, shares.collect(), |share| {
            self.cancel.check()?;
            let (mut buffer, mut numbers) = (vec![], Vec::with_capacity(share.len()));
            for number in share {
                let vector = side.vector(number, &mut buffer);
                if !is_usual(vector) {
                    return Ok(None);
                }
                // The function has no value for vectors of zeros.
                let is_zero = || vector.iter().map(|v| v * v).sum::<f64>() == 0.0;
                if self.metric != Metric::Cosine || !is_zero() {
                    numbers.push(number);
                }
            }
            Ok(Some(numbers))
        })?;
        Ok(of_shares.into_iter().collect::<Option<Vec<_>>>().map(|numbers| numbers.concat()))
    }

    /// The [numbers](Self::numbers) of the right side; `Some(None)` where the left one is both.
    fn right_numbers(&self) -> Result<Option<Option<Vec<u32>>>> {
        match self.right {
            Some(side) => Ok(self.numbers(side)?.map(Some)),
            None => Ok(Some(None)),
        }
    }

    /// Compares rows with columns; `None` where a vector has no form.
    fn compare(
        &self,
        forms: &Arc<Forms>,
        (rows, written): (Vec<u32>, Option<Arc<WrittenRows>>),
        columns: Vec<u32>,
        kept: Option<&KeptVectors>,
    ) -> Result<Option<BandsOrReason>> {
        let work = (self.threads, self.cancel);
        let memory = self.memory.new_empty();
        let as_panels = Roles { rows: false, panels: true };
        let mut limits = match self.limits(forms, &rows, &columns, memory.as_ref())? {
            DistanceLimits::Known(limits) => limits,
            DistanceLimits::Unsuited => return Ok(Some(Err(None))),
            DistanceLimits::Unusual => return Ok(None),
        };
        let itself = self.right.is_none();
        let rows = if itself { by_falling_limits(rows, &mut limits) } else { rows };
        let columns = if itself { None } else { Some(columns) };
        let rows = match written {
            Some(written) => written,
            None => {
                let roles = Roles { rows: true, panels: itself };
                let memory = self.memory.new_empty();
                memory.try_grow(Written::bytes(rows.len(), forms, roles))?;
                let written = Written::of(self.left, forms, rows, roles, work)?;
                let Some(rows) = written else { return Ok(None) };
                Arc::new(WrittenRows { forms: Arc::clone(forms), rows, _memory: memory })
            }
        };
        if let Some(kept) = kept {
            kept.keep_written(&rows);
        }
        let rows = &rows.rows;
        let other = match columns {
            None => None,
            Some(columns) => {
                memory.try_grow(Written::bytes(columns.len(), forms, as_panels))?;
                let written = Written::of(self.columns(), forms, columns, as_panels, work)?;
                let Some(written) = written else { return Ok(None) };
                Some(written)
            }
        };
        let columns = other.as_ref().unwrap_or(rows);
        memory.try_grow(rows.len() * NeighbourLists::bytes(self.neighbours) + columns.len() * 4)?;
        let stripe = StripeGrid::stripe(forms, [rows.len(), columns.len()], self.threads);
        let lists = limits.chunks(stripe).map(|limits| {
            Mutex::new(NeighbourLists::new(limits.to_vec(), self.neighbours, memory.new_empty()))
        });
        let grid = StripeGrid {
            forms,
            rows,
            columns,
            itself,
            stripe,
            lists: lists.collect(),
            panel_reject: panel_reject(columns),
            most_off: columns.sums.iter().map(|sums| f64::from(sums.off)).fold(0.0, f64::max),
            simd: self.simd,
        };
        grid.run(self.threads, self.cancel)?;
        self.decide(&grid).map(|found| Some(Ok(found)))
    }

    /// The distances beyond which no column is a neighbour of a row: those of its bound, or of a sample where some rows
    /// have none. `memory` holds the sample.
    fn limits(
        &self,
        forms: &Forms,
        rows: &[u32],
        columns: &[u32],
        memory: &dyn Memory,
    ) -> Result<DistanceLimits> {
        let of_bound = |bounds: &[f64], row: u32| {
            forms.limit_of(bounds[self.left.places[row as usize] as usize])
        };
        let of_bounds: Option<Vec<f64>> =
            self.bounds.map(|bounds| rows.iter().map(|row| of_bound(bounds, *row)).collect());
        let of_bounds = match of_bounds {
            Some(limits) if limits.iter().all(|limit| limit.is_finite()) => {
                return Ok(DistanceLimits::Known(limits));
            }
            others => others,
        };
        let held = memory.new_empty();
        let size = ColumnSample::size(columns.len(), self.neighbours);
        held.try_grow(Written::bytes(size, forms, Roles { rows: false, panels: true }))?;
        let work = (self.threads, self.cancel);
        let sample = ColumnSample::of(self.columns(), forms, columns, self.neighbours, work)?;
        let Some(sample) = sample else { return Ok(DistanceLimits::Unusual) };
        let Some(suits) = self.suits(forms, &sample, rows)? else {
            return Ok(DistanceLimits::Unusual);
        };
        if !suits {
            return Ok(DistanceLimits::Unsuited);
        }
        let Some(of_rows) = self.sampled(forms, &sample, rows)? else {
            return Ok(DistanceLimits::Unusual);
        };
        let limits = of_rows.into_iter().map(|of_row| of_row.limit);
        Ok(DistanceLimits::Known(match of_bounds {
            Some(bounds) => limits.zip(bounds).map(|(limit, bound)| limit.min(bound)).collect(),
            None => limits.collect(),
        }))
    }

    /// Whether vectors are so far from each other that most have to be compared: of those that lie in
    /// clusters, joins by boxes leave out most pairs.
    fn suits(&self, forms: &Forms, sample: &ColumnSample, rows: &[u32]) -> Result<Option<bool>> {
        /// The distance of the last neighbour by that of any two vectors.
        const RATIO: Size<f64> = Size { usual: 0.5, small: f64::NEG_INFINITY };
        let some = spread(0..rows.len() as u32, BLOCK).map(|place| rows[place as usize]);
        let some: Vec<u32> = some.collect();
        let Some(of_rows) = self.sampled(forms, sample, &some)? else { return Ok(None) };
        let ratio = |of_row: &OfRow| of_row.limit / of_row.usual;
        let mut ratios: Vec<f64> = of_rows.iter().map(ratio).collect();
        let middle = ratios.len() / 2;
        let (_, ratio, _) = ratios.select_nth_unstable_by(middle, f64::total_cmp);
        Ok(Some(*ratio > self.threads.tuning.size(RATIO)))
    }

    /// The limits that a sample gives to rows; `None` where a row has no form.
    fn sampled(
        &self,
        forms: &Forms,
        sample: &ColumnSample,
        rows: &[u32],
    ) -> Result<Option<Vec<OfRow>>> {
        let roles = Roles { rows: true, panels: false };
        let of_blocks = map(self.threads, rows.chunks(BLOCK).collect(), |block: &[u32]| {
            let work = (self.threads.at_most(1), self.cancel);
            let block = Written::of(self.left, forms, block.to_vec(), roles, work)?;
            Ok(block.map(|block| sample.rows(forms, &block, self.neighbours, self.simd)))
        })?;
        Ok(of_blocks.into_iter().collect::<Option<Vec<_>>>().map(|rows| rows.concat()))
    }

    /// Decides which columns of the lists are neighbours.
    fn decide(&self, grid: &StripeGrid<'_>) -> Result<Bands> {
        let judge = Judge {
            metric: self.metric,
            neighbours: self.neighbours,
            with_ties: self.with_ties,
            left: self.left,
            right: self.columns(),
        };
        let stripes = grid.lists.iter().enumerate().collect();
        let decided =
            map(self.threads, stripes, |(stripe, lists): (usize, &Mutex<NeighbourLists>)| {
                judge.decide(grid, stripe, &mut lists.lock(), self.cancel)
            })?;
        let memory = self.memory.new_empty();
        let count = self.left.len() as usize;
        let found: usize = decided.iter().map(|of_stripe| of_stripe.columns.len()).sum();
        memory.try_grow(count * 2 * size_of::<u32>() + found * 12)?;
        // A vector that has no value with others has no neighbours.
        let (mut starts, mut counts) = (vec![0; count], vec![0; count]);
        let (mut columns, mut values) = (Vec::with_capacity(found), Vec::with_capacity(found));
        for Decided { rows, columns: of_stripe, values: of_values } in decided {
            let mut start = columns.len() as u32;
            for (number, of_row) in rows {
                (starts[number as usize], counts[number as usize]) = (start, of_row);
                start += of_row;
            }
            columns.extend(of_stripe);
            values.extend(of_values);
        }
        let rows = 0..self.left.len();
        let band = NeighbourBand { rows, starts, counts, columns, values, memory, nanos: 0 };
        Ok(Bands { device: "cpu".to_string(), bands: vec![band] })
    }
}

/// Sorts rows by falling limits, and the limits with them.
fn by_falling_limits(rows: Vec<u32>, limits: &mut Vec<f64>) -> Vec<u32> {
    let mut order: Vec<u32> = (0..rows.len() as u32).collect();
    order.sort_by(|a, b| limits[*b as usize].total_cmp(&limits[*a as usize]));
    *limits = order.iter().map(|place| limits[*place as usize]).collect();
    order.into_iter().map(|place| rows[place as usize]).collect()
}
