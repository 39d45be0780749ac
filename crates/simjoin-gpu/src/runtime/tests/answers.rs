//! The answers to works.

use std::slice;

use crate::device_harness::works::Mishap;
use crate::runtime::tests::*;

/// Works of both types share the queue: each is answered in its turn, with what it alone found.
#[test]
fn works_of_different_types_take_turns_in_order() {
    let Some(lent) = Lent::new() else { return };
    let device = lent.open().unwrap();
    let inbox = Inbox::new();
    for number in 0..40 {
        match number % 3 {
            0 => inbox.fill(&device, number, 10 + 97 * (number % 5)),
            _ => inbox.echo(&device, number, 10 + 97 * (number % 5)).unwrap(),
        }
    }
    let (order, answers) = inbox.wait_in_order();
    assert!(order.is_sorted(), "{order:?}");
    let mut kernel_nanos = 0;
    for (number, answer) in answers.into_iter().enumerate() {
        let usage = answer.unwrap();
        let bytes = 4 * (10 + 97 * (number as u64 % 5));
        let (sent, noted) = if number % 3 == 0 { (0, 4) } else { (bytes, 0) };
        assert_eq!((usage.bytes_to_device, usage.bytes_from_device), (sent, bytes + noted));
        kernel_nanos += usage.times.kernel_nanos;
    }
    assert!(kernel_nanos > 0);
    lent.expect_idle(&device);
    drop(device);
    lent.expect_nothing_left();
}

#[test]
fn works_of_many_threads_are_all_answered_and_overlap() {
    let Some(lent) = Lent::new() else { return };
    let device = lent.open().unwrap();
    let held = lent.device.as_ref().map(|device| device.hold());
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let device = &device;
            scope.spawn(move || {
                let inbox = Inbox::new();
                for number in 0..12 {
                    inbox.fill(device, thread, 1 + 100 * number);
                    inbox.echo(device, thread, 1 + 50 * number).unwrap();
                }
                assert!(inbox.wait_for_all().iter().all(Result::is_ok));
            });
        }
        if let Some(device) = &lent.device {
            device.expect_at_least("in_flight", 2);
        }
        while device.pending() < 4 * 24 && held.is_some() {
            std::thread::yield_now();
        }
        drop(held);
    });
    lent.expect_idle(&device);
    drop(device);
    lent.expect_nothing_left();
}

#[test]
fn as_many_kernels_as_there_are_slots_are_in_flight() {
    let Some(lent) = Lent::emulated() else { return };
    let device = lent.open().unwrap();
    let inbox = Inbox::new();
    let held = lent.fake().hold();
    (0..20).for_each(|number| inbox.fill(&device, number, 10));
    lent.fake().expect_at_least("in_flight", Device::SLOTS as u64);
    drop(held);
    assert!(inbox.wait_for_all().iter().all(Result::is_ok));
    assert_eq!(lent.fake().stat("max_in_flight"), Device::SLOTS as u64);
    assert_eq!(lent.fake().stat("launches"), 20);
}

#[test]
fn work_that_issues_nothing_is_answered() {
    let Some(lent) = Lent::emulated() else { return };
    let device = lent.open().unwrap();
    let inbox = Inbox::new();
    inbox.echo(&device, 1, 0).unwrap();
    assert_eq!(inbox.wait_for_all(), [Ok(Default::default())]);
    assert_eq!(lent.fake().stat("copies_htod"), 0);
}

/// A panic in a work is the answer to that work alone; a panic in an answer ends no other work.
#[test]
fn a_work_that_panics_harms_no_other() {
    let Some(lent) = Lent::new() else { return };
    let device = lent.open().unwrap();
    for mishap in [Mishap::Issue, Mishap::Finish, Mishap::Answer] {
        let inbox = Inbox::new();
        for number in 0..12 {
            if number % 4 < 2 {
                inbox.meet(mishap);
            }
            match number % 2 {
                0 => inbox.fill(&device, number, 300),
                _ => inbox.echo(&device, number, 300).unwrap(),
            }
        }
        for (number, answer) in inbox.wait_for_all().into_iter().enumerate() {
            if number % 4 >= 2 || mishap == Mishap::Answer {
                assert!(answer.is_ok(), "{answer:?}");
                continue;
            }
            let error = answer.unwrap_err();
            assert!(matches!(error, DeviceError::Internal(_)), "{error}");
            assert!(error.to_string().contains(&format!("{mishap:?} panics")), "{error}");
        }
    }
    assert!(!device.is_lost());
    drop(device);
    lent.expect_nothing_left();
}

#[test]
fn a_device_that_is_closed_answers_what_it_was_given() {
    let Some(lent) = Lent::new() else { return };
    let device = lent.open().unwrap();
    let inbox = Inbox::new();
    for number in 0..8 {
        inbox.fill(&device, number, 1000);
        inbox.echo(&device, number, 1000).unwrap();
    }
    Device::close(lent.ordinal);
    drop(device);
    assert!(inbox.wait_for_all().iter().all(Result::is_ok));
    lent.expect_nothing_left();
}

#[test]
fn memory_is_pinned_once_and_trimmed_on_demand() {
    let Some(lent) = Lent::emulated() else { return };
    let device = lent.open().unwrap();
    let before = lent.fake().stat("pinned");
    for _ in 0..3 {
        let pinned = device.pinned(1 << 20).unwrap();
        assert_eq!(lent.fake().stat("pinned"), before + pinned.bytes() as u64);
    }
    assert!(lent.fake().stat("pinned") > before);
    device.trim();
    assert_eq!(lent.fake().stat("pinned"), before);
}

/// Threads copy through all slots, each of them several times.
#[test]
fn a_large_upload_arrives() {
    let Some(lent) = Lent::emulated() else { return };
    let device = lent.open().unwrap();
    let numbers: Vec<u32> = (0..10 << 20).collect();
    let bytes = size_of_val(numbers.as_slice()) as u64;
    let resident = device.resident("numbers", bytes, |upload| upload.copy(0, &numbers)).unwrap();
    // SAFETY: the memory of an emulated device is memory of this process, which is not written any more.
    let arrived = unsafe { slice::from_raw_parts(resident.address() as *const u32, numbers.len()) };
    assert!(arrived == numbers);
    drop((device, resident));
    lent.expect_nothing_left();
}

#[test]
fn an_upload_stays_within_its_memory() {
    let Some(lent) = Lent::new() else { return };
    let device = lent.open().unwrap();
    let error = device.resident("numbers", 100, |upload| upload.copy(92, &[1_u32, 2, 3]));
    assert!(matches!(error, Err(DeviceError::Internal(_))), "{error:?}");
    let error = device.resident("numbers", 100, |upload| upload.copy(u64::MAX, &[1_u8]));
    assert!(matches!(error, Err(DeviceError::Internal(_))), "{error:?}");
    let resident = device.resident("numbers", 100, |upload| upload.copy(88, &[1_u32, 2, 3]));
    let resident = resident.unwrap();
    assert!(device.has(&resident) && !resident.is_lost());
    drop((device, resident));
    lent.expect_nothing_left();
}
