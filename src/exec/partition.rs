//! One partition of the operator's output.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryPool;

use crate::engine::KeyConverter;
use crate::exec::answer::output::BatchLimits;
use crate::exec::build::headroom::Headroom;
use crate::exec::layout::JoinLayout;
use crate::exec::metrics::{ProbeClock, ProbeMetrics};
use crate::exec::probe::{ProbeInput, ProbeSetup, ProbeStream};
use crate::exec::rows::inputs::{ProbeInputs, ProbeRows};
use crate::exec::rows::slices::Slices;
use crate::exec::spill::Built;
use crate::exec::spill::{SpilledBuild, SpilledJoin};
use crate::operator::once::OnceFut;

/// The build side while it is being made.
pub(crate) type BuildFuture = OnceFut<(Built, Arc<ProbeClock>)>;

/// One partition of the join.
pub(crate) struct ProbePartition {
    pub build: BuildFuture,
    /// The source of the rows of this partition; `None` for a self-join.
    pub probe: Option<Arc<ProbeInputs>>,
    pub partition: usize,
    /// The memory of the cursor and of probe batches.
    pub memory: Arc<Headroom>,
    /// The pool of `memory`.
    pub pool: Arc<dyn MemoryPool>,
    pub metrics: ProbeMetrics,
    pub limits: BatchLimits,
}

impl ProbePartition {
    /// The output of the partition.
    pub(crate) fn into_stream(self) -> impl futures::Stream<Item = Result<RecordBatch>> + Send {
        enum PartitionState {
            Waiting(Box<ProbePartition>),
            InMemory(Box<ProbeStream>, Arc<ProbeClock>),
            OnDisk(Arc<SpilledJoin>, Arc<ProbeClock>),
        }
        futures::stream::try_unfold(PartitionState::Waiting(Box::new(self)), |stage| async move {
            let stage = match stage {
                PartitionState::Waiting(partition) => {
                    let built = partition.build.clone().await.map_err(DataFusionError::Shared)?;
                    let (built, clock) = &*built;
                    let clock = Arc::clone(clock);
                    match built {
                        Built::Memory { side, layout, converter, starts } => {
                            let (layout, converter) = (Arc::clone(layout), converter.clone());
                            starts.release_part(side.partition_bytes);
                            let setup = partition.setup(layout, converter)?;
                            let stream = setup.start_or_leave(side).await?;
                            PartitionState::InMemory(Box::new(stream), clock)
                        }
                        Built::Disk(build) => {
                            PartitionState::OnDisk(partition.join_on_disk(build)?, clock)
                        }
                    }
                }
                later => later,
            };
            Ok(match stage {
                PartitionState::InMemory(mut stream, clock) => {
                    let batch = stream.next_batch().await?;
                    clock.note();
                    batch.map(|batch| (batch, PartitionState::InMemory(stream, clock)))
                }
                PartitionState::OnDisk(joining, clock) => {
                    let batch = joining.next().await?;
                    clock.note();
                    batch.map(|batch| (batch, PartitionState::OnDisk(joining, clock)))
                }
                PartitionState::Waiting(_) => None,
            })
        })
    }

    fn setup(
        self,
        layout: Arc<JoinLayout>,
        converter: Option<Arc<KeyConverter>>,
    ) -> Result<ProbeSetup> {
        let Self { probe, partition, memory, pool, metrics, limits, .. } = self;
        let input = match probe {
            Some(inputs) => ProbeInput::Stream(Some(ProbeRows::new(&inputs, partition))),
            None => ProbeInput::Itself,
        };
        let reservation = memory.reservation("probe");
        let kept = Some(memory);
        Ok(ProbeSetup { layout, input, converter, reservation, pool, kept, metrics, limits })
    }

    /// Takes part in the join from disk.
    fn join_on_disk(&self, build: &Arc<SpilledBuild>) -> Result<Arc<SpilledJoin>> {
        let Some(inputs) = &self.probe else { return build.join_shared(|| Ok(vec![])) };
        let rows = &self.metrics.counters.rows;
        let slices = |stream| Slices::new(stream, rows.clone(), build.tuning());
        match inputs.are_shared() {
            true => build.join_shared(|| Ok(inputs.take_all()?.into_iter().map(slices).collect())),
            // The other partitions join their own rows, perhaps in other processes.
            false => {
                let own = inputs.take(self.partition)?;
                Ok(build.join(own.into_iter().map(slices).collect()))
            }
        }
    }
}
