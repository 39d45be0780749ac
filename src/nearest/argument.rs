//! The argument of a side, as a family reads it.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::expressions::Column;

use super::pairs::evaluate;
use super::table::RowTable;
use crate::engine::{ArgumentBatches, KeyConverter, KeyRows, Origin};
use crate::error;
use crate::families::{Families, Source};

/// The argument of a side, over the rows of a table.
#[derive(Debug)]
pub(super) struct SideArgument {
    argument: PhysicalExprRef,
    data_type: DataType,
    source: Option<Source>,
    batches: Vec<RecordBatch>,
    rows: Vec<usize>,
    /// The blocking keys, where the family knows them, with what makes them comparable.
    keys: Option<(Vec<PhysicalExprRef>, Arc<KeyConverter>)>,
}

impl SideArgument {
    /// The argument of a function of the family `family`.
    ///
    /// # Errors
    ///
    /// When the argument has no type over the table.
    pub(super) fn try_new(
        argument: &PhysicalExprRef,
        table: &RowTable,
        families: &Families,
        family: &str,
    ) -> Result<Self> {
        let batches: Vec<_> = table.batches().map(|(_, batch)| batch.clone()).collect();
        let schema = table.schema();
        Ok(Self {
            data_type: argument.data_type(schema)?,
            source: families.source_of(family, argument, schema)?,
            argument: Arc::clone(argument),
            rows: batches.iter().map(RecordBatch::num_rows).collect(),
            batches,
            keys: None,
        })
    }

    /// The argument with the blocking keys of its rows.
    pub(super) fn with_keys(
        self,
        keys: Vec<PhysicalExprRef>,
        converter: &Arc<KeyConverter>,
    ) -> Self {
        Self { keys: Some((keys, Arc::clone(converter))), ..self }
    }

    fn expression(&self, of_origin: bool) -> &PhysicalExprRef {
        match &self.source {
            Some((source, _)) if of_origin => source,
            _ => &self.argument,
        }
    }
}

impl ArgumentBatches for SideArgument {
    fn data_type(&self) -> &DataType {
        &self.data_type
    }

    fn origin(&self) -> Option<&Origin> {
        self.source.as_ref().map(|(_, origin)| origin)
    }

    fn rows(&self) -> &[usize] {
        &self.rows
    }

    fn values(&self, batch: usize, rows: Range<usize>, of_origin: bool) -> error::Result<ArrayRef> {
        let batch = self.batches[batch].slice(rows.start, rows.len());
        let values = self.expression(of_origin).evaluate(&batch)?;
        Ok(values.into_array(batch.num_rows())?)
    }

    fn is_stored(&self, of_origin: bool) -> bool {
        self.expression(of_origin).is::<Column>()
    }

    fn has_keys(&self) -> bool {
        self.keys.is_some()
    }

    fn keys(&self, batch: usize) -> error::Result<Option<KeyRows>> {
        let Some((keys, converter)) = &self.keys else { return Ok(None) };
        let columns = keys.iter().map(|key| evaluate(key, &self.batches[batch]));
        Ok(Some(converter.convert(&columns.collect::<Result<Vec<_>>>()?)?))
    }
}
