//! Random statements over two tables of a family's values, held against DataFusion's nested loops.
//!
//! A family brings its tables, its predicates and what it can select; the forms of the statements, the
//! ways to run them and the comparison are the same for all.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::Result;
use datafusion::datasource::MemTable;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::memory_pool::{
    GreedyMemoryPool, MemoryLimit, MemoryPool, MemoryReservation,
};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::displayable;
use datafusion::prelude::{SessionConfig, SessionContext};
use rand::Rng;
use rand::rngs::StdRng;

use crate::SimJoinContextExt;
use crate::config::{DeviceChoice, DistributionChoice, RowLimit, SimJoinOptions, SpillChoice};
use crate::plan::ClusterPlanning;
use crate::tests::small;

/// How a statement is run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Way {
    Memory,
    /// From disk, a few rows of the build side at a time.
    Disk,
    /// Within a memory limit, in KiB.
    Limit(usize),
    /// As the tasks of a cluster, by the grid or by a broadcast.
    Tasks(DistributionChoice),
    /// On a device, or on the one that the emulator plays.
    Device,
}

impl Way {
    /// Every way, with a memory limit in KiB; the plain one twice.
    pub(crate) const fn all(limit: usize) -> [Self; 6] {
        [
            Self::Memory,
            Self::Memory,
            Self::Disk,
            Self::Limit(limit),
            Self::Tasks(DistributionChoice::Repartition),
            Self::Tasks(DistributionChoice::Broadcast),
        ]
    }
}

/// The settings of a session.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub way: Way,
    pub partitions: usize,
    pub batch_size: usize,
    pub options: SimJoinOptions,
}

impl Setup {
    /// No join is left to a hash join.
    pub(crate) fn of(way: Way) -> Self {
        let options = SimJoinOptions { hash_join_rows_per_key: 0.0, ..SimJoinOptions::default() };
        Self { way, partitions: 2, batch_size: 8192, options }
    }

    /// With one to four partitions and batches of one row, a few or many.
    pub(crate) fn draw(rng: &mut StdRng, way: Way) -> Self {
        let batch_size = [1, 7, 8192][rng.random_range(0..3)];
        Self { partitions: rng.random_range(1..5), batch_size, ..Self::of(way) }
    }

    /// A session in which `install` has put the families.
    pub(crate) fn session(
        self,
        install: impl FnOnce(SessionStateBuilder) -> Result<SessionStateBuilder>,
    ) -> Result<SessionContext> {
        let Self { way, partitions, batch_size, mut options } = self;
        let mut config = small(config(partitions, batch_size));
        let mut runtime = RuntimeEnvBuilder::new();
        match way {
            Way::Memory => {}
            Way::Disk => {
                options.spill = SpillChoice::Always;
                options.spill_piece_rows = RowLimit(Some(7));
            }
            Way::Limit(kib) => runtime = runtime.with_memory_pool(Arc::new(Limit::of(kib))),
            Way::Tasks(distribution) => {
                options.distribution = distribution;
                config = config.with_extension(Arc::new(ClusterPlanning::default()));
            }
            Way::Device => options.device = DeviceChoice::cuda(0),
        }
        config.options_mut().extensions.insert(options);
        let builder = SessionStateBuilder::new_with_default_features()
            .with_config(config)
            .with_runtime_env(runtime.build_arc()?);
        Ok(SessionContext::new_with_state(install(builder)?.build()))
    }
}

/// A memory limit for all operators but `RepartitionExec`, which in DataFusion 55.2 may wait for ever
/// where it is refused memory (<https://github.com/apache/datafusion/issues/24883>).
#[derive(Debug)]
struct Limit(GreedyMemoryPool);

impl Limit {
    fn of(kib: usize) -> Self {
        Self(GreedyMemoryPool::new(kib << 10))
    }

    fn spares(reservation: &MemoryReservation) -> bool {
        reservation.consumer().name().starts_with("RepartitionExec")
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl MemoryPool for Limit {
    fn name(&self) -> &str {
        "limit"
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        if !Self::spares(reservation) {
            self.0.grow(reservation, additional);
        }
    }

    fn shrink(&self, reservation: &MemoryReservation, bytes: usize) {
        if !Self::spares(reservation) {
            self.0.shrink(reservation, bytes);
        }
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        match Self::spares(reservation) {
            true => Ok(()),
            false => self.0.try_grow(reservation, additional),
        }
    }

    fn reserved(&self) -> usize {
        self.0.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.0.memory_limit()
    }
}

fn config(partitions: usize, batch_size: usize) -> SessionConfig {
    SessionConfig::new().with_target_partitions(partitions).with_batch_size(batch_size)
}

/// A session of DataFusion alone.
pub(crate) fn oracle() -> SessionContext {
    SessionContext::new_with_config(config(2, 8192))
}

/// Rows of (id, `name`, k) in two partitions: `column` gives the values of some rows, keys are 0, 1, 2
/// and NULL.
pub(crate) fn table(
    rng: &mut StdRng,
    rows: usize,
    name: &str,
    mut column: impl FnMut(&mut StdRng, usize) -> Result<ArrayRef>,
) -> Result<Arc<MemTable>> {
    let mut batch = |rng: &mut StdRng, from: usize, to: usize| -> Result<RecordBatch> {
        let ids = Int64Array::from_iter_values(from as i64..to as i64);
        let values = column(rng, to - from)?;
        let keys: Int64Array = (from..to)
            .map(|_| Some(rng.random_range(0..3)).filter(|_| rng.random_bool(0.9)))
            .collect();
        Ok(RecordBatch::try_from_iter_with_nullable([
            ("id", Arc::new(ids) as _, false),
            (name, values, true),
            ("k", Arc::new(keys) as _, true),
        ])?)
    };
    let half = rows / 2;
    let parts = vec![vec![batch(rng, 0, half)?], vec![batch(rng, half, rows)?]];
    Ok(Arc::new(MemTable::try_new(parts[0][0].schema(), parts)?))
}

/// One of some texts.
pub(crate) fn pick(rng: &mut StdRng, all: &[&str]) -> String {
    all[rng.random_range(0..all.len())].to_string()
}

/// The part of a family in a statement over `a` and `b`.
#[derive(Debug)]
pub(crate) struct Drawn {
    pub predicate: String,
    /// A further condition on the pair.
    pub residual: &'static str,
    /// An expression over the pair that is selected.
    pub score: String,
    /// A column of both tables, besides the ids.
    pub column: &'static str,
}

/// A statement by one join of `a` with `b` or with itself.
pub(crate) fn statement(rng: &mut StdRng, drawn: &Drawn) -> String {
    let Drawn { predicate, residual, score, column } = drawn;
    let more = pick(
        rng,
        &[
            "",
            "",
            " AND a.k = b.k",
            " AND a.id < b.id",
            " AND a.id % 2 = 0",
            *residual,
            " AND a.k = b.k AND a.id <> b.id",
        ],
    );
    let right = pick(rng, &["b", "b", "a b"]);
    let on = format!("{right} ON {predicate}{more}");
    let outer = pick(rng, &["", "", "LEFT ", "RIGHT ", "FULL "]);
    match rng.random_range(0..6) {
        0 => {
            let (side, kind) = (rng.random_range(0..2), pick(rng, &["SEMI", "ANTI"]));
            let (name, alias) = [("LEFT", "a"), ("RIGHT", "b")][side];
            format!("SELECT {alias}.id, {alias}.{column} FROM a {name} {kind} JOIN {on}")
        }
        1 => format!("SELECT count(*) FROM a {outer}JOIN {on}"),
        2 => format!(
            "SELECT a.id, count(b.id), count(b.{column}) FROM a {outer}JOIN {on} GROUP BY a.id"
        ),
        _ => format!("SELECT a.id, b.id, {score} FROM a {outer}JOIN {on}"),
    }
}

/// The rows as text, sorted; numbers by their bits.
pub(crate) fn sorted(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = vec![];
    for batch in batches {
        for row in 0..batch.num_rows() {
            let value = |column: &ArrayRef| {
                let floats: Option<&Float64Array> = column.as_any().downcast_ref();
                match floats.filter(|floats| floats.is_valid(row)) {
                    Some(floats) => {
                        format!("{:?} {:x}", floats.value(row), floats.value(row).to_bits())
                    }
                    _ => ArrayFormatter::try_new(column, &options).unwrap().value(row).to_string(),
                }
            };
            rows.push(batch.columns().iter().map(value).collect::<Vec<_>>().join(" | "));
        }
    }
    rows.sort_unstable();
    rows
}

/// The plan of a statement in which SIMJOIN may occur, and its rows.
pub(crate) async fn plan_and_rows(
    context: &SessionContext,
    sql: &str,
) -> Result<(String, Vec<String>)> {
    let plan = context.simjoin_sql(sql).await?.create_physical_plan().await?;
    let text = displayable(plan.as_ref()).indent(true).to_string();
    let batches = datafusion::physical_plan::collect(plan, context.task_ctx()).await?;
    Ok((text, sorted(&batches)))
}

/// The message of a statement that must fail.
pub(crate) async fn error(context: &SessionContext, sql: &str) -> String {
    plan_and_rows(context, sql).await.unwrap_err().to_string()
}

/// The numbers of statements of a test by kind.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub with_rows: usize,
    /// Statements by the grid of a cluster.
    pub grids: usize,
    /// Self-joins that read their table once.
    pub once: usize,
}

impl Tally {
    /// Runs a statement over the tables `a` and `b` in both sessions: the operator must run it, and
    /// give the rows of the nested loop.
    pub(crate) async fn compare(
        &mut self,
        sessions: [&SessionContext; 2],
        tables: [Arc<MemTable>; 2],
        sql: &str,
        what: impl std::fmt::Debug,
    ) -> Result<()> {
        self.compare_with(sessions, tables, [sql; 2], what).await
    }

    /// Like [`Self::compare`], with a statement of its own for the nested loop, the first one.
    pub(crate) async fn compare_with(
        &mut self,
        [oracle, operator]: [&SessionContext; 2],
        tables: [Arc<MemTable>; 2],
        [of_oracle, sql]: [&str; 2],
        what: impl std::fmt::Debug,
    ) -> Result<()> {
        for (name, table) in ["a", "b"].into_iter().zip(tables) {
            oracle.register_table(name, Arc::clone(&table) as _)?;
            operator.register_table(name, table)?;
        }
        let expected = match oracle.sql(of_oracle).await?.collect().await {
            Ok(rows) => sorted(&rows),
            Err(error) => panic!("{error}\n{of_oracle}"),
        };
        let (plan, found) = plan_and_rows(operator, sql).await?;
        assert!(plan.contains("SetSimilarityJoinExec"), "{sql}\n{plan}");
        assert_eq!(found, expected, "{what:?}\n{sql}\n{plan}");
        self.with_rows += usize::from(!expected.is_empty());
        self.grids += usize::from(plan.contains("AxisGridExec"));
        let once = ["near to each other", "each pair once"];
        self.once += usize::from(once.iter().any(|words| plan.contains(words)));
        Ok(())
    }
}
