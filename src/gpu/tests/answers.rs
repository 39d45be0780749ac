//! What jobs are answered.

use crate::gpu::tests::*;

/// Every layout and form, with sets that are resident and sets that travel.
#[test]
fn every_kernel_finds_the_matches_of_a_chunk() {
    let Some(lent) = Lent::new() else { return };
    let device = lent.open().unwrap();
    let mut rng = StdRng::seed_from_u64(3);
    let sets = Arc::new(sets(&mut rng, 60, 40));
    let resident = Arc::new(device.upload(&sets, true).unwrap());
    assert_eq!(resident.bytes(), ResidentSets::bytes_of(&sets, true));
    for layout in Layout::ALL {
        for form in [Form::Pairs, Form::Count] {
            let case = Case::draw(&mut rng, &sets, 20);
            for mask in 0..4 {
                let inbox = Inbox::new();
                let (probe, build) = (mask & 1 > 0, mask & 2 > 0);
                let staging = case.staging(&device, !(probe && build), form).unwrap();
                let launch = launch(layout, form);
                let mut job = case.job(staging, launch, &inbox);
                job.probe = probe.then(|| Arc::clone(&resident));
                job.build = build.then(|| Arc::clone(&resident));
                device.submit(job);
                let (_, staging, outcome) = inbox.wait();
                let outcome = outcome.unwrap();
                case.check(&launch, &staging, &outcome);
                let back = if form == Form::Pairs { size_of_val(staging.matches(9999)) } else { 0 };
                assert_eq!(outcome.bytes_from_device, (back + size_of::<Found>()) as u64);
                assert!(outcome.times.kernel_nanos > 0);
            }
        }
    }
    drop((device, resident));
    lent.expect_nothing_left();
}

#[test]
fn jobs_from_many_threads_are_all_answered_and_overlap() {
    let Some(lent) = Lent::new() else { return };
    let device = lent.open().unwrap();
    let sets = Arc::new(sets(&mut StdRng::seed_from_u64(1), 60, 30));
    let resident = Arc::new(device.upload(&sets, true).unwrap());
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
                    let mut job =
                        case.job(case.staging(device, gathered, form).unwrap(), launch, &inbox);
                    if !gathered {
                        job.probe = Some(Arc::clone(resident));
                        job.build = Some(Arc::clone(resident));
                    }
                    device.submit(job);
                    cases.push((case, launch));
                }
                for ((staging, outcome), (case, launch)) in inbox.wait_for_all().iter().zip(&cases)
                {
                    case.check(launch, staging, outcome.as_ref().unwrap());
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
    let staging = case.staging(&device, true, Form::Pairs).unwrap();
    device.submit(case.job(staging, launch(Layout::ThreadPerProbe, Form::Pairs), &inbox));
    assert_eq!(inbox.wait().2.unwrap().found, Found::default());
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
    let refused = |change: &dyn Fn(&mut Job)| {
        let staging = case.staging(&device, true, Form::Pairs).unwrap();
        let mut job = case.job(staging, launch(Layout::ThreadPerPair, Form::Pairs), &inbox);
        change(&mut job);
        device.submit(job);
        let error = inbox.wait().2.unwrap_err();
        assert!(matches!(error, DeviceError::Internal(_)), "{error}");
        error.to_string()
    };
    assert!(refused(&|job| job.launch.block = 33).contains("33 threads"));
    assert!(refused(&|job| job.launch.block = 0).contains("0 threads"));
    let last = |job: &mut Job| job.staging.truncate::<Group>(Section::Groups, 3);
    assert!(refused(&last).contains("cover"));
    assert!(refused(&|job| job.wide = !job.wide).contains("cover"));
    let room = |job: &mut Job| {
        let wider = Capacities { candidates: 1 << 12, groups: 64, ..Capacities::default() };
        job.staging = device.staging(wider).unwrap();
        let ends = [0, 1].map(|start| Group { start, ..Group::default() });
        assert!(job.staging.extend(Section::Groups, &ends));
        job.wide = false;
        assert!(job.staging.push(Section::Candidates, NarrowCandidate::default()));
    };
    assert!(refused(&room).contains("room for 0 matches"));
}

#[test]
fn a_reply_that_panics_harms_nobody_else() {
    #[derive(Debug)]
    struct Panics;
    impl Reply for Panics {
        fn done(&self, _: Staging, _: Result<Outcome, DeviceError>) {
            std::panic::resume_unwind(Box::new("a reply panics"));
        }
    }
    let Some(lent) = Lent::new() else { return };
    let device = lent.open().unwrap();
    let mut rng = StdRng::seed_from_u64(5);
    let sets = Arc::new(sets(&mut rng, 20, 9));
    let case = Case::draw(&mut rng, &sets, 3);
    let inbox = Inbox::new();
    let launch = launch(Layout::BlockPerPair, Form::Pairs);
    for number in 0..6 {
        let staging = case.staging(&device, true, Form::Pairs).unwrap();
        let mut job = case.job(staging, launch, &inbox);
        if number % 2 == 0 {
            job.reply = Arc::new(Panics);
        }
        device.submit(job);
    }
    for _ in 0..3 {
        let (_, staging, outcome) = inbox.wait();
        case.check(&launch, &staging, &outcome.unwrap());
    }
}

#[test]
fn a_device_that_is_closed_answers_what_it_was_given() {
    let Some(lent) = Lent::new() else { return };
    let device = lent.open().unwrap();
    let mut rng = StdRng::seed_from_u64(8);
    let sets = Arc::new(sets(&mut rng, 60, 30));
    let case = Case::draw(&mut rng, &sets, 30);
    let inbox = Inbox::new();
    let launch = launch(Layout::LanesPerPair, Form::Pairs);
    for _ in 0..8 {
        let staging = case.staging(&device, true, Form::Pairs).unwrap();
        device.submit(case.job(staging, launch, &inbox));
    }
    Device::close(lent.ordinal);
    drop(device);
    for (staging, outcome) in inbox.wait_for_all() {
        case.check(&launch, &staging, &outcome.unwrap());
    }
    lent.expect_nothing_left();
}

#[test]
fn large_collections_are_uploaded_in_pieces() {
    let Some(lent) = Lent::new() else { return };
    let device = lent.open().unwrap();
    let mut rng = StdRng::seed_from_u64(2);
    // More than one half of the pinned memory, and not a multiple of it.
    let sets = Arc::new(sets(&mut rng, 1300, 5000));
    assert!(sets.token_count() * size_of::<u32>() > 9 << 20);
    let resident = Arc::new(device.upload(&sets, true).unwrap());
    let case = Case::draw(&mut rng, &sets, 6);
    let inbox = Inbox::new();
    let launch = launch(Layout::LanesPerPair, Form::Pairs);
    let mut job = case.job(case.staging(&device, false, Form::Pairs).unwrap(), launch, &inbox);
    job.probe = Some(Arc::clone(&resident));
    job.build = Some(resident);
    device.submit(job);
    let (_, staging, outcome) = inbox.wait();
    case.check(&launch, &staging, &outcome.unwrap());
}

#[test]
fn chunks_are_pinned_once_and_trimmed_on_demand() {
    let Some(lent) = Lent::emulated() else { return };
    let device = lent.open().unwrap();
    let before = lent.fake().stat("pinned");
    let capacities = Capacities { candidates: 1 << 20, ..Capacities::default() };
    for _ in 0..3 {
        let staging = device.staging(capacities).unwrap();
        assert_eq!(lent.fake().stat("pinned"), before + staging.bytes() as u64);
    }
    assert!(lent.fake().stat("pinned") > before);
    device.trim();
    assert_eq!(lent.fake().stat("pinned"), before);
}
