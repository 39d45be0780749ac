//! The items of the sides of a search.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray};

use super::NeighbourRequest;
use crate::engine::{
    AnyMatcher, Collection, EncodeInput, Encoded, EncodedPart, FinishContext, KeyDictionary,
    ProbeEncoder, Scratch,
};
use crate::error::Result;
use crate::memory::{Memory, Reservation};
use crate::predicate::Side;
use crate::util::attached::Attached;
use crate::util::parallel::map;

/// The items of the right side, or of the side that is both, with what encodes others.
pub(super) struct RightItems {
    pub items: Arc<dyn Collection>,
    encoder: Arc<dyn ProbeEncoder>,
    keys: KeyDictionary,
    /// The indexes that joins of the items leave for each other.
    pub kept: Attached,
    _memory: Reservation,
}

/// The items of neighbouring left rows.
pub(super) struct LeftItems {
    /// The number of the first row.
    pub first_row: u32,
    pub items: Arc<dyn Collection>,
    _memory: Option<Reservation>,
}

/// A batch, and the numbers of its rows.
type Numbered = (usize, Range<u32>);

/// Some rows of a side, batch by batch.
struct SideBatches<'a> {
    matcher: &'a dyn AnyMatcher,
    request: &'a NeighbourRequest<'a>,
    side: Side,
    /// The numbers of the rows, in rising order.
    rows: &'a [u32],
}

impl SideBatches<'_> {
    fn numbered(&self) -> Vec<Numbered> {
        let batches = self.request.sides[self.side as usize].argument.rows().iter();
        let ranges = batches.scan(0, |next, rows| {
            let first = *next;
            *next += *rows as u32;
            Some(first..*next)
        });
        ranges.enumerate().filter(|(_, rows)| self.takes_part(rows)).collect()
    }

    /// The rows among these that take part.
    fn rows(&self, Range { start, end }: &Range<u32>) -> &[u32] {
        let [from, to] = [start, end].map(|row| self.rows.partition_point(|other| other < row));
        &self.rows[from..to]
    }

    fn takes_part(&self, rows: &Range<u32>) -> bool {
        !self.rows(rows).is_empty()
    }

    /// Hands over the rows of a batch. `memory` grows by values that are computed, until they are taken.
    fn with_input<T>(
        &self,
        (batch, range): &Numbered,
        memory: &dyn Memory,
        take: impl FnOnce(&EncodeInput<'_>) -> Result<T>,
    ) -> Result<T> {
        self.request.cancel.check()?;
        let (argument, of_origin) =
            (self.request.sides[self.side as usize].argument, self.matcher.reads_origin(self.side));
        let held = memory.new_empty();
        let values: ArrayRef = argument.values(*batch, 0..range.len(), of_origin)?;
        if !argument.is_stored(of_origin) {
            held.try_grow(values.get_array_memory_size())?;
        }
        let rows = self.rows(range);
        let filter = (rows.len() < range.len()).then(|| {
            let mut takes_part = vec![false; range.len()];
            rows.iter().for_each(|row| takes_part[(row - range.start) as usize] = true);
            BooleanArray::from(takes_part)
        });
        let keys = argument.keys(*batch)?;
        take(&EncodeInput { values: &values, keys: keys.as_ref(), filter: filter.as_ref() })
    }
}

impl RightItems {
    /// Reads the right side, or the one that is both.
    ///
    /// # Errors
    ///
    /// When memory is refused, the argument has no value, or the work is cancelled.
    pub(super) fn read(matcher: &dyn AnyMatcher, request: &NeighbourRequest<'_>) -> Result<Self> {
        let memory = request.reservation.new_empty();
        let side = if request.itself { Side::Left } else { Side::Right };
        let rows = request.sides[side as usize].rows;
        let batches = SideBatches { matcher, request, side, rows };
        let numbered = batches.numbered();
        let share = numbered.len().div_ceil(request.threads.count()).max(1);
        let encoded = |share: &[Numbered]| -> Result<EncodedPart> {
            let (mut encoder, mut keys) = (matcher.encoder(side, None)?, KeyDictionary::default());
            for batch in share {
                batches.with_input(batch, &memory, |input| {
                    encoder.push(batch.1.start, input, &mut keys, &memory, 0)
                })?;
            }
            Ok((encoder, keys))
        };
        let mut parts = map(request.threads, numbered.chunks(share).collect(), encoded)?;
        if parts.is_empty() {
            parts.push((matcher.encoder(side, None)?, KeyDictionary::default()));
        }
        let context = FinishContext {
            reservation: &memory,
            base: 0,
            peak: &|| {},
            cancel: request.cancel,
            threads: request.threads,
            // Rounds read the left rows that are left again.
            meets_others: true,
            self_join: request.itself,
            probe: None,
        };
        let Encoded { items, encoder, keys } = matcher.finish(parts, &context)?;
        memory
            .try_resize(items.size_in_bytes() + encoder.size_in_bytes() + keys.size_in_bytes())?;
        let (items, kept) = (items.into(), Attached::default());
        Ok(Self { items, encoder, keys, kept, _memory: memory })
    }

    /// The items of some left rows, in the order of the rows. Where these are all rows of the side that is both, their
    /// items are those of the right side.
    ///
    /// # Errors
    ///
    /// When memory is refused, the argument has no value, or the work is cancelled.
    pub(super) fn left(
        &self,
        matcher: &dyn AnyMatcher,
        request: &NeighbourRequest<'_>,
        rows: &[u32],
    ) -> Result<Vec<LeftItems>> {
        if request.itself && rows.len() == request.sides[0].rows.len() {
            let items = Arc::clone(&self.items);
            return Ok(vec![LeftItems { first_row: 0, items, _memory: None }]);
        }
        let batches = SideBatches { matcher, request, side: Side::Left, rows };
        map(request.threads, batches.numbered(), |batch: Numbered| {
            let memory = request.reservation.new_empty();
            let mut scratch = Scratch::default();
            let items = batches.with_input(&batch, &memory, |input| {
                self.encoder.encode(input, &self.keys, &mut scratch, &memory, 0)
            })?;
            drop(scratch);
            memory.try_resize(items.size_in_bytes())?;
            Ok(LeftItems { first_row: batch.1.start, items, _memory: Some(memory) })
        })
    }
}
