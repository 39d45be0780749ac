//! Kinds of DataFusion's errors.

use datafusion::common::DataFusionError;

use crate::error;

/// Whether less data would have fitted into memory.
pub fn is_out_of_memory(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::ResourcesExhausted(_))
}

/// Whether a device has run out of memory. Its error names the device, and says what would help.
pub(crate) fn is_out_of_device_memory(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::ResourcesExhausted(message) => message.contains(error::DEVICE),
        _ => false,
    }
}
