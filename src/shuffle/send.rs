//! Rows on their way to tasks.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::hash_utils::create_hashes;
use datafusion::common::{Result, internal_err};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::expressions::Column;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, Gauge, MetricBuilder, RecordOutput, Time,
};
use datafusion::physical_plan::repartition::{BatchPartitioner, REPARTITION_RANDOM_STATE};
use futures::StreamExt;
use hashbrown::{HashMap, HashSet};

use crate::engine::{ANYWHERE, Axis, RowPlace};
use crate::operator::row_bytes::bytes_in_message;
use crate::shuffle::grid::{Grid, GridSpec};
use crate::shuffle::histogram::{Histogram, Resolution};
use crate::shuffle::place::{PlacesOfTile, place_of};
use crate::shuffle::placed::PlacedReader;
use crate::shuffle::tiling::Tiling;
use crate::spec::Side;
use crate::tuning::{Size, Tuning};

/// Rows looked at without yielding to the runtime.
const ROWS_PER_SLICE: Size = Size { usual: 8192, small: 5 };

/// The name of the column that holds a row's tile.
pub(crate) const TILE_COLUMN: &str = "__simjoin_tile";

/// Bytes of an output batch, unless it has a single row.
const BATCH_BYTES: usize = 4 << 20;

/// Counters of one partition.
#[derive(Debug)]
pub(crate) struct GridMetrics {
    baseline: BaselineMetrics,
    /// Rows read, and rows that no task needs.
    input_rows: Count,
    dropped_rows: Count,
    /// Rows of the output beyond the first one for each row of the input. The replication factor is
    /// `1 + repeated_rows / (input_rows - dropped_rows)`.
    repeated_rows: Count,
    /// Tasks that have work.
    tasks: Gauge,
    place_time: Time,
}

impl GridMetrics {
    pub(crate) fn new(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let counter = |name: &'static str| MetricBuilder::new(metrics).counter(name, partition);
        Self {
            baseline: BaselineMetrics::new(metrics, partition),
            input_rows: counter("input_rows"),
            dropped_rows: counter("dropped_rows"),
            repeated_rows: counter("repeated_rows"),
            tasks: MetricBuilder::new(metrics).gauge("tasks", partition),
            place_time: MetricBuilder::new(metrics).subset_time("place_time", partition),
        }
    }
}

/// The routes of rows: the tiles and tasks that each row is sent to.
#[derive(Debug)]
pub(crate) struct Routes {
    spec: GridSpec,
    axis: Arc<dyn Axis>,
    side: Side,
    tiling: Tiling,
    /// The value of the tile column for each tile.
    tiles: Vec<u32>,
    /// The value of the tile column for rows without a tile, one for each task.
    tasks: Vec<u32>,
    /// For the classes of keys.
    histogram: Histogram,
    /// Rows of another kind lie anywhere.
    kind: u32,
}

impl Routes {
    pub(crate) fn new(
        spec: GridSpec,
        axis: Arc<dyn Axis>,
        side: Side,
        histograms: [&Histogram; 2],
    ) -> Result<Self> {
        let tiling = Tiling::new(&Grid { spec, axis: axis.as_ref() }, histograms);
        let histogram = Histogram::new(histograms[0].resolution == Resolution::Coarse);
        let all: Vec<u32> = tiling.tasks.iter().copied().chain((0..).take(spec.tasks)).collect();
        let mut tiles = values_of_tasks(&all, spec.tasks)?;
        let tasks = tiles.split_off(tiling.tiles.len());
        let kind = histograms[0].kind.max(histograms[1].kind);
        Ok(Self { spec, axis, side, tiling, tiles, tasks, histogram, kind })
    }

    /// The place of a row among rows of all kinds.
    fn settled(&self, place: RowPlace) -> RowPlace {
        match place.kind == self.kind || place.position == 0 || !self.axis.has_anywhere() {
            true => place,
            false => RowPlace { position: ANYWHERE, ..place },
        }
    }

    /// The number of tasks that have a tile.
    fn busy_tasks(&self) -> usize {
        self.tiling.tasks.iter().collect::<HashSet<_>>().len()
    }
}

/// Different values whose hashes lead to the wanted ones of `partitions` partitions.
pub(crate) fn values_of_tasks(wanted: &[u32], partitions: usize) -> Result<Vec<u32>> {
    let mut waiting: Vec<Vec<usize>> = vec![vec![]; partitions];
    for (place, &partition) in wanted.iter().enumerate().rev() {
        match waiting.get_mut(partition as usize) {
            Some(places) => places.push(place),
            None => return internal_err!("there is no partition {partition} of {partitions}"),
        }
    }
    let mut values = vec![0; wanted.len()];
    let mut missing = wanted.len();
    let schema = Arc::new(Schema::new(vec![Field::new(TILE_COLUMN, DataType::UInt32, false)]));
    let column = Arc::new(Column::new(TILE_COLUMN, 0)) as Arc<dyn PhysicalExpr>;
    let mut partitioner =
        BatchPartitioner::new_hash_partitioner(vec![column], partitions, Time::default())?;
    let mut first = 0_u32;
    while missing > 0 {
        let next = first.saturating_add(4096);
        if next == first {
            return internal_err!("too few values hash into the partitions: {missing} are missing");
        }
        let candidates = Arc::new(UInt32Array::from_iter_values(first..next)) as ArrayRef;
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![candidates])?;
        partitioner.partition(batch, |partition, batch| {
            let candidates = batch.column(0).as_any().downcast_ref::<UInt32Array>();
            let found = candidates.map_or(&[] as &[u32], |column| column.values());
            if let Some(waiting) = waiting.get_mut(partition) {
                for &value in found {
                    let Some(place) = waiting.pop() else { break };
                    values[place] = value;
                    missing -= 1;
                }
            }
            Ok(())
        })?;
        first = next;
    }
    Ok(values)
}

/// Sends the rows of one partition.
pub(crate) struct Sender {
    routes: Arc<Routes>,
    reader: PlacedReader,
    metrics: GridMetrics,
    schema: SchemaRef,
    /// For each key class and position, where rows may be sent.
    cache: HashMap<(u32, u32), Vec<PlacesOfTile>>,
    batch_size: usize,
    tuning: Tuning,
}

impl Sender {
    pub(crate) fn new(
        routes: Arc<Routes>,
        reader: PlacedReader,
        metrics: GridMetrics,
        schema: SchemaRef,
        (batch_size, tuning): (usize, Tuning),
    ) -> Self {
        metrics.tasks.set_max(routes.busy_tasks());
        Self { routes, reader, metrics, schema, cache: HashMap::new(), batch_size, tuning }
    }

    /// The rows of `input`, each once for each of its tasks.
    pub(crate) fn into_stream(
        self,
        input: SendableRecordBatchStream,
    ) -> impl futures::Stream<Item = Result<RecordBatch>> + Send {
        struct Sending {
            sender: Sender,
            input: SendableRecordBatchStream,
            /// Rows on their way, and how many of these have been sent.
            placed: Option<(Placed, usize)>,
            /// A batch of which some rows are left, and the first of these.
            batch: Option<(RecordBatch, usize)>,
        }
        let sending = Sending { sender: self, input, placed: None, batch: None };
        futures::stream::try_unfold(sending, |mut s| async move {
            loop {
                if let Some((placed, sent)) = s.placed.take()
                    && sent < placed.rows.len()
                {
                    let end = placed.end_of_batch(sent, s.sender.batch_size);
                    let batch = s.sender.expanded(&placed, sent..end)?;
                    s.placed = Some((placed, end));
                    return Ok(Some((batch, s)));
                }
                let (batch, start) = match s.batch.take() {
                    Some(rest) => rest,
                    None => match s.input.next().await.transpose()? {
                        Some(batch) => (batch, 0),
                        None => {
                            s.sender.metrics.baseline.done();
                            return Ok(None);
                        }
                    },
                };
                let rows = s.sender.tuning.size(ROWS_PER_SLICE).min(batch.num_rows() - start);
                let slice = batch.slice(start, rows);
                if start + rows < batch.num_rows() {
                    s.batch = Some((batch, start + rows));
                }
                s.placed = Some((s.sender.place(slice)?, 0));
                tokio::task::yield_now().await;
            }
        })
    }

    /// Places the rows of a slice: those that are sent, each with its tiles.
    fn place(&mut self, slice: RecordBatch) -> Result<Placed> {
        let _timer = self.metrics.place_time.timer();
        let Self { routes, reader, cache, .. } = self;
        let mut shapes = vec![];
        reader.read(&slice, &mut shapes)?;
        let grid = Grid { spec: routes.spec, axis: routes.axis.as_ref() };
        let once = routes.spec.visits_once[routes.side as usize];
        let row_hashes = match routes.tiling.divides_items[routes.side as usize] {
            true => content_hashes(slice.columns())?,
            false => vec![],
        };
        let (mut rows, mut tiles) = (vec![], vec![]);
        let mut alone = vec![];
        let mut dropped = 0;
        for (row, &shape) in (0..).zip(&shapes) {
            let shape = routes.settled(shape);
            let sent = rows.len();
            if shape.position > 0 {
                let key = routes.histogram.key_class(shape);
                let position = shape.position;
                let possible = cache
                    .entry((key, position))
                    .or_insert_with(|| routes.tiling.tiles(&grid, routes.side, key, position));
                let row_hash = row_hashes.get(row as usize).copied().unwrap_or(0);
                let place = place_of(shape, row_hash);
                for (places, tile) in possible.iter() {
                    if places.contains(&place) {
                        rows.push(row);
                        tiles.push(routes.tiles[*tile as usize]);
                    }
                }
            }
            if rows.len() == sent {
                match once {
                    true => alone.push(row),
                    false => dropped += 1,
                }
            }
        }
        let joined = shapes.len() - alone.len() - dropped;
        self.metrics.input_rows.add(shapes.len());
        self.metrics.dropped_rows.add(dropped);
        self.metrics.repeated_rows.add(rows.len() - joined);
        if !alone.is_empty() {
            let of_alone = take_record_batch(&slice, &UInt32Array::from(alone.clone()))?;
            for (row, hash) in alone.into_iter().zip(content_hashes(of_alone.columns())?) {
                rows.push(row);
                tiles.push(routes.tasks[(hash % routes.tasks.len() as u64) as usize]);
            }
        }
        Ok(Placed { bytes: bytes_in_message(&slice), slice, rows, tiles })
    }

    /// Some of the rows with their tiles.
    fn expanded(&self, placed: &Placed, some: Range<usize>) -> Result<RecordBatch> {
        let _timer = self.metrics.baseline.elapsed_compute().timer();
        let rows = UInt32Array::from(placed.rows[some.clone()].to_vec());
        let rows = take_record_batch(&placed.slice, &rows)?;
        let mut columns = rows.columns().to_vec();
        columns.push(Arc::new(UInt32Array::from(placed.tiles[some].to_vec())));
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns)?;
        Ok(batch.record_output(&self.metrics.baseline))
    }
}

/// The rows of a slice that are sent.
struct Placed {
    slice: RecordBatch,
    /// The bytes of each row of the slice.
    bytes: Vec<usize>,
    /// For each row sent, its number in the slice and its tile.
    rows: Vec<u32>,
    tiles: Vec<u32>,
}

impl Placed {
    /// The end of a batch of the rows from `start` on: it has at most `most` rows and
    /// [`BATCH_BYTES`], or one row.
    fn end_of_batch(&self, start: usize, most: usize) -> usize {
        let rows = self.rows[start..].iter().take(most);
        let mut left = BATCH_BYTES;
        let fitting = rows.take_while(|&&row| {
            let rest = left.checked_sub(self.bytes[row as usize]);
            left = rest.unwrap_or(0);
            rest.is_some()
        });
        start + fitting.count().max(1)
    }
}

/// Hashes of rows by their content, to tell them apart; 0 where a column's type has no hash.
fn content_hashes(columns: &[ArrayRef]) -> Result<Vec<u64>> {
    let Some(first) = columns.first() else {
        return internal_err!("rows without a column cannot be told apart");
    };
    let mut hashes = vec![0; first.len()];
    if create_hashes(columns, REPARTITION_RANDOM_STATE.random_state(), &mut hashes).is_err() {
        hashes.fill(0);
    }
    // Partitions of a shuffle are the remainders of such hashes as well: not those here.
    hashes.iter_mut().for_each(|hash| *hash = hash.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20);
    Ok(hashes)
}
