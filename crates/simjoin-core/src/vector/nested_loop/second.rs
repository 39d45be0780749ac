//! Products in `f32` of blocks whose first products leave too many pairs open.
//!
//! A sample of the build side chose bytes; vectors of another input may lie elsewhere. A cluster may lie so
//! far from the centre that its points cannot be told apart from there: distances are those from a
//! centre of the block's own. The panels are written anew for each block, which takes about the time of
//! the products.

use std::mem::size_of;
use std::ops::Range;

use crate::engine::ItemId;
use crate::error::Result;
use crate::memory::Memory;
use crate::simd::Simd;
use crate::util::cancel::CancelFlag;
use crate::vector::bounds::Frame;
use crate::vector::collection::Vectors;
use crate::vector::cost::{decision_cost, pair_cost};
use crate::vector::filter::{Filter, ProductBounds, RowBounds};
use crate::vector::metric::Metric;
use crate::vector::tile::{Element, PANEL, Panels, RowLayout, Rows, products};

/// The layout of rows of `f32`, in every form.
const ROWS: RowLayout = RowLayout::LANES;

/// Vectors in `f32` with their bounds.
#[derive(Debug, Default)]
struct WrittenFloats {
    numbers: Vec<f32>,
    reject: Vec<f32>,
    accept: Vec<f32>,
    /// The bounds of rows, for panels of any scale.
    bounds: Vec<RowBounds<f32>>,
}

impl WrittenFloats {
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
        vectors * ((dimensions + 2) * size_of::<f32>() + size_of::<RowBounds<f32>>())
    }
}

/// A block in `f32`, and a panel.
#[derive(Debug, Default)]
pub(super) struct Second {
    /// Pairs of the block that were multiplied, and those that were left open.
    pairs: u64,
    open: u64,
    /// Whether the block is written.
    pub is_on: bool,
    /// Whether products in `f32` leave most pairs of the block open, too.
    has_failed: bool,
    frame: Option<Frame>,
    dimensions: usize,
    rows: WrittenFloats,
    panel: WrittenFloats,
    reserved: usize,
}

impl Second {
    /// Begins another block.
    pub(super) fn reset(&mut self) {
        (self.pairs, self.open, self.is_on, self.has_failed) = (0, 0, false, false);
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
        !self.has_failed && self.open >= FEW && self.open as f64 > most * self.pairs as f64
    }

    /// Writes the vectors of a block; not where memory is refused. `retired`: the rows that need no more.
    pub(super) fn begin(
        &mut self,
        frame: &Frame,
        items: &Vectors,
        range: Range<ItemId>,
        retired: &[bool],
        reservation: &dyn Memory,
    ) {
        let d = items.dimensions(range.start) as usize;
        let count = ROWS.padded(range.len());
        // Some vectors of doubles are what a frame takes to be made.
        let bytes = WrittenFloats::bytes(count + PANEL, d) + 8 * d * size_of::<f64>();
        let grown: Result<()> = match bytes.checked_sub(self.reserved) {
            Some(more) => reservation.try_grow(more),
            None => Ok(()),
        };
        (self.pairs, self.open) = (0, 0);
        // What is open is decided one by one then.
        if grown.is_err() {
            return;
        }
        self.reserved = self.reserved.max(bytes);
        (self.is_on, self.dimensions) = (true, d);
        let vectors = range.clone().map(|item| items.vector(item));
        let threshold = frame.threshold();
        let own = match threshold.metric {
            Metric::Euclidean => Frame::of_vectors(threshold, vectors, &CancelFlag::default()).ok(),
            Metric::InnerProduct | Metric::Cosine => None,
        };
        let frame = &*self.frame.insert(own.unwrap_or_else(|| frame.clone()));
        self.rows.clear(count, d);
        self.rows.bounds.clear();
        self.rows.bounds.reserve_exact(count);
        for (row, item) in range.enumerate() {
            let to = ROWS.row(&mut self.rows.numbers, row, d);
            let bounds = match retired.get(row) {
                Some(true) => RowBounds::Fixed(ProductBounds::NEVER),
                _ => frame.probe(items, item, to),
            };
            self.rows.bounds.push(bounds);
        }
        self.rows.bounds.resize(count, RowBounds::Fixed(ProductBounds::NEVER));
    }

    /// Gives each pair that a product does not reject to `survivor`: the row, the item, and whether the
    /// product accepts it.
    pub(super) fn products(
        &mut self,
        build: &Vectors,
        items: impl Iterator<Item = Range<ItemId>>,
        simd: Simd,
        mut survivor: impl FnMut(usize, ItemId, bool),
    ) {
        let Self { dimensions, rows, panel, frame: Some(frame), pairs, open, .. } = self else {
            return;
        };
        let d = *dimensions;
        for items in items {
            panel.clear(PANEL, d);
            // Others are of other keys.
            let is_alike = |item: &ItemId| build.dimensions(*item) as usize == d;
            let vectors = items.clone().filter(is_alike).map(|item| build.vector(item));
            let scale = frame.panel_scale(vectors);
            for (lane, item) in items.clone().enumerate().filter(|(_, item)| is_alike(item)) {
                let to = panel.numbers.iter_mut().skip(lane).step_by(PANEL);
                let bounds = frame.build(build, item, scale, to);
                (panel.reject[lane], panel.accept[lane]) = (bounds.reject, bounds.accept);
            }
            for (row, bounds) in rows.bounds.iter().enumerate() {
                let bounds = <Frame as Filter>::bounds_at(*bounds, scale);
                (rows.reject[row], rows.accept[row]) = (bounds.reject, bounds.accept);
            }
            let of_rows = Rows { places: d, numbers: &rows.numbers, reject: &rows.reject };
            let (numbers, reject) = (&panel.numbers[..], &panel.reject[..]);
            let of_panel = Panels { numbers, stride: d * PANEL, step: 1, reject };
            *pairs += (rows.reject.len() * PANEL) as u64;
            products(simd, of_rows, of_panel, 1, |row, lane, product| {
                let accept = [rows.accept[row], panel.accept[lane]];
                let is_accepted = f32::is_accepted(product, accept);
                *open += u64::from(!is_accepted);
                survivor(row, items.start + lane as ItemId, is_accepted);
            });
        }
        self.look_back();
    }

    /// Gives up where most pairs stay open.
    fn look_back(&mut self) {
        /// Pairs that tell.
        const SOME: u64 = 1 << 14;
        if self.pairs >= SOME && self.open > self.pairs / 2 {
            (self.is_on, self.has_failed) = (false, true);
        }
    }

    /// Rejects what follows of a row.
    pub(super) fn retire(&mut self, row: usize) {
        if let Some(bounds) = self.rows.bounds.get_mut(row) {
            *bounds = RowBounds::Fixed(ProductBounds::NEVER);
        }
    }
}
