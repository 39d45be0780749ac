//! Partitions that share a memory limit.

use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use futures::TryStreamExt;

use super::*;
use crate::operator::errors::is_out_of_memory;

/// The partitions of a plan, each of which gives a batch before any gives a second one, then the rest
/// of the last partition first.
async fn in_turn(plan: &Arc<dyn ExecutionPlan>, limit: Option<usize>) -> Result<Vec<RecordBatch>> {
    let mut runtime = RuntimeEnvBuilder::new();
    if let Some(limit) = limit {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(limit));
        runtime = runtime.with_memory_pool(pool);
    }
    let context = TaskContext::default()
        .with_session_config(small(SessionConfig::new()).with_batch_size(1))
        .with_runtime(runtime.build_arc()?);
    let context = Arc::new(context);
    let mut streams = vec![];
    for partition in 0..plan.properties().output_partitioning().partition_count() {
        streams.push(plan.execute(partition, Arc::clone(&context))?);
    }
    let mut batches = vec![];
    for stream in &mut streams {
        batches.extend(stream.try_next().await?);
    }
    for stream in streams.into_iter().rev() {
        batches.extend(stream.try_collect::<Vec<_>>().await?);
    }
    Ok(batches)
}

/// A partition that comes late finds the memory for its first rows, although the batches of those
/// before it have taken all that there was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_that_comes_late_finds_memory() {
    let mut rng = StdRng::seed_from_u64(24);
    let (left, right) = (random_rows(&mut rng, 30), random_rows(&mut rng, 5_000));
    let mut in_memory = 0;
    for join_type in [JoinType::Inner, JoinType::RightAnti] {
        let mut case = Case::random(&mut rng, 0);
        (case.join_type, case.keyed, case.filtered) = (join_type, false, false);
        (case.threshold, case.residual) = (1.0, None);
        let plan = |spill| -> Arc<dyn ExecutionPlan> {
            let input = JoinInput::Two {
                left: source(&left, 30, 1),
                right: source(&right, 2_500, 2),
                build: Side::Left,
                partitions: 5,
            };
            let options = SimJoinOptions { spill, ..SimJoinOptions::default() };
            let join = case.join(Need::Rows);
            Arc::new(SetSimilarityJoinExec::try_new(input, join, &families(), options).unwrap())
        };
        let expected = in_turn(&plan(SpillChoice::Auto), None).await.unwrap();
        let expected = pairs(&expected, join_type);
        assert!(expected.len() > 5);
        let refused = in_turn(&plan(SpillChoice::Never), Some(1 << 17)).await.unwrap_err();
        assert!(is_out_of_memory(&refused), "{refused}");
        for limit in (10..30).step_by(2).map(|quarters| quarters << 18) {
            in_memory += usize::from(in_turn(&plan(SpillChoice::Never), Some(limit)).await.is_ok());
            let found = in_turn(&plan(SpillChoice::Auto), Some(limit)).await.unwrap();
            assert!(pairs(&found, join_type) == expected, "{join_type} within {limit} bytes");
        }
    }
    assert!(in_memory > 0);
}
