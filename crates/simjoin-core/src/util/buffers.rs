//! The memory of arrays that share buffers.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayData};
use parking_lot::Mutex;

/// The buffers that were counted as held: slices of a batch share buffers.
#[derive(Debug, Clone, Default)]
pub struct SeenBuffers(Arc<Mutex<HashSet<usize>>>);

impl SeenBuffers {
    /// The bytes of those buffers of an array that were not seen before.
    pub fn add(&self, array: &dyn Array) -> usize {
        new_buffer_bytes(&array.to_data(), &mut self.0.lock())
    }
}

/// The bytes of those buffers that `seen` does not hold yet.
fn new_buffer_bytes(data: &ArrayData, seen: &mut HashSet<usize>) -> usize {
    let mut bytes = 0;
    let nulls = data.nulls().map(|n| n.buffer());
    for buffer in data.buffers().iter().chain(nulls) {
        // Slices of a buffer share its allocation, which `data_ptr` names.
        if seen.insert(buffer.data_ptr().as_ptr() as usize) {
            bytes += buffer.capacity();
        }
    }
    bytes + data.child_data().iter().map(|c| new_buffer_bytes(c, seen)).sum::<usize>()
}
