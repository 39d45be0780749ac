//! Scans whose lists are read here.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Int64Type, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{DataFusionError, Result, exec_err};
use datafusion::datasource::physical_plan::parquet::{
    DefaultParquetFileReaderFactory, ParquetFileMetrics, ParquetFileReaderFactory,
};
use datafusion::datasource::physical_plan::{FileScanConfig, FileSource, ParquetSource};
use datafusion::functions::core::file_row_index;
use datafusion::object_store::ObjectStore;
use datafusion::object_store::path::Path;
use datafusion::parquet::arrow::arrow_reader::ArrowReaderOptions;
use datafusion::parquet::arrow::parquet_to_arrow_schema;
use datafusion::parquet::file::metadata::{PageIndexPolicy, ParquetMetaData};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::{ProjectionExpr, ProjectionExprs};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet};
use datafusion_datasource::PartitionedFile;
use datafusion_datasource::morsel::{Morsel, MorselPlan, MorselPlanner, Morselizer};
use futures::stream::{BoxStream, StreamExt, TryStreamExt, try_unfold};

use super::chunk::ListChunk;
use super::column::{ListColumn, element_of};
use super::rows::ListRows;

/// The bytes of the lists of a batch, about. Larger batches of DataFusion are cut into parts, which the
/// caches of a processor hold.
const BATCH_BYTES: usize = 1 << 20;

/// Opens the files of a scan, with lists of numbers read here where there are any.
pub(crate) fn morselizer(
    source: &Arc<dyn FileSource>,
    store: Arc<dyn ObjectStore>,
    config: &FileScanConfig,
    partition: usize,
) -> Result<Box<dyn Morselizer>> {
    let whole = source.create_morselizer(Arc::clone(&store), config, partition)?;
    let Some(parquet) = source.downcast_ref::<ParquetSource>() else { return Ok(whole) };
    let Some(Split { lists, others, schema }) = split(parquet)? else { return Ok(whole) };
    let others = others.create_morselizer(Arc::clone(&store), config, partition)?;
    let readers = match parquet.parquet_file_reader_factory() {
        Some(readers) => Arc::clone(readers),
        None => Arc::new(DefaultParquetFileReaderFactory::new(Arc::clone(&store))) as _,
    };
    let metrics = parquet.metrics().clone();
    let scan = ListScan { whole, others, lists, schema, store, readers, partition, metrics };
    Ok(Box::new(ListMorselizer(Arc::new(scan))))
}

/// A column of lists of a table.
#[derive(Debug)]
struct TableList {
    /// Its place in the batches of the scan.
    place: usize,
    name: String,
    data_type: DataType,
}

/// The columns of a scan.
struct Split {
    /// The lists that can be read here.
    lists: Vec<TableList>,
    /// The source of all other columns, with the numbers of rows as the last.
    others: Arc<dyn FileSource>,
    /// The schema of all of them.
    schema: SchemaRef,
}

/// The columns of a scan; `None` where no lists can be read here.
fn split(source: &ParquetSource) -> Result<Option<Split>> {
    let table = source.table_schema();
    let Some(projection) = source.projection() else { return Ok(None) };
    let columns: Vec<Option<&Column>> =
        projection.iter().map(|projected| projected.expr.downcast_ref()).collect();
    // Columns that are computed with are read by DataFusion, once.
    let mut computed = vec![];
    for (projected, column) in projection.iter().zip(&columns) {
        if column.is_none() {
            computed.extend(collect_columns(&projected.expr));
        }
    }
    let list_of = |(place, column): (usize, &Option<&Column>)| {
        let column = column.filter(|column| !computed.contains(*column))?;
        let field = table.file_schema().fields().get(column.index())?;
        element_of(field.data_type())?;
        let (name, data_type) = (field.name().clone(), field.data_type().clone());
        Some(TableList { place, name, data_type })
    };
    let lists: Vec<TableList> = columns.iter().enumerate().filter_map(list_of).collect();
    if lists.is_empty() {
        return Ok(None);
    }
    let output = projection.project_schema(table.table_schema())?;
    let is_other = |place: &usize| lists.iter().all(|list| list.place != *place);
    let others = (0..columns.len()).filter(is_other).map(|place| {
        let name = output.field(place).name();
        ProjectionExpr::new(Arc::new(Column::new(name, place)) as Arc<dyn PhysicalExpr>, name)
    });
    let mut others: Vec<ProjectionExpr> = others.collect();
    let config = Arc::new(ConfigOptions::default());
    let number = ScalarFunctionExpr::try_new(file_row_index(), vec![], &output, config)?;
    others.push(ProjectionExpr::new(Arc::new(number), "__simjoin_row"));
    let others = source.try_pushdown_projection(&ProjectionExprs::new(others))?;
    Ok(others.map(|others| Split { lists, others, schema: Arc::new(output) }))
}

/// A partition of a scan.
struct ListScan {
    /// Opens files with DataFusion's reader alone.
    whole: Box<dyn Morselizer>,
    others: Box<dyn Morselizer>,
    lists: Vec<TableList>,
    /// The schema of the batches.
    schema: SchemaRef,
    store: Arc<dyn ObjectStore>,
    readers: Arc<dyn ParquetFileReaderFactory>,
    partition: usize,
    metrics: ExecutionPlanMetricsSet,
}

#[derive(Debug)]
struct ListMorselizer(Arc<ListScan>);

impl fmt::Debug for ListScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scan").field("whole", &self.whole).field("lists", &self.lists).finish()
    }
}

impl Morselizer for ListMorselizer {
    fn plan_file(&self, file: PartitionedFile) -> Result<Box<dyn MorselPlanner>> {
        Ok(Box::new(Choosing { scan: Arc::clone(&self.0), file }))
    }
}

/// A file of which it is not yet known who reads the lists.
#[derive(Debug)]
struct Choosing {
    scan: Arc<ListScan>,
    file: PartitionedFile,
}

impl MorselPlanner for Choosing {
    fn plan(self: Box<Self>) -> Result<Option<MorselPlan>> {
        Ok(Some(MorselPlan::new().with_pending_planner(self.choose())))
    }
}

impl Choosing {
    async fn choose(self: Box<Self>) -> Result<Box<dyn MorselPlanner>> {
        let Self { scan, file } = *self;
        let ListScan { partition, metrics, .. } = &*scan;
        let (hint, location) = (file.metadata_size_hint, file.object_meta.location.clone());
        let mut reader = scan.readers.create_reader(*partition, file.clone(), hint, metrics)?;
        let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Skip);
        // The scan itself reports what is wrong with a file.
        let metadata = reader.get_metadata(Some(&options)).await.ok();
        let found = metadata.and_then(|metadata| {
            let columns = scan.columns(&metadata)?;
            Some((metadata, columns))
        });
        let Some((metadata, columns)) = found else { return scan.whole.plan_file(file) };
        let inner = scan.others.plan_file(file)?;
        let scanned = ParquetFileMetrics::new(*partition, location.as_ref(), metrics).bytes_scanned;
        let file = Arc::new(ListFile::new(Arc::clone(&scan), location, metadata, columns, scanned));
        Ok(Box::new(Joined { inner, file }))
    }
}

impl ListScan {
    /// The lists of a file, if all of them can be read here.
    fn columns(&self, metadata: &ParquetMetaData) -> Option<Vec<Arc<ListColumn>>> {
        let of_file = metadata.file_metadata();
        let arrow =
            parquet_to_arrow_schema(of_file.schema_descr(), of_file.key_value_metadata()).ok()?;
        let columns = self.lists.iter().map(|list| {
            let field = arrow.field_with_name(&list.name).ok()?;
            ListColumn::of(metadata, &list.name, &list.data_type, field.data_type()).map(Arc::new)
        });
        columns.collect()
    }
}

/// A file whose lists are added to its other columns.
#[derive(Debug)]
struct Joined {
    inner: Box<dyn MorselPlanner>,
    file: Arc<ListFile>,
}

impl MorselPlanner for Joined {
    fn plan(self: Box<Self>) -> Result<Option<MorselPlan>> {
        let Self { inner, file } = *self;
        let Some(mut plan) = inner.plan()? else { return Ok(None) };
        let join = |inner, file: &Arc<ListFile>| -> Box<dyn MorselPlanner> {
            Box::new(Self { inner, file: Arc::clone(file) })
        };
        let morsels = plan.take_morsels().into_iter().map(|inner| -> Box<dyn Morsel> {
            Box::new(JoinedMorsel { inner, file: Arc::clone(&file) })
        });
        let planners = plan.take_ready_planners().into_iter().map(|inner| join(inner, &file));
        let mut joined =
            MorselPlan::new().with_morsels(morsels.collect()).with_planners(planners.collect());
        if let Some(pending) = plan.take_pending_planner() {
            joined.set_pending_planner(async move { Ok(join(pending.await?, &file)) });
        }
        Ok(Some(joined))
    }
}

#[derive(Debug)]
struct JoinedMorsel {
    inner: Box<dyn Morsel>,
    file: Arc<ListFile>,
}

impl Morsel for JoinedMorsel {
    fn into_stream(self: Box<Self>) -> BoxStream<'static, Result<RecordBatch>> {
        let file = &self.file;
        let chunks = file.columns.iter().map(|_| None).collect();
        let reader = ListReader { file: Arc::clone(file), chunks };
        let step = file.step;
        let parts = self.inner.into_stream().map_ok(move |batch| {
            let starts = (0..batch.num_rows()).step_by(step);
            let part = move |start| batch.slice(start, step.min(batch.num_rows() - start));
            futures::stream::iter(starts.map(part).map(Ok::<_, DataFusionError>))
        });
        let state = (parts.try_flatten().boxed(), reader);
        try_unfold(state, |(mut parts, mut reader)| async move {
            let Some(part) = parts.try_next().await? else { return Ok(None) };
            let batch = reader.join(&part).await?;
            Ok(Some((batch, (parts, reader))))
        })
        .boxed()
    }
}

/// A file with its lists.
#[derive(Debug)]
struct ListFile {
    scan: Arc<ListScan>,
    location: Path,
    metadata: Arc<ParquetMetaData>,
    columns: Vec<Arc<ListColumn>>,
    /// By row group, the row behind its last one.
    ends: Vec<usize>,
    /// Rows of a batch, at most.
    step: usize,
    /// By column, elements of ten rows.
    elements: Vec<usize>,
    scanned: Count,
}

impl ListFile {
    fn new(
        scan: Arc<ListScan>,
        location: Path,
        metadata: Arc<ParquetMetaData>,
        columns: Vec<Arc<ListColumn>>,
        scanned: Count,
    ) -> Self {
        let mut rows = 0;
        let end = |len: i64| {
            rows += len as usize;
            rows
        };
        let ends: Vec<usize> =
            metadata.row_groups().iter().map(|group| group.num_rows()).map(end).collect();
        let all = ends.last().copied().unwrap_or(0).max(1);
        let elements = columns.iter().map(|column| {
            let chunks = metadata.row_groups().iter().map(|group| group.column(column.leaf));
            chunks.map(|chunk| chunk.num_values() as usize).sum::<usize>() * 10 / all
        });
        let elements: Vec<usize> = elements.collect();
        let bytes = elements.iter().zip(&columns).map(|(count, column)| count * column.width);
        let step = 10 * BATCH_BYTES / bytes.sum::<usize>().max(1);
        let step = step.clamp(16, usize::MAX);
        Self { scan, location, metadata, columns, ends, step, elements, scanned }
    }
}

/// Reads the lists of a stream of rows.
struct ListReader {
    file: Arc<ListFile>,
    /// By column, the chunk that is being read, with its row group.
    chunks: Vec<Option<(usize, ListChunk)>>,
}

/// Rows of one row group, one behind the other.
struct RowRange {
    group: usize,
    /// The first row of the row group.
    first: usize,
    len: usize,
}

impl ListReader {
    /// The lists of a batch of other columns, in between these.
    async fn join(&mut self, others: &RecordBatch) -> Result<RecordBatch> {
        let Some((numbers, others)) = others.columns().split_last() else {
            return exec_err!("a scan gives no numbers of rows");
        };
        let ranges = self.file.ranges(numbers.as_primitive::<Int64Type>().values())?;
        let mut lists = Vec::with_capacity(self.chunks.len());
        for column in 0..self.chunks.len() {
            lists.push(self.lists(column, &ranges, numbers.len()).await?);
        }
        let scan = &self.file.scan;
        let (mut lists, mut others) = (lists.into_iter(), others.iter());
        let is_list = |place: usize| scan.lists.iter().any(|list| list.place == place);
        let columns = (0..scan.schema.fields().len()).filter_map(|place| match is_list(place) {
            true => lists.next(),
            false => others.next().cloned(),
        });
        Ok(RecordBatch::try_new(Arc::clone(&scan.schema), columns.collect())?)
    }

    /// The lists of some rows.
    async fn lists(&mut self, column: usize, ranges: &[RowRange], rows: usize) -> Result<ArrayRef> {
        let file = Arc::clone(&self.file);
        let of_column = &file.columns[column];
        let elements = rows * file.elements[column] / 10 + file.elements[column] / 10;
        let mut to = ListRows::new(Arc::clone(of_column), rows, elements);
        for range in ranges {
            let open = &mut self.chunks[column];
            let chunk = match open {
                Some((group, chunk)) if *group == range.group && chunk.row <= range.first => chunk,
                _ => {
                    let group = &file.metadata.row_groups()[range.group];
                    let ListScan { store, .. } = &*file.scan;
                    *open = None;
                    let chunk =
                        ListChunk::open(of_column, group, store.as_ref(), &file.location).await?;
                    file.scanned.add(group.column(of_column.leaf).compressed_size() as usize);
                    &mut open.insert((range.group, chunk)).1
                }
            };
            chunk.read(range.first - chunk.row, None)?;
            chunk.read(range.len, Some(&mut to))?;
        }
        to.finish()
    }
}

impl ListFile {
    /// The ranges of rows with these numbers.
    fn ranges(&self, numbers: &[i64]) -> Result<Vec<RowRange>> {
        let mut ranges: Vec<RowRange> = vec![];
        let mut next = usize::MAX;
        for number in numbers {
            let row = *number as usize;
            match ranges.last_mut() {
                Some(range) if row == next && row < self.ends[range.group] => range.len += 1,
                _ => {
                    let group = self.ends.partition_point(|end| *end <= row);
                    if group == self.ends.len() {
                        return exec_err!("a scan gives row {number} of a file of fewer rows");
                    }
                    let before = group.checked_sub(1).map_or(0, |before| self.ends[before]);
                    ranges.push(RowRange { group, first: row - before, len: 1 });
                }
            }
            next = row + 1;
        }
        Ok(ranges)
    }
}
