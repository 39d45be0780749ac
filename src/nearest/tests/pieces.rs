//! Inputs that do not fit into memory.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::common::Result;
use datafusion::datasource::MemTable;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use rand::Rng;
use rand::rngs::StdRng;

use super::{Drawn, Kind, answer, many, nested_loops, rounds, source, values};
use crate::config::{RowLimit, SpillChoice};
use crate::session::install;
use crate::tests::statements::{Setup, Way, error, plan_and_rows, table};

/// The sum of a metric of a plan.
fn metric(plan: &Arc<dyn ExecutionPlan>, name: &str) -> usize {
    let own = plan.metrics().and_then(|metrics| metrics.sum_by_name(name));
    let below: usize = plan.children().into_iter().map(|child| metric(child, name)).sum();
    own.map_or(0, |value| value.as_usize()) + below
}

/// Rows with a text `p` of up to `most` bytes besides.
async fn padded(rng: &mut StdRng, count: usize, kind: Kind, most: usize) -> Result<Arc<MemTable>> {
    let plain = table(rng, count, "s", |rng, rows| Ok(values(rng, rows, kind)))?;
    let mut parts = vec![];
    for part in &plain.batches {
        let part = part.read().await;
        let batches = part.iter().map(|batch| {
            let pads = (0..batch.num_rows()).map(|_| Some("x".repeat(rng.random_range(0..=most))));
            let pads: ArrayRef = Arc::new(pads.collect::<StringArray>());
            let fields = batch.schema().fields().clone();
            let columns = fields.iter().cloned().zip(batch.columns().to_vec());
            let columns =
                columns.map(|(field, column)| (field.name().clone(), column, field.is_nullable()));
            let pad = [("p".to_string(), pads, true)];
            RecordBatch::try_from_iter_with_nullable(columns.chain(pad))
        });
        parts.push(batches.collect::<Result<Vec<_>, _>>()?);
    }
    Ok(Arc::new(MemTable::try_new(parts[0][0].schema(), parts)?))
}

/// Compares statements over tables whose rows have texts of up to `pad` bytes. Returns the pieces of all.
async fn compare(
    rng: &mut StdRng,
    kind: Kind,
    setup: Setup,
    most_rows: usize,
    pad: usize,
) -> Result<usize> {
    // Always true, and known from a pair of rows alone: both texts are part of the join's output.
    const READS_TEXTS: &str = " WHERE a.p IS NOT NULL OR b.p IS NULL";
    let mut drawn = Drawn::new(rng, kind);
    drawn.filter = READS_TEXTS.to_string();
    let oracle = nested_loops();
    let way = setup.way;
    let operator = setup.session(install)?;
    for name in ["a", "b"] {
        let count = rng.random_range(0..most_rows);
        let table = padded(rng, count, kind, pad).await?;
        oracle.register_table(name, Arc::clone(&table) as _)?;
        operator.register_table(name, table)?;
    }
    let insists = !drawn.is_foreign && rng.random();
    let (plan, _) = answer(&drawn, "", insists, [&oracle, &operator], way).await?;
    Ok(metric(&plan, "right_pieces"))
}

/// Pieces of a few rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn neighbours_are_found_piece_by_piece() -> Result<()> {
    let mut rng = source(11);
    let mut pieces = 0;
    for round in 0..rounds(32) {
        let kind = [Kind::Sets, Kind::Texts, Kind::Vectors][round % 3];
        let mut setup = Setup::draw(&mut rng, Way::Memory);
        setup.options.spill = SpillChoice::Always;
        setup.options.spill_piece_rows = RowLimit(Some([5, 11, 30][rng.random_range(0..3)]));
        pieces += compare(&mut rng, kind, setup, 50, 20).await?;
    }
    assert!(pieces > 32, "{pieces}");
    Ok(())
}

/// Limits that the rows do not fit into.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_beyond_the_memory_limit_are_searched_for_in_pieces() -> Result<()> {
    let mut rng = source(12);
    let mut pieces = 0;
    for round in 0..rounds(32) {
        let kind = [Kind::Sets, Kind::Texts, Kind::Vectors][round % 3];
        let setup = Setup::draw(&mut rng, Way::Limit(1 << 12));
        pieces += compare(&mut rng, kind, setup, 70, 40_000).await?;
    }
    assert!(pieces > 32, "{pieces}");
    Ok(())
}

/// A memory limit below the rows of either side.
async fn session_of(kib: usize, rows: usize) -> Result<SessionContext> {
    let context = Setup::of(Way::Limit(kib)).session(install)?;
    let sql = format!(
        "CREATE TABLE t AS SELECT value AS id, md5(CAST(value AS VARCHAR)) AS s, \
         repeat('x', CAST(value % 100 AS INT) * 20) AS p FROM generate_series(1, {rows})"
    );
    context.sql(&sql).await?.collect().await?;
    Ok(context)
}

const OF_TEXTS: &str = "SELECT a.id, b.id, length(a.p), length(b.p) FROM t a JOIN t b NEAREST 2 WITH TIES BY \
                        DISTANCE levenshtein(a.s, b.s) ON a.id <> b.id AND a.id % 50 = b.id % 50";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_from_disk_has_the_rows_of_one_in_memory() -> Result<()> {
    let mut answers = vec![];
    for kib in [1 << 20, 5 << 10] {
        let context = session_of(kib, 3000).await?;
        let (plan, rows) = plan_and_rows(&context, OF_TEXTS).await?;
        assert!(plan.contains("NearestJoinExec"), "{plan}");
        assert_eq!(context.runtime_env().memory_pool.reserved(), 0);
        answers.push(rows);
    }
    assert!(answers[0].len() >= 6000);
    assert_eq!(answers[0], answers[1]);
    Ok(())
}

/// The first batch of right rows is more than the limit, and tells nothing of the memory that there is.
#[tokio::test]
async fn no_left_row_is_lost_where_the_first_batch_does_not_fit() -> Result<()> {
    const OF_FEW: &str = "SELECT a.id, b.id, length(b.p) FROM (SELECT * FROM t WHERE id <= 40) a JOIN t b NEAREST 2 \
                          WITH TIES BY DISTANCE levenshtein(a.s, b.s)";
    let mut answers = vec![];
    for kib in [1 << 20, 2 << 10] {
        let context = session_of(kib, 3000).await?;
        answers.push(plan_and_rows(&context, OF_FEW).await?.1);
    }
    assert!(answers[0].len() >= 80);
    assert_eq!(answers[0], answers[1]);
    Ok(())
}

#[tokio::test]
async fn inputs_that_may_not_go_to_disk_name_the_join() -> Result<()> {
    let mut setup = Setup::of(Way::Limit(16));
    setup.options.spill = SpillChoice::Never;
    let context = setup.session(install)?;
    many(&context).await?;
    let sql = "SELECT a.id, b.id FROM t a SIMJOIN t b NEAREST BY DISTANCE levenshtein(a.s, b.s)";
    let message = error(&context, sql).await;
    assert!(message.contains("NearestJoin"), "{message}");
    Ok(())
}
