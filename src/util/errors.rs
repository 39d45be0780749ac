//! Kinds of errors.

use datafusion::common::DataFusionError;

/// Whether less data would have fitted into memory.
pub(crate) fn is_out_of_memory(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::ResourcesExhausted(_))
}
