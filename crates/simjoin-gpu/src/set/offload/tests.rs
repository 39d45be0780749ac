//! The join on the CPU that is prepared late, and devices that lack memory.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use simjoin_core::set::collection::SetCollection;
use simjoin_core::set::filter_verify::FilterVerify;
use simjoin_core::set::measure::Measure;

use crate::device_harness::sets::FixedIndex;
use crate::device_harness::sets::without_memory::{Unpark, check_works_without_memory, run};
use crate::engine::{Cursor, MatchBuffer, MatchNeed, Pairing, ProbeUnit, Progress};
use crate::error::{exec_err, resources_err};
use crate::harness::sets::shapes;
use crate::harness::sets::{Sides, spec};
use crate::memory::{Budget, Reservation};
use crate::set::bitmap::FixedTiles;
use crate::set::bwjoin::ByWarps;
use crate::set::offload::on_cpu;

fn reservation() -> Reservation {
    let pool = Budget::unlimited();
    pool.reservation()
}

fn unit() -> ProbeUnit {
    ProbeUnit::new(0, Arc::new(SetCollection::default()), 0..0)
}

/// A thread that prepares a join stops once no cursor waits for it, and another cursor begins anew.
#[test]
fn a_join_that_no_cursor_waits_for_is_given_up() {
    let (sender, receiver) = channel();
    let spec = spec(Measure::Jaccard, 0.5, Pairing::All);
    let on_cpu = on_cpu(&Arc::default(), spec, &reservation(), move |_, context| {
        sender.send("begun").unwrap();
        while context.cancel.check().is_ok() {
            thread::sleep(Duration::from_millis(1));
        }
        sender.send("ended").unwrap();
        exec_err!("given up")
    });
    let next = || receiver.recv_timeout(Duration::from_secs(60));
    let (mut matches, mut cx) = (MatchBuffer::new(1), Context::from_waker(Waker::noop()));
    for _ in 0..2 {
        let mut cursors = [(); 2].map(|()| on_cpu.open(&reservation()).unwrap());
        for cursor in &mut cursors {
            assert!(matches!(
                cursor.poll(&mut cx, &mut matches),
                Poll::Ready(Ok(Progress::NeedsInput))
            ));
            cursor.feed(unit()).unwrap();
            assert!(cursor.poll(&mut cx, &mut matches).is_pending());
        }
        assert_eq!(next(), Ok("begun"));
        let [first, second] = cursors;
        drop(first);
        assert!(receiver.recv_timeout(Duration::from_millis(20)).is_err());
        drop(second);
        assert_eq!(next(), Ok("ended"));
    }
}

/// Every cursor that waits is woken, also with an error.
#[test]
fn cursors_that_wait_for_a_join_are_woken() {
    let spec = spec(Measure::Jaccard, 0.5, Pairing::All);
    let on_cpu = on_cpu(&Arc::default(), spec, &reservation(), |_, _| {
        thread::sleep(Duration::from_millis(20));
        exec_err!("no such luck")
    });
    let waits = || {
        let mut cursor = on_cpu.open(&reservation()).unwrap();
        cursor.feed(unit()).unwrap();
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut matches = MatchBuffer::new(1);
        loop {
            match cursor.poll(&mut Context::from_waker(&waker), &mut matches) {
                Poll::Ready(progress) => return progress.unwrap_err().to_string(),
                // Only a wake ends the wait early.
                Poll::Pending => thread::park_timeout(Duration::from_secs(60)),
            }
        }
    };
    let errors = thread::scope(|scope| {
        let threads = [scope.spawn(waits), scope.spawn(waits)];
        threads.map(|thread| thread.join().unwrap())
    });
    assert!(errors.iter().all(|error| error.contains("no such luck")), "{errors:?}");
}

/// Where memory does not suffice to prepare the join, or for a cursor over it, all pairs are
/// compared, in the memory that the cursor holds.
#[test]
fn a_join_without_memory_compares_all_pairs() {
    let mut rng = StdRng::seed_from_u64(62);
    let shape = shapes::zipfian(&mut rng, 12);
    let sides = Sides::itself(&shape.name, &shape.build);
    let mut spec = spec(Measure::Jaccard, 0.4, sides.pairing);
    spec.need = MatchNeed::Scores;
    let expected = sides.expected(&spec);
    assert!(expected.len() > sides.build.len() as usize);
    for is_prepared in [false, true] {
        let build = Arc::clone(&sides.build);
        let on_cpu = on_cpu(&sides.build, spec, &reservation(), move |spec, context| {
            if !is_prepared {
                return resources_err!("no memory for an index");
            }
            let build = Arc::clone(&build);
            let candidates =
                FilterVerify::PPJoin.candidates_with(build, spec, (0, None), context)?;
            Ok(Arc::new(candidates))
        });
        let pool = Budget::new(on_cpu.least_bytes());
        let memory = pool.reservation();
        let mut cursor = on_cpu.open(&memory).unwrap();
        assert!(on_cpu.open(&memory).is_err(), "the cursor holds its memory");
        let mut found = run(&mut cursor, &sides);
        found.sort_unstable();
        assert_eq!(found, expected, "prepared: {is_prepared}");
    }
}

/// A work for which the device lacks the memory is done in smaller ones: the device has not failed.
#[test]
fn works_without_memory_are_done_in_smaller_ones() {
    check_works_without_memory(&[&FixedTiles::with_room(), &FixedIndex::roomy(Arc::new(ByWarps))]);
}
