//! The answers to chunks.

use crate::device_harness::works::Inbox as OtherInbox;
use crate::verified::layouts::Published;
use crate::verified::tests::chunks::*;

/// Every layout and form, with sets that are resident and sets that travel.
#[test]
fn every_kernel_finds_the_matches_of_a_chunk() {
    let Some(lent) = Lent::new() else { return };
    let device = lent.open().unwrap();
    let mut rng = StdRng::seed_from_u64(3);
    let sets = Arc::new(sets(&mut rng, 60, 40));
    let resident = ResidentSets::on(&device, &sets, true).unwrap();
    assert_eq!(resident.bytes(), ResidentSets::bytes_of(&sets, true));
    let mut kernel_nanos = 0;
    for layout in Layout::ALL {
        for form in [Form::Pairs, Form::Count] {
            let case = Case::draw(&mut rng, &sets, 20);
            for mask in 0..4 {
                let inbox = Inbox::new();
                let (probe, build) = (mask & 1 > 0, mask & 2 > 0);
                let staging = case.staging(&device, !(probe && build)).unwrap();
                let launch = launch(layout, form);
                let mut job = case.job(staging, launch, &inbox);
                job.probe = probe.then(|| resident.clone());
                job.build = build.then(|| resident.clone());
                job.submit(&device);
                let (_, outcome) = inbox.wait();
                let outcome = outcome.unwrap();
                case.check(&launch, &outcome);
                let back = size_of_val(&outcome.matches[..]);
                assert_eq!(outcome.usage.bytes_from_device, (back + size_of::<Found>()) as u64);
                kernel_nanos += outcome.usage.times.kernel_nanos;
            }
        }
    }
    // A clock of half a microsecond may show nothing of one launch.
    assert!(kernel_nanos > 0);
    sets.attached().clear();
    drop((device, resident));
    lent.expect_nothing_left();
}

#[test]
fn jobs_from_many_threads_are_all_answered_and_overlap() {
    let Some(lent) = Lent::new() else { return };
    let device = lent.open().unwrap();
    let sets = Arc::new(sets(&mut StdRng::seed_from_u64(1), 60, 30));
    let resident = ResidentSets::on(&device, &sets, true).unwrap();
    let held = lent.device.as_ref().map(|device| device.hold());
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (device, sets, resident) = (&device, &sets, &resident);
            scope.spawn(move || {
                let mut rng = StdRng::seed_from_u64(thread);
                let inbox = Inbox::new();
                let mut cases = vec![];
                for number in 0..12 {
                    let groups = rng.random_range(0..30);
                    let case = Case::draw(&mut rng, sets, groups);
                    let form = if number % 3 == 0 { Form::Count } else { Form::Pairs };
                    let launch = launch(Layout::ALL[rng.random_range(0..4)], form);
                    let gathered = rng.random_bool(0.3);
                    let mut job = case.job(case.staging(device, gathered).unwrap(), launch, &inbox);
                    if !gathered {
                        job.probe = Some(resident.clone());
                        job.build = Some(resident.clone());
                    }
                    job.submit(device);
                    cases.push((case, launch));
                }
                for (outcome, (case, launch)) in inbox.wait_for_all().iter().zip(&cases) {
                    case.check(launch, outcome.as_ref().unwrap());
                }
            });
        }
        if let Some(device) = &lent.device {
            device.expect_at_least("in_flight", Device::SLOTS as u64);
        }
        drop(held);
    });
    if let Some(device) = &lent.device {
        assert_eq!(device.stat("max_in_flight"), Device::SLOTS as u64);
    }
    sets.attached().clear();
    drop((device, resident));
    lent.expect_nothing_left();
}

#[test]
fn a_chunk_without_candidates_is_answered_without_a_launch() {
    let Some(lent) = Lent::emulated() else { return };
    let device = lent.open().unwrap();
    let inbox = Inbox::new();
    let sets = Arc::new(sets(&mut StdRng::seed_from_u64(1), 5, 9));
    let case = Case::draw(&mut StdRng::seed_from_u64(1), &sets, 0);
    let staging = case.staging(&device, true).unwrap();
    case.job(staging, launch(Layout::LanesPerPair, Form::Pairs), &inbox).submit(&device);
    assert_eq!(inbox.wait().1.unwrap().found, Found::default());
    assert_eq!(lent.fake().stat("launches"), 0);
}

#[test]
fn chunks_that_contradict_themselves_are_refused() {
    let Some(lent) = Lent::new() else { return };
    let device = lent.open().unwrap();
    let mut rng = StdRng::seed_from_u64(5);
    let sets = Arc::new(sets(&mut rng, 20, 9));
    let case = Case::draw(&mut rng, &sets, 3);
    let inbox = Inbox::new();
    let refused = |change: &dyn Fn(&mut VerifyJob)| {
        let staging = case.staging(&device, true).unwrap();
        let mut job = case.job(staging, launch(Layout::LanesPerPair, Form::Pairs), &inbox);
        change(&mut job);
        job.submit(&device);
        let error = inbox.wait().1.unwrap_err();
        assert!(matches!(error, DeviceError::Internal(_)), "{error}");
        error.to_string()
    };
    assert!(refused(&|job| job.launch.block = 33).contains("33 threads"));
    assert!(refused(&|job| job.launch.block = 0).contains("0 threads"));
    let last = |job: &mut VerifyJob| job.staging.truncate::<Group>(Section::Groups, 3);
    assert!(refused(&last).contains("cover"));
    assert!(refused(&|job| job.wide = !job.wide).contains("cover"));
}

#[test]
fn large_collections_are_uploaded_in_pieces() {
    let Some(lent) = Lent::new() else { return };
    let device = lent.open().unwrap();
    let mut rng = StdRng::seed_from_u64(2);
    // More than one half of the pinned memory, and not a multiple of it.
    let sets = Arc::new(sets(&mut rng, 1300, 5000));
    assert!(sets.token_count() * size_of::<u32>() > 9 << 20);
    let resident = ResidentSets::on(&device, &sets, true).unwrap();
    let case = Case::draw(&mut rng, &sets, 6);
    let inbox = Inbox::new();
    let launch = launch(Layout::LanesPerPair, Form::Pairs);
    let mut job = case.job(case.staging(&device, false).unwrap(), launch, &inbox);
    job.probe = Some(resident.clone());
    job.build = Some(resident);
    job.submit(&device);
    let (_, outcome) = inbox.wait();
    case.check(&launch, &outcome.unwrap());
}

/// Sets of another device, or of this one before it was lost, are not read.
#[test]
fn sets_on_another_device_are_refused() {
    let (Some(lent), Some(other)) = (Lent::emulated(), Lent::emulated()) else { return };
    let (device, other_device) = (lent.open().unwrap(), other.open().unwrap());
    let mut rng = StdRng::seed_from_u64(5);
    let sets = Arc::new(sets(&mut rng, 20, 9));
    let case = Case::draw(&mut rng, &sets, 3);
    let inbox = Inbox::new();
    let staging = case.staging(&device, true).unwrap();
    let mut job = case.job(staging, launch(Layout::BlockPerPair, Form::Pairs), &inbox);
    job.build = Some(ResidentSets::on(&other_device, &sets, false).unwrap());
    job.submit(&device);
    let error = inbox.wait().1.unwrap_err();
    assert!(error.to_string().contains("sets on another device"), "{error}");
}

/// Chunks share the queue with works of other types.
#[test]
fn chunks_and_other_works_take_turns() {
    let Some(lent) = Lent::new() else { return };
    let device = lent.open().unwrap();
    let mut rng = StdRng::seed_from_u64(6);
    let sets = Arc::new(sets(&mut rng, 40, 20));
    let (inbox, others) = (Inbox::new(), OtherInbox::new());
    let mut cases = vec![];
    for number in 0..24 {
        let case = Case::draw(&mut rng, &sets, 8);
        let layout = Layout::ALL[number as usize % 4];
        let launch = launch(layout, if number % 2 == 0 { Form::Pairs } else { Form::Count });
        let staging = case.staging(&device, true).unwrap();
        case.job(staging, launch, &inbox).submit(&device);
        others.fill(&device, number, 300);
        others.echo(&device, number, 300).unwrap();
        cases.push((case, launch));
    }
    for (outcome, (case, launch)) in inbox.wait_for_all().iter().zip(&cases) {
        case.check(launch, outcome.as_ref().unwrap());
    }
    assert!(others.wait_for_all().iter().all(Result::is_ok));
    drop(device);
    lent.expect_nothing_left();
}

/// A program is loaded with its first launch: measurements alone pay for the published kernels.
#[test]
fn published_kernels_are_loaded_where_they_are_asked_for() {
    let Some(lent) = Lent::emulated() else { return };
    let device = lent.open().unwrap();
    let mut rng = StdRng::seed_from_u64(7);
    let sets = Arc::new(sets(&mut rng, 20, 9));
    let inbox = Inbox::new();
    let published = Layout::Published(Published::ThreadPerPair);
    let layouts = [(Layout::LanesPerPair, 1), (Layout::BlockPerPair, 1), (published, 2)];
    for (layout, modules) in layouts {
        let case = Case::draw(&mut rng, &sets, 3);
        let launch = launch(layout, Form::Pairs);
        let staging = case.staging(&device, true).unwrap();
        case.job(staging, launch, &inbox).submit(&device);
        let (_, outcome) = inbox.wait();
        case.check(&launch, &outcome.unwrap());
        assert_eq!(lent.fake().stat("modules"), modules);
    }
}
