//! The sets of the sides of a search.

use std::ops::Range;

use arrow::array::{Array, ArrayRef, BooleanArray};

use crate::engine::{EncodeInput, Encoding, FinishContext, KeyDictionary, NeighbourRequest};
use crate::error::Result;
use crate::memory::{Memory, Reservation};
use crate::predicate;
use crate::set::collection::SetCollection;
use crate::set::encode::finish::finish;
use crate::set::encode::{BuildEncoder, ProbeEncoder, ProbeScratch};
use crate::set::matcher::SetMatcher;
use crate::util::parallel::map;

/// The sets of the right side, or of the side that is both, with what encodes others.
pub(super) struct SetSide {
    pub sets: SetCollection,
    encoder: ProbeEncoder,
    _memory: Reservation,
}

/// The left sets of some rows: collections of neighbouring rows; none where the right sets are both sides.
pub(super) struct LeftSets(Option<Vec<LeftBatch>>);

struct LeftBatch {
    first_row: u32,
    sets: SetCollection,
    _memory: Reservation,
}

/// A batch, and the numbers of its rows.
type Numbered = (usize, Range<u32>);

/// The values of some rows.
pub(super) struct SideValues {
    first_row: u32,
    values: ArrayRef,
    /// The rows that take part; `None` where all do.
    takes_part: Option<BooleanArray>,
    _memory: Reservation,
}

fn numbered(request: &NeighbourRequest<'_>, side: predicate::Side) -> Vec<Numbered> {
    let batches = request.sides[side as usize].argument.rows().iter();
    let ranges = batches.scan(0, |next, rows| {
        let first = *next;
        *next += *rows as u32;
        Some(first..*next)
    });
    ranges.enumerate().collect()
}

/// The values of a batch.
fn values_of(
    matcher: &SetMatcher,
    request: &NeighbourRequest<'_>,
    side: predicate::Side,
    (batch, Range { start: first_row, end }): Numbered,
) -> Result<SideValues> {
    request.cancel.check()?;
    let memory = request.reservation.new_empty();
    let (argument, of_origin) = (request.sides[side as usize].argument, matcher.reads_origin(side));
    let count = (end - first_row) as usize;
    let values = argument.values(batch, 0..count, of_origin)?;
    if !argument.is_stored(of_origin) {
        memory.try_grow(values.get_array_memory_size())?;
    }
    let rows = request.sides[side as usize].rows;
    let [from, to] = [first_row, end].map(|row| rows.partition_point(|other| *other < row));
    let takes_part = (to - from < count).then(|| {
        let mut takes_part = vec![false; count];
        rows[from..to].iter().for_each(|row| takes_part[(row - first_row) as usize] = true);
        BooleanArray::from(takes_part)
    });
    Ok(SideValues { first_row, values, takes_part, _memory: memory })
}

impl SideValues {
    /// All of these values, by the number of their first row.
    pub(super) fn all(first_row: u32, values: ArrayRef, memory: Reservation) -> Self {
        Self { first_row, values, takes_part: None, _memory: memory }
    }

    fn input(&self) -> EncodeInput<'_> {
        EncodeInput { values: &self.values, keys: None, filter: self.takes_part.as_ref() }
    }
}

/// An encoder that has read some values.
pub(super) fn encoded(
    matcher: &SetMatcher,
    side: predicate::Side,
    values: impl IntoIterator<Item = Result<SideValues>>,
    memory: &dyn Memory,
) -> Result<BuildEncoder> {
    let (mut encoder, mut keys) = (matcher.encoder(side), KeyDictionary::default());
    for values in values {
        let values = values?;
        encoder.push_at(values.first_row, &values.input(), &mut keys, memory, 0)?;
    }
    Ok(encoder)
}

/// The sets of the rows that some encoders have read.
pub(super) fn merged(
    encoders: Vec<BuildEncoder>,
    request: &NeighbourRequest<'_>,
    memory: &dyn Memory,
) -> Result<(SetCollection, ProbeEncoder)> {
    let context = FinishContext {
        reservation: memory,
        base: 0,
        peak: &|| {},
        cancel: request.cancel,
        threads: request.threads,
        meets_others: !request.itself,
        self_join: request.itself,
        probe: None,
    };
    let parts = encoders.into_iter().map(|encoder| (encoder, KeyDictionary::default())).collect();
    let (sets, encoder, _) = finish(parts, &context)?;
    Ok((sets, encoder))
}

impl SetSide {
    /// Reads the rows of a side.
    ///
    /// # Errors
    ///
    /// When memory is refused, the argument has no value, or the work is cancelled.
    pub(super) fn read(
        matcher: &SetMatcher,
        request: &NeighbourRequest<'_>,
        side: predicate::Side,
    ) -> Result<Self> {
        let memory = request.reservation.new_empty();
        let batches = numbered(request, side);
        let share = batches.len().div_ceil(request.threads.count()).max(1);
        let shares = batches.chunks(share).collect();
        let encoders = map(request.threads, shares, |batches: &[Numbered]| {
            let batches = batches.iter().cloned();
            let values = batches.map(|batch| values_of(matcher, request, side, batch));
            encoded(matcher, side, values, &memory)
        })?;
        let (sets, encoder) = merged(encoders, request, &memory)?;
        Ok(Self { sets, encoder, _memory: memory })
    }
}

impl LeftSets {
    /// The sets of the other side.
    pub(super) fn itself() -> Self {
        Self(None)
    }

    /// Reads the rows of the left side.
    ///
    /// # Errors
    ///
    /// When memory is refused, the argument has no value, or the work is cancelled.
    pub(super) fn read(
        matcher: &SetMatcher,
        request: &NeighbourRequest<'_>,
        right: &SetSide,
    ) -> Result<Self> {
        let side = predicate::Side::Left;
        let keys = KeyDictionary::default();
        let read = map(request.threads, numbered(request, side), |batch| {
            let memory = request.reservation.new_empty();
            let values = values_of(matcher, request, side, batch)?;
            let (input, mut scratch) = (values.input(), ProbeScratch::default());
            let sets = right.encoder.encode(&input, &keys, &mut scratch, &memory, 0)?;
            drop(scratch);
            memory.try_resize(sets.size_in_bytes())?;
            Ok(LeftBatch { first_row: values.first_row, sets, _memory: memory })
        })?;
        Ok(Self(Some(read)))
    }

    /// The number of collections; `None` where the right sets are both sides.
    pub(super) fn len(&self) -> Option<usize> {
        self.0.as_ref().map(Vec::len)
    }

    /// A collection of them; `None` where the right sets are both sides.
    pub(super) fn collection(&self, number: usize) -> Option<&SetCollection> {
        self.0.as_ref()?.get(number).map(|batch| &batch.sets)
    }

    /// The number of the first row of a collection.
    pub(super) fn first_row(&self, number: usize) -> u32 {
        self.0.as_ref().map_or(0, |batches| batches[number].first_row)
    }
}
