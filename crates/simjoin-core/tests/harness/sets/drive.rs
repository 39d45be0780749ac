//! Drives a cursor as the operator does, on the CPU and on devices that may fail.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use simjoin_core::engine::DeviceChoice;
use simjoin_core::engine::{
    Cursor, DeviceRequest, Funnel, Match, MatchBuffer, MatchRun, Placement, PrepareContext,
    ProbeUnit, Progress, RowPairCounts, Strategy, Terms,
};
use simjoin_core::error::Result;
use simjoin_core::memory::Budget;
use simjoin_core::set::{JoinSpec, SetId, SetJoin};
use simjoin_core::util::cancel::CancelFlag;
use simjoin_core::util::parallel::Threads;

use super::{Sides, reservation};
use crate::device_harness::place;

/// How a cursor is driven.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Drive {
    pub match_buffer: usize,
    /// Probe sets of a unit.
    pub range: u32,
    /// Units fed to the cursor before it is polled, at least 1. Every other one is empty where
    /// `empty` says so.
    pub ahead: usize,
    pub empty: bool,
    /// Whether the next units are fed once those before are complete.
    pub drains: bool,
    /// Whether each probe set is retired when a match of it has been seen.
    pub retire: bool,
    pub device: Option<OnDevice>,
}

/// Where candidates are verified.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OnDevice {
    pub ordinal: u32,
    /// Another device that takes part.
    pub second: Option<u32>,
    /// Whether the query insists on the device.
    pub demanded: bool,
    /// The fault that comes once the build side is there; the CPU has to step in.
    pub fault: Option<Fault>,
}

/// A failure of the emulated device, the first where there are two.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    /// The call of the driver that fails; `None`: a kernel, after its launch.
    pub call: Option<&'static str>,
    /// Which of the calls to come, from 1 on.
    pub nth: u32,
    /// A `CUresult`.
    pub error: i32,
}

/// Wakes the thread of a test.
struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The matches and counts of a cursor.
pub(super) struct Run {
    pub found: Vec<Match>,
    pub counts: RowPairCounts,
    pub funnel: Funnel,
}

impl Sides {
    pub(super) fn run(
        &self,
        strategy: &dyn Strategy<SetJoin>,
        spec: JoinSpec,
        drive: Drive,
        what: &dyn Fn() -> String,
    ) -> Run {
        let mut cursor = self.open(strategy, spec, drive.device, what);
        let mut run =
            Run { found: vec![], counts: RowPairCounts::default(), funnel: Funnel::default() };
        self.drive(cursor.as_mut(), drive, &mut run, what);
        run.funnel = cursor.funnel();
        run
    }

    /// A cursor over the build side.
    pub(crate) fn open(
        &self,
        strategy: &dyn Strategy<SetJoin>,
        spec: JoinSpec,
        device: Option<OnDevice>,
        what: &dyn Fn() -> String,
    ) -> Box<dyn Cursor> {
        let (reservation, cancel) = (reservation(), CancelFlag::default());
        let context = PrepareContext::new(&reservation, &cancel, Threads::small(2));
        let mut join = self.join(&spec);
        let terms = Terms { is_only: false, open_device: None, context };
        let estimate = strategy.estimate(&mut join, &terms).unwrap();
        let costs = estimate.cost.is_none_or(|cost| cost.elapsed(1) >= 0.0);
        assert!(costs, "no estimate: {}", what());
        let takes_it = strategy.placement() == Placement::Gpu;
        assert!(device.is_none() || takes_it, "{} has no use for a device", strategy.name());
        let device = device.map(|device| place(self, device, &spec));
        let prepared = strategy.prepare(&join, &estimate, device.as_ref(), context).unwrap();
        prepared.open(&reservation).unwrap()
    }

    /// The units that a cursor is fed, with numbers that say nothing of their order.
    pub(crate) fn units(&self, drive: Drive) -> Vec<ProbeUnit> {
        let mut ranges: Vec<Range<SetId>> = vec![];
        let mut start = 0;
        while start < self.probe.len() {
            let end = self.probe.len().min(start.saturating_add(drive.range));
            ranges.push(start..end);
            if drive.empty {
                ranges.push(end..end);
            }
            start = end;
        }
        let unit = |(place, range): (usize, Range<SetId>)| ProbeUnit {
            number: (place as u32).wrapping_mul(0x9e37_79b1),
            items: Arc::clone(&self.probes[place % self.probes.len()]) as _,
            range,
            bounds: None,
        };
        ranges.into_iter().enumerate().map(unit).collect()
    }

    /// Feeds a cursor all units and polls it to its end. Every match belongs to an open unit, and
    /// every unit becomes complete once.
    fn drive(
        &self,
        cursor: &mut dyn Cursor,
        drive: Drive,
        run: &mut Run,
        what: &dyn Fn() -> String,
    ) {
        let Run { found, counts, .. } = run;
        let mut units = self.units(drive).into_iter();
        let mut open: BTreeMap<u32, Range<SetId>> = BTreeMap::new();
        let mut matches = MatchBuffer::new(drive.match_buffer);
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut cx = Context::from_waker(&waker);
        let (mut wants_input, mut finished) = (true, false);
        for _ in 0..10_000_000 {
            if wants_input && !finished && (open.is_empty() || !drive.drains) {
                wants_input = false;
                for unit in units.by_ref().take(drive.ahead.max(1)) {
                    open.insert(unit.number, unit.range.clone());
                    cursor.feed(unit).unwrap();
                }
                finished = units.len() == 0;
                if finished {
                    cursor.finish();
                }
            }
            let progress = match cursor.poll(&mut cx, &mut matches) {
                Poll::Ready(progress) => progress.unwrap(),
                Poll::Pending => {
                    // Only a wake ends the wait early; a lost one shows as slowness, and in the end
                    // as a failure.
                    let start = Instant::now();
                    std::thread::park_timeout(Duration::from_secs(60));
                    assert!(start.elapsed() < Duration::from_secs(59), "not woken: {}", what());
                    continue;
                }
            };
            assert!(progress != Progress::Full || matches.is_full(), "not full: {}", what());
            for MatchRun { unit, matches: run, .. } in matches.runs() {
                let range = open.get(&unit).unwrap_or_else(|| panic!("{unit} open: {}", what()));
                assert!(run.iter().all(|m| range.contains(&m.probe)), "beyond range: {}", what());
                if drive.retire
                    && let Some(last) = run.last()
                {
                    cursor.retire(unit, last.probe);
                }
            }
            found.extend_from_slice(matches.matches());
            *counts += matches.counts();
            for unit in matches.completed() {
                assert!(open.remove(unit).is_some(), "{unit} completed twice: {}", what());
            }
            matches.clear();
            match progress {
                Progress::NeedsInput if wants_input => {
                    assert!(open.is_empty(), "asks twice with {open:?}: {}", what());
                }
                Progress::NeedsInput => {
                    assert!(!finished, "asks for input after the end: {}", what());
                    wants_input = true;
                }
                Progress::Ended => {
                    assert!(finished && open.is_empty(), "ended with {open:?}: {}", what());
                    return;
                }
                Progress::Full | Progress::Yield => {}
            }
        }
        panic!("no end: {}", what());
    }
}
