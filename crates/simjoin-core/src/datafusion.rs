//! The errors and the memory of DataFusion as those of this crate.

use std::sync::Arc;

use datafusion_common::DataFusionError;
use datafusion_execution::memory_pool::MemoryReservation;

use crate::error::{Error, Result};
use crate::memory::{Memory, Reservation};

impl From<Error> for DataFusionError {
    fn from(error: Error) -> Self {
        match error {
            Error::Plan(message) => Self::Plan(message),
            Error::Execution(message) => Self::Execution(message),
            Error::ResourcesExhausted(message) => Self::ResourcesExhausted(message),
            Error::Internal(message) => Self::Internal(message),
            Error::Arrow(error) => error.into(),
            Error::Context(text, error) => Self::from(*error).context(text),
            Error::Shared(error) => match Arc::try_unwrap(error) {
                Ok(error) => error.into(),
                Err(shared) => of_shared(&shared),
            },
            Error::Foreign(error) => match error.downcast::<Self>() {
                Ok(own) => *own,
                Err(other) => Self::External(other),
            },
        }
    }
}

/// An error of the same kind and text.
fn of_shared(error: &Error) -> DataFusionError {
    let message = error.message();
    match error.root() {
        Error::Plan(_) => DataFusionError::Plan(message),
        Error::ResourcesExhausted(_) => DataFusionError::ResourcesExhausted(message),
        Error::Internal(_) => DataFusionError::Internal(message),
        _ => DataFusionError::Execution(message),
    }
}

/// The error of an expression or of a memory pool that a join calls. A context keeps the kind of its error.
impl From<DataFusionError> for Error {
    fn from(error: DataFusionError) -> Self {
        match error {
            DataFusionError::Plan(message) => Self::Plan(message),
            DataFusionError::Execution(message) => Self::Execution(message),
            DataFusionError::ResourcesExhausted(message) => Self::ResourcesExhausted(message),
            DataFusionError::Internal(message) => Self::Internal(message),
            DataFusionError::Context(text, error) => Self::from(*error).context(text),
            error => Self::Foreign(Box::new(error)),
        }
    }
}

impl Memory for MemoryReservation {
    fn size(&self) -> usize {
        MemoryReservation::size(self)
    }

    fn try_grow(&self, bytes: usize) -> Result<()> {
        Ok(MemoryReservation::try_grow(self, bytes)?)
    }

    fn shrink(&self, bytes: usize) {
        MemoryReservation::shrink(self, bytes);
    }

    fn new_empty(&self) -> Reservation {
        Box::new(MemoryReservation::new_empty(self))
    }

    fn try_resize(&self, bytes: usize) -> Result<()> {
        Ok(MemoryReservation::try_resize(self, bytes)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_errors_survive_both_ways() {
        let refused = DataFusionError::ResourcesExhausted("no bytes".to_string());
        let error = Error::from(refused.context("the pool"));
        assert!(error.is_out_of_memory(), "{error:?}");
        let shared = Arc::new(error);
        for error in [Error::Shared(Arc::clone(&shared)), Error::Shared(shared).context("a task")] {
            let back = DataFusionError::from(error);
            assert!(matches!(back.find_root(), DataFusionError::ResourcesExhausted(_)), "{back:?}");
            assert!(back.to_string().contains("no bytes"), "{back}");
        }
        let foreign = Error::from(DataFusionError::NotImplemented("that".to_string()));
        assert!(matches!(foreign.into(), DataFusionError::NotImplemented(_)));
    }
}
