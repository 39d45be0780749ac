//! The types of columns.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, DictionaryArray, LargeListArray, LargeStringArray, ListArray, NullArray,
    StringArray, StringViewArray, new_null_array,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int32Type};
use simjoin_core::{Column, Join, Measure};

/// Arrow's forms of lists of three integers.
fn forms(lists: &LargeListArray) -> Vec<ArrayRef> {
    let element = |data_type| Arc::new(Field::new_list_field(data_type, true));
    let types = [
        DataType::List(element(DataType::Int64)),
        DataType::LargeList(element(DataType::UInt16)),
        DataType::FixedSizeList(element(DataType::Int32), 3),
        DataType::ListView(element(DataType::Int64)),
        DataType::LargeListView(element(DataType::Int64)),
    ];
    types.iter().map(|data_type| cast(lists, data_type).unwrap()).collect()
}

#[test]
fn lists_of_any_layout_are_sets_and_vectors() {
    let rows = [[1_i64, 2, 3], [3, 2, 4], [9, 9, 9], [2, 1, 3]];
    let lists = rows.to_array();
    let lists = lists.as_any().downcast_ref::<LargeListArray>().unwrap();
    for (measure, threshold) in [(Measure::Jaccard, 0.5), (Measure::Euclidean, 2.5)] {
        let join = Join::new(measure, threshold);
        let expected = join.join(&rows, &rows).unwrap();
        assert_eq!(expected.len(), 4 + 2 * 3, "{measure}");
        for form in forms(lists) {
            let found = join.join(&form, &rows).unwrap();
            assert_eq!(found, expected, "{measure} of {}", form.data_type());
            assert_eq!(join.join(lists, form.as_ref()).unwrap(), expected, "{measure}");
        }
    }
}

#[test]
fn texts_of_any_layout_are_joined() {
    let rows = [Some("abc"), None, Some("abd"), Some("x")];
    let join = Join::new(Measure::Levenshtein, 1.0);
    let expected = join.join(&rows, &rows).unwrap();
    assert_eq!(expected.len(), 5);
    let dictionary: DictionaryArray<Int32Type> = rows.into_iter().collect();
    let forms: [ArrayRef; 4] = [
        Arc::new(StringArray::from(rows.to_vec())),
        Arc::new(LargeStringArray::from(rows.to_vec())),
        Arc::new(StringViewArray::from(rows.to_vec())),
        Arc::new(dictionary),
    ];
    for left in &forms {
        for right in &forms {
            assert_eq!(join.join(left, right).unwrap(), expected, "{}", left.data_type());
        }
    }
    let owned: Vec<String> = ["abc", "abd"].map(String::from).into();
    assert_eq!(join.self_count(&owned).unwrap(), 1);
    assert_eq!(join.count(&(Arc::new(NullArray::new(3)) as ArrayRef), &rows).unwrap(), 0);
}

#[test]
fn a_slice_of_an_array_has_its_own_row_numbers() {
    let rows: ListArray = ListArray::from_iter_primitive::<Int32Type, _, _>(
        [None, Some(vec![1, 2]), Some(vec![5]), Some(vec![2, 1])]
            .map(|row: Option<Vec<i32>>| row.map(|row| row.into_iter().map(Some))),
    );
    let pairs = Join::new(Measure::Dice, 1.0).self_join(&rows.slice(1, 3)).unwrap();
    assert_eq!(pairs.iter().map(|p| (p.left, p.right)).collect::<Vec<_>>(), [(0, 2)]);
}

#[test]
fn columns_without_rows_or_values_match_nothing() {
    let rows = [vec![1_i64, 2]];
    let join = Join::new(Measure::Jaccard, 0.1).threads(4);
    let lists = DataType::new_list(DataType::Int64, true);
    for empty in [new_null_array(&lists, 0), new_null_array(&lists, 3)] {
        assert!(join.join(&empty, &rows).unwrap().is_empty());
        assert!(join.join(&rows, &empty).unwrap().is_empty());
        assert!(join.self_join(&empty).unwrap().is_empty());
        assert_eq!(join.self_count(&empty).unwrap(), 0);
    }
    let record_batch = join.self_join(&rows).unwrap().to_record_batch().unwrap();
    assert_eq!((record_batch.num_rows(), record_batch.num_columns()), (0, 3));
}
