//! Lists read here against DataFusion's reader, over files that the writer of Parquet makes.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, FixedSizeListArray, Int64Array, LargeListArray, ListArray, RecordBatch,
    StringArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::Result;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::arrow::arrow_reader::ArrowReaderMetadata;
use datafusion::parquet::basic::{Compression, Encoding, ZstdLevel};
use datafusion::parquet::file::properties::{WriterProperties, WriterVersion};
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::column::ListColumn;
use crate::pipes::Pipes;
use crate::source::watch_plan;

const ELEMENTS: [DataType; 7] = [
    DataType::Float32,
    DataType::Float64,
    DataType::Float16,
    DataType::Int32,
    DataType::Int64,
    DataType::UInt32,
    DataType::UInt64,
];

/// The forms of a column that random files have.
#[derive(Debug, Clone, Copy)]
struct Form {
    layout: usize,
    null_lists: bool,
    null_elements: bool,
    most: usize,
    distinct: i64,
}

impl Form {
    fn random(rng: &mut StdRng) -> Self {
        Self {
            layout: rng.random_range(0..3),
            null_lists: rng.random_bool(0.3),
            null_elements: rng.random_bool(0.3),
            most: *[1, 3, 20, 300].choose(rng).unwrap(),
            distinct: *[1, 2, 50, 1 << 15].choose(rng).unwrap(),
        }
    }
}

/// Random lists.
fn lists(rng: &mut StdRng, rows: usize, element: &DataType, form: Form) -> ArrayRef {
    let Form { layout, null_lists, null_elements, most, distinct } = form;
    let valid: Vec<bool> = (0..rows).map(|_| !null_lists || rng.random_bool(0.8)).collect();
    let lens: Vec<usize> = (0..rows)
        .map(|row| match (layout, valid[row]) {
            (2, _) => most,
            (_, true) => rng.random_range(0..=most),
            (_, false) => 0,
        })
        .collect();
    let count = lens.iter().sum();
    let value = |rng: &mut StdRng| {
        (!null_elements || rng.random_bool(0.9)).then(|| rng.random_range(0..distinct))
    };
    let values: Int64Array = (0..count).map(|_| value(rng)).collect();
    let values = cast(&values, element).unwrap();
    let field = Arc::new(Field::new("element", element.clone(), null_elements));
    let nulls = null_lists.then(|| NullBuffer::from(valid));
    match layout {
        0 => Arc::new(ListArray::new(field, OffsetBuffer::from_lengths(lens), values, nulls)),
        1 => Arc::new(LargeListArray::new(field, OffsetBuffer::from_lengths(lens), values, nulls)),
        _ => Arc::new(FixedSizeListArray::new(field, most as i32, values, nulls)),
    }
}

/// A batch with two columns of lists among others.
fn batch(rng: &mut StdRng, rows: usize) -> RecordBatch {
    let ids = Int64Array::from_iter_values(0..rows as i64);
    let texts = StringArray::from_iter_values((0..rows).map(|row| format!("text {row}")));
    let mut columns: Vec<(&str, ArrayRef)> = vec![];
    for name in ["v", "w"] {
        let element = ELEMENTS.choose(rng).unwrap();
        let form = Form::random(rng);
        columns.push((name, lists(rng, rows, element, form)));
    }
    columns.insert(rng.random_range(0..=2), ("id", Arc::new(ids)));
    columns.insert(rng.random_range(0..=3), ("text", Arc::new(texts)));
    let field = |(name, array): &(&str, ArrayRef)| {
        Field::new(*name, array.data_type().clone(), array.null_count() > 0 || rng.random_bool(0.5))
    };
    let fields: Vec<Field> = columns.iter().map(field).collect();
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

fn write(path: &Path, batch: &RecordBatch, properties: WriterProperties) {
    let file = File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}

fn properties(rng: &mut StdRng, rows: usize) -> WriterProperties {
    let dictionary = rng.random_bool(0.5);
    let compressions =
        [Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::ZSTD(ZstdLevel::default())];
    let versions = [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0];
    let mut properties = WriterProperties::builder()
        .set_dictionary_enabled(dictionary)
        .set_dictionary_page_size_limit(*[100, 1 << 20].choose(rng).unwrap())
        .set_compression(*compressions.choose(rng).unwrap())
        .set_writer_version(*versions.choose(rng).unwrap())
        .set_write_batch_size(rng.random_range(1..500))
        .set_data_page_size_limit(rng.random_range(50..5000))
        .set_max_row_group_row_count(Some(rng.random_range(rows / 5 + 1..rows + 2)));
    if !dictionary {
        let encodings = [Encoding::PLAIN, Encoding::BYTE_STREAM_SPLIT];
        for column in ["v.list.element", "w.list.element"] {
            properties =
                properties.set_column_encoding(column.into(), *encodings.choose(rng).unwrap());
        }
    }
    properties.build()
}

async fn plan(
    context: &SessionContext,
    path: &Path,
    statement: &str,
) -> Result<Arc<dyn ExecutionPlan>> {
    context.deregister_table("t")?;
    context.register_parquet("t", path.to_str().unwrap(), ParquetReadOptions::default()).await?;
    context.sql(statement).await?.create_physical_plan().await
}

/// The rows of a statement by DataFusion's reader and by this one.
async fn both(context: &SessionContext, path: &Path, statement: &str) -> [Result<RecordBatch>; 2] {
    let mut results = vec![];
    for watched in [false, true] {
        let mut plan = plan(context, path, statement).await.unwrap();
        if watched {
            plan = watch_plan(plan, &Arc::default()).unwrap();
        }
        let schema = plan.schema();
        let batches = collect(plan, context.task_ctx()).await;
        results.push(batches.and_then(|batches| Ok(concat_batches(&schema, &batches)?)));
    }
    results.try_into().unwrap()
}

#[tokio::test]
async fn random_files_are_read_as_datafusion_reads_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let mut here = 0;
    for case in 0..60 {
        let rng = &mut StdRng::seed_from_u64(case);
        let rows = *[1, 7, 60, 700].choose(rng).unwrap();
        let batch = batch(rng, rows);
        write(&path, &batch, properties(rng, rows));
        here += usize::from(is_read_here(&path, "v"));
        let mut config = SessionConfig::new()
            .with_batch_size(*[3, 100, 8192].choose(rng).unwrap())
            .with_target_partitions(rng.random_range(1..4))
            .with_parquet_pruning(rng.random_bool(0.5));
        let options = config.options_mut();
        options.execution.parquet.pushdown_filters = rng.random_bool(0.5);
        options.optimizer.repartition_file_min_size = 0;
        let context = SessionContext::new_with_config(config);
        let (a, b) = (rng.random_range(0..rows), rng.random_range(0..rows));
        for statement in [
            "SELECT * FROM t ORDER BY id".to_string(),
            "SELECT v, id FROM t ORDER BY id".into(),
            "SELECT w, text, v FROM t ORDER BY text".into(),
            "SELECT id, v, cardinality(v) FROM t ORDER BY id".into(),
            format!("SELECT v, text FROM t WHERE id % 3 = 1 AND id > {a} ORDER BY text"),
            format!("SELECT w FROM t WHERE id BETWEEN {a} AND {b} OR text = 'text 3' ORDER BY id"),
            format!("SELECT id, w FROM t ORDER BY id DESC LIMIT {b}"),
        ] {
            let [theirs, ours] = both(&context, &path, &statement).await;
            let (theirs, ours) = (theirs.unwrap(), ours.unwrap());
            assert_eq!(theirs, ours, "case {case}: {statement}");
        }
    }
    assert!(here > 40, "{here} files have lists that are read here");
}

fn is_read_here(path: &Path, name: &str) -> bool {
    let file = ArrowReaderMetadata::load(&File::open(path).unwrap(), Default::default()).unwrap();
    let Ok(field) = file.schema().field_with_name(name) else { return false };
    let data_type = field.data_type();
    ListColumn::of(file.metadata(), name, data_type, data_type).is_some()
}

#[tokio::test]
async fn limits_end_a_scan() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let rng = &mut StdRng::seed_from_u64(1);
    let batch = batch(rng, 700);
    write(&path, &batch, properties(rng, 700));
    let config = SessionConfig::new().with_target_partitions(1).with_batch_size(10);
    let context = SessionContext::new_with_config(config);
    for limit in [0, 1, 9, 10, 11, 350, 1000] {
        let statement = format!("SELECT v, id FROM t LIMIT {limit}");
        let [theirs, ours] = both(&context, &path, &statement).await;
        let (theirs, ours) = (theirs.unwrap(), ours.unwrap());
        assert_eq!((ours.num_rows(), &theirs), (limit.min(700), &ours), "{limit}");
    }
}

/// Batches are cut where their lists are read here, and only there.
#[tokio::test]
async fn a_scan_reads_its_lists_here() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let rng = &mut StdRng::seed_from_u64(3);
    let form = Form { layout: 2, null_lists: false, null_elements: false, most: 400, distinct: 99 };
    let array = lists(rng, 7500, &DataType::Float32, form);
    let batch = RecordBatch::try_from_iter([("v", array)]).unwrap();
    write(&path, &batch, WriterProperties::default());
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
    for (statement, is_here) in
        [("SELECT v FROM t", true), ("SELECT v, v[1] FROM t", false), ("SELECT 1 FROM t", false)]
    {
        let plan = plan(&context, &path, statement).await.unwrap();
        let theirs = collect(Arc::clone(&plan), context.task_ctx()).await.unwrap().len();
        let plan = watch_plan(plan, &Arc::default()).unwrap();
        let ours = collect(plan, context.task_ctx()).await.unwrap().len();
        assert_eq!((theirs, ours > 10), (1, is_here), "{statement}: {ours}");
        let [theirs, ours] = both(&context, &path, statement).await;
        assert!(theirs.unwrap() == ours.unwrap(), "{statement}");
    }
}

#[test]
fn other_lists_are_left_to_datafusion() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let rng = &mut StdRng::seed_from_u64(2);
    let form = Form { layout: 0, null_lists: false, null_elements: true, most: 5, distinct: 9 };
    for (element, is_here) in ELEMENTS
        .into_iter()
        .map(|element| (element, true))
        .chain([DataType::Int8, DataType::UInt16, DataType::Utf8].map(|other| (other, false)))
    {
        let array = lists(rng, 20, &element, form);
        let batch = RecordBatch::try_from_iter([("v", array)]).unwrap();
        write(&path, &batch, WriterProperties::default());
        assert_eq!(is_read_here(&path, "v"), is_here, "{element}");
        assert!(!is_read_here(&path, "w"));
        let file = ArrowReaderMetadata::load(&File::open(&path).unwrap(), Default::default());
        let (file, field) = (file.unwrap(), Field::new("element", DataType::Date32, true));
        let other = DataType::List(Arc::new(field));
        let own = file.schema().field(0).data_type();
        assert!(ListColumn::of(file.metadata(), "v", &other, own).is_none());
    }
    // Differences of integers.
    let delta = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_encoding(Encoding::DELTA_BINARY_PACKED);
    let array = lists(rng, 20, &DataType::Int32, form);
    write(&path, &RecordBatch::try_from_iter([("v", array)]).unwrap(), delta.build());
    assert!(!is_read_here(&path, "v"));
}

/// Pages that lie give an error or other values, but no panic, and no scan without an end.
#[tokio::test]
async fn damaged_files_give_errors_that_name_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let mut errors = 0;
    for case in 0..40 {
        let rng = &mut StdRng::seed_from_u64(case);
        let form = Form { most: 20, ..Form::random(rng) };
        let element = ELEMENTS.choose(rng).unwrap();
        let array = lists(rng, 300, element, form);
        let batch = RecordBatch::try_from_iter([("v", array)]).unwrap();
        write(&path, &batch, properties(rng, 300));
        let file = ArrowReaderMetadata::load(&File::open(&path).unwrap(), Default::default());
        let (start, len) = file.unwrap().metadata().row_group(0).column(0).byte_range();
        let mut bytes = std::fs::read(&path).unwrap();
        for _ in 0..rng.random_range(1..20) {
            bytes[start as usize + rng.random_range(0..(len as usize).min(200))] = rng.random();
        }
        std::fs::write(&path, bytes).unwrap();
        let context = SessionContext::new();
        let plan = plan(&context, &path, "SELECT v FROM t").await.unwrap();
        let plan = watch_plan(plan, &Arc::new(Pipes::default())).unwrap();
        if let Err(error) = collect(plan, context.task_ctx()).await {
            let error = error.to_string();
            assert!(error.contains("t.parquet"), "{error}");
            errors += 1;
        }
    }
    assert!(errors > 10, "{errors} of 40 are seen");
}
