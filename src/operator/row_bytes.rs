//! The bytes of single rows, which may differ by orders of magnitude.

use arrow::array::{
    Array, ArrayRef, AsArray, GenericByteArray, GenericByteViewArray, GenericListArray,
    GenericListViewArray, OffsetSizeTrait, RecordBatch,
};
use arrow::datatypes::{ArrowNativeType, ByteArrayType, ByteViewType, DataType};

/// The bytes that rows `from..to` of a column take once they are copied: of views, without the text
/// that they refer to, which is not.
pub(crate) fn range_bytes(array: &dyn Array, from: usize, to: usize) -> usize {
    if let Some(width) = fixed_width(array.data_type()) {
        return width * (to - from);
    }
    match array.data_type() {
        DataType::Utf8 => text_bytes(array.as_string::<i32>(), from, to),
        DataType::LargeUtf8 => text_bytes(array.as_string::<i64>(), from, to),
        DataType::Binary => text_bytes(array.as_binary::<i32>(), from, to),
        DataType::LargeBinary => text_bytes(array.as_binary::<i64>(), from, to),
        DataType::List(_) => list_bytes(array.as_list::<i32>(), from, to),
        DataType::LargeList(_) => list_bytes(array.as_list::<i64>(), from, to),
        DataType::ListView(_) => view_bytes(array.as_list_view::<i32>(), from, to),
        DataType::LargeListView(_) => view_bytes(array.as_list_view::<i64>(), from, to),
        DataType::Map(..) => {
            let map = array.as_map();
            let ends = [from, to].map(|row| map.value_offsets()[row] as usize);
            range_bytes(map.entries(), ends[0], ends[1]) + (to - from) * size_of::<i32>()
        }
        DataType::FixedSizeList(_, size) => {
            let size = *size as usize;
            range_bytes(array.as_fixed_size_list().values().as_ref(), from * size, to * size)
        }
        DataType::Struct(_) => {
            array.as_struct().columns().iter().map(|column| range_bytes(column, from, to)).sum()
        }
        _ => {
            let data = array.to_data();
            let all =
                data.get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size());
            all.div_ceil(array.len().max(1)) * (to - from)
        }
    }
}

/// The bytes of the largest row of a column.
pub(crate) fn widest_row(array: &dyn Array) -> usize {
    fn widest<O: ArrowNativeType>(offsets: &[O], width: usize) -> usize {
        let lens = offsets.windows(2).map(|ends| ends[1].as_usize() - ends[0].as_usize());
        lens.max().map_or(0, |len| len * width + size_of::<O>())
    }
    if let Some(width) = fixed_width(array.data_type()) {
        return width;
    }
    match array.data_type() {
        DataType::Utf8 => widest(array.as_string::<i32>().value_offsets(), 1),
        DataType::LargeUtf8 => widest(array.as_string::<i64>().value_offsets(), 1),
        DataType::Binary => widest(array.as_binary::<i32>().value_offsets(), 1),
        DataType::LargeBinary => widest(array.as_binary::<i64>().value_offsets(), 1),
        DataType::List(element) if fixed_width(element.data_type()).is_some() => {
            let width = fixed_width(element.data_type()).unwrap_or(0);
            widest(array.as_list::<i32>().value_offsets(), width)
        }
        DataType::LargeList(element) if fixed_width(element.data_type()).is_some() => {
            let width = fixed_width(element.data_type()).unwrap_or(0);
            widest(array.as_list::<i64>().value_offsets(), width)
        }
        _ => (0..array.len()).map(|row| range_bytes(array, row, row + 1)).max().unwrap_or(0),
    }
}

/// The bytes of a column's rows: of a slice, its share of the buffers.
pub(crate) fn slice_bytes(array: &ArrayRef) -> usize {
    fn list<O: OffsetSizeTrait>(array: &GenericListArray<O>) -> usize {
        let offsets = array.value_offsets();
        let (first, last) = (offsets[0].as_usize(), offsets[array.len()].as_usize());
        size_of_val(offsets) + slice_bytes(&array.values().slice(first, last - first))
    }
    match array.data_type() {
        DataType::List(_) => list(array.as_list::<i32>()),
        DataType::LargeList(_) => list(array.as_list::<i64>()),
        _ => {
            let data = array.to_data();
            data.get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size())
        }
    }
}

/// The bytes that a column's rows take once they are copied, with the text or binary data that
/// views refer to.
pub(crate) fn stored_bytes(array: &ArrayRef) -> usize {
    fn viewed(array: &dyn Array) -> usize {
        match array.data_type() {
            DataType::Utf8View => array.as_string_view().total_buffer_bytes_used(),
            DataType::BinaryView => array.as_binary_view().total_buffer_bytes_used(),
            DataType::List(_) => of_list(array.as_list::<i32>()),
            DataType::LargeList(_) => of_list(array.as_list::<i64>()),
            DataType::Struct(_) => array.as_struct().columns().iter().map(|c| viewed(c)).sum(),
            _ => 0,
        }
    }
    fn of_list<O: OffsetSizeTrait>(array: &GenericListArray<O>) -> usize {
        let offsets = array.value_offsets();
        let (first, last) = (offsets[0].as_usize(), offsets[array.len()].as_usize());
        viewed(&array.values().slice(first, last - first))
    }
    slice_bytes(array) + viewed(array)
}

/// The bytes of the rows of a batch, without those of its buffers that it does not use.
pub(crate) fn batch_bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(stored_bytes).sum()
}

/// The bytes that each row takes in a message, of which the text of views is a part.
pub(crate) fn bytes_in_message(batch: &RecordBatch) -> Vec<usize> {
    let mut bytes = vec![0; batch.num_rows()];
    let mut every = 0;
    for column in batch.columns() {
        let column = column.as_ref();
        match (column.data_type(), fixed_width(column.data_type())) {
            (DataType::Utf8View, _) => add_text(column.as_string_view(), &mut bytes),
            (DataType::BinaryView, _) => add_text(column.as_binary_view(), &mut bytes),
            (_, Some(width)) => every += width,
            _ => {
                for (row, bytes) in bytes.iter_mut().enumerate() {
                    *bytes += range_bytes(column, row, row + 1);
                }
            }
        }
    }
    bytes.iter_mut().for_each(|bytes| *bytes += every);
    bytes
}

fn add_text<T: ByteViewType>(array: &GenericByteViewArray<T>, bytes: &mut [usize]) {
    for (len, bytes) in array.lengths().zip(bytes) {
        *bytes += size_of::<u128>() + len as usize;
    }
}

/// The bytes of each row of a type, where they are the same for all.
pub(crate) fn fixed_width(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::Null => Some(0),
        DataType::Boolean => Some(1),
        DataType::FixedSizeBinary(width) => Some(*width as usize),
        DataType::Utf8View | DataType::BinaryView => Some(size_of::<u128>()),
        DataType::Dictionary(key, _) => key.primitive_width(),
        DataType::FixedSizeList(element, size) => {
            fixed_width(element.data_type()).map(|width| width * *size as usize)
        }
        DataType::Struct(fields) => fields.iter().map(|f| fixed_width(f.data_type())).sum(),
        other => other.primitive_width(),
    }
}

fn text_bytes<T: ByteArrayType>(array: &GenericByteArray<T>, from: usize, to: usize) -> usize {
    let offsets = array.value_offsets();
    offsets[to].as_usize() - offsets[from].as_usize() + (to - from) * size_of::<T::Offset>()
}

fn list_bytes<O: OffsetSizeTrait>(array: &GenericListArray<O>, from: usize, to: usize) -> usize {
    let ends = [from, to].map(|row| array.value_offsets()[row].as_usize());
    range_bytes(array.values().as_ref(), ends[0], ends[1]) + (to - from) * size_of::<O>()
}

fn view_bytes<O: OffsetSizeTrait>(
    array: &GenericListViewArray<O>,
    from: usize,
    to: usize,
) -> usize {
    let of_row = |row: usize| {
        let start = array.value_offset(row).as_usize();
        range_bytes(array.values().as_ref(), start, start + array.value_size(row).as_usize())
    };
    (from..to).map(of_row).sum::<usize>() + (to - from) * 2 * size_of::<O>()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        ArrayRef, Int64Array, ListArray, StringArray, StringViewArray, StructArray,
    };
    use arrow::compute::cast;
    use arrow::datatypes::{Field, Int64Type};

    use super::*;

    #[test]
    fn what_views_refer_to_counts_where_it_is_stored() {
        let texts = (0..100).map(|i| format!("{i:0500}")).collect::<Vec<_>>();
        let views: ArrayRef = Arc::new(StringViewArray::from_iter_values(texts));
        let tenth = views.slice(10, 10);
        assert!((50_000..60_000).contains(&stored_bytes(&views)), "{}", stored_bytes(&views));
        assert!((5_000..6_000).contains(&stored_bytes(&tenth)), "{}", stored_bytes(&tenth));
    }

    #[test]
    fn rows_have_the_bytes_of_their_values() {
        let lens = [0, 3, 1000, 1, 0, 7];
        let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(
            lens.map(|len| Some((0..len).map(Some))),
        );
        let texts = StringArray::from_iter_values(lens.map(|len| "x".repeat(len as usize)));
        let lists: ArrayRef = Arc::new(lists);
        let nested = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>([
            Some(vec![Some(1)]),
            Some(vec![]),
        ]));
        let of_texts = |offsets: Vec<i32>| -> ArrayRef {
            let field = Arc::new(Field::new_list_field(DataType::Utf8, true));
            let values = Arc::new(texts.clone()) as ArrayRef;
            Arc::new(ListArray::new(
                field,
                arrow::buffer::OffsetBuffer::new(offsets.into()),
                values,
                None,
            ))
        };
        let cases: [(ArrayRef, Vec<usize>); 6] = [
            (Arc::clone(&lists), lens.map(|len| 8 * len as usize + 4).to_vec()),
            (lists.slice(1, 3), lens[1..4].iter().map(|&len| 8 * len as usize + 4).collect()),
            (Arc::new(texts.clone()), lens.map(|len| len as usize + 4).to_vec()),
            (Arc::new(Int64Array::from_iter_values(0..3)), vec![8; 3]),
            (
                Arc::new(StructArray::from(vec![
                    (
                        Arc::new(Field::new("n", DataType::Int64, true)),
                        Arc::new(Int64Array::from_iter_values(0..2)) as ArrayRef,
                    ),
                    (
                        Arc::new(Field::new("l", nested.data_type().clone(), true)),
                        nested as ArrayRef,
                    ),
                ])),
                vec![8 + 8 + 4, 8 + 4],
            ),
            (of_texts(vec![0, 2, 2, 6]), vec![3 + 8 + 4, 4, 1008 + 16 + 4]),
        ];
        for (array, expected) in cases {
            let rows = 0..array.len();
            let found: Vec<_> = rows.map(|row| range_bytes(&array, row, row + 1)).collect();
            assert_eq!(found, expected, "{}", array.data_type());
            assert_eq!(range_bytes(&array, 0, array.len()), expected.iter().sum::<usize>());
            assert_eq!(widest_row(&array), *expected.iter().max().unwrap());
        }
        let large = DataType::LargeList(Arc::new(Field::new_list_field(DataType::Int64, true)));
        assert_eq!(widest_row(&cast(&lists, &large).unwrap()), 8008);
    }
    #[test]
    fn a_message_has_the_text_of_views() {
        let texts = ["", "short", "a text that is longer than a view"];
        let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(
            [3, 0, 1].map(|len| Some((0..len).map(Some))),
        );
        let columns: [(&str, ArrayRef); 3] = [
            ("view", Arc::new(StringViewArray::from_iter_values(texts))),
            ("number", Arc::new(Int64Array::from_iter_values(0..3))),
            ("list", Arc::new(lists)),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        assert_eq!(bytes_in_message(&batch), [16 + 8 + 28, 16 + 5 + 8 + 4, 16 + 33 + 8 + 12]);
        assert_eq!(bytes_in_message(&batch.slice(1, 1)), [16 + 5 + 8 + 4]);
    }
}
