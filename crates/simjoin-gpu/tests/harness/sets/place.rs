//! Sets on devices that may fail, and cursors with little memory beside them.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use simjoin_core::engine::{
    DeviceChoice, DevicePlace, DeviceRequest, Match, MatchBuffer, PrepareContext, ProbeUnit,
    Progress, Strategy, Terms, required_place,
};
use simjoin_core::error::Result;
use simjoin_core::memory::Budget;
use simjoin_core::set::{JoinSpec, SetJoin};
use simjoin_core::util::cancel::CancelFlag;
use simjoin_core::util::parallel::Threads;
use simjoin_gpu::runtime::Device;
use simjoin_gpu::set::device::DeviceJoin;

use crate::harness::sets::{OnDevice, Sides, reservation};

fn open(device: &OnDevice) -> Vec<Arc<Device>> {
    let ordinals = [Some(device.ordinal), device.second].into_iter().flatten();
    ordinals.map(|ordinal| Device::open(ordinal).unwrap()).collect()
}

fn choice_of(device: &OnDevice) -> DeviceChoice {
    match device.demanded {
        true if device.second.is_some() => DeviceChoice::Cuda(None),
        true => DeviceChoice::cuda(device.ordinal),
        false => DeviceChoice::Auto,
    }
}

/// The join on devices, on the first of which the fault is to come.
pub(crate) fn on_device(sides: &Sides, device: OnDevice, spec: &JoinSpec) -> Arc<DeviceJoin> {
    let OnDevice { ordinal, fault, .. } = device;
    let request = DeviceRequest {
        choice: choice_of(&device),
        self_join: Arc::ptr_eq(&sides.build, &sides.probe),
        work: f64::INFINITY,
        on_failure: Arc::new(move |what| assert!(fault.is_some(), "{what}")),
    };
    let join = DeviceJoin::try_new(open(&device), &sides.build, spec, &request).unwrap();
    if let (Some(fault), Some(emulator)) = (fault, crate::emulator::Emulator::get()) {
        match fault.call {
            Some(call) => emulator.fault(ordinal, call, fault.nth, fault.error),
            None => emulator.fault_async(ordinal, fault.nth, fault.error),
        }
    }
    join
}

/// [`on_device`] as strategies get it.
pub(crate) fn place(sides: &Sides, device: OnDevice, spec: &JoinSpec) -> Arc<dyn DevicePlace> {
    on_device(sides, device, spec)
}

/// The devices of a strategy that tests force on joins, where there are some.
pub(crate) fn place_of(place: Option<&Arc<dyn DevicePlace>>) -> Result<Option<Arc<DeviceJoin>>> {
    place.map(|_| required_place(place)).transpose()
}

impl Sides {
    /// The matches of one run whose cursor gets the memory that it needs without a device, and
    /// `beside` bytes more; and the message about the device.
    pub(crate) fn run_within(
        &self,
        strategy: &dyn Strategy<SetJoin>,
        spec: JoinSpec,
        device: OnDevice,
        beside: usize,
    ) -> (Result<Vec<Match>>, Vec<String>) {
        let (found, told) = self.buffer_within(strategy, spec, device, beside);
        (found.map(|matches| matches.matches().to_vec()), told)
    }

    /// The buffer of a cursor, with the counts of matches besides.
    pub(crate) fn buffer_within(
        &self,
        strategy: &dyn Strategy<SetJoin>,
        spec: JoinSpec,
        device: OnDevice,
        beside: usize,
    ) -> (Result<MatchBuffer>, Vec<String>) {
        let (unlimited, cancel) = (reservation(), CancelFlag::default());
        let context = PrepareContext::new(&unlimited, &cancel, Threads::small(2));
        let mut join = self.join_of(&spec, 0.0, context);
        let terms = Terms { is_only: false, open_device: None, context };
        let estimate = strategy.estimate(&mut join, &terms).unwrap();
        let told = Arc::new(Mutex::new(vec![]));
        let request = DeviceRequest {
            choice: choice_of(&device),
            self_join: false,
            work: f64::INFINITY,
            on_failure: {
                let told = Arc::clone(&told);
                Arc::new(move |what| told.lock().push(what))
            },
        };
        let opened: Arc<dyn DevicePlace> =
            DeviceJoin::try_new(open(&device), &self.build, &spec, &request).unwrap();
        let prepare = |device| strategy.prepare(&join, &estimate, device, context);
        let unit = || {
            let (items, range) = (Arc::clone(&self.probe), 0..self.probe.len());
            ProbeUnit::new(0, items, range)
        };
        let enough = Budget::unlimited();
        let reservation = enough.reservation();
        // A strategy that is not there without a device has what lies beside alone.
        let on_cpu = match prepare(None) {
            Ok(join) => {
                let mut cursor = join.open(&reservation).unwrap();
                cursor.feed(unit()).unwrap();
                Some(cursor)
            }
            Err(error) => {
                assert!(error.to_string().contains("has no device"), "{error}");
                None
            }
        };
        let limit = enough.taken() + beside;
        drop(on_cpu);
        let prepared = match prepare(Some(&opened)) {
            Ok(prepared) => prepared,
            Err(error) => return (Err(error), told.lock().clone()),
        };
        let pool = Budget::new(limit);
        let limited = pool.reservation();
        let mut matches = MatchBuffer::new(1 << 20);
        let found = prepared.open(&limited).and_then(|mut cursor| {
            cursor.feed(unit())?;
            cursor.finish();
            let mut cx = Context::from_waker(Waker::noop());
            loop {
                match cursor.poll(&mut cx, &mut matches) {
                    Poll::Ready(Ok(Progress::Ended)) => return Ok(matches),
                    Poll::Ready(Err(error)) => return Err(error),
                    _ => {}
                }
            }
        });
        let told = told.lock().clone();
        (found, told)
    }
}
