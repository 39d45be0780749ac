//! The vectors of a side as they are compared.

use super::forms::{ByteSums, Forms, To, flipped};
use crate::error::Result;
use crate::util::cancel::CancelFlag;
use crate::util::parallel::{Threads, for_each};
use crate::vector::aligned::Aligned;
use crate::vector::nearest::side::SideColumn;
use crate::vector::tile::{PANEL, RowLayout};

/// Rows that meet panels together.
pub(super) const BLOCK: usize = 8 * RowLayout::LANES.unit;

const _: () = assert!(BLOCK.is_multiple_of(RowLayout::TILES.unit) && BLOCK.is_multiple_of(PANEL));

/// Vectors in an order, in blocks of [`BLOCK`].
#[derive(Debug)]
pub(super) struct Written {
    /// By place, the number of the vector.
    pub numbers: Vec<u32>,
    /// Block by block, as rows; and panel by panel. Empty where they are not such.
    pub rows: Aligned<i32>,
    pub panels: Aligned<i32>,
    /// The sums of the vector at each place.
    pub sums: Vec<ByteSums>,
    pub points: Vec<f32>,
    pub offs: Vec<f32>,
}

/// The roles of vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Roles {
    pub rows: bool,
    pub panels: bool,
}

/// The parts of [`Written`] that a task writes.
struct WrittenPart<'a> {
    numbers: &'a [u32],
    rows: &'a mut [i32],
    layout: RowLayout,
    panels: &'a mut [i32],
    sums: &'a mut [ByteSums],
    points: &'a mut [f32],
    offs: &'a mut [f32],
}

impl Written {
    /// A bound on the bytes of `count` vectors.
    pub(super) fn bytes(count: usize, forms: &Forms, roles: Roles) -> usize {
        // Rows may be padded.
        let of_rows = forms.layout.len(BLOCK, forms.places()).div_ceil(BLOCK);
        let elements =
            usize::from(roles.rows) * of_rows + usize::from(roles.panels) * forms.places();
        let of_vector = elements * size_of::<i32>()
            + forms.stride() * size_of::<f32>()
            + size_of::<ByteSums>()
            + size_of::<f32>()
            + size_of::<u32>();
        count.next_multiple_of(BLOCK) * of_vector
    }

    /// Writes the vectors of these numbers; `None` where one has no such form.
    ///
    /// # Errors
    ///
    /// When the work is cancelled.
    pub(super) fn of(
        side: &SideColumn,
        forms: &Forms,
        numbers: Vec<u32>,
        roles: Roles,
        (threads, cancel): (Threads, &CancelFlag),
    ) -> Result<Option<Self>> {
        let room = numbers.len().next_multiple_of(BLOCK);
        let (places, stride, layout) = (forms.places(), forms.stride(), forms.layout);
        let mut written = Self {
            rows: Aligned::filled(0, if roles.rows { layout.len(room, places) } else { 0 }),
            panels: Aligned::filled(0, if roles.panels { room * places } else { 0 }),
            sums: vec![ByteSums::default(); room],
            points: vec![0.0; room * stride],
            offs: vec![0.0; room],
            numbers,
        };
        // A block is a multiple of panels, too.
        let mut rows = written.rows.chunks_mut(layout.len(BLOCK, places).max(1));
        let mut panels = written.panels.chunks_mut((BLOCK * places).max(1));
        let of_points = written.points.chunks_mut(BLOCK * stride);
        let of_all = written.sums.chunks_mut(BLOCK).zip(written.offs.chunks_mut(BLOCK));
        let parts = written.numbers.chunks(BLOCK).zip(of_points.zip(of_all));
        let parts = parts.map(|(numbers, (points, (sums, offs)))| WrittenPart {
            numbers,
            rows: rows.next().unwrap_or_default(),
            layout,
            panels: panels.next().unwrap_or_default(),
            sums,
            points,
            offs,
        });
        let all = std::sync::atomic::AtomicBool::new(true);
        for_each(threads, parts.collect(), |part| {
            cancel.check()?;
            if !write(side, forms, part) {
                all.store(false, std::sync::atomic::Ordering::Relaxed);
            }
            Ok(())
        })?;
        Ok(all.into_inner().then_some(written))
    }

    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// The point at a place.
    #[inline]
    pub(super) fn point(&self, place: usize, stride: usize) -> &[f32] {
        &self.points[place * stride..(place + 1) * stride]
    }
}

/// Writes a block.
fn write(side: &SideColumn, forms: &Forms, part: WrittenPart<'_>) -> bool {
    let (places, stride) = (forms.places(), forms.stride());
    let (mut buffer, mut bytes, mut all) = (vec![], vec![0; places], true);
    for (row, number) in part.numbers.iter().enumerate() {
        bytes.fill(0);
        all &= forms.write(
            side.vector(*number, &mut buffer),
            To {
                bytes: &mut bytes,
                sums: &mut part.sums[row],
                point: &mut part.points[row * stride..(row + 1) * stride],
                off: &mut part.offs[row],
            },
        );
        if !part.rows.is_empty() {
            let to = part.layout.row(part.rows, row, places);
            to.zip(&bytes).for_each(|(to, from)| *to = *from);
        }
        if !part.panels.is_empty() {
            let panel = &mut part.panels[row / PANEL * PANEL * places..][..PANEL * places];
            let to = panel.iter_mut().skip(row % PANEL).step_by(PANEL);
            to.zip(&bytes).for_each(|(to, from)| *to = flipped(*from));
        }
    }
    all
}
