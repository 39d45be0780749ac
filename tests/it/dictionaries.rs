//! Dictionaries some of whose values are NULL: rows with such a value are NULL, as rows without a key are.
//! The expected numbers are counted from the keys.

use std::sync::Arc;

use arrow::array::{Array, DictionaryArray, Int8Array, Int64Array, ListArray, StringArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{Field, Int8Type, Schema};
use arrow::record_batch::RecordBatch;

use crate::support::{Session, assert_uses_operator, number, register_partitions, rows, split};

const ROWS: i64 = 3_000;

/// Texts `d`, and lists `l` of that one text. Of five rows one has the value that is NULL, above the bytes
/// of a text; one has no key; two have "zz" and one has "zy".
fn table() -> RecordBatch {
    let texts = StringArray::from(vec!["zz", "zz", "zy"]);
    let nulls = Some(vec![false, true, true].into());
    let values = StringArray::new(texts.offsets().clone(), texts.values().clone(), nulls);
    let key = |row: i64| [Some(0), Some(1), Some(2), None, Some(1)][(row % 5) as usize];
    let keys: Int8Array = (0..ROWS).map(key).collect();
    let texts = DictionaryArray::<Int8Type>::new(keys, Arc::new(values));
    let element = Arc::new(Field::new_list_field(texts.data_type().clone(), true));
    let offsets = OffsetBuffer::from_lengths((0..ROWS).map(|_| 1));
    let lists = ListArray::new(element, offsets, Arc::new(texts.clone()), None);
    let schema = Schema::new(vec![
        Field::new("id", arrow::datatypes::DataType::Int64, false),
        Field::new("d", texts.data_type().clone(), true),
        Field::new("l", lists.data_type().clone(), true),
    ]);
    let ids = Int64Array::from_iter_values(0..ROWS);
    let columns = vec![Arc::new(ids) as _, Arc::new(texts) as _, Arc::new(lists) as _];
    RecordBatch::try_new(Arc::new(schema), columns).expect("columns of the schema")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_that_are_null_make_rows_null() {
    let session = Session { batch_size: 100, partitions: 3, ..Session::default() };
    let ctx = session.context();
    register_partitions(&ctx, "t", split(&table(), 3, 100));
    let (zz, zy) = (ROWS / 5 * 2, ROWS / 5);
    for (number_of, (condition, expected)) in [
        ("levenshtein(a.d, b.d) <= 1", (zz + zy) * (zz + zy)),
        ("levenshtein(a.d, b.d) <= 0", zz * zz + zy * zy),
        ("jaro_similarity(a.d, b.d) >= 1", zz * zz + zy * zy),
        ("jaccard(a.l, b.l) >= 1", zz * zz + zy * zy),
        ("jaccard(qgrams(a.d, 1), qgrams(b.d, 1)) >= 1", zz * zz + zy * zy),
        ("levenshtein(a.d, b.d) <= 1 AND a.d < b.d", zz * zy),
    ]
    .into_iter()
    .enumerate()
    {
        let sql = format!("SELECT count(*) FROM t a SIMJOIN t b ON {condition}");
        assert_uses_operator(&ctx, &sql).await;
        assert_eq!(number(&ctx, &sql).await, expected, "{condition}");
        rows(&ctx, &format!("CREATE VIEW v{number_of} AS {sql}")).await;
        assert_eq!(number(&ctx, &format!("SELECT * FROM v{number_of}")).await, expected);
        rows(&ctx, &format!("PREPARE p{number_of} AS {sql}")).await;
        assert_eq!(number(&ctx, &format!("EXECUTE p{number_of}")).await, expected, "{condition}");
    }
    let scores = "SELECT count(jaccard(l, l)) + 10000 * count(levenshtein(d, d)) FROM t";
    assert_eq!(number(&ctx, scores).await, ROWS + 10000 * (zz + zy));
}
