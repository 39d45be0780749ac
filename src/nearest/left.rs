//! The left side, a part of its rows at a time.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use futures::StreamExt;

use super::right::{Right, Window};
use super::table::{RowTable, TableBuilder};
use crate::disk::copies;
use crate::operator::errors::is_out_of_memory;
use crate::operator::row_bytes::batch_bytes;

/// Left rows that are searched for together.
#[derive(Debug, Clone)]
pub(super) struct LeftPiece {
    pub table: Arc<RowTable>,
    /// The same rows among those of the right side, where one input is both sides.
    pub own: Option<Window>,
}

/// The left rows that are still to be read.
pub(super) enum LeftInput {
    /// The rest of the rows of an input.
    Input(InputRest),
    /// Rows of the right side, from a piece on; `None` at the end.
    Right(Option<usize>),
}

/// The rest of an input.
pub(super) struct InputRest {
    input: SendableRecordBatchStream,
    /// Rows that were read and have found no place yet.
    waiting: Option<RecordBatch>,
    has_ended: bool,
    /// Whether a piece has been given.
    has_begun: bool,
}

impl LeftInput {
    /// All rows of `input`, or without one those of the right side.
    pub(super) fn new(input: Option<SendableRecordBatchStream>) -> Self {
        match input {
            Some(input) => {
                Self::Input(InputRest { input, waiting: None, has_ended: false, has_begun: false })
            }
            None => Self::Right(Some(0)),
        }
    }

    /// The next rows, as many as memory holds beside those of `right`; `None` behind the last.
    ///
    /// # Errors
    ///
    /// The errors of the input and of the disk, and when memory for a row is refused.
    pub(super) async fn next(
        &mut self,
        right: &mut Right,
        memory: &Arc<MemoryReservation>,
    ) -> Result<Option<LeftPiece>> {
        match self {
            Self::Right(None) => Ok(None),
            Self::Right(Some(piece)) => {
                let own = right.own(*piece).await?;
                // A window of the right side is other rows from now on.
                right.release();
                let is_last = own.pieces.end == right.pieces();
                *self = Self::Right((!is_last).then_some(own.pieces.end));
                Ok(Some(LeftPiece { table: Arc::clone(&own.table), own: Some(own) }))
            }
            Self::Input(rest) => {
                let table = rest.next(right, memory).await?;
                Ok(table.map(|table| LeftPiece { table: Arc::new(table), own: None }))
            }
        }
    }
}

impl InputRest {
    async fn next(
        &mut self,
        right: &mut Right,
        memory: &Arc<MemoryReservation>,
    ) -> Result<Option<RowTable>> {
        let budget = right.budget();
        let (most_bytes, most_rows) = match right.bytes_in_memory() {
            Some(bytes) => (budget.left(bytes), usize::MAX),
            None => (budget.beside_windows(), budget.piece_rows()),
        };
        let schema = self.input.schema();
        let mut builder = TableBuilder::new(Arc::clone(&schema), memory.new_empty());
        // A row at least, whatever the budget.
        while builder.rows() == 0 || builder.rows() < most_rows && builder.bytes() < most_bytes {
            let Some(batch) = self.read().await? else { break };
            let rows = batch.num_rows().min(most_rows - builder.rows());
            let own_bytes = batch_bytes(&batch);
            if rows == batch.num_rows() && builder.bytes().saturating_add(own_bytes) <= most_bytes {
                match builder.push(batch.clone()) {
                    Ok(()) => continue,
                    Err(error) if !is_out_of_memory(&error) => return Err(error),
                    Err(_) => {}
                }
            }
            // The rows without others that share their buffers: as many as fit, at least one.
            let room = most_bytes - builder.bytes();
            let fitting = room / (own_bytes / batch.num_rows()).max(1);
            let is_first = builder.rows() == 0;
            let mut count = rows.min(fitting);
            if is_first {
                count = count.max(1);
                right.release();
            }
            loop {
                if count == 0 {
                    self.waiting = Some(batch);
                    break;
                }
                let ahead = memory.new_empty();
                let reserved = ahead.try_grow(count * (own_bytes / batch.num_rows()));
                let places: Vec<_> = (0..count).map(|row| (0, row)).collect();
                let copied = reserved.and_then(|()| copies(&[&batch], &places));
                drop(ahead);
                match copied.and_then(|copy| builder.push(copy)) {
                    Ok(()) => {
                        let rest = batch.slice(count, batch.num_rows() - count);
                        self.waiting = Some(rest).filter(|rest| rest.num_rows() > 0);
                        break;
                    }
                    Err(error) if !is_out_of_memory(&error) => return Err(error),
                    Err(error) if is_first && count == 1 => return Err(error),
                    Err(_) => count /= 2,
                }
            }
            if self.waiting.is_some() {
                break;
            }
        }
        // An input without rows is searched for once: it may have no batch.
        let is_needed = builder.rows() > 0 || !self.has_begun;
        self.has_begun = true;
        Ok(is_needed.then(|| builder.finish()))
    }

    /// The next rows of the input.
    async fn read(&mut self) -> Result<Option<RecordBatch>> {
        if let Some(batch) = self.waiting.take() {
            return Ok(Some(batch));
        }
        while !self.has_ended {
            match self.input.next().await.transpose()? {
                Some(batch) if batch.num_rows() > 0 => return Ok(Some(batch)),
                Some(_) => {}
                None => self.has_ended = true,
            }
        }
        Ok(None)
    }
}
