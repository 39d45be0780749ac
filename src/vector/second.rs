//! Products in `f32` of the blocks of which products of bytes leave too many pairs open.
//!
//! A sample of the build side chose bytes; vectors of another input may lie elsewhere. The panels are
//! written anew for each block, which takes about the time of the products.

use std::mem::size_of;
use std::ops::Range;

use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use super::bounds::Frame;
use super::choice::{decision_cost, pair_cost};
use super::collection::Vectors;
use super::tile::{Element, PANEL, Panels, ROW_UNIT, Rows, place_in_rows, products};
use crate::engine::ItemId;
use crate::simd::Simd;

/// Vectors in `f32` with their bounds.
#[derive(Debug, Default)]
struct Written {
    numbers: Vec<f32>,
    reject: Vec<f32>,
    accept: Vec<f32>,
}

impl Written {
    /// Room for `vectors` vectors that match nothing.
    fn clear(&mut self, vectors: usize, dimensions: usize) {
        let (reject, accept) = (f32::NEVER, f32::UNSURE);
        let room = [vectors * dimensions, vectors, vectors];
        let of = [&mut self.numbers, &mut self.reject, &mut self.accept];
        for ((places, count), none) in of.into_iter().zip(room).zip([0.0, reject, accept]) {
            places.clear();
            // No more than was reserved.
            places.reserve_exact(count);
            places.resize(count, none);
        }
    }

    fn bytes(vectors: usize, dimensions: usize) -> usize {
        vectors * (dimensions + 2) * size_of::<f32>()
    }
}

/// A block in `f32`, and a panel.
#[derive(Debug, Default)]
pub(super) struct Second {
    /// Pairs of the block of which bytes were multiplied, and those that they left open.
    pairs: u64,
    open: u64,
    /// Whether the block is written.
    pub is_on: bool,
    dimensions: usize,
    rows: Written,
    panel: Written,
    reserved: usize,
}

impl Second {
    /// Begins another block.
    pub(super) fn reset(&mut self) {
        (self.pairs, self.open, self.is_on) = (0, 0, false);
    }

    /// Counts pairs, and those that were left open.
    pub(super) fn count(&mut self, pairs: u64, open: u64) {
        self.pairs += pairs;
        self.open += open;
    }

    /// Whether products in `f32` would have taken less time than deciding what was left open.
    pub(super) fn would_pay(&self, dimensions: usize) -> bool {
        /// Too few to tell.
        const FEW: u64 = 256;
        let d = dimensions as u32;
        let most = 2.0 * pair_cost(d) / decision_cost(d);
        self.open >= FEW && self.open as f64 > most * self.pairs as f64
    }

    /// Writes the vectors of a block; not where memory is refused.
    pub(super) fn begin(
        &mut self,
        frame: &Frame,
        items: &Vectors,
        range: Range<ItemId>,
        reservation: &MemoryReservation,
    ) {
        let d = items.dimensions(range.start) as usize;
        let count = range.len().next_multiple_of(ROW_UNIT);
        let bytes = Written::bytes(count + PANEL, d);
        let grown: Result<()> = match bytes.checked_sub(self.reserved) {
            Some(more) => reservation.try_grow(more),
            None => Ok(()),
        };
        // What is open is decided one by one then.
        if grown.is_err() {
            (self.pairs, self.open) = (0, 0);
            return;
        }
        self.reserved = self.reserved.max(bytes);
        (self.is_on, self.dimensions) = (true, d);
        self.rows.clear(count, d);
        let scale = frame.probe_scale(range.clone().map(|item| items.vector(item)));
        for (row, item) in range.enumerate() {
            let to = self.rows.numbers[place_in_rows(row, d)..].iter_mut().step_by(ROW_UNIT);
            let bounds = frame.probe(items, item, scale, to);
            (self.rows.reject[row], self.rows.accept[row]) = (bounds.reject, bounds.accept);
        }
    }

    /// Gives each pair that a product does not reject to `survivor`: the row, the item, and whether the
    /// product accepts it.
    pub(super) fn products(
        &mut self,
        frame: &Frame,
        build: &Vectors,
        items: impl Iterator<Item = Range<ItemId>>,
        simd: Simd,
        mut survivor: impl FnMut(usize, ItemId, bool),
    ) {
        let Self { dimensions, rows, panel, .. } = self;
        let d = *dimensions;
        for items in items {
            panel.clear(PANEL, d);
            for (lane, item) in items.clone().enumerate() {
                // Of other keys.
                if build.dimensions(item) as usize != d {
                    continue;
                }
                let to = panel.numbers.iter_mut().skip(lane).step_by(PANEL);
                let bounds = frame.build(build, item, to);
                (panel.reject[lane], panel.accept[lane]) = (bounds.reject, bounds.accept);
            }
            let of_rows = Rows { places: d, numbers: &rows.numbers, reject: &rows.reject };
            let (numbers, reject) = (&panel.numbers[..], &panel.reject[..]);
            let of_panel = Panels { numbers, stride: d * PANEL, step: 1, reject };
            products(simd, of_rows, of_panel, 1, |row, lane, product| {
                let accept = [rows.accept[row], panel.accept[lane]];
                survivor(row, items.start + lane as ItemId, f32::is_accepted(product, accept));
            });
        }
    }

    /// Rejects what follows of a row.
    pub(super) fn retire(&mut self, row: usize) {
        if let Some(reject) = self.rows.reject.get_mut(row) {
            *reject = f32::NEVER;
        }
    }
}
