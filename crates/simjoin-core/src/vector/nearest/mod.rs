//! Nearest vectors at once, on a device or on the CPU.
//!
//! ```text
//! side.rs        a side, read where its numbers lie
//! host/          the search of the CPU
//! on_devices.rs  the call of a search on devices
//! ```

mod host;
mod on_devices;
mod side;

use std::sync::Arc;

use self::host::KeptVectors;
pub use self::on_devices::{Declined, NearestOnDevices, NearestVectors, SideNumbers};
use self::side::SideColumn;
use super::bands::{Bands, NeighbourBand};
use super::metric::Metric;
use crate::engine::{DeviceChoice, NeighbourRequest, NeighbourSearch, Neighbours, Round, Way};
use crate::error::Result;
use crate::memory::CountedVec;

/// Whether the work is enough for a device that nobody insists on.
fn pays_on_device(request: &NeighbourRequest<'_>, devices: &dyn NearestOnDevices) -> bool {
    /// Pairs that are worth a device: one that is open, and one that is to be opened, for some hundred
    /// milliseconds.
    const OPEN: f64 = 1e8;
    const CLOSED: f64 = 4e9;
    let [left, right] = request.sides.map(|side| side.rows.len() as f64);
    match request.device {
        DeviceChoice::Cpu => false,
        DeviceChoice::Cuda(_) => true,
        DeviceChoice::Auto => {
            let least = if devices.is_open() { OPEN } else { CLOSED };
            left * right >= least
        }
    }
}

/// The neighbours of the left rows of a request. `casts`: by side, whether the values are read that the
/// argument is a cast of. `devices`: the search there, where there is one.
///
/// # Errors
///
/// The errors of evaluating arguments, and when the work is cancelled.
pub(super) fn neighbours(
    metric: Metric,
    request: &NeighbourRequest<'_>,
    casts: [bool; 2],
    devices: Option<&dyn NearestOnDevices>,
) -> Result<NeighbourSearch> {
    let declined = |why: &str| Ok(NeighbourSearch::Declined(Some(why.to_string())));
    let devices = devices.filter(|devices| pays_on_device(request, *devices));
    let on_host = !matches!(request.device, DeviceChoice::Cuda(_)) && host::pays(request);
    // A product has no bound that follows from a distance.
    if metric == Metric::InnerProduct || !(devices.is_some() || on_host) {
        return Ok(NeighbourSearch::Declined(None));
    }
    // The places of neighbours are 32 bits.
    if request.sides[0].rows.len().saturating_mul(2 * request.count) > u32::MAX as usize {
        return declined("too many neighbours");
    }
    let [of_left, of_right] = casts;
    let [left, right] = &request.sides;
    let memory = || request.reservation.new_empty();
    // Rows that are both sides lie in an order of their own.
    let kept = request.kept.filter(|_| !request.itself).map(|kept| kept.get::<KeptVectors>());
    let left = match kept.as_ref().and_then(|kept| kept.side()) {
        Some(left) => left,
        None => match SideColumn::read(left, of_left, metric, (memory(), request.cancel))? {
            Ok(left) => Arc::new(left),
            Err(why) => return declined(&why),
        },
    };
    if let Some(kept) = &kept {
        kept.keep_side(&left);
    }
    let right = match request.itself {
        true => None,
        false => match SideColumn::read(right, of_right, metric, (memory(), request.cancel))? {
            Ok(right) => Some(right),
            Err(why) => return declined(&why),
        },
    };
    let columns: &SideColumn = right.as_ref().unwrap_or(&left);
    if left.count() == 0 || columns.count() == 0 {
        return declined("no vectors");
    }
    if left.dimensions != columns.dimensions {
        return declined("vectors of several lengths");
    }
    let mut reason = None;
    if let Some(devices) = devices {
        match of_device(devices, metric, request, (&left, right.as_ref()))? {
            Ok(bands) => {
                return in_rows(request, bands, &left, columns).map(NeighbourSearch::Found);
            }
            Err(why) => reason = why,
        }
    }
    if on_host {
        let search = host::HostSearch::new(metric, request, &left, right.as_ref());
        match search.find(kept.as_deref())? {
            Ok(bands) => {
                return in_rows(request, bands, &left, columns).map(NeighbourSearch::Found);
            }
            Err(why) => reason = reason.or(why),
        }
    }
    Ok(NeighbourSearch::Declined(reason))
}

/// The neighbours that a device finds; the reason where it does not and that is worth a remark.
fn of_device(
    devices: &dyn NearestOnDevices,
    metric: Metric,
    request: &NeighbourRequest<'_>,
    (left, right): (&SideColumn, Option<&SideColumn>),
) -> Result<std::result::Result<Bands, Option<String>>> {
    let columns = right.unwrap_or(left);
    if !devices.may_find(request.count, columns.count(), columns.dimensions) {
        return Ok(Err(Some("too many neighbours, or too few vectors".to_string())));
    }
    let centre = if metric == Metric::Euclidean { columns.centre(request.cancel)? } else { vec![] };
    let vectors = NearestVectors {
        metric,
        neighbours: request.count,
        with_ties: request.with_ties,
        dimensions: left.dimensions,
        left,
        right: right.map(|right| right as _),
        centre,
        tuning: request.threads.tuning,
    };
    Ok(match devices.find(&vectors, request.device, &request.gpu, request.reservation) {
        Ok(bands) => Ok(bands),
        // Where nobody asks for a device its absence is no remark.
        Err(_) if request.device == DeviceChoice::Auto && !devices.is_open() => Err(None),
        Err(Declined(why)) => Err(Some(why)),
    })
}

/// The neighbours of rows, from the neighbours of their vectors.
fn in_rows(
    request: &NeighbourRequest<'_>,
    Bands { device, bands }: Bands,
    left: &SideColumn,
    right: &SideColumn,
) -> Result<Neighbours> {
    let count = request.sides[0].rows.len();
    // A row without a vector has no neighbours.
    let rows = request.sides[if request.itself { 0 } else { 1 }].rows;
    let row_of = |column: u32| rows[right.places[column as usize] as usize];
    let is_identity = (0..right.count()).all(|column| row_of(column) == column);
    let mut neighbours = Neighbours::none(request)?;
    neighbours.counts.fill(0);
    for NeighbourBand { rows, starts, counts, columns, values, memory, .. } in bands {
        drop(memory);
        let before = neighbours.partners.len() as u32;
        neighbours.partners.try_append(CountedVec::of(columns, request.reservation)?)?;
        neighbours.values.try_append(CountedVec::of(values, request.reservation)?)?;
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
    let not_served =
        neighbours.counts.iter().filter(|count| **count == Neighbours::NOT_SERVED).count();
    let (way, served) = (Way::AtOnce(device), count - not_served);
    neighbours.rounds.push(Round { way, rows: count, served });
    Ok(neighbours)
}
