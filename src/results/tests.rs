//! Values and ids of nodes.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringArray, UInt16Array, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::execution::memory_pool::{
    GreedyMemoryPool, MemoryConsumer, MemoryPool, MemoryReservation,
};

use super::forest::Forest;
use super::nodes::{NO_ID, NodeType, Nodes};
use crate::util::cancel::CancelFlag;

fn reservation(bytes: usize) -> MemoryReservation {
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(bytes));
    MemoryConsumer::new("nodes").register(&pool)
}

/// The ids of a column, after room was made for it.
fn number(
    nodes: &mut Nodes,
    node: &NodeType,
    forest: &mut [Forest],
    array: &ArrayRef,
    memory: &MemoryReservation,
) -> Vec<u32> {
    let column = node.column(array).unwrap();
    let mut ids = vec![];
    loop {
        let needed = nodes.number(&column, &mut ids, memory).unwrap();
        if needed.is_some_and(|needed| needed <= forest[0].len()) {
            ids.iter().for_each(|id| _ = forest[0].declare(*id));
            return ids;
        }
        nodes.make_room(&[&column], needed, forest, memory).unwrap();
    }
}

#[test]
fn values_come_back_from_their_ids() {
    let numbers: ArrayRef =
        Arc::new(Int64Array::from(vec![Some(7), None, Some(120), Some(7), Some(0)]));
    let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("b"), None, Some(""), Some("b")]));
    for (array, data_type) in [
        (&numbers, DataType::Int64),
        (&numbers, DataType::Int8),
        (&numbers, DataType::UInt64),
        (&numbers, DataType::Date32),
        (&numbers, DataType::Timestamp(TimeUnit::Second, Some("UTC".into()))),
        (&numbers, DataType::Decimal128(20, 3)),
        (&numbers, DataType::Float64),
        (&texts, DataType::Utf8View),
        (&texts, DataType::LargeBinary),
    ] {
        let array = match &data_type {
            DataType::Date32 => cast(&cast(array, &DataType::Int32).unwrap(), &data_type),
            _ => cast(array, &data_type),
        };
        let array = array.unwrap();
        let node = NodeType::try_new(&data_type).unwrap();
        let (mut nodes, memory) = (Nodes::new(&node), reservation(1 << 20));
        let ids = number(&mut nodes, &node, &mut [Forest::default()], &array, &memory);
        assert_eq!(ids[1], NO_ID);
        assert_eq!(ids[0], ids[3]);
        assert_ne!(ids[0], ids[2]);
        assert_eq!(&nodes.values_at(&node, &ids).unwrap(), &array, "{data_type}");
        let none = nodes.values_at(&node, &[NO_ID]).unwrap();
        assert_eq!(none.to_data(), new_null_array(&data_type, 1).to_data(), "{data_type}");
    }
}

#[test]
fn nodes_keep_their_sets_as_ranges_grow_and_are_given_up() {
    let node = NodeType::try_new(&DataType::Int64).unwrap();
    for far in [90_000_000_000_000_i64, -90_000_000_000_000] {
        let (mut nodes, mut forest) = (Nodes::new(&node), [Forest::default()]);
        let memory = reservation(64 << 20);
        let mut values: Vec<i64> = vec![];
        // Upwards, downwards, and out of any range.
        for start in [0, 5_000, -70_000, 400_000, far] {
            let added: Vec<i64> = (start..start + 10).collect();
            let array: ArrayRef = Arc::new(Int64Array::from(added.clone()));
            let ids = number(&mut nodes, &node, &mut forest, &array, &memory);
            ids.windows(2).for_each(|ids| _ = forest[0].unite(ids[0], ids[1]));
            values.extend(added);
        }
        let array: ArrayRef = Arc::new(Int64Array::from(values.clone()));
        let ids = number(&mut nodes, &node, &mut forest, &array, &memory);
        for (i, ids) in ids.chunks(10).enumerate() {
            assert!(ids.iter().all(|id| forest[0].find(*id) == forest[0].find(ids[0])), "{i}");
        }
        let roots = ids.chunks(10).map(|ids| forest[0].find(ids[0]));
        assert_eq!(roots.collect::<std::collections::BTreeSet<_>>().len(), 5);
        let order = nodes.order(&memory, &CancelFlag::default()).unwrap().unwrap();
        values.sort_unstable();
        let sorted: ArrayRef = Arc::new(Int64Array::from(values));
        assert_eq!(&nodes.values_at(&node, &order).unwrap(), &sorted);
    }
}

/// A range for which there is no memory becomes a table.
#[test]
fn ranges_beyond_memory_become_tables() {
    let node = NodeType::try_new(&DataType::UInt16).unwrap();
    let array: ArrayRef = Arc::new(UInt16Array::from(vec![3, 60_000, 3]));
    for (bytes, is_range) in [(1 << 20, true), (50_000, false)] {
        let (mut nodes, memory) = (Nodes::new(&node), reservation(bytes));
        let ids = number(&mut nodes, &node, &mut [Forest::default()], &array, &memory);
        assert_eq!(nodes.order(&memory, &CancelFlag::default()).unwrap().is_none(), is_range);
        assert_eq!(&nodes.values_at(&node, &ids).unwrap(), &array);
    }
    let (mut nodes, memory) = (Nodes::new(&node), reservation(100));
    let column = node.column(&array).unwrap();
    let mut forest = [Forest::default()];
    // The range becomes a table that has no node yet; the first one does not fit.
    assert_eq!(nodes.make_room(&[&column], None, &mut forest, &memory).unwrap().unwrap().len(), 0);
    let error = nodes.number(&column, &mut vec![], &memory).unwrap_err();
    assert!(error.to_string().contains("Resources exhausted"), "{error}");
}
