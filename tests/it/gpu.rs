//! Joins whose candidates are verified on a GPU, through SQL: that it takes part and says so, that
//! it may be small, and that its failures are errors which leave nothing behind. On a real GPU
//! where there is one, on the emulator elsewhere; failures on the emulator alone.

use std::process::Command;
use std::time::Duration;

use arrow::datatypes::DataType;
use cudarc::driver::sys::CUresult;
use datafusion::prelude::SessionContext;
use rand::SeedableRng;
use rand::rngs::StdRng;
use simjoin_gpu::runtime::Device;
use tokio::runtime::Handle;

use crate::cases::{Pattern, Tables};
use crate::cli;
use crate::emulator::{self, Emulator, Gpu, gpu};
use crate::oracle::Row;
use crate::support::{
    ON_GPU, Session, assert_contains, assert_same_rows, error, explain, measured, register, rows,
    try_rows,
};

const PAIRS: &str = "SELECT a.id, b.id, jaccard(a.toks, b.toks) FROM a \
                     SIMJOIN b ON jaccard(a.toks, b.toks) >= 0.4";
const COUNT: &str = "SELECT count(*) FROM a SIMJOIN b ON jaccard(a.toks, b.toks) >= 0.4";
const EXISTS: &str = "SELECT a.id FROM a LEFT SEMI SIMJOIN b ON dice(a.toks, b.toks) >= 0.6";
const ITSELF: &str = "SELECT x.id, y.id FROM a x SIMJOIN a y ON dice(x.toks, y.toks) >= 0.6";
const COUNT_ITSELF: &str =
    "SELECT count(*) FROM a x SIMJOIN a y ON dice(x.toks, y.toks) >= 0.6 AND x.id < y.id";
const STATEMENTS: [&str; 5] = [PAIRS, COUNT, EXISTS, ITSELF, COUNT_ITSELF];

fn tables() -> (Vec<Row>, Vec<Row>) {
    let mut rng = StdRng::seed_from_u64(77);
    let mut tables = Tables::new(&mut rng, 40);
    let a = tables.rows(150, Pattern::Families, &DataType::Int64, 0);
    let b = tables.rows(150, Pattern::Mixed, &DataType::Int64, 100);
    (a, b)
}

/// A session with two tables; candidates come from an index.
fn context(options: &[(&'static str, &str)]) -> SessionContext {
    let mut session = Session { batch_size: 64, partitions: 3, ..Session::default() };
    session = session.option("strategy", "allpairs");
    for (name, value) in options {
        session = session.option(name, value);
    }
    let ctx = session.context();
    let (a, b) = tables();
    register(&ctx, "a", &a);
    register(&ctx, "b", &b);
    ctx
}

/// A device for one test.
pub(crate) enum Lease {
    Real,
    Emulated(emulator::Device),
}

impl Lease {
    pub(crate) fn new() -> Option<Self> {
        Some(match gpu()? {
            Gpu::Real => Self::Real,
            Gpu::Emulated(emulator) => Self::Emulated(emulator.device()),
        })
    }

    pub(crate) fn ordinal(&self) -> u32 {
        match self {
            Self::Real => 0,
            Self::Emulated(device) => device.ordinal(),
        }
    }

    fn option(&self) -> String {
        format!("cuda:{}", self.ordinal())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_candidates_are_verified_where_the_query_demands_it() {
    let Some(lease) = Lease::new() else { return };
    let on_cpu = context(&[("device", "cpu")]);
    for sql in STATEMENTS {
        let (expected, cpu) = measured(&on_cpu, sql, &["candidates", "device_candidates"]).await;
        assert!(cpu[0] > 100 && cpu[1] == 0, "{sql}: {cpu:?}");
        for memory in ["600", "2M"] {
            for limit in ["auto", "4000"] {
                let device = lease.option();
                let options = [
                    ("device", device.as_str()),
                    ("gpu.candidate_memory", memory),
                    ("gpu.memory_limit", limit),
                ];
                let ctx = context(&options);
                let names = ["device_candidates", "device_chunks", "device_bytes_to", "candidates"];
                let (found, used) = measured(&ctx, sql, &names).await;
                let what = format!("{sql}\n{options:?}: {used:?}");
                assert_same_rows(&found, &expected, &what);
                assert!(used[0] > 0 && used[1] > 0 && used[2] > 8 * used[0], "{what}");
                // What does not fit into an empty chunk stays on the CPU; these sets are small.
                assert!(limit != "auto" || used[0] == used[3], "{what}");
                assert!(memory != "600" || used[1] > 3, "{what}");
            }
        }
    }
    if let Lease::Emulated(device) = &lease {
        device.expect_nothing_left(Device::close, "after all queries");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_chunks_of_a_query_are_on_the_device_together() {
    let Some(emulator) = Emulator::get() else { return };
    let device = emulator.device();
    let option = format!("cuda:{}", device.ordinal());
    let ctx = context(&[("device", &option), ("gpu.candidate_memory", "600")]);
    let held = device.hold();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            device.expect_at_least("in_flight", 2);
            drop(held);
        });
        let query = rows(&ctx, PAIRS);
        tokio::task::block_in_place(|| Handle::current().block_on(query));
    });
    device.expect_nothing_left(Device::close, "after the query");
}

/// A side that is much larger than the other one reaches the device in few works, whatever the partitions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_rows_beside_few_are_few_works() {
    let Some(lease) = Lease::new() else { return };
    let device = lease.option();
    let counted = "SELECT count(*) FROM many m SIMJOIN few f ON jaccard(m.toks, f.toks) >= 0.5";
    let mut expected = None;
    for options in [
        [("device", "cpu"), ("strategy", "ppjoin")],
        [("device", &device), ("strategy", "bitmap")],
        [("device", &device), ("strategy", "bwjoin")],
        [("device", &device), ("strategy", "scancount")],
    ] {
        let mut session = Session { batch_size: 8192, partitions: 8, ..Session::default() };
        for (name, value) in options {
            session = session.option(name, value);
        }
        let ctx = session.context();
        for (name, count) in [("many", 6000), ("few", 60)] {
            let made = format!(
                "CREATE TABLE {name} AS SELECT [value % 7, value % 5 + 10, value % 3 + 20] AS toks \
                 FROM generate_series(1, {count})"
            );
            rows(&ctx, &made).await;
        }
        let (found, works) = measured(&ctx, counted, &["device_chunks"]).await;
        assert_same_rows(&found, expected.get_or_insert_with(|| found.clone()), options[1].1);
        assert!(works[0] <= 4, "{options:?}: {works:?}");
        assert_eq!(works[0] > 0, options[0].1 != "cpu", "{options:?}");
    }
    if let Lease::Emulated(device) = &lease {
        device.expect_nothing_left(Device::close, "after all queries");
    }
}

/// The least and the greatest that options accept are taken for what can be.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn extreme_limits_change_no_answer_and_pin_no_more_than_a_device_can_use() {
    let Some(emulator) = Emulator::get() else { return };
    let device = emulator.device();
    let option = format!("cuda:{}", device.ordinal());
    let on_cpu = context(&[("device", "cpu")]);
    let extremes = ["1", "17179869183G", "18446744073709551615"];
    for sql in [PAIRS, COUNT, EXISTS] {
        let expected = rows(&on_cpu, sql).await;
        for memory in extremes {
            for limit in ["auto"].into_iter().chain(extremes) {
                let ctx = context(&[
                    ("device", &option),
                    ("gpu.candidate_memory", memory),
                    ("gpu.memory_limit", limit),
                ]);
                let what = format!("{sql}\nwith {memory} of {limit}");
                assert_same_rows(&rows(&ctx, sql).await, &expected, &what);
                device.expect_nothing_left(Device::close, &what);
            }
        }
    }
    assert!(device.stat("launches") > 30, "{}", device.stat("launches"));
    // Three chunks in each of three partitions; the emulated device has 1 GiB.
    let pinned = device.stat("max_pinned");
    assert!((1 << 20..1 << 30).contains(&pinned), "{pinned}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_analyze_names_the_device_and_the_layout() {
    let Some(lease) = Lease::new() else { return };
    let device = lease.option();
    let ctx = context(&[("device", &device), ("debug.gpu_layout", "d4")]);
    let text = explain(&ctx, &format!("ANALYZE {PAIRS}")).await;
    assert_contains(&text, &[&device, "as demanded", "device_candidates=", "device_bytes_from="]);
    assert_contains(&text, &["device_kernel_time_lanes_per_pair="]);
    assert!(!text.contains("travel with candidates"), "{text}");
    let ctx = context(&[("device", &device), ("gpu.memory_limit", "4000")]);
    let text = explain(&ctx, &format!("ANALYZE {PAIRS}")).await;
    assert_contains(&text, &[&device, "sets travel with candidates"]);
    if let Lease::Emulated(device) = &lease {
        device.expect_nothing_left(Device::close, "explained");
    }
}

/// Filters that run on a GPU alone are named by EXPLAIN ANALYZE, and are errors elsewhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filters_on_a_gpu_alone_need_one() {
    let Some(lease) = Lease::new() else { return };
    let device = lease.option();
    let expected = rows(&context(&[("device", "cpu")]), PAIRS).await;
    let kernels = ["index_warps", "index_blocks", "index_threads", "index_atomics"];
    for (strategy, kernel) in ON_GPU.iter().zip(kernels) {
        let ctx = context(&[("device", &device), ("strategy", strategy)]);
        assert_same_rows(&rows(&ctx, PAIRS).await, &expected, strategy);
        let text = explain(&ctx, &format!("ANALYZE {PAIRS}")).await;
        let time = format!("device_kernel_time_{kernel}=");
        assert_contains(&text, &[&format!("chosen={strategy} "), &time]);
        let ctx = context(&[("device", "cpu"), ("strategy", strategy)]);
        let needs = [
            "on a GPU alone",
            "simjoin.device = 'cuda'",
            "allpairs, bitsliced, scancount, rising or groupjoin",
        ];
        assert_contains(&error(&ctx, PAIRS).await, &needs);
    }
    if let Lease::Emulated(device) = &lease {
        device.expect_nothing_left(Device::close, "after all filters");
    }
}

/// Overlaps of large sets are counted on a device, which EXPLAIN ANALYZE names; an error says why not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overlaps_are_counted_on_a_device() {
    let Some(lease) = Lease::new() else { return };
    let device = lease.option();
    let ctx = context(&[("device", &device), ("strategy", "scancount")]);
    for sql in STATEMENTS {
        let expected = rows(&context(&[("device", "cpu")]), sql).await;
        assert_same_rows(&rows(&ctx, sql).await, &expected, sql);
    }
    let text = explain(&ctx, &format!("ANALYZE {COUNT}")).await;
    assert_contains(&text, &[&device, "chosen=scancount ", "device_kernel_time_large_light"]);
    let options =
        [("device", device.as_str()), ("strategy", "scancount"), ("gpu.memory_limit", "4000")];
    // Not even a piece of the build side fits.
    let needs = ["CUDA device", "signature tiles of the join need", "simjoin.gpu.candidate_memory"];
    assert_contains(&error(&context(&options), COUNT).await, &needs);
    if let Lease::Emulated(device) = &lease {
        device.expect_nothing_left(Device::close, "after all overlaps");
    }
}

#[tokio::test]
async fn devices_that_cannot_be_used_are_errors_with_advice() {
    let Some(_lease) = Lease::new() else { return };
    let ctx = context(&[("device", "cuda:99")]);
    assert_contains(&error(&ctx, PAIRS).await, &["CUDA device 99", "simjoin.device"]);
    let ctx = context(&[("device", "cuda:127")]);
    assert_contains(&error(&ctx, PAIRS).await, &["CUDA device 127", "simjoin.device"]);
    let beyond = error(&ctx, "SET simjoin.device = 'cuda:128'").await;
    assert_contains(&beyond, &["simjoin.device", "cuda:0,2"]);
    // Planning asks no device.
    let ctx = context(&[("device", "cuda:99")]);
    assert_contains(&explain(&ctx, PAIRS).await, &["SetSimilarityJoinExec", "cuda:99"]);
}

/// A query that is dropped leaves chunks under way, whose results no cursor takes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_that_ends_early_gives_its_memory_back() {
    let Some(emulator) = Emulator::get() else { return };
    let device = emulator.device();
    let option = format!("cuda:{}", device.ordinal());
    let ctx = context(&[("device", &option), ("gpu.candidate_memory", "256")]);
    for _ in 0..5 {
        let found = rows(&ctx, &format!("{PAIRS} LIMIT 3")).await;
        assert_eq!(found.len(), 3);
        let run = tokio::time::timeout(Duration::from_millis(5), try_rows(&ctx, PAIRS));
        let _ = run.await;
    }
    device.expect_nothing_left(Device::close, "given up");
}

/// Where the query demands the device its failure is the query's, whichever partition meets it;
/// nothing hangs, nothing is left, and the next query has the device again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_of_a_demanded_device_are_errors_of_the_query() {
    let Some(emulator) = Emulator::get() else { return };
    let device = emulator.device();
    let option = format!("cuda:{}", device.ordinal());
    let options = [("device", option.as_str()), ("gpu.candidate_memory", "600")];
    let ctx = context(&options);
    let expected = rows(&context(&[("device", "cpu")]), PAIRS).await;
    let memory = CUresult::CUDA_ERROR_OUT_OF_MEMORY as i32;
    let illegal = CUresult::CUDA_ERROR_ILLEGAL_ADDRESS as i32;
    let lost = CUresult::CUDA_ERROR_ECC_UNCORRECTABLE as i32;
    let invalid = CUresult::CUDA_ERROR_INVALID_VALUE as i32;
    type Inject<'a> = &'a dyn Fn(&emulator::Device);
    let repeated = |function: &'static str, first: u32, error: i32| {
        move |device: &emulator::Device| (0..40).for_each(|_| device.fault(function, first, error))
    };
    let faults: [(&str, Inject<'_>, &[&str]); 8] = [
        ("context", &|d| d.fault("cuDevicePrimaryCtxRetain", 1, memory), &["context"]),
        // Of machine code and then of PTX.
        ("kernels", &repeated("cuModuleLoadData", 1, 209), &["no kernel image"]),
        ("pinned", &repeated("cuMemHostAlloc", 5, memory), &["pinned", "candidate_memory"]),
        ("chunks", &repeated("cuMemAlloc", 2, memory), &["chunks of candidates", "free"]),
        ("launch", &|d| d.fault("cuLaunchKernel", 3, invalid), &["cuLaunchKernel"]),
        ("kernel", &|d| d.fault_async(3, illegal), &["was lost", "illegal memory access"]),
        ("copy", &|d| d.fault("cuMemcpyDtoHAsync", 2, lost), &["was lost", "ECC"]),
        ("wait", &|d| d.fault("cuEventSynchronize", 4, lost), &["was lost", "simjoin.device"]),
    ];
    for (name, inject, parts) in faults {
        inject(&device);
        match try_rows(&ctx, PAIRS).await {
            Ok(found) => panic!("{name}: no error but {} rows", found.len()),
            Err(error) => assert_contains(&error.to_string(), parts),
        }
        device.expect_nothing_left(Device::close, name);
        device.reset();
        assert_same_rows(&rows(&ctx, PAIRS).await, &expected, name);
        device.expect_nothing_left(Device::close, name);
    }
    // Sets that cannot be brought to the device travel with the candidates.
    device.fault("cuMemAlloc", 1, memory);
    device.fault("cuMemAlloc", 1, memory);
    let text = explain(&ctx, &format!("ANALYZE {PAIRS}")).await;
    assert_contains(&text, &["sets travel with candidates"]);
    device.expect_nothing_left(Device::close, "upload");
}

/// The emulator has 64 devices. A process of its own opens them, for other tests use some as well.
#[test]
fn a_join_opens_as_many_devices_as_it_has_work_for() {
    const ALONE: &str = "SIMJOIN_TEST_ALONE";
    let Some(emulator) = Emulator::get() else { return };
    if std::env::var_os(ALONE).is_none() {
        let mut command = Command::new(std::env::current_exe().expect("a path"));
        let test = "gpu::a_join_opens_as_many_devices_as_it_has_work_for";
        let output = command.args(["--exact", test]).env(ALONE, "1").output().expect("it starts");
        let ran = cli::Ran::from(output);
        assert!(ran.ok, "{}{}", ran.out, ran.err);
        assert_contains(&ran.out, &["1 passed"]);
        return;
    }
    let opened = || (0..64).map(|ordinal| emulator.stat(ordinal, "contexts")).sum::<u64>();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let ctx = context(&[("device", "cuda")]);
        for statement in STATEMENTS {
            rows(&ctx, statement).await;
        }
        let vectors =
            "CREATE TABLE v AS SELECT value AS id, [sin(value), cos(value), value % 7] AS v
                       FROM generate_series(1, 500)";
        rows(&ctx, vectors).await;
        let near = "SELECT count(*) FROM v a SIMJOIN v b ON array_distance(a.v, b.v) <= 0.01";
        rows(&ctx, "SET simjoin.strategy = 'auto'").await;
        let expected = rows(&ctx, near).await;
        assert_eq!(opened(), 1);
        let text = explain(&ctx, &format!("ANALYZE {near}")).await;
        assert_contains(&text, &["cuda:0 CUDA emulator", "too little work for 63 more"]);
        // Two milliseconds of work, by the estimate.
        rows(&ctx, "SET simjoin.debug.gpu_work = 500").await;
        assert_eq!(rows(&ctx, near).await, expected);
        assert!((3..10).contains(&opened()), "{}", opened());
        rows(&ctx, "SET simjoin.device = 'cuda:41,40'").await;
        assert_eq!(rows(&ctx, near).await, expected);
        let text = explain(&ctx, &format!("ANALYZE {near}")).await;
        assert_contains(&text, &["device=cuda:40,41", "cuda:40,41 CUDA emulator"]);
    });
}

#[test]
fn a_process_uses_all_devices_or_says_why_not() {
    let Some(emulator) = Emulator::get() else { return };
    let library = emulator.path().parent().expect("a folder");
    let folder = tempfile::tempdir().expect("a folder");
    let sql = "SET simjoin.device = 'cuda'; SET simjoin.debug.gpu_work = 1; \
               SELECT count(*) FROM (VALUES ([1, 2])) a(t) SIMJOIN (VALUES ([1, 2, 3])) b(t) \
               ON jaccard(a.t, b.t) >= 0.5; \
               EXPLAIN ANALYZE SELECT a.t FROM (VALUES ([1, 2])) a(t) \
               SIMJOIN (VALUES ([1, 2, 3])) b(t) ON jaccard(a.t, b.t) >= 0.5";
    let run = |environment: &[(&str, &str)], with_driver: bool| {
        let mut command = cli::simjoin(folder.path());
        command.args(["-q", "-c", sql]).envs(environment.iter().copied());
        if with_driver {
            command.env("LD_LIBRARY_PATH", library);
        } else {
            command.env_remove("LD_LIBRARY_PATH");
        }
        cli::Ran::from(command.output().expect("the binary starts"))
    };
    for (devices, shown) in [("1", "cuda:0 CUDA emulator"), ("2", "cuda:0,1 CUDA emulator")] {
        let ran = run(&[("EMULATOR_DEVICES", devices)], true);
        assert!(ran.ok, "{}", ran.err);
        assert_contains(&ran.out, &["| 1 ", shown, "as demanded"]);
    }
    for (environment, parts) in [
        (("EMULATOR_DRIVER", "12020"), ["12.2", "driver 550"]),
        (("EMULATOR_DEVICES", "0"), ["no CUDA device", "simjoin.device = 'cpu'"]),
        (("EMULATOR_CAPABILITY", "6.1"), ["6.1", "simjoin.device = 'cpu'"]),
        (("EMULATOR_MEMORY", "100"), ["CUDA device has", "candidate_memory"]),
    ] {
        let ran = run(&[environment], true);
        assert!(!ran.ok, "{environment:?}: {}", ran.out);
        assert_contains(&(ran.out + &ran.err), &parts);
    }
    // The machine may have a driver of its own, which may have a device.
    let ran = run(&[], false);
    assert!(ran.ok || ran.err.contains("simjoin.device = 'cpu'"), "{}", ran.err);
}
