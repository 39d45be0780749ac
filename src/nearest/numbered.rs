//! Similarity joins of rows in memory whose output is the numbers of the rows and the score.

use std::sync::Arc;

use arrow::array::{AsArray, Float64Array, RecordBatch, UInt32Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Float64Type, Schema, SchemaRef, UInt32Type};
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalExprRef;

use super::table::{NUMBER, RowTable};
use crate::config::{BuildSideChoice, SimJoinOptions};
use crate::exec::JoinInput;
use crate::spec::{Call, Order, OutputColumn, Side};
use crate::top::{ScoreKey, key_of};

/// Rows of two tables that are joined.
#[derive(Debug)]
pub(super) struct NumberedRows<'a> {
    /// The left and the right table.
    pub tables: [&'a RowTable; 2],
    /// Per side, the numbers of the rows, in rising order; `None` for all rows.
    pub rows: [Option<&'a [u32]>; 2],
    /// Whether all rows of one table are both sides, and may be joined as such.
    pub itself: bool,
    /// The partitions of the output.
    pub partitions: usize,
}

impl NumberedRows<'_> {
    /// The rows as the input of a join. Copies that are made of them are reserved.
    ///
    /// # Errors
    ///
    /// When `copies` is refused.
    pub(super) fn input(
        &self,
        options: &SimJoinOptions,
        copies: &MemoryReservation,
    ) -> Result<JoinInput> {
        let [left, right] = self.tables;
        let [left_rows, right_rows] = self.rows;
        let partitions = self.partitions;
        let input = left.source(left_rows, copies)?;
        if self.itself {
            return Ok(JoinInput::Itself { input, partitions });
        }
        let rows = |table: &RowTable, rows: Option<&[u32]>| rows.map_or(table.rows(), <[u32]>::len);
        let build = match options.build_side {
            BuildSideChoice::Fixed(side) => side,
            BuildSideChoice::Auto if rows(left, left_rows) < rows(right, right_rows) => Side::Left,
            BuildSideChoice::Auto => Side::Right,
        };
        let right = right.source(right_rows, copies)?;
        Ok(JoinInput::Two { left: input, right, build, partitions })
    }

    /// The columns of each side without the numbers, which are behind them.
    pub(super) fn columns(&self) -> [usize; 2] {
        self.tables.map(RowTable::columns)
    }

    /// The output of a join of these rows by `call` over `arguments`.
    ///
    /// # Errors
    ///
    /// When an argument has no type.
    pub(super) fn output(
        &self,
        call: Call,
        arguments: &[PhysicalExprRef; 2],
    ) -> Result<(Vec<OutputColumn>, SchemaRef)> {
        let [left, right] = self.tables;
        let [left_argument, right_argument] = arguments;
        let left_type = left_argument.data_type(left.schema())?;
        let right_type = right_argument.data_type(right.schema())?;
        let score = call.function.data_type([&left_type, &right_type]);
        let schema = Arc::new(Schema::new(vec![
            Field::new(NUMBER, DataType::UInt32, false),
            Field::new(NUMBER, DataType::UInt32, false),
            Field::new("score", score, true),
        ]));
        let output = vec![
            OutputColumn::Input(Side::Left, left.columns()),
            OutputColumn::Input(Side::Right, right.columns()),
            OutputColumn::Score(call),
        ];
        Ok((output, schema))
    }
}

/// The pairs of a batch of such an output.
#[derive(Debug)]
pub(super) struct NumberedPairs {
    rows: [UInt32Array; 2],
    scores: Float64Array,
    order: Order,
}

impl NumberedPairs {
    /// The pairs of a batch, whose scores are better in `order`.
    ///
    /// # Errors
    ///
    /// When a score is of a type that no function has.
    pub(super) fn of(batch: &RecordBatch, order: Order) -> Result<Self> {
        let rows = |column: usize| batch.column(column).as_primitive::<UInt32Type>().clone();
        let scores = cast(batch.column(2), &DataType::Float64)?;
        let scores = scores.as_primitive::<Float64Type>().clone();
        Ok(Self { rows: [rows(0), rows(1)], scores, order })
    }

    /// Left row, right row and key of the score of each pair.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, u32, ScoreKey)> {
        let [left, right] = self.rows.each_ref().map(|rows| rows.values());
        let pairs = left.iter().zip(right).zip(self.scores.values());
        pairs.map(|((left, right), score)| (*left, *right, key_of(*score, self.order)))
    }
}
