//! The published joins against all pairs.

use arrow::util::pretty::pretty_format_batches;
use datafusion::common::Result;
use rand::prelude::*;

use super::PublishedPoints;
use crate::config::{DeviceChoice, GpuOptions};
use crate::emulator::gpu;
use crate::engine::{MatchNeed, PrepareContext};
use crate::util::cancel::CancelFlag;
use crate::vector::device::tests::harness::{Drive, PrepareOn, Sides, reservation};
use crate::vector::device::tests::sql::{rows, session};
use crate::vector::device::tests::{KINDS, bound, drive, need, rounds, sides};
use crate::vector::metric::{Metric, Threshold};

fn check(published: PublishedPoints, seed: u64, counts: bool) {
    if gpu().is_none() {
        return;
    }
    let mut rng = StdRng::seed_from_u64(seed);
    let mut walked = 0;
    for round in 0..rounds(if counts { 60 } else { 20 }) {
        let kind = KINDS[round % KINDS.len()];
        let d = *[1, 2, 3, 8, 17].choose(&mut rng).unwrap();
        let sides = sides(&mut rng, kind, d, 190);
        let metric = Metric::Euclidean;
        let threshold = Threshold::new(metric, bound(&mut rng, &sides, metric));
        let expected = sides.expected(threshold);
        let need = if counts { MatchNeed::Count } else { need(&mut rng, &sides) };
        let prepare: PrepareOn = match published {
            PublishedPoints::Loop => |build, joining, devices, context| {
                PublishedPoints::Loop.prepare_on(build, joining, devices, context)
            },
            PublishedPoints::Directory => |build, joining, devices, context| {
                PublishedPoints::Directory.prepare_on(build, joining, devices, context)
            },
        };
        let drive = Drive { prepare, ..drive(&mut rng) };
        walked += u32::from(walks(published, &sides, threshold, need, drive));
        let (given, told) = sides.run(threshold, need, drive).unwrap();
        assert!(told.is_empty(), "{told:?}");
        let what = format!(
            "round {round}, {kind:?}, {d} dimensions, {threshold:?}, {need:?}, {:?}, {drive:?}",
            sides.pairing
        );
        sides.check(need, &given, &expected, &what);
    }
    if published == PublishedPoints::Directory && counts {
        assert!(walked > 10, "{walked} directories");
    }
}

/// Whether a join that lies on the device walks a directory.
fn walks(
    published: PublishedPoints,
    sides: &Sides,
    threshold: Threshold,
    need: MatchNeed,
    drive: Drive,
) -> bool {
    let (join, _) = sides.open(threshold, &sides.spec(need, GpuOptions::default()), drive).unwrap();
    let (memory, cancel) = (reservation(), CancelFlag::default());
    let context =
        PrepareContext { reservation: &memory, cancel: &cancel, threads: 2, probes: None };
    let directory = published.directory(&sides.build, &join, context).unwrap();
    directory.is_some() && !drive.travels
}

#[test]
fn the_published_loop() {
    check(PublishedPoints::Loop, 101, false);
}

#[test]
fn the_published_directory() {
    check(PublishedPoints::Directory, 102, true);
}

/// Few joins count: others take the loop.
#[test]
fn the_published_directory_of_any_statement() {
    check(PublishedPoints::Directory, 103, false);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn published_joins_answer_as_nested_loops_do() -> Result<()> {
    if gpu().is_none() {
        return Ok(());
    }
    let (oracle, device) = (session(None).await?, session(Some(DeviceChoice::cuda(0))).await?);
    for strategy in ["nested-loop-published", "directory-published"] {
        device.sql(&format!("SET simjoin.strategy = '{strategy}'")).await?.collect().await?;
        for (columns, condition) in [
            ("count(*)", "a.id < b.id"),
            ("count(*)", "a.k = b.k"),
            ("a.id, b.id, array_distance(a.v, b.v)", "a.id < b.id"),
        ] {
            let sql = format!(
                "SELECT {columns} FROM a JOIN a b ON array_distance(a.v, b.v) <= 2 AND {condition}"
            );
            let expected = oracle.sql(&sql).await?.collect().await?;
            let expected = pretty_format_batches(&expected)?.to_string();
            let mut expected: Vec<_> = expected.lines().map(str::to_string).collect();
            expected.sort_unstable();
            assert_eq!(rows(&device, &sql).await?, expected, "{strategy}: {sql}");
        }
        let sql = "EXPLAIN SELECT count(*) FROM a JOIN b ON array_distance(a.v, b.v) <= 2";
        assert!(rows(&device, sql).await?.join("\n").contains(strategy), "{strategy}");
    }
    let error = rows(&device, "SELECT 1 FROM a JOIN b ON cosine_distance(a.v, b.v) <= 0.1").await;
    let error = error.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("use auto, nested-loop"), "{error}");
    Ok(())
}
