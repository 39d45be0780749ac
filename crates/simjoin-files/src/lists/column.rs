//! Columns of lists of numbers, as a file of Parquet holds them.

use arrow::datatypes::{DataType, Field};
use datafusion::parquet::basic::{Encoding, Repetition, Type};
use datafusion::parquet::file::metadata::ParquetMetaData;
use datafusion::parquet::schema::types::SchemaDescriptor;

/// A column of a file.
#[derive(Debug, Clone)]
pub(super) struct ListColumn {
    /// Its place among the leaves of the schema.
    pub leaf: usize,
    /// The type of its arrays.
    pub data_type: DataType,
    /// Bytes of an element.
    pub width: usize,
    /// The definition level of an element that is not NULL.
    pub most: u8,
    /// The least definition level of an element.
    pub element: u8,
    /// The least definition level of a list that is not NULL.
    pub list: u8,
}

/// The element of a type of lists of numbers that files hold as they are, and its bytes.
pub(super) fn element_of(data_type: &DataType) -> Option<(&Field, usize)> {
    let (DataType::List(element)
    | DataType::LargeList(element)
    | DataType::FixedSizeList(element, 1..)) = data_type
    else {
        return None;
    };
    let width = match element.data_type() {
        DataType::Int32 | DataType::UInt32 | DataType::Float32 => 4,
        DataType::Int64 | DataType::UInt64 | DataType::Float64 => 8,
        DataType::Float16 => 2,
        _ => return None,
    };
    Some((element, width))
}

/// Whether a file holds elements of this type as they are.
fn is_held_by(element: &DataType, physical: Type, len: i32) -> bool {
    match element {
        DataType::Int32 | DataType::UInt32 => physical == Type::INT32,
        DataType::Int64 | DataType::UInt64 => physical == Type::INT64,
        DataType::Float16 => physical == Type::FIXED_LEN_BYTE_ARRAY && len == 2,
        DataType::Float32 => physical == Type::FLOAT,
        DataType::Float64 => physical == Type::DOUBLE,
        _ => false,
    }
}

/// Whether values in this encoding, or levels, can be read.
fn is_read(encoding: Encoding) -> bool {
    matches!(
        encoding,
        Encoding::PLAIN
            | Encoding::RLE
            | Encoding::RLE_DICTIONARY
            | Encoding::PLAIN_DICTIONARY
            | Encoding::BYTE_STREAM_SPLIT
    )
}

impl ListColumn {
    /// The column of this name, if the file has it in a form that can be read. `file_type` is its
    /// type in the file, which has to be that of the table.
    pub(super) fn of(
        metadata: &ParquetMetaData,
        name: &str,
        data_type: &DataType,
        file_type: &DataType,
    ) -> Option<Self> {
        let (element, width) = element_of(data_type)?;
        if data_type != file_type {
            return None;
        }
        let schema = metadata.file_metadata().schema_descr();
        let (leaf, nullable) = leaf_of(schema, name)?;
        let column = schema.column(leaf);
        let is_held = is_held_by(element.data_type(), column.physical_type(), column.type_length());
        let levels = [column.max_rep_level(), column.max_def_level()];
        let (list, most) = (u8::from(nullable), u8::try_from(levels[1]).ok()?);
        // The list, its elements, and each of them that is not NULL have a level each, at most.
        let is_list = levels[0] == 1 && (list + 1..=list + 2).contains(&most);
        let mut chunks = metadata.row_groups().iter().map(|group| group.column(leaf));
        let can_read = chunks.all(|chunk| chunk.encodings().all(is_read));
        (is_held && is_list && can_read).then(|| Self {
            leaf,
            data_type: data_type.clone(),
            width,
            most,
            element: list + 1,
            list,
        })
    }
}

/// The only leaf of a column, and whether its lists may be NULL.
fn leaf_of(schema: &SchemaDescriptor, name: &str) -> Option<(usize, bool)> {
    let roots = schema.root_schema().get_fields();
    let mut named = (0..).zip(roots).filter(|(_, root)| root.name() == name);
    let (place, root) = named.next()?;
    let is_of = |leaf: &usize| schema.get_column_root_idx(*leaf) == place;
    let mut leaves = (0..schema.num_columns()).filter(is_of);
    let leaf = leaves.next()?;
    let is_only = named.next().is_none() && leaves.next().is_none();
    let info = root.get_basic_info();
    let nullable = info.has_repetition() && info.repetition() == Repetition::OPTIONAL;
    is_only.then_some((leaf, nullable))
}
