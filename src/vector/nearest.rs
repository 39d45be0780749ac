//! Nearest vectors at once, where a device finds them.

use std::ops::Range;

use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::expressions::Column;

use super::device::nearest::{Band, Bands, Declined, SideNumbers, Vectors, find, may_find};
use super::metric::Metric;
use super::middle::{Middle, is_usual, spread};
use super::numbers::{Numbers, Row, holds_vectors};
use crate::engine::{DeviceChoice, NeighbourRequest, NeighbourSearch, NeighbourSide, Neighbours};
use crate::gpu::Device;
use crate::util::cancel::CancelFlag;

/// The vectors among the rows of a side, numbered in their order.
#[derive(Debug)]
struct SideColumn {
    columns: Vec<Numbers>,
    /// By vector: the batch, and the row there.
    vectors: Vec<(u32, u32)>,
    /// By vector: its place among the rows of the side.
    places: Vec<u32>,
    /// 0 where there is no vector.
    dimensions: u32,
    _memory: MemoryReservation,
}

/// A side, or the reason why it has vectors that a device does not take.
type Read = std::result::Result<SideColumn, String>;

impl SideColumn {
    /// Reads a side, by `source` in place of its argument where there is one.
    fn read(
        side: &NeighbourSide<'_>,
        source: Option<PhysicalExprRef>,
        metric: Metric,
        (memory, cancel): (MemoryReservation, &CancelFlag),
    ) -> Result<Read> {
        let argument = source.as_ref().unwrap_or(side.argument);
        memory.try_grow(side.rows.len() * (size_of::<(u32, u32)>() + size_of::<u32>()))?;
        let (mut columns, mut vectors, mut places) = (vec![], vec![], vec![]);
        let (mut rows, mut start, mut dimensions) = (side.rows.iter().enumerate().peekable(), 0, 0);
        vectors.reserve_exact(side.rows.len());
        places.reserve_exact(side.rows.len());
        for (batch_number, batch) in (0..).zip(side.batches) {
            cancel.check()?;
            let column = argument.evaluate(batch)?.into_array(batch.num_rows())?;
            if !argument.is::<Column>() {
                memory.try_grow(column.get_array_memory_size())?;
            }
            if !holds_vectors(column.data_type()) {
                return Ok(Err(format!("a column of {}", column.data_type())));
            }
            let numbers = Numbers::try_new(&column)?;
            let end = start + batch.num_rows() as u32;
            while let Some((place, row)) = rows.next_if(|(_, row)| **row < end) {
                match numbers.row((row - start) as usize) {
                    Row::Null => {}
                    // The function looks at the length of these before.
                    Row::WithNull(_) if metric.measures_nulls() => {
                        return Ok(Err("vectors with NULL".to_string()));
                    }
                    Row::WithNull(_) => {}
                    Row::Vector(range) => {
                        let len = u32::try_from(range.len()).unwrap_or(u32::MAX);
                        if dimensions != 0 && len != dimensions || len == 0 {
                            return Ok(Err("vectors of several lengths".to_string()));
                        }
                        dimensions = len;
                        vectors.push((batch_number, row - start));
                        places.push(place as u32);
                    }
                }
            }
            start = end;
            columns.push(numbers);
        }
        Ok(Ok(Self { columns, vectors, places, dimensions, _memory: memory }))
    }

    /// The numbers of a vector: the column that has them, and where they lie there.
    fn vector(&self, number: usize) -> (&Numbers, Range<usize>) {
        let (batch, row) = self.vectors[number];
        let numbers = &self.columns[batch as usize];
        match numbers.row(row as usize) {
            Row::Vector(range) => (numbers, range),
            Row::Null | Row::WithNull(_) => (numbers, 0..0),
        }
    }

    /// Gives the pieces of vectors at some places of all their numbers, each with where it begins there.
    fn for_each(&self, places: Range<usize>, mut give: impl FnMut(&Numbers, Range<usize>, usize)) {
        let dimensions = self.dimensions.max(1) as usize;
        let mut place = places.start;
        while place < places.end {
            let (number, first) = (place / dimensions, place % dimensions);
            let count = (dimensions - first).min(places.end - place);
            let (numbers, range) = self.vector(number);
            let start = range.start + first;
            give(numbers, start..start + count, place - places.start);
            place += count;
        }
    }

    /// Where most of the vectors lie; whole numbers where theirs are, so that they stay exact.
    fn centre(&self, cancel: &CancelFlag) -> Result<Vec<f64>> {
        const SAMPLED: usize = 1 << 10;
        let some = spread(0..self.vectors.len() as u32, SAMPLED).map(|number| {
            let (numbers, range) = self.vector(number as usize);
            let mut vector = vec![];
            numbers.append(range, &mut vector);
            vector
        });
        let some: Vec<Vec<f64>> = some.filter(|vector| is_usual(vector)).collect();
        let whole = some.iter().flatten().all(|number| number.fract() == 0.0);
        let vectors = some.iter().map(Vec::as_slice);
        let Middle { mut centre, .. } = Middle::of(vectors, true, cancel)?;
        centre.resize(self.dimensions as usize, 0.0);
        centre.iter_mut().filter(|_| whole).for_each(|mean| *mean = mean.round());
        Ok(centre)
    }
}

impl SideNumbers for SideColumn {
    fn count(&self) -> u32 {
        self.vectors.len() as u32
    }

    fn write_narrow(&self, places: Range<usize>, to: &mut [f32]) -> bool {
        let mut all = true;
        self.for_each(places, |numbers, range, at| {
            let len = range.len();
            all &= numbers.write_narrow(range, &mut to[at..at + len]);
        });
        all
    }

    fn write_wide(&self, places: Range<usize>, to: &mut [f64]) {
        self.for_each(places, |numbers, range, at| {
            let len = range.len();
            numbers.write_wide(range, &mut to[at..at + len]);
        });
    }
}

/// Whether the work is enough for a device that nobody insists on.
fn pays(request: &NeighbourRequest<'_>) -> bool {
    /// Pairs that are worth a device: one that is open, and one that is to be opened, for some hundred
    /// milliseconds.
    const OPEN: f64 = 1e8;
    const CLOSED: f64 = 4e9;
    let [left, right] = request.sides.map(|side| side.rows.len() as f64);
    match request.device {
        DeviceChoice::Cpu => false,
        DeviceChoice::Cuda(_) => true,
        DeviceChoice::Auto => {
            let least = if Device::opened(0).is_some() { OPEN } else { CLOSED };
            left * right >= least
        }
    }
}

/// The neighbours of the left rows of a request. `sources`: expressions that arguments are casts of.
///
/// # Errors
///
/// The errors of evaluating arguments.
pub(super) fn neighbours(
    metric: Metric,
    request: &NeighbourRequest<'_>,
    sources: [Option<PhysicalExprRef>; 2],
) -> Result<NeighbourSearch> {
    let declined = |why: &str| Ok(NeighbourSearch::Declined(Some(why.to_string())));
    // A product has no bound that follows from a distance.
    if metric == Metric::InnerProduct || !pays(request) {
        return Ok(NeighbourSearch::Declined(None));
    }
    let most = request.sides[1].rows.len().try_into().unwrap_or(u32::MAX);
    if !may_find(request.count, most, 1) {
        return declined("too many neighbours, or too few vectors");
    }
    // The places of neighbours are 32 bits.
    if request.sides[0].rows.len().saturating_mul(2 * request.count) > u32::MAX as usize {
        return declined("too many neighbours");
    }
    let [of_left, of_right] = sources;
    let [left, right] = &request.sides;
    let memory = || request.reservation.new_empty();
    let left = match SideColumn::read(left, of_left, metric, (memory(), request.cancel))? {
        Ok(left) => left,
        Err(why) => return declined(&why),
    };
    let right = match request.itself {
        true => None,
        false => match SideColumn::read(right, of_right, metric, (memory(), request.cancel))? {
            Ok(right) => Some(right),
            Err(why) => return declined(&why),
        },
    };
    let columns = right.as_ref().unwrap_or(&left);
    if left.count() == 0 || columns.count() == 0 {
        return declined("no vectors");
    }
    if left.dimensions != columns.dimensions {
        return declined("vectors of several lengths");
    }
    if !may_find(request.count, columns.count(), columns.dimensions) {
        return declined("too few vectors");
    }
    let centre = if metric == Metric::Euclidean { columns.centre(request.cancel)? } else { vec![] };
    let vectors = Vectors {
        metric,
        neighbours: request.count,
        with_ties: request.with_ties,
        dimensions: left.dimensions,
        left: &left,
        right: right.as_ref().map(|right| right as _),
        centre,
    };
    match find(&vectors, request.device, &request.gpu, request.reservation) {
        Ok(bands) => Ok(NeighbourSearch::Found(in_rows(request, bands, &left, columns))),
        // Where nobody asks for a device its absence is no remark.
        Err(_) if request.device == DeviceChoice::Auto && Device::opened(0).is_none() => {
            Ok(NeighbourSearch::Declined(None))
        }
        Err(Declined(why)) => declined(&why),
    }
}

/// The neighbours of vectors as those of rows.
fn in_rows(
    request: &NeighbourRequest<'_>,
    Bands { device, bands }: Bands,
    left: &SideColumn,
    right: &SideColumn,
) -> Neighbours {
    let count = request.sides[0].rows.len();
    // A row without a vector has no neighbours.
    let rows = request.sides[if request.itself { 0 } else { 1 }].rows;
    let row_of = |column: u32| rows[right.places[column as usize] as usize];
    let is_identity = (0..right.count()).all(|column| row_of(column) == column);
    let (starts, counts) = (vec![0; count], vec![0; count]);
    let (partners, values, memory) = (vec![], vec![], vec![]);
    let mut neighbours = Neighbours { starts, counts, partners, values, device, memory };
    for Band { rows, starts, counts, columns, values, memory, .. } in bands {
        neighbours.memory.push(memory);
        let before = neighbours.partners.len() as u32;
        if neighbours.partners.is_empty() {
            (neighbours.partners, neighbours.values) = (columns, values);
        } else {
            neighbours.partners.extend(columns);
            neighbours.values.extend(values);
        }
        for ((row, start), count) in rows.zip(starts).zip(counts) {
            let place = left.places[row as usize] as usize;
            neighbours.counts[place] = count;
            // Nothing is said of where a row's neighbours lie that was not served.
            if count == Neighbours::NOT_SERVED {
                continue;
            }
            let start = before + start;
            neighbours.starts[place] = start;
            if !is_identity {
                let of_row = start as usize..start as usize + count as usize;
                let partners = &mut neighbours.partners[of_row];
                partners.iter_mut().for_each(|column| *column = row_of(*column));
            }
        }
    }
    neighbours
}
