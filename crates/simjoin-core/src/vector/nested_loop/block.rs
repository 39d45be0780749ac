//! The probe vectors that meet the panels of the build side together.

use std::mem::size_of;
use std::ops::Range;

use super::panels::{AHEAD, BuildPanels, SomePanels, most_norm};
use super::second::Second;
use crate::engine::ItemId;
use crate::vector::aligned::Aligned;
use crate::vector::boxes::{BLOCK_ITEMS, Boxes, Extent};
use crate::vector::collection::Vectors;
use crate::vector::filter::{Bound, Filter, ProductBounds, RowBounds};
use crate::vector::tile::{Element, PANEL, RowLayout};

/// Probe vectors that meet a panel while it lies in the cache, at least, where there are as many.
pub const BLOCK: usize = 8 * RowLayout::LANES.unit;

const _: () = assert!(BLOCK.is_multiple_of(RowLayout::TILES.unit));

/// The rows and panels that are compared at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockSize {
    /// Probe vectors that meet a panel while it lies in the cache, at most.
    pub rows: usize,
    /// Panels that a block meets before its survivors are decided.
    pub panels: usize,
}

impl BlockSize {
    pub(super) const LEAST: Self = Self { rows: BLOCK, panels: 2 };

    /// A matrix unit multiplies faster than memory beyond the caches of a core brings panels, and takes time
    /// to begin.
    const IN_TILES: Self = Self { rows: 4 * BLOCK, panels: 4 };

    /// The batch of rows that lie so.
    pub(super) fn of(layout: RowLayout) -> Self {
        if layout == RowLayout::TILES { Self::IN_TILES } else { Self::LEAST }
    }

    /// The pairs that are compared at once, at most.
    pub(super) const fn pairs(self) -> usize {
        self.rows * self.panels * PANEL
    }

    /// The vectors of a block, of so many places.
    pub(super) fn rows_of(self, places: usize) -> usize {
        /// Elements of a block, which lies in a core's second cache with others.
        const ELEMENTS: usize = 3 << 16;
        let mut rows = self.rows;
        while rows > BLOCK && rows * places > ELEMENTS {
            rows /= 2;
        }
        rows
    }

    /// The end of the block that begins with an item, where blocks have boxes.
    pub(super) fn end_of(self, first: ItemId, places: usize, boxes: &Boxes) -> ItemId {
        /// Where more pairs of blocks are within reach, boxes around several are as good.
        const MANY: f32 = 0.25;
        let blocks = match boxes.share > MANY {
            true => self.rows_of(places) as ItemId / BLOCK_ITEMS,
            false => 1,
        };
        let items = blocks.max(1) * BLOCK_ITEMS;
        first.saturating_add(items - first % items)
    }
}

/// A bound on the bytes of the vectors of a block where memory is short, by their dimensions.
pub fn least_block_bytes(dimensions: usize) -> usize {
    RowLayout::LANES.unit * dimensions.next_multiple_of(64) * size_of::<f32>()
}

/// Probe vectors of one key and one length.
#[derive(Debug)]
pub(super) struct Block<F: Filter> {
    pub items: Range<ItemId>,
    /// The build items of the key that they are compared with.
    pub partners: Range<ItemId>,
    pub dimensions: usize,
    pub layout: RowLayout,
    pub numbers: Aligned<F::Element>,
    /// By row, to the end of a group: for panels of any scale, and for those of `scale`.
    pub bounds: Vec<RowBounds<Bound<F>>>,
    pub reject: Vec<Bound<F>>,
    pub accept: Vec<Bound<F>>,
    /// Bounds that reject by the first places, and how many these are; none where they are not looked at.
    pub heads: Vec<Bound<F>>,
    pub head: usize,
    pub scale: f64,
    /// No row has a greater norm; of inner products.
    pub norm: f64,
    /// By row, whether no more matches are asked for.
    pub retired: Vec<bool>,
    /// The next panel, and the end.
    pub panels: Range<usize>,
    /// The box around the vectors; none where all panels are compared with them.
    pub extent: Option<Extent>,
    /// Panels before those above that are in reach of the vectors and have not been compared, the next
    /// one last.
    pub listed: Vec<u32>,
    /// The vectors of the block as `f32`, for products that leave too many pairs open.
    pub second: Second,
}

impl<F: Filter> Block<F> {
    pub(super) fn new(layout: RowLayout) -> Self {
        Self {
            items: 0..0,
            partners: 0..0,
            dimensions: 0,
            layout,
            numbers: Aligned::new(),
            bounds: vec![],
            reject: vec![],
            accept: vec![],
            heads: vec![],
            head: 0,
            scale: 1.0,
            norm: f64::INFINITY,
            retired: vec![],
            panels: 0..0,
            extent: None,
            listed: vec![],
            second: Second::default(),
        }
    }

    /// Forgets the vectors before: no row of the new ones matches anything yet.
    pub(super) fn clear(&mut self) {
        let rows = self.layout.padded(self.items.len());
        self.reject.clear();
        self.reject.resize(rows, F::Element::NEVER);
        self.accept.clear();
        self.accept.resize(rows, F::Element::UNSURE);
        self.heads.clear();
        self.head = 0;
        self.bounds.clear();
        self.bounds.resize(rows, RowBounds::Fixed(never::<F>()));
        self.retired.clear();
        self.retired.resize(rows, false);
        self.second.reset();
    }

    /// Converts the vectors, which are some of `items`, for the panels of their partners.
    pub(super) fn convert(&mut self, items: &Vectors, filter: &F, has_norms: bool) {
        let places = F::places(self.dimensions);
        self.numbers.fill(F::Element::ZERO, self.layout.len(self.items.len(), places));
        for (row, item) in self.items.clone().enumerate() {
            items.prefetch(item.saturating_add(AHEAD));
            let to = self.layout.row(&mut self.numbers, row, places);
            self.bounds[row] = filter.probe(items, item, to);
        }
        if has_norms {
            self.norm = most_norm(self.items.clone().map(|item| items.vector(item)));
        }
        let Range { start, end } = self.partners;
        self.panels = start as usize / PANEL..(end as usize).div_ceil(PANEL);
        self.set_scale(1.0);
        if (1..places).contains(&filter.head()) && self.layout == RowLayout::LANES {
            self.head = filter.head();
            self.heads.resize(self.reject.len(), F::Element::NEVER);
            for (row, (head, reject)) in self.heads.iter_mut().zip(&self.reject).enumerate() {
                if row < self.items.len() {
                    let own = self.layout.row(&mut self.numbers, row, places);
                    let tail = own.take(places).skip(self.head).map(|place| *place);
                    *head = F::Element::head_of_row(*reject, tail);
                }
            }
        }
    }

    /// Rejects what follows of a row.
    pub(super) fn retire(&mut self, row: usize) {
        if let (Some(retired), Some(reject)) = (self.retired.get_mut(row), self.reject.get_mut(row))
        {
            (*retired, *reject) = (true, F::Element::NEVER);
            if let Some(head) = self.heads.get_mut(row) {
                *head = F::Element::NEVER;
            }
            self.bounds[row] = RowBounds::Fixed(never::<F>());
        }
        self.second.retire(row);
    }

    /// Sets the bounds for panels of a scale.
    pub(super) fn set_scale(&mut self, scale: f64) {
        self.scale = scale;
        let of_rows = self.bounds.iter().zip(self.reject.iter_mut().zip(&mut self.accept));
        for (bounds, (reject, accept)) in of_rows {
            let at = F::bounds_at(*bounds, scale);
            (*reject, *accept) = (at.reject, at.accept);
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.panels.is_empty() && self.listed.is_empty()
    }

    /// The number of the next panel, and as many panels from it on as are compared at once, `most` at most; `None`
    /// where all listed ones have been.
    pub(super) fn next_panels<'a>(
        &mut self,
        side: &'a BuildPanels<F>,
        most: usize,
    ) -> Option<(usize, SomePanels<'a, F>)> {
        if self.extent.is_none() {
            if self.panels.is_empty() {
                return None;
            }
            let panel = self.panels.start;
            let some = side.panels(panel, most.min(self.panels.len()));
            self.panels.start += some.1;
            return Some((panel, some));
        }
        let panel = self.listed.pop()? as usize;
        let others = self.listed.iter().rev().map(|&other| other as usize);
        let some = side.spaced(panel, others, most);
        self.listed.truncate(self.listed.len() + 1 - some.1);
        Some((panel, some))
    }
}

/// The bounds of a row that matches nothing.
fn never<F: Filter>() -> ProductBounds<Bound<F>> {
    ProductBounds { reject: F::Element::NEVER, accept: F::Element::UNSURE }
}
