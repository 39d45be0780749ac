//! The expressions that place a row: its argument, its blocking keys, and its filter.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::Schema;
use datafusion::common::{NullEquality, Result, exec_err};
use datafusion::physical_expr::PhysicalExprRef;

use crate::engine::{EncodeInput, Family, KeyConverter, PlaceReader, RowPlace};
use crate::spec::{Predicate, Side};

/// The expressions of one side of a similarity join that say where its rows are joined, over the
/// schema of that side's input.
#[derive(Debug, Clone)]
pub struct PlacedRows {
    /// The family of the predicate.
    pub family: Arc<dyn Family>,
    /// The predicate on whose axis the rows lie.
    pub predicate: Predicate,
    /// The side that the rows are of.
    pub side: Side,
    /// The argument of the similarity predicate.
    pub argument: PhysicalExprRef,
    /// The side's blocking keys.
    pub keys: Vec<PhysicalExprRef>,
    /// Whether NULL keys are equal.
    pub null_equality: NullEquality,
    /// A Boolean that a row must pass to match anything.
    pub filter: Option<PhysicalExprRef>,
}

impl PlacedRows {
    /// All expressions.
    pub fn expressions(&self) -> impl Iterator<Item = &PhysicalExprRef> {
        std::iter::once(&self.argument).chain(&self.keys).chain(&self.filter)
    }

    /// Whether the join has blocking keys.
    pub fn is_keyed(&self) -> bool {
        !self.keys.is_empty()
    }

    /// A reader of the places of rows of `schema`.
    pub(crate) fn reader(&self, schema: &Schema) -> Result<PlacedReader> {
        let data_type = self.argument.data_type(schema)?;
        let reader = self.family.place_reader(self.predicate, self.side, &data_type)?;
        let converter = match self.is_keyed() {
            true => {
                let types = self.keys.iter().map(|key| key.data_type(schema));
                Some(KeyConverter::try_new(
                    types.collect::<Result<_>>()?,
                    self.null_equality == NullEquality::NullEqualsNull,
                )?)
            }
            false => None,
        };
        Ok(PlacedReader { rows: self.clone(), converter, reader })
    }
}

impl fmt::Display for PlacedRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, by={}", self.side, self.argument)?;
        if self.is_keyed() {
            let keys: Vec<String> = self.keys.iter().map(ToString::to_string).collect();
            write!(f, ", keys=[{}]", keys.join(", "))?;
        }
        match &self.filter {
            Some(filter) => write!(f, ", filter={filter}"),
            None => Ok(()),
        }
    }
}

/// Reads the places of rows, batch by batch.
#[derive(Debug)]
pub(crate) struct PlacedReader {
    rows: PlacedRows,
    converter: Option<KeyConverter>,
    reader: Box<dyn PlaceReader>,
}

impl PlacedReader {
    /// Puts the places of the rows of `batch` into `places`.
    pub(crate) fn read(&mut self, batch: &RecordBatch, places: &mut Vec<RowPlace>) -> Result<()> {
        let array = |expr: &PhysicalExprRef| -> Result<ArrayRef> {
            expr.evaluate(batch)?.into_array(batch.num_rows())
        };
        let values = array(&self.rows.argument)?;
        let keys = match &self.converter {
            Some(converter) => {
                let columns = self.rows.keys.iter().map(array).collect::<Result<Vec<_>>>()?;
                Some(converter.convert(&columns)?)
            }
            None => None,
        };
        let filter = self.rows.filter.as_ref().map(array).transpose()?;
        let filter = match &filter {
            Some(filter) => match filter.as_boolean_opt() {
                Some(filter) => Some(filter),
                None => {
                    return exec_err!("a join condition is {}, not Boolean", filter.data_type());
                }
            },
            None => None,
        };
        let input = EncodeInput { values: Arc::as_ref(&values), keys: keys.as_ref(), filter };
        Ok(self.reader.read(&input, places)?)
    }
}
