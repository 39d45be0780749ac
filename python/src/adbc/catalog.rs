//! The driver about itself and about its tables.

use std::collections::HashSet;
use std::sync::Arc;

use adbc_core::error::Result;
use adbc_core::options::{InfoCode, ObjectDepth};
use adbc_core::schemas::{
    COLUMN_SCHEMA, GET_INFO_SCHEMA, GET_OBJECTS_SCHEMA, GET_TABLE_TYPES_SCHEMA,
    OBJECTS_DB_SCHEMA_SCHEMA, TABLE_SCHEMA,
};
use arrow::array::{
    Array, ArrayRef, BooleanArray, Int16Array, Int32Array, ListArray, RecordBatch, StringArray,
    StructArray, UInt32Array, UnionArray, new_empty_array, new_null_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::kernels::comparison::like;
use arrow::datatypes::{DataType, Field};
use datafusion::logical_expr::TableType;
use datafusion::prelude::SessionContext;

use super::of_engine;

/// The catalog and the schema of a session's tables.
pub(super) const CATALOG: &str = "datafusion";
pub(super) const SCHEMA: &str = "public";

/// The facts that the driver tells a consumer about itself.
pub(super) fn info(codes: Option<HashSet<InfoCode>>) -> Result<RecordBatch> {
    let version = env!("CARGO_PKG_VERSION");
    let known = [
        (InfoCode::VendorName, "simjoin"),
        (InfoCode::VendorVersion, version),
        (InfoCode::VendorArrowVersion, "59"),
        (InfoCode::DriverName, "simjoin ADBC driver"),
        (InfoCode::DriverVersion, version),
        (InfoCode::DriverArrowVersion, "59"),
    ];
    let asked = |code: &InfoCode| codes.as_ref().is_none_or(|codes| codes.contains(code));
    let told: Vec<_> = known.into_iter().filter(|(code, _)| asked(code)).collect();
    let names = UInt32Array::from_iter_values(told.iter().map(|(code, _)| u32::from(code)));
    let texts: ArrayRef =
        Arc::new(StringArray::from_iter_values(told.iter().map(|(_, text)| text)));
    let schema = Arc::clone(&GET_INFO_SCHEMA);
    let DataType::Union(fields, _) = schema.field(1).data_type() else {
        unreachable!("the specification has a union here")
    };
    // Every value is a text, the first of the union's kinds.
    let children = fields.iter().map(|(kind, field)| match kind {
        0 => Arc::clone(&texts),
        _ => new_empty_array(field.data_type()),
    });
    let values = UnionArray::try_new(
        fields.clone(),
        ScalarBuffer::from(vec![0i8; told.len()]),
        Some((0..told.len() as i32).collect()),
        children.collect(),
    );
    let values = values.map_err(of_engine)?;
    RecordBatch::try_new(schema, vec![Arc::new(names), Arc::new(values)]).map_err(of_engine)
}

/// The types of tables.
pub(super) fn table_types() -> Result<RecordBatch> {
    let types = StringArray::from(vec!["BASE TABLE", "VIEW", "LOCAL TEMPORARY"]);
    let schema = Arc::clone(&GET_TABLE_TYPES_SCHEMA);
    RecordBatch::try_new(schema, vec![Arc::new(types)]).map_err(of_engine)
}

/// Patterns of names, as LIKE has them, and types of tables.
pub(super) struct Asked<'a> {
    pub catalog: Option<&'a str>,
    pub db_schema: Option<&'a str>,
    pub table_name: Option<&'a str>,
    pub table_type: Option<Vec<&'a str>>,
    pub column_name: Option<&'a str>,
}

fn matches(name: &str, pattern: Option<&str>) -> bool {
    let Some(pattern) = pattern else { return true };
    let name = StringArray::from(vec![name]);
    like(&name, &StringArray::new_scalar(pattern)).is_ok_and(|matches| matches.value(0))
}

/// A table, with its columns where these are asked for.
struct CatalogTable {
    name: String,
    kind: &'static str,
    columns: Vec<Field>,
}

/// The tables that are asked for, by catalog and schema.
pub(super) async fn objects(
    context: &SessionContext,
    depth: ObjectDepth,
    asked: &Asked<'_>,
) -> Result<RecordBatch> {
    let goes_to = |level: usize| match depth {
        ObjectDepth::Catalogs => level < 1,
        ObjectDepth::Schemas => level < 2,
        ObjectDepth::Tables => level < 3,
        _ => true,
    };
    let (mut catalogs, mut schemas_of) = (vec![], vec![]);
    let (mut schemas, mut tables_of, mut tables) = (vec![], vec![], vec![]);
    let names = context.catalog_names().into_iter().filter(|name| matches(name, asked.catalog));
    for catalog_name in names {
        let catalog = context.catalog(&catalog_name);
        let mut names = catalog.as_ref().map(|catalog| catalog.schema_names()).unwrap_or_default();
        names.retain(|name| goes_to(1) && matches(name, asked.db_schema));
        for schema_name in &names {
            let schema = catalog.as_ref().and_then(|catalog| catalog.schema(schema_name));
            let before = tables.len();
            if let Some(schema) = schema.filter(|_| goes_to(2)) {
                for name in schema.table_names() {
                    if !matches(&name, asked.table_name) {
                        continue;
                    }
                    let Some(table) = schema.table(&name).await.map_err(of_engine)? else {
                        continue;
                    };
                    let kind = match table.table_type() {
                        TableType::Base => "BASE TABLE",
                        TableType::View => "VIEW",
                        TableType::Temporary => "LOCAL TEMPORARY",
                    };
                    if asked.table_type.as_ref().is_some_and(|kinds| !kinds.contains(&kind)) {
                        continue;
                    }
                    let fields = table.schema();
                    let columns = fields.fields().iter().map(|field| field.as_ref().clone());
                    tables.push(CatalogTable { name, kind, columns: columns.collect() });
                }
            }
            tables_of.push(tables.len() - before);
        }
        schemas_of.push(names.len());
        schemas.extend(names);
        catalogs.push(catalog_name);
    }
    let tables = table_array(&tables, goes_to(3), asked.column_name)?;
    let tables = lists(tables, tables_of, goes_to(2))?;
    let schemas = structs(
        &OBJECTS_DB_SCHEMA_SCHEMA,
        vec![Arc::new(StringArray::from_iter_values(schemas)), tables],
    )?;
    let schemas = lists(schemas, schemas_of, goes_to(1))?;
    let columns = vec![Arc::new(StringArray::from_iter_values(catalogs)) as ArrayRef, schemas];
    RecordBatch::try_new(Arc::clone(&GET_OBJECTS_SCHEMA), columns).map_err(of_engine)
}

fn table_array(
    tables: &[CatalogTable],
    with_columns: bool,
    pattern: Option<&str>,
) -> Result<ArrayRef> {
    let (mut columns, mut places, mut columns_of) = (vec![], vec![], vec![]);
    for table in tables {
        let before = columns.len();
        for (place, field) in table.columns.iter().enumerate().filter(|_| with_columns) {
            if matches(field.name(), pattern) {
                columns.push(field);
                places.push(place as i32 + 1);
            }
        }
        columns_of.push(columns.len() - before);
    }
    let columns = lists(column_array(&columns, places)?, columns_of, with_columns)?;
    let names = StringArray::from_iter_values(tables.iter().map(|table| &table.name));
    let kinds = StringArray::from_iter_values(tables.iter().map(|table| table.kind));
    // No table has constraints.
    structs(&TABLE_SCHEMA, vec![Arc::new(names), Arc::new(kinds), columns])
}

fn column_array(columns: &[&Field], places: Vec<i32>) -> Result<ArrayRef> {
    let count = columns.len();
    let names = StringArray::from_iter_values(columns.iter().map(|field| field.name()));
    let types: StringArray =
        columns.iter().map(|field| Some(field.data_type().to_string())).collect();
    let nullable = columns.iter().map(|field| i16::from(field.is_nullable()));
    let words = columns.iter().map(|field| Some(if field.is_nullable() { "YES" } else { "NO" }));
    let DataType::Struct(fields) = &*COLUMN_SCHEMA else {
        unreachable!("the specification has a struct here")
    };
    let (types, words): (ArrayRef, ArrayRef) =
        (Arc::new(types), Arc::new(words.collect::<StringArray>()));
    let nullable: ArrayRef = Arc::new(Int16Array::from_iter_values(nullable));
    let none: ArrayRef = Arc::new(BooleanArray::from(vec![Some(false); count]));
    let arrays = fields.iter().map(|field| match field.name().as_str() {
        "column_name" => Arc::new(names.clone()) as ArrayRef,
        "ordinal_position" => Arc::new(Int32Array::from(places.clone())),
        "xdbc_type_name" => Arc::clone(&types),
        "xdbc_nullable" => Arc::clone(&nullable),
        "xdbc_is_nullable" => Arc::clone(&words),
        "xdbc_is_autoincrement" | "xdbc_is_generatedcolumn" => Arc::clone(&none),
        _ => new_null_array(field.data_type(), count),
    });
    structs(&COLUMN_SCHEMA, arrays.collect())
}

/// An array of structs whose last fields, which are not given, are NULL.
fn structs(data_type: &DataType, mut arrays: Vec<ArrayRef>) -> Result<ArrayRef> {
    let DataType::Struct(fields) = data_type else {
        unreachable!("the specification has a struct here")
    };
    let rows = arrays.first().map_or(0, |array| array.len());
    for field in fields.iter().skip(arrays.len()) {
        arrays.push(new_null_array(field.data_type(), rows));
    }
    let structs = StructArray::try_new_with_length(fields.clone(), arrays, None, rows);
    Ok(Arc::new(structs.map_err(of_engine)?))
}

/// Lists of these lengths, all of them NULL where they were not asked for.
fn lists(values: ArrayRef, lengths: Vec<usize>, present: bool) -> Result<ArrayRef> {
    let nulls = (!present).then(|| NullBuffer::new_null(lengths.len()));
    let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
    let lists = ListArray::try_new(field, OffsetBuffer::from_lengths(lengths), values, nulls);
    Ok(Arc::new(lists.map_err(of_engine)?))
}
