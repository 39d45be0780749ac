//! The devices of one join.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use parking_lot::Mutex;

use crate::engine::{DeviceChoice, GpuOptions};
use crate::engine::{DeviceRequest, StartTimes};
use crate::error::Error;
use crate::runtime::{Device, DeviceError, Images};

/// Devices that are open, before anything of a join is on them.
#[derive(Debug)]
pub struct OpenDevices {
    devices: Vec<Arc<Device>>,
    left_out: Vec<String>,
    /// Visible devices for which the join has too little work.
    idle: usize,
    times: StartTimes,
}

impl From<Vec<Arc<Device>>> for OpenDevices {
    fn from(devices: Vec<Arc<Device>>) -> Self {
        Self { devices, left_out: vec![], idle: 0, times: StartTimes::default() }
    }
}

impl OpenDevices {
    /// Opens the devices that a query names, and makes the join on them: `auto` names the first
    /// one, `cuda` all that are visible, of which the join takes as many as it has work for. Devices
    /// that cannot be used are left out; where none of the taken ones can, all others are tried.
    ///
    /// # Errors
    ///
    /// Where no device can be used.
    pub fn open<T>(
        request: &DeviceRequest,
        options: &GpuOptions,
        join: impl Fn(Self) -> Result<T, DeviceError>,
    ) -> Result<T, DeviceError> {
        let mut ordinals = match request.choice {
            DeviceChoice::Cuda(None) => at_hand((0..Device::count()?).collect()),
            DeviceChoice::Cuda(Some(ordinals)) => at_hand(ordinals.iter().collect()),
            DeviceChoice::Auto | DeviceChoice::Cpu => vec![0],
        };
        // Saturates.
        let most = 1 + (request.work / options.work as f64) as usize;
        let mut others = ordinals.split_off(most.min(ordinals.len()));
        ordinals.sort_unstable();
        let idle = others.len();
        let outcome = Self::with(&ordinals, idle, vec![]).and_then(&join);
        match outcome {
            Err(error) if idle > 0 => {
                let left_out = ordinals.iter().map(|ordinal| format!("cuda:{ordinal} ({error})"));
                others.sort_unstable();
                let outcome = Self::with(&others, 0, left_out.collect()).and_then(join);
                outcome.map_err(|_| error)
            }
            outcome => outcome,
        }
    }

    /// The devices of `ordinals` that can be opened.
    fn with(ordinals: &[u32], idle: usize, left_out: Vec<String>) -> Result<Self, DeviceError> {
        let started = Instant::now();
        let mut open = Self { devices: vec![], left_out, idle, times: StartTimes::default() };
        let opened = side_by_side(ordinals, |&ordinal| Device::open(ordinal));
        open.devices = open.keep(ordinals.iter().copied().zip(opened))?;
        open.times.opening = started.elapsed();
        Ok(open)
    }

    /// The devices for which `make` succeeds, each with its result. The other devices are left out.
    ///
    /// # Errors
    ///
    /// Where none is left.
    pub fn each<T: Send>(
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

    /// Loads a program.
    ///
    /// # Errors
    ///
    /// Where no device is left.
    pub fn load(&mut self, images: &'static Images) -> Result<(), DeviceError> {
        let started = Instant::now();
        let loaded = self.each(|device| device.load(images));
        self.times.opening += started.elapsed();
        loaded.map(|_| ())
    }

    /// The bytes of each device that the join may fill: `limit`, or most of the free bytes. The bytes of a copy
    /// of the build side that is `there` already count as free.
    ///
    /// # Errors
    ///
    /// Where no device is left.
    pub fn limits(
        &mut self,
        limit: Option<u64>,
        there: impl Fn(&Device) -> u64 + Sync,
    ) -> Result<Vec<u64>, DeviceError> {
        let started = Instant::now();
        let limits = self.each(|device| {
            Ok(match limit {
                Some(limit) => limit.min(device.total_memory()),
                None => (device.free_memory()? + there(device)) / 10 * 9,
            })
        });
        self.times.opening += started.elapsed();
        limits
    }

    /// Brings the build side to the devices. `copy` gives its copy on a device, `None` where it need
    /// not be there or its memory does not suffice. Devices without one are left out where others
    /// have one: so a work suits every device. `what` it is, for EXPLAIN.
    ///
    /// # Errors
    ///
    /// Where no device is left.
    pub fn place<T: Send>(
        &mut self,
        what: &str,
        copy: impl Fn(&Arc<Device>) -> Result<Option<T>, DeviceError> + Sync,
    ) -> Result<Vec<Option<T>>, DeviceError> {
        let started = Instant::now();
        let copies = self.each(|device| match copy(device) {
            // Another query has taken the free memory.
            Err(DeviceError::OutOfMemory { .. }) => Ok(None),
            copied => copied,
        })?;
        self.times.upload += started.elapsed();
        if copies.iter().all(Option::is_none) {
            return Ok(copies);
        }
        let mut kept = vec![];
        for (device, copy) in self.devices.drain(..).zip(copies) {
            match copy {
                Some(copy) => kept.push((device, Some(copy))),
                None => {
                    let ordinal = device.ordinal();
                    self.left_out.push(format!("cuda:{ordinal} (too little memory for {what})"));
                }
            }
        }
        let (devices, copies) = kept.into_iter().unzip();
        self.devices = devices;
        Ok(copies)
    }
}

/// The numbers of some devices: first those that are open, the shortest queue first.
fn at_hand(mut ordinals: Vec<u32>) -> Vec<u32> {
    ordinals.sort_by_cached_key(|&ordinal| {
        Device::opened(ordinal).map_or(usize::MAX, |device| device.pending())
    });
    ordinals
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

/// The devices that a join sends its works to, and what became of them.
#[derive(Debug)]
pub struct Devices {
    members: Vec<JoinDevice>,
    /// Where the search for the shortest queue begins: devices of equal queues take turns.
    next: AtomicUsize,
    /// Visible devices that the join cannot use, and why.
    left_out: Vec<String>,
    /// Visible devices for which the join has too little work.
    idle: usize,
    /// A remark of EXPLAIN about the build side.
    remark: Option<&'static str>,
    /// The probe items are the build items: units are ranges of one collection.
    pub self_join: bool,
    /// Whether the query insists on the device.
    pub demanded: bool,
    /// Bytes of each device that the join may fill, its copy of the build side included.
    pub memory: u64,
    times: StartTimes,
    /// The messages about devices that failed in mid-join.
    failures: Mutex<Vec<String>>,
    /// Whether a strategy cannot be had on the devices.
    has_refused: AtomicBool,
    /// Whether host memory was refused.
    refused: AtomicBool,
    request: DeviceRequest,
}

/// A device of a join.
#[derive(Debug)]
struct JoinDevice {
    device: Arc<Device>,
    /// Works of this join that the device has not answered.
    under_way: AtomicUsize,
    /// A work of this join failed on the device, which gets no further one.
    failed: AtomicBool,
}

impl JoinDevice {
    fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }
}

impl Devices {
    /// The devices of a join that may fill `memory` bytes of each.
    pub fn new(
        open: OpenDevices,
        memory: u64,
        remark: Option<&'static str>,
        request: &DeviceRequest,
    ) -> Self {
        let member = |device| JoinDevice {
            device,
            under_way: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
        };
        Self {
            members: open.devices.into_iter().map(member).collect(),
            next: AtomicUsize::new(0),
            left_out: open.left_out,
            idle: open.idle,
            remark,
            self_join: request.self_join,
            demanded: matches!(request.choice, DeviceChoice::Cuda(_)),
            memory,
            times: open.times,
            failures: Mutex::default(),
            has_refused: AtomicBool::new(false),
            refused: AtomicBool::new(false),
            request: request.clone(),
        }
    }

    /// The time that it took to bring the join to the devices.
    pub fn start_times(&self) -> StartTimes {
        self.times
    }

    /// The number of devices.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// All devices, by their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Device>> {
        self.members.iter().map(|member| &member.device)
    }

    /// The devices that have not failed, with their numbers, the shortest queue first; those of
    /// equal queues in turn, from device `first` on.
    pub fn by_queue(&self, first: usize) -> Vec<(usize, &Arc<Device>)> {
        let count = self.members.len().max(1);
        let numbers = (0..self.members.len()).map(|turn| first.wrapping_add(turn) % count);
        let members = numbers.map(|number| (number, &self.members[number]));
        let healthy = members.filter(|(_, member)| !member.has_failed());
        let mut healthy: Vec<_> = healthy.map(|(number, m)| (number, &m.device)).collect();
        healthy.sort_by_cached_key(|(_, device)| device.pending());
        healthy
    }

    /// The device with the shortest queue, and its number; `None` where all have failed.
    pub(crate) fn shortest_queue(&self) -> Option<(usize, &Arc<Device>)> {
        self.by_queue(self.next.fetch_add(1, Ordering::Relaxed)).first().copied()
    }

    /// Whether a device has fewer works of the join than keep it busy, or none is left. Works that
    /// wait with the cursors go to the device that is done first.
    pub(crate) fn want_works(&self) -> bool {
        /// Works of a join that keep a device busy: those in its slots, and some behind them.
        const BUSY: usize = Device::SLOTS + 2;
        let mut healthy = self.members.iter().filter(|member| !member.has_failed()).peekable();
        healthy.peek().is_none()
            || healthy.any(|member| member.under_way.load(Ordering::Relaxed) < BUSY)
    }

    /// Notes that a work of the join goes to a device.
    pub(crate) fn note_sent(&self, number: usize) {
        if let Some(member) = self.members.get(number) {
            member.under_way.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes that a device has answered a work of the join.
    pub(crate) fn note_answer(&self, number: usize) {
        if let Some(member) = self.members.get(number) {
            member.under_way.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether nothing more should be sent: no device is left.
    pub(crate) fn have_failed(&self) -> bool {
        self.members.iter().all(JoinDevice::has_failed)
    }

    /// Notes that a device failed. Its works go to another device from now on, or to the CPU.
    pub(crate) fn note_failure(&self, number: usize, error: &DeviceError) {
        let member = self.members.get(number);
        let first = member.is_some_and(|member| !member.failed.swap(true, Ordering::Relaxed));
        let all = self.have_failed();
        // A query that insists on devices ends with the error of the last device.
        if !first || all && self.demanded {
            return;
        }
        let ordinal = member.map_or(0, |member| member.device.ordinal());
        let mut failures = self.failures.lock();
        failures.push(match all {
            true => format!("then cpu: {error}"),
            false => format!("then without cuda:{ordinal}: {error}"),
        });
        (self.request.on_failure)(failures.join(", "));
    }

    /// Notes that `what` does not fit on the devices, which have not failed. A query that insists on
    /// devices may use them in another way; otherwise another strategy may do.
    pub(crate) fn note_unfit(&self, what: &str, error: &DeviceError) {
        (self.request.on_failure)(format!("without {what}: {error}"));
        self.refuse();
    }

    /// Notes that a strategy cannot be had on the devices.
    pub fn refuse(&self) {
        self.has_refused.store(!self.demanded, Ordering::Relaxed);
    }

    /// Whether a strategy could not be had on the devices, which the query has been told.
    pub(crate) fn have_refused(&self) -> bool {
        self.has_refused.load(Ordering::Relaxed)
    }

    /// Notes that a partition got no host memory for its works; it stays on the CPU until it does.
    pub(crate) fn note_refusal(&self, error: &Error) {
        if !self.refused.swap(true, Ordering::Relaxed) && !self.have_failed() {
            let text = error.to_string();
            // Consumers of memory follow, a line each.
            let what = text.lines().next().unwrap_or_default();
            (self.request.on_failure)(format!("partly cpu: {what}"));
        }
    }

    /// Does works, each on a device that has not failed: a device takes one after the other, and what it fails at
    /// goes to the others.
    ///
    /// # Errors
    ///
    /// Where all devices fail.
    pub fn share<W: Send, T: Send>(
        &self,
        works: Vec<W>,
        run: impl Fn(usize, &Arc<Device>, &W) -> Result<T, DeviceError> + Sync,
    ) -> Result<Vec<T>, DeviceError> {
        let (count, open) = (works.len(), Mutex::new(works));
        let done = Mutex::new(Vec::with_capacity(count));
        let mut last = DeviceError::NoDevice;
        while !open.lock().is_empty() {
            let healthy = self.by_queue(0);
            if healthy.is_empty() {
                return Err(last);
            }
            let ended = side_by_side(&healthy, |&(number, device)| {
                while let Some(work) = { open.lock().pop() } {
                    match run(number, device, &work) {
                        Ok(made) => done.lock().push(made),
                        Err(error) => {
                            open.lock().push(work);
                            self.note_failure(number, &error);
                            return Err(error);
                        }
                    }
                }
                Ok(())
            });
            last = ended.into_iter().filter_map(Result::err).next_back().unwrap_or(last);
        }
        let done = done.into_inner();
        match done.len() == count {
            true => Ok(done),
            // A thread that panics loses its work.
            false => Err(last),
        }
    }

    /// Makes something on every device, side by side, by its number. A device that fails to is left
    /// out.
    ///
    /// # Errors
    ///
    /// Where all fail.
    pub fn on_each<T: Send>(
        &self,
        make: impl Fn(usize, &Arc<Device>) -> Result<T, DeviceError> + Sync,
    ) -> Result<Vec<Option<T>>, DeviceError> {
        let numbered: Vec<_> = self.iter().enumerate().collect();
        let made = side_by_side(&numbered, |&(number, device)| make(number, device));
        let mut outcome = Err(DeviceError::NoDevice);
        let mut all = vec![];
        for (number, made) in made.into_iter().enumerate() {
            match made {
                Ok(made) => {
                    all.push(Some(made));
                    outcome = Ok(());
                }
                Err(error) => {
                    all.push(None);
                    self.note_failure(number, &error);
                    outcome = outcome.or(Err(error));
                }
            }
        }
        if outcome.is_err() {
            self.refuse();
        }
        outcome.map(|()| all)
    }
}

impl fmt::Display for Devices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ordinals: Vec<String> =
            self.iter().map(|device| device.ordinal().to_string()).collect();
        let mut names: Vec<&str> = self.iter().map(|device| device.name()).collect();
        names.dedup();
        write!(f, "cuda:{} {}", ordinals.join(","), names.join(" and "))?;
        if let Some(remark) = self.remark {
            write!(f, ", {remark}")?;
        }
        if self.idle > 0 {
            write!(f, ", too little work for {} more", self.idle)?;
        }
        if !self.left_out.is_empty() {
            write!(f, ", without {}", self.left_out.join(", "))?;
        }
        Ok(())
    }
}
