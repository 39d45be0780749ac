//! The devices of one join.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crate::config::DeviceChoice;
use crate::gpu::{Device, DeviceError};
use crate::set::SetCollection;
use crate::set::device::launch::VERIFY;
use crate::set::device::{Capacities, ResidentSets, Staging};

/// The devices that a join sends its chunks to. All of them hold the build sets, or none does: so
/// a chunk suits every device.
#[derive(Debug)]
pub(crate) struct Places {
    places: Vec<Place>,
    /// Where the search for the shortest queue begins: devices of equal queues take turns.
    next: AtomicUsize,
    /// Visible devices that the join cannot use, and why.
    left_out: Vec<String>,
}

/// A device of a join.
#[derive(Debug)]
pub(crate) struct Place {
    pub device: Arc<Device>,
    /// The build sets on it; without them they travel with the candidates.
    pub build: Option<ResidentSets>,
    /// A chunk of this join failed on the device, which gets no further chunk.
    failed: AtomicBool,
}

/// Devices that are open, before anything of a join is on them.
#[derive(Debug)]
pub(super) struct OpenDevices {
    devices: Vec<Arc<Device>>,
    left_out: Vec<String>,
}

impl From<Vec<Arc<Device>>> for OpenDevices {
    fn from(devices: Vec<Arc<Device>>) -> Self {
        Self { devices, left_out: vec![] }
    }
}

impl OpenDevices {
    /// Opens the devices that a query names: `cuda` means all that are visible, less those that
    /// cannot be used; `auto` the first one.
    ///
    /// # Errors
    ///
    /// Where none can be used.
    pub(super) fn open(choice: DeviceChoice) -> Result<Self, DeviceError> {
        let ordinals = match choice {
            DeviceChoice::Cuda(None) => (0..Device::count()?).collect(),
            DeviceChoice::Cuda(Some(ordinal)) => vec![ordinal],
            DeviceChoice::Auto | DeviceChoice::Cpu => vec![0],
        };
        let mut open = Self::from(vec![]);
        let opened = side_by_side(&ordinals, |&ordinal| Device::open(ordinal));
        let named = ordinals.into_iter().zip(opened);
        open.devices = open.keep(named)?;
        Ok(open)
    }

    /// The devices for which `make` succeeds, each with its result. The other devices are left out.
    ///
    /// # Errors
    ///
    /// Where none is left.
    pub(super) fn each<T: Send>(
        &mut self,
        make: impl Fn(&Arc<Device>) -> Result<T, DeviceError> + Sync,
    ) -> Result<Vec<T>, DeviceError> {
        let made = side_by_side(&self.devices, make);
        let named: Vec<_> = self.devices.drain(..).zip(made).collect();
        let named = named
            .into_iter()
            .map(|(device, made)| (device.ordinal(), made.map(|made| (device, made))));
        let kept = self.keep(named)?;
        let (devices, made) = kept.into_iter().unzip();
        self.devices = devices;
        Ok(made)
    }

    /// The results without the errors; the first error where there is no result.
    fn keep<T>(
        &mut self,
        made: impl Iterator<Item = (u32, Result<T, DeviceError>)>,
    ) -> Result<Vec<T>, DeviceError> {
        let (mut kept, mut first) = (vec![], None);
        for (ordinal, made) in made {
            match made {
                Ok(made) => kept.push(made),
                Err(error) => {
                    self.left_out.push(format!("cuda:{ordinal} ({error})"));
                    first.get_or_insert(error);
                }
            }
        }
        match first {
            Some(error) if kept.is_empty() => Err(error),
            _ => Ok(kept),
        }
    }

    /// Loads the kernels. Gives the bytes of each device that the join may fill: `limit`, or most
    /// of the free bytes. The bytes of a copy of the build sets that is there already count as
    /// free.
    pub(super) fn limits(
        &mut self,
        limit: Option<u64>,
        build: &SetCollection,
    ) -> Result<Vec<u64>, DeviceError> {
        self.each(|device| {
            device.load(&VERIFY)?;
            Ok(match limit {
                Some(limit) => limit.min(device.total_memory()),
                None => {
                    let there = ResidentSets::bytes_on(device, build);
                    (device.free_memory()? + there) / 10 * 9
                }
            })
        })
    }

    /// Brings the build sets to the devices where they take no more than `room` bytes. Devices that
    /// cannot hold them are left out where others can.
    pub(super) fn place(
        mut self,
        build: &SetCollection,
        rows: bool,
        room: u64,
    ) -> Result<Places, DeviceError> {
        let bytes = ResidentSets::bytes_of(build, rows);
        let copies = self.each(|device| {
            if bytes > room {
                return Ok(None);
            }
            match ResidentSets::on(device, build, rows) {
                Ok(sets) => Ok(Some(sets)),
                // Another query has taken the free memory.
                Err(DeviceError::OutOfMemory { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        })?;
        let resident = copies.iter().any(Option::is_some);
        let mut places = vec![];
        for (device, build) in self.devices.into_iter().zip(copies) {
            if resident && build.is_none() {
                let ordinal = device.ordinal();
                self.left_out.push(format!("cuda:{ordinal} (too little memory for the sets)"));
            } else {
                places.push(Place { device, build, failed: AtomicBool::new(false) });
            }
        }
        Ok(Places { places, next: AtomicUsize::new(0), left_out: self.left_out })
    }
}

/// Does work for each item on a thread of its own; for a single item on the caller's thread.
fn side_by_side<I: Sync, T: Send>(
    items: &[I],
    work: impl Fn(&I) -> Result<T, DeviceError> + Sync,
) -> Vec<Result<T, DeviceError>> {
    if let [item] = items {
        return vec![work(item)];
    }
    thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = items.iter().map(|item| scope.spawn(move || work(item))).collect();
        let panicked = |_| Err(DeviceError::Internal("opening a CUDA device panics".into()));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
    })
}

impl Places {
    /// How many devices there are.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether the devices hold the build sets.
    pub(crate) fn are_resident(&self) -> bool {
        self.places.iter().any(|place| place.build.is_some())
    }

    /// A device by its number in the join.
    pub(crate) fn get(&self, number: usize) -> Option<&Place> {
        self.places.get(number)
    }

    /// The numbers of the devices that have not failed, the shortest queue first; those of equal
    /// queues in turn, from device `first` on.
    fn by_queue(&self, first: usize) -> Vec<usize> {
        let count = self.places.len().max(1);
        let numbers = (0..self.places.len()).map(|turn| first.wrapping_add(turn) % count);
        let mut healthy: Vec<usize> =
            numbers.filter(|&number| !self.places[number].has_failed()).collect();
        healthy.sort_by_cached_key(|&number| self.places[number].device.pending());
        healthy
    }

    /// The number of the device with the shortest queue; `None` where all have failed.
    pub(crate) fn shortest_queue(&self) -> Option<usize> {
        self.by_queue(self.next.fetch_add(1, Ordering::Relaxed)).first().copied()
    }

    /// An empty chunk in memory that some device has pinned: all devices of a host can copy it.
    ///
    /// # Errors
    ///
    /// Where no device can pin as much.
    pub(crate) fn pin(&self, capacities: &Capacities) -> Result<Staging, DeviceError> {
        let mut outcome = Err(DeviceError::NoDevice);
        for number in self.by_queue(0) {
            outcome = Staging::pin(&self.places[number].device, capacities);
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }

    /// Notes that a device failed. Returns whether it is the device's first failure, and whether
    /// all devices have failed.
    pub(crate) fn note_failure(&self, number: usize) -> (bool, bool) {
        let place = self.places.get(number);
        let first = place.is_some_and(|place| !place.failed.swap(true, Ordering::Relaxed));
        (first, self.have_failed())
    }

    /// Whether all devices have failed.
    pub(crate) fn have_failed(&self) -> bool {
        self.places.iter().all(Place::has_failed)
    }
}

impl Place {
    fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }
}

impl fmt::Display for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ordinals: Vec<String> =
            self.places.iter().map(|place| place.device.ordinal().to_string()).collect();
        let mut names: Vec<&str> = self.places.iter().map(|place| place.device.name()).collect();
        names.dedup();
        write!(f, "cuda:{} {}", ordinals.join(","), names.join(" and "))?;
        if !self.are_resident() {
            f.write_str(", sets travel with candidates")?;
        }
        if !self.left_out.is_empty() {
            write!(f, ", without {}", self.left_out.join(", "))?;
        }
        Ok(())
    }
}
