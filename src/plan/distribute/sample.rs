//! A part of an input that stands for all of it.

use std::any::Any;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, FileScanConfigBuilder};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

/// The bytes of files that are read of a large input, about. Sizes of sets are known well enough
/// from some ten thousand rows.
const SAMPLED_BYTES: u64 = 8 << 20;
/// An input with fewer bytes is read whole.
const LEAST_BYTES: u64 = 4 * SAMPLED_BYTES;
/// The most files that are sampled.
const SAMPLED_FILES: u64 = 256;
/// Stretches read of each file after its beginning: files are often sorted.
const STRETCHES: u64 = 3;

/// A part of `input`, and how many times as much all of it is: where rows come from large Parquet
/// files and nothing but projections and filters lies between. Else all of it.
///
/// The sample reads the same rows each time, in whatever order. Where files have large row groups it may
/// be more than the wanted part, as a row group is read where it begins.
pub(crate) fn sample(input: Arc<dyn ExecutionPlan>) -> Result<(Arc<dyn ExecutionPlan>, u64)> {
    match sampled(&input)? {
        Some((part, times)) => Ok((part, times)),
        None => Ok((input, 1)),
    }
}

fn sampled(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<(Arc<dyn ExecutionPlan>, u64)>> {
    if let Some(scan) = plan.downcast_ref::<DataSourceExec>() {
        return Ok(sampled_scan(scan));
    }
    let row_by_row = plan.downcast_ref::<FilterExec>().is_some_and(|plan| plan.fetch().is_none())
        || plan.downcast_ref::<ProjectionExec>().is_some();
    match plan.children().as_slice() {
        [input] if row_by_row => match sampled(input)? {
            Some((part, times)) => {
                let plan = replace_children_if_necessary(Arc::clone(plan), vec![part])?;
                Ok(Some((plan, times)))
            }
            None => Ok(None),
        },
        _ => Ok(None),
    }
}

fn sampled_scan(scan: &DataSourceExec) -> Option<(Arc<dyn ExecutionPlan>, u64)> {
    let source: &dyn Any = scan.data_source().as_ref();
    let config = source.downcast_ref::<FileScanConfig>()?;
    // Parts of Parquet files are known to be cut at rows whatever the format's settings.
    if config.limit.is_some() || config.file_source().file_type() != "parquet" {
        return None;
    }
    let files: Vec<&PartitionedFile> = config.file_groups.iter().flat_map(|g| g.files()).collect();
    let total: u64 = files.iter().map(|file| bytes_of(file)).sum();
    if total < LEAST_BYTES {
        return None;
    }
    let times = total / SAMPLED_BYTES;
    let every = (files.len() as u64).div_ceil(SAMPLED_FILES).min(times);
    let within = times / every;
    let parts: Vec<PartitionedFile> =
        files.iter().step_by(every as usize).flat_map(|file| stretches(file, within)).collect();
    let groups = config.file_groups.len().clamp(1, parts.len());
    let mut by_group = vec![vec![]; groups];
    parts.into_iter().enumerate().for_each(|(i, part)| by_group[i % groups].push(part));
    let groups = by_group.into_iter().map(FileGroup::new).collect();
    let config = FileScanConfigBuilder::from(config.clone()).with_file_groups(groups).build();
    Some((DataSourceExec::from_data_source(config), every * within))
}

/// The bytes of a file that are read.
fn bytes_of(file: &PartitionedFile) -> u64 {
    match &file.range {
        Some(range) => range.end.saturating_sub(range.start).max(0) as u64,
        None => file.object_meta.size,
    }
}

/// One in `times` bytes of a file, in some stretches.
fn stretches(file: &PartitionedFile, times: u64) -> Vec<PartitionedFile> {
    if times == 1 {
        return vec![file.clone()];
    }
    let start = file.range.as_ref().map_or(0, |range| range.start.max(0) as u64);
    let bytes = bytes_of(file);
    let length = bytes / (times * STRETCHES);
    (0..STRETCHES)
        .map(|i| {
            let from = start + i * bytes / STRETCHES;
            file.clone().with_range(from as i64, (from + length) as i64)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::datasource::physical_plan::{CsvSource, FileSource, ParquetSource};
    use datafusion::execution::object_store::ObjectStoreUrl;
    use datafusion::physical_expr::expressions::{col, lit};
    use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
    use datafusion::physical_plan::projection::ProjectionExpr;

    use super::*;

    const MB: u64 = 1 << 20;

    fn scan(
        source: fn(Arc<Schema>) -> Arc<dyn FileSource>,
        groups: Vec<Vec<PartitionedFile>>,
        limit: Option<usize>,
    ) -> Arc<dyn ExecutionPlan> {
        let schema = Arc::new(Schema::new(vec![Field::new("x", DataType::Int64, true)]));
        let url = ObjectStoreUrl::local_filesystem();
        let groups = groups.into_iter().map(FileGroup::new).collect();
        let config = FileScanConfigBuilder::new(url, source(schema)).with_file_groups(groups);
        DataSourceExec::from_data_source(config.with_limit(limit).build())
    }

    fn parquet(schema: Arc<Schema>) -> Arc<dyn FileSource> {
        Arc::new(ParquetSource::new(schema))
    }

    fn files(count: u64, bytes: u64) -> Vec<PartitionedFile> {
        (0..count).map(|i| PartitionedFile::new(format!("{i}.parquet"), bytes)).collect()
    }

    /// The stretches that are read, and how many partitions they are in.
    fn read(plan: &Arc<dyn ExecutionPlan>) -> (Vec<PartitionedFile>, usize) {
        let mut scan = plan;
        while let [input] = scan.children().as_slice() {
            scan = input;
        }
        let scan = scan.downcast_ref::<DataSourceExec>().unwrap();
        let source: &dyn Any = scan.data_source().as_ref();
        let groups = &source.downcast_ref::<FileScanConfig>().unwrap().file_groups;
        (groups.iter().flat_map(|g| g.files()).cloned().collect(), groups.len())
    }

    #[test]
    fn a_large_file_is_read_in_stretches_from_its_beginning() {
        let half = |start, end| PartitionedFile::new("x.parquet", 80 * MB).with_range(start, end);
        let halves = vec![vec![half(0, 40 << 20)], vec![half(40 << 20, 80 << 20)]];
        for groups in [vec![files(1, 80 * MB)], halves] {
            let partitions = groups.len();
            let (part, times) = sample(scan(parquet, groups, None)).unwrap();
            assert_eq!(times, 10);
            let (found, groups) = read(&part);
            assert_eq!(groups, partitions);
            let mut ranges: Vec<_> = found.iter().map(|f| f.range.clone().unwrap()).collect();
            ranges.sort_by_key(|range| range.start);
            assert_eq!(ranges[0].start, 0);
            assert!(ranges.windows(2).all(|pair| pair[0].end <= pair[1].start));
            let bytes: i64 = ranges.iter().map(|range| range.end - range.start).sum();
            assert!((bytes - (8 << 20)).abs() < 100, "{bytes}");
        }
    }

    #[test]
    fn of_many_files_some_are_read() {
        let (part, times) = sample(scan(parquet, vec![files(5000, MB)], None)).unwrap();
        let (found, _) = read(&part);
        assert!((100..1000).contains(&found.len()), "{}", found.len());
        let bytes: u64 = found.iter().map(bytes_of).sum();
        let ratio = (5000 * MB) as f64 / (bytes * times) as f64;
        assert!((0.9..1.1).contains(&ratio), "{ratio}");
    }

    #[test]
    fn rows_are_sampled_through_what_takes_them_one_by_one() {
        let large = || scan(parquet, vec![files(1, 80 * MB)], None);
        let schema = large().schema();
        let x = || col("x", &schema).unwrap();
        let filter = FilterExec::try_new(lit(true), large()).unwrap();
        let filter: Arc<dyn ExecutionPlan> = Arc::new(filter);
        let expr = ProjectionExpr { expr: x(), alias: "y".to_string() };
        let projected = ProjectionExec::try_new(vec![expr], Arc::clone(&filter)).unwrap();
        let (part, times) = sample(Arc::new(projected)).unwrap();
        assert_eq!((part.name(), times), ("ProjectionExec", 10));
        assert_eq!(read(&part).0.len(), 3);

        let limited = filter.with_fetch(Some(3)).unwrap();
        let whole: [Arc<dyn ExecutionPlan>; 5] = [
            limited,
            scan(parquet, vec![files(1, 80 * MB)], Some(7)),
            scan(parquet, vec![files(3, 10 * MB)], None),
            scan(|schema| Arc::new(CsvSource::new(schema)), vec![files(1, 80 * MB)], None),
            Arc::new(CoalescePartitionsExec::new(large())),
        ];
        for input in whole {
            let (part, times) = sample(Arc::clone(&input)).unwrap();
            assert!(times == 1 && Arc::ptr_eq(&part, &input));
        }
    }
}
