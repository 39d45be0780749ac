//! Rows of lists, gathered from pages.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayData, ArrayRef, BooleanBufferBuilder, make_array};
use arrow::buffer::{Buffer, MutableBuffer, NullBuffer};
use arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};

use super::column::ListColumn;
use super::page::ListPage;

/// Rows, the last of which may not have ended.
pub(super) struct ListRows {
    column: Arc<ListColumn>,
    values: MutableBuffer,
    /// The first element of each row.
    starts: Vec<usize>,
    /// By row and by element, whether it is not NULL; of none while all are not.
    rows: Option<BooleanBufferBuilder>,
    elements: Option<BooleanBufferBuilder>,
}

/// Bits behind `count` that are set.
fn bits(known: &mut Option<BooleanBufferBuilder>, count: usize) -> &mut BooleanBufferBuilder {
    known.get_or_insert_with(|| {
        let mut bits = BooleanBufferBuilder::new(count + 1);
        bits.append_n(count, true);
        bits
    })
}

fn nulls(bits: Option<BooleanBufferBuilder>) -> Option<NullBuffer> {
    bits.map(|mut bits| NullBuffer::new(bits.finish()))
}

impl ListRows {
    /// No rows yet, with room for `elements` elements of `rows` rows.
    pub(super) fn new(column: Arc<ListColumn>, rows: usize, elements: usize) -> Self {
        let values = MutableBuffer::with_capacity(elements * column.width);
        Self { column, values, starts: Vec::with_capacity(rows + 1), rows: None, elements: None }
    }

    /// The number of elements.
    fn len(&self) -> usize {
        self.values.len() / self.column.width
    }

    /// Appends entries of a page, whose first value is number `value` of the page; the number of
    /// values that they have.
    pub(super) fn append(
        &mut self,
        page: &ListPage,
        entries: Range<usize>,
        starts: &[u32],
        value: usize,
    ) -> usize {
        let width = self.column.width;
        let Some(levels) = &page.definitions else {
            let first = self.len();
            self.starts.extend(starts.iter().map(|at| first + *at as usize - entries.start));
            let count = entries.len();
            if let Some(rows) = &mut self.rows {
                rows.append_n(starts.len(), true);
            }
            if let Some(elements) = &mut self.elements {
                elements.append_n(count, true);
            }
            self.values.extend_from_slice(&page.values[value * width..(value + count) * width]);
            return count;
        };
        let mut starts = starts.iter().peekable();
        let mut count = 0;
        for entry in entries {
            let level = levels[entry];
            if starts.next_if(|at| **at as usize == entry).is_some() {
                self.begin(level >= self.column.list);
            }
            if level == self.column.most {
                let at = (value + count) * width;
                self.values.extend_from_slice(&page.values[at..at + width]);
                count += 1;
                if let Some(elements) = &mut self.elements {
                    elements.append(true);
                }
            } else if level >= self.column.element {
                let before = self.len();
                bits(&mut self.elements, before).append(false);
                self.values.extend_zeros(width);
            }
        }
        count
    }

    /// Begins a row.
    fn begin(&mut self, is_list: bool) {
        let (row, first) = (self.starts.len(), self.len());
        self.starts.push(first);
        if !is_list {
            bits(&mut self.rows, row).append(false);
            if let DataType::FixedSizeList(_, size) = self.column.data_type {
                // Lists of NULL have their places, too.
                self.values.extend_zeros(size as usize * self.column.width);
                if let Some(elements) = &mut self.elements {
                    elements.append_n(size as usize, true);
                }
            }
        } else if let Some(rows) = &mut self.rows {
            rows.append(true);
        }
    }

    /// The rows as an array.
    ///
    /// # Errors
    ///
    /// When a list has not as many elements as the type says.
    pub(super) fn finish(self) -> Result<ArrayRef> {
        let (rows, elements) = (self.starts.len(), self.len());
        let mut starts = self.starts;
        starts.push(elements);
        let data_type = self.column.data_type.clone();
        let mut buffers = vec![];
        let element = match &data_type {
            DataType::FixedSizeList(element, size) => {
                let lens = starts.windows(2).map(|ends| ends[1] - ends[0]);
                if let Some(len) = lens.into_iter().find(|len| *len != *size as usize) {
                    return exec_err!("a list has {len} elements where all should have {size}");
                }
                element
            }
            DataType::List(element) => {
                let narrow: Option<Vec<i32>> =
                    starts.iter().map(|start| i32::try_from(*start).ok()).collect();
                let Some(offsets) = narrow else {
                    return exec_err!(
                        "the lists of a batch have {elements} elements, {} at most; a lesser \
                         datafusion.execution.batch_size would read fewer at once",
                        i32::MAX
                    );
                };
                buffers.push(Buffer::from_vec(offsets));
                element
            }
            DataType::LargeList(element) => {
                buffers.push(starts.iter().map(|start| *start as i64).collect::<Buffer>());
                element
            }
            other => return exec_err!("{other} is no list"),
        };
        let child = ArrayData::builder(element.data_type().clone())
            .len(elements)
            .add_buffer(self.values.into())
            .nulls(nulls(self.elements))
            .build()?;
        let lists = ArrayData::builder(data_type)
            .len(rows)
            .buffers(buffers)
            .add_child_data(child)
            .nulls(nulls(self.rows));
        Ok(make_array(lists.build()?))
    }
}
