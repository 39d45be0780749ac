//! Statements on a device, held against DataFusion's nested loops.

use arrow::util::pretty::pretty_format_batches;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::SimJoinContextExt;
use crate::config::{DeviceChoice, SimJoinOptions};
use crate::emulator::gpu;
use crate::session::install;
use crate::tests::small;
use datafusion::common::Result;

pub(crate) async fn session(device: Option<DeviceChoice>) -> Result<SessionContext> {
    let mut config = small(SessionConfig::new().with_target_partitions(3).with_batch_size(100));
    let context = match device {
        None => SessionContext::new_with_config(config),
        Some(device) => {
            config.options_mut().extensions.insert(SimJoinOptions { device, ..Default::default() });
            let builder = SessionStateBuilder::new_with_default_features().with_config(config);
            SessionContext::new_with_state(install(builder)?.build())
        }
    };
    for sql in [
        "CREATE TABLE a AS SELECT value AS id, value % 3 AS k, \
         CASE WHEN value % 11 = 5 THEN NULL ELSE [(value * 7) % 10, value / 20, value % 4] END AS v \
         FROM generate_series(0, 260)",
        "CREATE TABLE b AS SELECT value AS id, value % 4 AS k, \
         [(value * 3) % 10 + 0.5, value / 10, CASE WHEN value % 13 = 1 THEN NULL ELSE 1.25 END] AS v \
         FROM generate_series(0, 130)",
    ] {
        context.sql(sql).await?.collect().await?;
    }
    Ok(context)
}

pub(crate) async fn rows(context: &SessionContext, sql: &str) -> Result<Vec<String>> {
    let batches = context.simjoin_sql(sql).await?.collect().await?;
    let mut lines: Vec<_> =
        pretty_format_batches(&batches)?.to_string().lines().map(str::to_string).collect();
    lines.sort_unstable();
    Ok(lines)
}

const CONDITIONS: [&str; 6] = [
    "array_distance(a.v, b.v) <= 2.5",
    "array_distance(a.v, b.v) < 3 AND a.k = b.k",
    "inner_product(a.v, b.v) >= 60",
    "cosine_distance(a.v, b.v) <= 0.05",
    "array_distance(a.v, b.v) BETWEEN 1 AND 2",
    "cosine_distance(a.v, b.v) <= 0.1 AND (a.id + b.id) % 3 <> 1",
];

/// Every join type and count gives the rows of DataFusion, numbers bit for bit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_on_a_device_answer_as_nested_loops_do() -> Result<()> {
    if gpu().is_none() {
        return Ok(());
    }
    let (oracle, device) = (session(None).await?, session(Some(DeviceChoice::cuda(0))).await?);
    let mut answers = 0;
    for (number, condition) in CONDITIONS.into_iter().enumerate() {
        let statements = [
            format!("SELECT a.id, b.id, array_distance(a.v, b.v) FROM a JOIN b ON {condition}"),
            format!("SELECT count(*) FROM a JOIN b ON {condition}"),
            format!("SELECT a.id, count(b.id) FROM a LEFT JOIN b ON {condition} GROUP BY a.id"),
            format!("SELECT b.id FROM a RIGHT ANTI JOIN b ON {condition}"),
            format!("SELECT a.id FROM a LEFT SEMI JOIN b ON {condition}"),
            format!("SELECT a.id, b.id FROM a FULL JOIN b ON {condition}"),
            format!("SELECT count(*) FROM a JOIN a b ON {condition}"),
            format!("SELECT a.id, b.id FROM a JOIN a b ON {condition} AND a.id < b.id"),
        ];
        for sql in statements.iter().skip(number % 2).step_by(2) {
            let expected = match oracle.sql(sql).await?.collect().await {
                Ok(batches) => pretty_format_batches(&batches)?.to_string(),
                Err(error) => panic!("{error}\n{sql}"),
            };
            let mut expected: Vec<_> = expected.lines().map(str::to_string).collect();
            expected.sort_unstable();
            assert_eq!(rows(&device, sql).await?, expected, "{sql}");
            answers += expected.len();
        }
    }
    assert!(answers > 1000, "{answers}");
    Ok(())
}

/// EXPLAIN ANALYZE names the device, and the metrics of its work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_analyze_names_the_device() -> Result<()> {
    if gpu().is_none() {
        return Ok(());
    }
    let device = session(Some(DeviceChoice::cuda(0))).await?;
    let sql = "EXPLAIN ANALYZE SELECT count(*) FROM a JOIN b ON array_distance(a.v, b.v) <= 2";
    let shown = rows(&device, sql).await?.join("\n");
    for part in [
        "nested-loop",
        "cuda:0",
        "device_chunks",
        "device_kernel_time_vectors",
        "device_open_time",
        "device_upload_time",
        "choice_time",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    Ok(())
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
