//! The phases of a join in EXPLAIN ANALYZE: together they are its time, in memory and from disk.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionContext;

use crate::support::{Session, plan, rows};

/// The phases of a join in memory, which follow each other.
const PHASES: [&str; 5] =
    ["read_elapsed", "order_time", "choice_time", "index_time", "probe_elapsed"];

/// A session over a table whose columns serve every family.
async fn session(partitions: usize, spill: &str) -> SessionContext {
    let ctx = Session { partitions, ..Session::on_cpu() }.option("spill", spill).context();
    let table = "CREATE TABLE t AS SELECT value AS id, 'name ' || (value % 500) AS name,
        [value % 7, value % 50 + 10, value % 90 + 100] AS tokens,
        arrow_cast([value % 50, value % 9], 'List(Float32)') AS v FROM range(0, 3000)";
    rows(&ctx, table).await;
    ctx
}

/// The conditions of a self-join and of a join of two inputs for each family.
fn joins() -> Vec<String> {
    let conditions = [
        "jaccard(a.tokens, b.tokens) >= 0.9",
        "jaccard(qgrams(a.name, 2), qgrams(b.name, 2)) >= 0.8",
        "array_distance(a.v, b.v) <= 0.5",
        "levenshtein(a.name, b.name) <= 1",
    ];
    let sides = ["t b", "(SELECT * FROM t WHERE id % 3 = 0) b"];
    let joins = conditions.iter().flat_map(|on| {
        sides.map(|side| format!("SELECT count(*) FROM t a SIMJOIN {side} ON {on}"))
    });
    joins.collect()
}

/// The times of the join of a statement, and the time that the statement took.
async fn times(ctx: &SessionContext, sql: &str) -> (BTreeMap<String, Duration>, Duration) {
    let frame = plan(ctx, sql).await.expect("a plan");
    let task = Arc::new(frame.task_ctx());
    let plan = frame.create_physical_plan().await.expect("a plan");
    let started = Instant::now();
    collect(Arc::clone(&plan), task).await.expect("an answer");
    let took = started.elapsed();
    let metrics = of_join(&plan).expect("a similarity join").aggregate_by_name();
    let times = metrics.iter().map(|metric| {
        let value = metric.value();
        (value.name().to_string(), Duration::from_nanos(value.as_usize() as u64))
    });
    (times.collect(), took)
}

fn of_join(plan: &Arc<dyn ExecutionPlan>) -> Option<MetricsSet> {
    match plan.name() {
        "SetSimilarityJoinExec" => plan.metrics(),
        _ => plan.children().into_iter().find_map(of_join),
    }
}

/// The sum of some times, each of which must be there.
fn sum(times: &BTreeMap<String, Duration>, names: &[&str], sql: &str) -> Duration {
    let time = |name: &&str| {
        *times.get(*name).unwrap_or_else(|| panic!("{name} is missing in {times:?}\nof {sql}"))
    };
    names.iter().map(time).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn phases_follow_each_other_within_the_time_of_the_statement() {
    for partitions in [1, 3] {
        let ctx = session(partitions, "auto").await;
        for sql in joins() {
            let (times, took) = times(&ctx, &sql).await;
            for name in PHASES {
                assert!(!sum(&times, &[name], &sql).is_zero(), "{name} of {sql}");
            }
            let phases = sum(&times, &PHASES, &sql);
            assert!(phases <= took, "{phases:?} of {took:?}: {times:?}\nof {sql}");
            if partitions == 1 {
                // One thread's work lies within the phases that it is part of.
                let work = sum(&times, &["build_encode_time"], &sql);
                assert!(work <= sum(&times, &["read_elapsed"], &sql), "{times:?}\nof {sql}");
                let work = ["probe_encode_time", "filter_time", "verify_time", "output_time"];
                let work = sum(&times, &work, &sql);
                assert!(work <= sum(&times, &["probe_elapsed"], &sql), "{times:?}\nof {sql}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_from_disk_reads_and_then_joins() {
    let ctx = session(2, "always").await;
    for sql in joins() {
        let (times, took) = times(&ctx, &sql).await;
        let phases = ["read_elapsed", "probe_elapsed"].map(|name| sum(&times, &[name], &sql));
        assert!(phases.iter().all(|time| !time.is_zero()), "{times:?}\nof {sql}");
        assert!(phases.iter().sum::<Duration>() <= took, "{times:?} of {took:?}\nof {sql}");
    }
}
