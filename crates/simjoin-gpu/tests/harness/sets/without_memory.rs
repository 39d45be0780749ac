//! Works for which a device lacks the memory.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use simjoin_core::engine::{Cursor, Match, MatchBuffer, MatchNeed, ProbeUnit, Progress, Strategy};
use simjoin_core::set::{Measure, SetJoin};
use simjoin_gpu::runtime::Device;

use crate::emulator::Emulator;
use crate::harness::sets::{OnDevice, Sides, shapes, spec};

pub(crate) struct Unpark(pub thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs strategies, of which each launches works with room for many candidates.
pub(crate) fn check_works_without_memory(strategies: &[&dyn Strategy<SetJoin>]) {
    let Some(emulator) = Emulator::get() else { return };
    let mut rng = StdRng::seed_from_u64(61);
    let shape = shapes::zipfian(&mut rng, 12);
    let sides = Sides::itself(&shape.name, &shape.build);
    let mut spec = spec(Measure::Jaccard, 0.2, sides.pairing);
    spec.need = MatchNeed::Pairs;
    let expected = sides.expected(&spec);
    for strategy in strategies {
        let lease = emulator.device();
        let on = OnDevice { ordinal: lease.ordinal(), second: None, demanded: true, fault: None };
        let mut cursor = sides.open(*strategy, spec, Some(on), &|| String::new());
        // A work is tried twice: the work fails, and the first of the smaller ones.
        (0..4).for_each(|_| lease.fault("cuMemAlloc", 1, 2));
        let mut found = run(cursor.as_mut(), &sides);
        for m in &mut found {
            (m.probe, m.build) = (m.probe.max(m.build), m.probe.min(m.build));
        }
        let mut found: Vec<_> = found.into_iter().map(|m| (m.probe, m.build)).collect();
        found.sort_unstable();
        let expected: Vec<_> = expected.iter().map(|m| (m.probe, m.build)).collect();
        assert_eq!(found, expected, "{strategy:?}");
        assert_eq!(lease.stat("faults"), 4, "{strategy:?}");
        drop(cursor);
        sides.build.attached().clear();
        lease.expect_nothing_left(Device::close, &format!("{strategy:?}"));
    }
}

/// The matches of all probe sets.
pub(crate) fn run(cursor: &mut dyn Cursor, sides: &Sides) -> Vec<Match> {
    let (items, range) = (Arc::clone(&sides.probe), 0..sides.probe.len());
    cursor.feed(ProbeUnit::new(0, items, range)).unwrap();
    cursor.finish();
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let (mut matches, mut found) = (MatchBuffer::new(1000), vec![]);
    loop {
        let progress = cursor.poll(&mut Context::from_waker(&waker), &mut matches);
        found.extend_from_slice(matches.matches());
        matches.clear();
        match progress {
            Poll::Ready(Ok(Progress::Ended)) => return found,
            Poll::Ready(progress) => drop(progress.unwrap()),
            Poll::Pending => thread::park_timeout(Duration::from_secs(60)),
        }
    }
}
